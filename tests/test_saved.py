"""A saved profile says the same on a machine without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from equality_cases import MODELS
from oracle.agreement import profiled
from oracle.catalogue import CASES

READER = Path(__file__).with_name("saved_profiles.py")


def said(profile) -> dict:
    table = profile.table(columns=["name", "type", "params", "macs", "flops", "mem_rw"])
    return {
        "totals": {
            name: profile.total(name) for name in ("params", "macs", "flops", "macc", "read", "write", "macs_bwd")
        },
        "rows": [[row["name"], row["macs"], row["flops"]] for row in table.dicts()],
        "text": str(profile),
    }


def check(cases, folder: Path, backward: bool = False) -> None:
    expected = {}
    for number, case in enumerate(cases):
        profile = profiled(case, backward=backward and case.backward)
        profile.save(folder / f"{number}.json")
        expected[str(number)] = said(profile)
    done = subprocess.run([sys.executable, READER, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "read.out").read_text())
    for number, case in enumerate(cases):
        assert found[str(number)] == expected[str(number)], case.name


def test_saved_profiles_are_read_without_torch(tmp_path):
    check(MODELS, tmp_path)


def test_saved_training_profiles_are_read_without_torch(tmp_path):
    check(MODELS[::3], tmp_path, backward=True)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(CASES), 25))
def test_a_saved_profile_of_every_model_is_read_without_torch(start, tmp_path):
    check(CASES[start : start + 25], tmp_path)
