"""Cells that die, hang, take too much; drivers that are killed; full disks; two at once. Nothing finished is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rasp
from rasp.errors import CaptureError, FileError
from sweep_models import model

ENOUGH = 120.0  # seconds that anything here may take on a busy machine
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and limits memory as Linux does")


def until(true, what):
    """Wait for something that another process does."""
    deadline = time.monotonic() + ENOUGH
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def ran(flags: Path) -> list[Path]:
    """A sign for each run of a slow model."""
    return sorted(flags.glob("ran-*"))


def ids(flags: Path) -> list[int]:
    """The processes of slow cells."""
    return [int(sign.name.rpartition("-")[2]) for sign in ran(flags)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- cells -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """One sweep in which cells fail in every way, beside good ones."""
    names = ["net", "killed", "segfault", "exits", "leaves", "raises", "wrong", "strict", "hungry", "greedy"]
    flags = tmp_path_factory.mktemp("flags")
    os.environ["SWEEP_TEST_FLAGS"] = str(flags)
    try:
        found = rasp.sweep(
            {name: model(name) for name in [*names, "once"]}, sizes="16,24", memory="1GiB", retries=1, progress=False
        )
    finally:
        del os.environ["SWEEP_TEST_FLAGS"]
    return found, {(row["model"], row["height"]): row for row in found.rows}


@linux
@pytest.mark.parametrize(
    ("name", "status", "says"),
    [
        ("killed", "crashed", "SIGKILL"),
        ("segfault", "crashed", "Segmentation fault"),
        ("exits", "crashed", "exit code 7"),
        ("leaves", "failed", "SystemExit"),
        ("raises", "failed", "IndexError"),
        ("wrong", "failed", "it cannot be built today"),
        ("hungry", "out of memory", "memory=1.00GiB did not suffice"),
        ("greedy", "out of memory", "memory=1.00GiB"),
    ],
)
def test_a_cell_that_fails_is_a_row_with_its_reason(everything, name, status, says):
    for height in (16, 24):
        row = everything[1][name, height]
        assert row["status"] == status, row
        assert says in row["reason"]
        assert row["macs"] is None


@linux
def test_good_cells_are_as_if_alone(everything):
    by_name = everything[1]
    alone = rasp.sweep({"net": model("net"), "strict": model("strict")}, sizes="16,24", on="here")
    for row in alone.rows:
        beside = by_name[row["model"], row["height"]]
        assert {name: value for name, value in beside.items() if name != "reason"} == {
            name: value for name, value in row.items() if name != "reason"
        }
    assert by_name["strict", 24]["status"] == "failed"


@linux
def test_a_size_that_a_model_cannot_take_says_so(everything):
    reason = everything[1]["strict", 24]["reason"]
    assert "shapes cannot be multiplied" in reason


@linux
def test_a_cell_that_was_killed_once_is_tried_again(everything):
    assert [everything[1]["once", height]["status"] for height in (16, 24)] == ["ok", "ok"]


@linux
def test_tries_are_counted(everything):
    assert "2 tries" in everything[1]["killed", 16]["reason"]
    assert "tries" not in everything[1]["raises", 16]["reason"]


def test_a_cell_that_hangs_is_ended(swept):
    found = swept("hangs", "net", timeout=3)
    assert found.by_name["hangs"]["status"] == "timeout"
    assert found.by_name["hangs"]["reason"] == "took longer than timeout=3 s"
    assert found.by_name["net"]["status"] == "ok"


def test_what_the_machine_had_a_part_in_is_tried_again_later(swept):
    assert swept("killed", "wrong", "net", retries=0).ran == 3
    assert swept("killed", "wrong", "net", retries=0).ran == 1, "the one that was killed"
    assert swept("killed", "wrong", "net", retries=0, retry_failed=True).ran == 2


def test_a_worker_that_is_killed_from_outside_costs_nothing(swept, flags, monkeypatch):
    monkeypatch.setenv("SWEEP_TEST_SECONDS", "1")
    killed = []

    def kill(number, frame):
        for pid in set(ids(flags)) - set(killed[:1]):
            if not killed and is_alive(pid):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        if not killed:
            signal.setitimer(signal.ITIMER_REAL, 0.05)

    before = signal.signal(signal.SIGALRM, kill)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        found = swept("slow", batches="1:4", workers=2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(killed) == 1
    assert len(ran(flags)) == 5
    assert [row["status"] for row in found] == ["ok"] * 4


def test_a_warm_parent_that_is_killed_is_started_again(swept, flags, monkeypatch):
    monkeypatch.setenv("SWEEP_TEST_SECONDS", "1")
    killed = []

    def kill(number, frame):
        pids = [pid for pid in ids(flags) if is_alive(pid)]
        if not pids:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            return
        parent = int(Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        killed.append(pids)

    before = signal.signal(signal.SIGALRM, kill)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        found = swept("slow", batches="1:3", workers=2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert killed
    assert [row["status"] for row in found] == ["ok"] * 3
    until(lambda: not any(is_alive(pid) for pid in killed[0]), "the cells of the parent that was killed to end")


def test_a_python_that_cannot_start_is_said(swept, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(CaptureError, match="each time it is started"):
        swept("net")


# -- drivers -----------------------------------------------------------------------------------------------------------

DRIVER = """
import sys, rasp
if __name__ == "__main__":
    found = rasp.sweep({"slow": sys.argv[1]}, sizes=16, batches=range(1, 9), out=sys.argv[2], workers=2, progress=False)
    print(found.ran)
"""


@contextlib.contextmanager
def driver(tmp_path, flags, seconds="0.3"):
    """A driver in a process of its own, over eight slow cells."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    environment = {**os.environ, "SWEEP_TEST_SECONDS": seconds}
    process = subprocess.Popen(
        [sys.executable, str(script), model("slow"), str(tmp_path / "out")],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def finished(tmp_path) -> int:
    return len(list((tmp_path / "out" / "cells").rglob("[!.]*.json")))


def undisturbed():
    alone = rasp.sweep({"slow": model("net")}, sizes=16, batches=range(1, 9), on="here", progress=False)
    return [row["macs"] for row in alone], [row["batch"] for row in alone]


def check(found):
    assert ([row["macs"] for row in found], [row["batch"] for row in found]) == undisturbed()
    assert not found.failed


@linux
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_is_ended_loses_nothing_that_was_finished(tmp_path, flags, swept, how):
    with driver(tmp_path, flags) as process:
        until(lambda: finished(tmp_path) >= 2, "two cells")
        process.send_signal(how)
        process.wait(ENOUGH)
    until(lambda: not any(is_alive(pid) for pid in ids(flags)), "its cells to end with it")
    kept = finished(tmp_path)
    assert 2 <= kept < 8
    found = swept("slow", batches=range(1, 9))
    assert found.ran == 8 - kept
    check(found)


@linux
def test_two_drivers_on_one_folder_share_the_work(tmp_path, flags, swept):
    with driver(tmp_path, flags) as one, driver(tmp_path, flags) as two:
        counts = [int(process.communicate(timeout=ENOUGH)[0]) for process in (one, two)]
    assert sum(counts) == 8
    assert len(ran(flags)) == 8, "no cell was run twice"
    found = swept("slow", batches=range(1, 9))
    assert found.ran == 0
    check(found)


@linux
def test_what_a_killed_driver_worked_on_is_done_by_the_other(tmp_path, flags, swept):
    with driver(tmp_path, flags, seconds="2") as one:
        until(lambda: ran(flags), "the first cell")
        with driver(tmp_path, flags, seconds="0.1") as two:
            until(lambda: finished(tmp_path) >= 1, "a finished cell")
            one.kill()
            two.communicate(timeout=ENOUGH)
    found = swept("slow", batches=range(1, 9))
    assert found.ran == 0
    check(found)


def test_damaged_results_are_done_again_and_no_others(swept):
    first = swept("net", sizes="8:48:8")
    records = sorted((first.folder / "cells").rglob("*.json"))
    profiles = sorted((first.folder / "profiles").rglob("*.json"))
    records[0].write_bytes(records[0].read_bytes()[:20])
    profiles[-1].write_bytes(b"")
    records[2].unlink()
    again = swept("net", sizes="8:48:8")
    assert again.ran == 3
    assert again.rows == first.rows
    assert swept("net", sizes="8:48:8").ran == 0


# -- disks -------------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_and_taken_up_when_there_is_room(swept, monkeypatch, tmp_path):
    """The disk is full from the third result on: writing raises what a full disk raises."""
    store = sys.modules["rasp.sweep.store"]
    whole = store._write
    written = []

    def write(path, content):
        written.append(path)
        if len(written) > 4:
            raise OSError(28, os.strerror(28))
        whole(path, content)

    monkeypatch.setattr(store, "_write", write)
    with pytest.raises(FileError, match="the disk is full"):
        swept("net", sizes="8:48:8")
    monkeypatch.undo()
    found = swept("net", sizes="8:48:8")
    assert found.ran == 4
    assert not found.failed


@pytest.fixture
def small_disk(tmp_path):
    """A file system of half a megabyte."""
    place = tmp_path / "out"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if (
        sys.platform != "linux"
        or os.geteuid() != 0
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip("a small file system can be mounted by root only")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_small_disk_that_is_full(small_disk, swept):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 380_000)
    with pytest.raises(FileError, match="the disk is full"):
        swept("net", batches="1:30")
    assert not list(small_disk.rglob("*.part"))
    kept = len(list((small_disk / "cells").rglob("*.json")))
    assert 0 < kept < 30
    ballast.unlink()
    found = swept("net", batches="1:30")
    assert 30 - kept <= found.ran <= 31 - kept, "all but what was finished"
    assert not found.failed
    assert [row["macs"] for row in found] == [found.rows[0]["macs"] * n for n in range(1, 31)]
