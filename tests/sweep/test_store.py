"""The folder of results: what is written is whole, what is damaged is not believed, what is full is said."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rasp.errors import FileError
from rasp.sweep.outcomes import FAILED, OK, Outcome
from rasp.sweep.store import Store

KEYS = [hashlib.sha256(bytes([number])).hexdigest()[:40] for number in range(3)]
PROFILE = json.dumps({"a profile": list(range(100))})


def fill(folder, keys=KEYS, profile=PROFILE):
    with Store(folder) as store:
        for number, key in enumerate(keys):
            store.add(key, Outcome(OK, values={"macs": number}, seconds=0.5, profile=profile), {"model": "m"})


def values(folder):
    with Store(folder) as store:
        records = {key: store.record(key) for key in KEYS}
    return {key: record["values"]["macs"] for key, record in records.items() if record is not None}


WHOLE = {key: number for number, key in enumerate(KEYS)}


def test_what_is_written_is_read_again(tmp_path):
    fill(tmp_path)
    assert values(tmp_path) == WHOLE
    with Store(tmp_path) as store:
        record = store.record(KEYS[1])
        assert (record["status"], record["model"], record["seconds"]) == (OK, "m", 0.5)
        assert store.profile(KEYS[1]).read_text() == PROFILE


@pytest.mark.parametrize("keep", [0, 1, 30, -2])
@pytest.mark.parametrize("room", ["cells", "profiles"])
def test_a_file_that_was_cut_off_counts_as_not_done(tmp_path, room, keep):
    fill(tmp_path)
    file = next((tmp_path / room).rglob(f"{KEYS[1]}.json"))
    file.write_bytes(file.read_bytes()[:keep])
    assert values(tmp_path) == {key: number for key, number in WHOLE.items() if key != KEYS[1]}


@pytest.mark.parametrize("room", ["cells", "profiles"])
def test_a_file_that_was_changed_counts_as_not_done(tmp_path, room):
    fill(tmp_path)
    file = next((tmp_path / room).rglob(f"{KEYS[1]}.json"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(1, 1))
    assert KEYS[1] not in values(tmp_path)


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "garbage", "swapped"])
def test_the_index_is_only_for_speed(tmp_path, damage):
    fill(tmp_path)
    index = tmp_path / "index.jsonl"
    content = index.read_bytes()
    lines = content.splitlines()
    damaged = {
        "empty": b"", "cut": content[: len(content) // 2], "garbage": b"\xff\x00{not json\n" * 3,
        "swapped": b"\n".join([lines[0].replace(b'"macs":0', b'"macs":9'), *lines[1:]]),
    }  # fmt: skip
    index.unlink() if damage == "gone" else index.write_bytes(damaged[damage])
    assert values(tmp_path) == WHOLE
    assert values(tmp_path) == WHOLE, "the index that was mended"


def test_a_folder_that_was_copied_is_as_good(tmp_path):
    fill(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    assert values(tmp_path / "two") == WHOLE


def test_a_record_under_another_key_is_not_believed(tmp_path):
    fill(tmp_path)
    first, second = (next((tmp_path / "cells").rglob(f"{key}.json")) for key in KEYS[:2])
    shutil.copyfile(first, second)
    assert KEYS[1] not in values(tmp_path)


def test_the_last_of_two_records_stands(tmp_path):
    fill(tmp_path, profile=None)
    with Store(tmp_path) as store:
        store.add(KEYS[0], Outcome(FAILED, "for a reason"), {})
    with Store(tmp_path) as store:
        assert store.record(KEYS[0])["reason"] == "for a reason"


def test_a_file_in_place_of_the_folder_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="cannot hold the results"), Store(tmp_path / "file"):
        pass


def test_no_disk_space_leaves_nothing_half_written(tmp_path):
    fill(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with Store(tmp_path) as store, pytest.raises(OSError):
            store.add("f" * 40, Outcome(OK, values={"macs": 7}, profile="x" * 5000), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not list(tmp_path.rglob("*.part"))
    assert not list(tmp_path.rglob("f" * 40 + "*"))
    assert values(tmp_path) == WHOLE


CLAIM = """
import sys, time
from rasp.sweep.store import Store
with Store(sys.argv[1]) as store:
    print(store.claim(sys.argv[2]), flush=True)
    sys.stdin.read()
"""


def claimant(folder: Path, key: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(folder), key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_cell_is_claimed_by_one_driver_and_free_when_that_is_killed(tmp_path):
    with claimant(tmp_path, KEYS[0]) as other:
        assert other.stdout.readline() == "True\n"
        with Store(tmp_path) as store:
            assert not store.claim(KEYS[0])
            assert store.claim(KEYS[1])
            other.kill()
            other.wait()
            assert store.claim(KEYS[0])
            with claimant(tmp_path, KEYS[0]) as third:
                assert third.stdout.readline() == "False\n"
                third.kill()
