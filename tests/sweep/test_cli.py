"""rasp sweep: what it prints, what it writes, how it exits."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from rasp.cli import run
from rasp.sweep.outcomes import OK, Outcome
from rasp.sweep.progress import Progress, clock
from sweep_models import model

OK_CODE, USAGE, PARTIAL, INTERRUPTED = 0, 2, 4, 130


def sweep(*words, on="here"):
    return run(["sweep", *words, "--on", on])


def table(capsys):
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_a_table_on_the_screen(capsys):
    assert sweep("vgg-f", "--scales", "1:2:0.5", "--batches", "1,8") == OK_CODE
    shown = capsys.readouterr().out
    assert shown.count("vgg-f") == 6
    assert "336" in shown


def test_failed_cells_are_told_by_the_exit_code(capsys):
    assert sweep("vgg-f", "--sizes", "64,224", "-f", "csv") == PARTIAL
    rows = table(capsys)
    assert [row["status"] for row in rows] == ["failed", "ok"]
    assert "Kernel size" in rows[0]["reason"]


def test_the_same_in_processes(capsys, tmp_path):
    words = ["vgg-f", "--sizes", "64,224", "-f", "csv", "-q", "-o", str(tmp_path)]
    assert sweep(*words, on="processes") == PARTIAL
    first = table(capsys)
    assert sweep(*words, on="processes") == PARTIAL
    assert table(capsys) == first
    assert sweep("vgg-f", "--sizes", "224", "-q", "-o", str(tmp_path)) == OK_CODE


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no models"),
        (["mobilenet_v9"], "mobilenet_v2"),
        (["vgg-f", "--sizes", "big"], "sizes"),
        (["vgg-f", "--scales", "0"], "scales"),
        (["vgg-f", "--batches", "0"], "batches"),
        (["vgg-f", "--shard", "9/8"], "shard"),
        (["vgg-f", "--dtypes", "float99"], "float99"),
        (["vgg-f", "--devices", "gpu"], "gpu"),
        (["vgg-f", "--measures", "colour"], "static"),
        (["vgg-f", "--columns", "colour"], "column"),
        (["vgg-f", "--timeout", "-1"], "timeout"),
        (["vgg-f", "--format", "docx"], "docx"),
        (["vgg-f", "--table", "t.docx"], "docx"),
        (["vgg-f", "--sizse", "224"], "sizse"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_told_in_a_sentence(words, says, capsys):
    assert sweep(*words) == USAGE
    said = capsys.readouterr()
    assert says in said.err
    assert "Traceback" not in said.err
    assert not said.out


def test_an_address_where_nothing_answers(capsys):
    pytest.importorskip("ray")
    assert sweep("vgg-f", on="127.0.0.1:1") == USAGE
    assert "nothing answers there" in capsys.readouterr().err


def test_shards_share_the_rows(capsys):
    words = ["vgg-f", "--scales", "1:3:0.5", "--batches", "1,2", "-f", "csv"]
    assert sweep(*words) == OK_CODE
    whole = table(capsys)
    parts = []
    for number in (1, 2, 3):
        assert sweep(*words, "--shard", f"{number}/3") == OK_CODE
        parts += table(capsys)
    in_order = lambda rows: sorted(rows, key=lambda row: (int(row["height"]), int(row["batch"])))
    assert in_order(parts) == in_order(whole)


def test_shards_in_one_folder_are_one_sweep(capsys, tmp_path):
    words = ["vgg-f", "--scales", "1:3:0.5", "-o", str(tmp_path), "-q"]
    for number in (1, 2):
        assert sweep(*words, "--shard", f"{number}/2") == OK_CODE
    records = len(list((tmp_path / "cells").rglob("*.json")))
    assert records == 5
    assert sweep(*words) == OK_CODE
    assert len(list((tmp_path / "cells").rglob("*.json"))) == records


@pytest.mark.parametrize("suffix", ["csv", "md", "json"])
def test_a_table_in_a_file(capsys, tmp_path, suffix):
    path = tmp_path / f"table.{suffix}"
    assert sweep("vgg-f", "--table", str(path), "-f", suffix) == OK_CODE
    assert "vgg-f" in path.read_text()
    shown = capsys.readouterr().out
    assert "vgg-f" in shown
    if suffix == "json":
        assert json.loads(shown)


def test_inputs_of_ones_own_model(capsys):
    words = [model("Language"), "-i", "input_ids:int64=1,7", "--tokens", "4,8", "--batches", "2", "-f", "csv"]
    assert sweep(*words) == OK_CODE
    assert [(row["tokens"], row["out_shape"]) for row in table(capsys)] == [("4", "2x4x50"), ("8", "2x8x50")]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_told_and_keeps_what_was_done(tmp_path, how):
    flags = tmp_path / "flags"
    flags.mkdir()
    words = [model("slow"), "--sizes", "16", "--batches", "1:40", "-o", str(tmp_path / "out"), "--workers", "2"]
    environment = {**os.environ, "SWEEP_TEST_FLAGS": str(flags), "SWEEP_TEST_SECONDS": "0.5"}
    process = subprocess.Popen(
        [sys.executable, "-m", "rasp", "sweep", *words], env=environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list((tmp_path / "out").rglob("cells/*/[!.]*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(how)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == INTERRUPTED
    assert "what was finished is kept" in said
    assert list((tmp_path / "out").rglob("cells/*/[!.]*.json"))


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_says_what_runs_what_failed_and_what_is_left(capsys):
    progress = Progress(4, show=True)
    with progress:
        progress.skipped("ok")
        progress.started("a")
        progress.started("b")
        assert progress.names() == "a, b"
        progress.ended("a", Outcome(OK), again=False)
        progress.ended("b", Outcome("crashed", "for a reason"), again=False)
        assert progress.names() == ""
        assert (progress.done, progress.failed) == (3, 1)
        assert progress.left() is not None
        assert "3 of 4 cells, 1 done before, 1 crashed" in progress.line()
    assert "b: crashed: for a reason" in capsys.readouterr().err


def test_progress_is_silent_where_there_is_no_terminal(capsys):
    with Progress(1) as progress:
        progress.ended("a", Outcome("crashed", "for a reason"), again=False)
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")
def test_progress_on_a_terminal(tmp_path):
    import pty

    code = """
from rasp.sweep.progress import Progress
from rasp.sweep.outcomes import Outcome
with Progress(3, None) as shown:
    shown.started("vgg-f 224x224 batch 8")
    shown.ended("vgg-f 224x224 batch 8", Outcome("timeout", "took longer"), again=False)
    shown.started("vgg-m")
    shown._bar.refresh()
"""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-c", code], stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:
            break
        if not more:
            break
        seen += more
    assert process.wait() == 0
    os.close(ours)
    shown = seen.decode()
    for words in ("1/3", "1 failed", "vgg-m", "timeout: took longer"):
        assert words in shown


@pytest.mark.parametrize(("seconds", "words"), [(5, "0:05"), (65, "1:05"), (3723, "1:02:03")])
def test_a_clock(seconds, words):
    assert clock(seconds) == words
