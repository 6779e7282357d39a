"""The rasp command: what it prints where, and how it exits."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from rasp import __version__, cli

FACTORY = """
import torch
from torch import nn

def tiny(width=8, act="relu"):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU() if act == "relu" else nn.GELU())

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.fc = nn.Embedding(10, 8), nn.Linear(8, 2)
    def forward(self, ids, scale=None):
        x = self.fc(self.embed(ids))
        return x if scale is None else x * scale

class Picky(nn.Module):
    def forward(self, x):
        raise RuntimeError("this model does not like its input")

def broken():
    raise KeyError("weights")

ready = nn.Linear(8, 3)
number = 3
"""


@dataclass
class Done:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


Rasp = Callable[..., Done]


@pytest.fixture
def rasp(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rasp:
    """Runs a command in this process, in a folder with models of one's own."""
    (tmp_path / "own.py").write_text(FACTORY)
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").write_text("")
    (tmp_path / "own_package" / "models.py").write_text(FACTORY)
    (tmp_path / "bad.py").write_text("import nothing_of_that_name")
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str, **environment: str) -> Done:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = cli.run(words)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run


def started(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a process of its own."""
    return subprocess.run([sys.executable, "-m", "rasp", *words], capture_output=True, text=True)


def rows(done: Done) -> list[dict[str, str]]:
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(StringIO(done.stdout)))


def test_the_built_in_model_gives_rasps_table(rasp: Rasp) -> None:
    done = rasp("stat", "mobilenet_v2", "-i", "1,3,224,224", "--include", "macc")
    assert done.returncode == 0, done.stderr
    assert ".features.18.0" in done.stdout
    assert "40078080" in done.stdout, "every digit when it is not a terminal"
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_default_inputs_are_said_on_stderr(rasp: Rasp) -> None:
    done = rasp("stat", "mobilenet_v2", "-f", "csv")
    assert "no -i given: mobilenet_v2 takes (1, 3, 224, 224)" in done.stderr
    assert len([row for row in rows(done) if row["kind"] == "call"]) == 141


@pytest.mark.parametrize("place", ["own.py", "own_package.models"])
def test_factories(place: str, rasp: Rasp) -> None:
    found = rows(rasp("stat", f"{place}:tiny", "-i", "2,8", "-f", "csv"))
    assert [row["type"] for row in found] == ["Linear", "ReLU", "Sequential"]
    wide = rows(rasp("stat", f"{place}:tiny", "--kw", "width=4", "--kw", "act=gelu", "-i", "2,8", "-f", "csv"))
    assert [row["type"] for row in wide] == ["Linear", "GELU", "Sequential"]
    assert wide[0]["params"] == "36"
    assert rows(rasp("stat", f"{place}:ready", "-i", "2,8", "-f", "csv"))[-1]["params"] == "27"


def test_inputs_with_names_and_dtypes(rasp: Rasp) -> None:
    one = rows(rasp("stat", "own.py:Two", "-i", "ids:int64=1,4", "-f", "csv"))
    two = rows(rasp("stat", "own.py:Two", "-i", "ids:int64=1,4", "-i", "scale=1,4,2", "-f", "csv"))
    assert one[-1]["params"] == two[-1]["params"] == "98"
    assert [row["type"] for row in two] == ["Embedding", "Linear", "mul", "Two"]
    positional = rows(rasp("stat", "own.py:Two", "-i", ":int64=1,4", "-f", "csv"))
    assert positional == one


def test_batch_takes_the_place_of_the_first_size(rasp: Rasp) -> None:
    found = rows(rasp("stat", "own.py:tiny", "-i", "1,8", "--batch", "32", "-f", "csv"))
    assert found[0]["in_shape"] == "(32, 8)"


def test_columns_sort_and_top(rasp: Rasp) -> None:
    found = rows(rasp("stat", "mobilenet_v2", "-c", "name,flops,params", "--sort", "params", "--top", "3", "-f", "csv"))
    assert list(found[0]) == ["name", "flops", "params", "kind"]
    assert [row["kind"] for row in found] == ["call"] * 3 + ["rest", "total"]
    assert found[0]["name"] == ".classifier.1"
    assert sum(int(row["params"]) for row in found[:-1]) == int(found[-1]["params"]) == 3_504_872


def test_tables_by_operator_type_and_module(rasp: Rasp) -> None:
    by_op = rows(rasp("stat", "mobilenet_v2", "--by", "op", "-f", "csv"))
    assert by_op[0]["name"] == "convolution"
    by_type = rows(
        rasp("stat", "mobilenet_v2", "--by", "type", "--excludes", "read,write", "--includes", "buffers", "-f", "csv")
    )
    assert by_type[0]["name"] == "Conv2d"
    assert "read" not in by_type[0]
    assert by_type[-1]["buffers"] != "0"
    assert rows(rasp("stat", "mobilenet_v2", "--by", "module", "-f", "csv"))[0]["name"] == ".features.0.0"


def test_a_tree_to_a_depth(rasp: Rasp) -> None:
    done = rasp("stat", "mobilenet_v2", "--depth", "1")
    assert "├─ features" in done.stdout
    assert "InvertedResidual" not in done.stdout
    assert "8-10 ×3" in rasp("stat", "mobilenet_v2", "-f", "tree").stdout
    assert "×" not in rasp("stat", "mobilenet_v2", "-f", "tree", "--no-fold", "-c", "params").stdout


def test_a_saved_profile_is_a_model_too(rasp: Rasp, tmp_path: Path) -> None:
    saved = rasp("stat", "mobilenet_v2", "-o", str(tmp_path / "m.json"))
    assert saved.returncode == 0
    assert saved.stdout == ""
    assert "profile saved to" in saved.stderr
    again = rasp("stat", str(tmp_path / "m.json"), "-f", "csv")
    assert again.stdout == rasp("stat", "mobilenet_v2", "-f", "csv").stdout


def test_output_goes_by_its_suffix(rasp: Rasp, tmp_path: Path) -> None:
    for name, words in (("a.csv", "name,type"), ("a.md", "| index |"), ("a.txt", "Total flops")):
        done = rasp("stat", "mobilenet_v2", "-o", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        assert words in (tmp_path / name).read_text()
    rasp("stat", "mobilenet_v2", "-f", "json", "-o", str(tmp_path / "r.json"))
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "rasp.report"


def test_the_backward(rasp: Rasp) -> None:
    found = rows(rasp("stat", "own.py:tiny", "-i", "2,8", "--backward", "-c", "macs,macs_bwd", "-f", "csv"))
    assert int(found[-1]["macs_bwd"]) >= int(found[-1]["macs"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["stat"], 2, "MODEL"),
        (["stat", "mobilenet_v2", "--colums", "flops"], 2, "--colums"),
        (["stat", "mobilenetv2"], 2, "Did you mean 'mobilenet_v2'"),
        (["stat", "mobilenet_v2", "-c", "flop"], 2, "Did you mean"),
        (["stat", "mobilenet_v2", "-f", "jsn"], 2, "Did you mean 'json'"),
        (["stat", "mobilenet_v2", "-o", "x.cvs"], 2, "Did you mean '.csv'"),
        (["stat", "mobilenet_v2", "--convention", "raps"], 2, "Did you mean 'rasp'"),
        (["stat", "mobilenet_v2", "-i", "1x3"], 2, "-i 1x3 is not understood"),
        (["stat", "mobilenet_v2", "-i", "1,3", "-i", "x=1,3"], 2, "Name every -i or none"),
        (["stat", "mobilenet_v2", "--sort", "buffers"], 2, "no shown column named"),
        (["stat", "own.py:tiny"], 2, "with -i"),
        (["stat", "own.py:tinny", "-i", "1,8"], 2, "Did you mean 'tiny'"),
        (["stat", "own.py:number", "-i", "1,8"], 2, "must be a function or class"),
        (["stat", "none.py:tiny", "-i", "1,8"], 2, "There is no file none.py"),
        (["stat", "own.py:tiny", "-i", "1,8", "--kw", "width"], 2, "write name=value"),
        (["stat", "own.py:tiny", "-i", "1,8", "--mode", "evil"], 2, "mode"),
        (["stat", "own.py:Picky", "-i", "1,8"], 3, "does not like its input"),
        (["stat", "own.py:broken", "-i", "1,8"], 3, "KeyError"),
        (["stat", "own.py:tiny", "-i", "1,8", "--kw", "depth=3"], 3, "depth"),
        (["stat", "bad.py:tiny", "-i", "1,8"], 3, "nothing_of_that_name"),
        (["stat", "no.such.module:tiny", "-i", "1,8"], 3, "there is no module"),
        (["stat", "missing.json"], 3, "could not be read"),
        (["statt", "x"], 2, "statt"),
    ],
)
def test_errors_are_one_sentence_and_an_exit_code(words: list[str], code: int, said: str, rasp: Rasp) -> None:
    done = rasp(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_the_process_exits_with_the_code() -> None:
    done = started("stat", "mobilenetv2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("rasp: There is no built-in model")


def test_an_interrupt_exits_with_130(rasp: Rasp, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rasp.api.profile", interrupted)
    assert rasp("stat", "mobilenet_v2").returncode == 130


def test_traceback_on_request(rasp: Rasp) -> None:
    done = rasp("stat", "own.py:broken", "-i", "1,8", "--traceback")
    assert done.returncode == 3
    assert "Traceback" in done.stderr
    assert "KeyError: 'weights'" in done.stderr


def test_lists(rasp: Rasp) -> None:
    for words, said in (("columns", "mem_rw"), ("conventions", "rasp"), ("zoo", "mobilenet_v2"), ("env", "torch")):
        done = rasp(words)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
    assert rasp("--version").stdout.strip() == __version__


def test_env_names_the_meters_of_energy_or_why_there_are_none(rasp: Rasp) -> None:
    lines = [line.split("\t") for line in rasp("env").stdout.splitlines()]
    told = [words for what, words in lines if what == "energy of cpu"]
    assert told
    assert all("RAPL" in words for words in told)


def test_help_is_quick() -> None:
    def once() -> float:  # of the processor: other programs may be busy
        start = os.times()
        assert "stat" in started("--help").stdout
        end = os.times()
        return end.children_user + end.children_system - start.children_user - start.children_system

    assert min(once() for _ in range(3)) < 0.6


def test_a_terminal_gets_what_fits_and_no_color_is_heeded(rasp: Rasp) -> None:
    done = rasp("stat", "mobilenet_v2", "--by", "type", FORCE_COLOR="1", COLUMNS="80")
    assert "\x1b[36m" in done.stdout or "\x1b[1m" in done.stdout
    plain = rasp("stat", "mobilenet_v2", FORCE_COLOR="1", NO_COLOR="1", COLUMNS="80")
    assert "\x1b[36m" not in plain.stdout
    assert "no room at a width of 80" in plain.stdout


def test_a_reader_that_stops_is_no_error() -> None:
    command = f"{sys.executable} -m rasp stat mobilenet_v2 2>&1 | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stdout
    assert "Error" not in done.stdout


def test_explain_says_why_two_conventions_differ(rasp: Rasp) -> None:
    done = rasp("explain", "mobilenet_v2", "rasp", "mac", "-i", "1,3,64,64")
    assert done.returncode == 0
    assert "2 per multiply-accumulate, −1 per dot product; mac: 1 per multiply-accumulate" in done.stdout
    assert "and 51 more" in done.stdout


def test_explain_refuses_a_convention_that_does_not_exist(rasp: Rasp) -> None:
    done = rasp("explain", "mobilenet_v2", "rasp", "thopp")
    assert done.returncode == 2
    assert "There is no convention named 'thopp'" in done.stderr


def test_energy_and_kernels(rasp: Rasp, tmp_path: Path) -> None:
    trace, kept = tmp_path / "trace.json", tmp_path / "kept.json"
    options = ("--energy", "--seconds", "0.3", "--keep-trace", str(trace), "--grid-intensity", "400")
    done = rasp("stat", "mobilenet_v2", "-i", "1,3,32,32", *options, "-o", str(kept))
    assert done.returncode == 0, done.stderr
    assert trace.stat().st_size > 1000
    done = rasp("stat", str(kept), "--by", "module")
    assert "kernel_time" in done.stdout
    assert "energy_measured" in done.stdout
    assert rasp("stat", str(kept), "--energy").returncode == 2
