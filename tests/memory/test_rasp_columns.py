"""RASP's three columns of CUDA memory, printed from a GPU in its README, predicted without one."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import rasp
from rasp.profile import Profile
from rasp.zoo import get

COLUMNS = ("net_dev_mem", "dev_mem_alloc", "dev_max_mem_alloc")
PUBLISHED = Path(__file__).parent.parent / "data" / "rasp_mobilenet_v2.csv"


@pytest.fixture(scope="module")
def profile() -> Profile:
    return rasp.profile(get("mobilenet_v2").build(), input_shape=(1, 3, 224, 224), memory=True)


@pytest.fixture(scope="module")
def published() -> list[dict[str, str]]:
    with PUBLISHED.open(newline="") as file:
        return list(csv.DictReader(file))


def called(profile: Profile, convention: str) -> list[dict[str, Any]]:
    rows = profile.rows(columns=["name", *COLUMNS], convention=convention)
    return [row for row in rows if row["kind"] == "call"]


def test_all_rows_and_columns_are_as_printed(profile: Profile, published: list[dict[str, str]]) -> None:
    rows = called(profile, "rasp-head")
    assert len(published) == len(rows) == 141
    for printed, row in zip(published, rows, strict=True):
        assert {name: row[name] for name in COLUMNS} == {name: int(printed[name]) for name in COLUMNS}, printed["name"]
        assert row["name"] == printed["name"]


def test_the_default_reads_the_true_peak_inside(profile: Profile, published: list[dict[str, str]]) -> None:
    """A kernel may take more while it runs than is there after it: then the most is more than RASP printed."""
    for printed, row in zip(published, called(profile, "rasp"), strict=True):
        assert [row[name] for name in COLUMNS[:2]] == [int(printed[name]) for name in COLUMNS[:2]]
        assert row["dev_max_mem_alloc"] >= int(printed["dev_max_mem_alloc"])


def test_under_rasp_head_the_most_is_what_is_there_after(profile: Profile) -> None:
    """In a Sequential of a wide and a narrow layer the whole's most is inside, and what is left is narrow."""
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 4096), nn.Linear(4096, 8))
    found = rasp.profile(model, input_shape=(512, 8), memory=True, allocator="none")
    wide, narrow = 512 * 4096 * 4, 512 * 8 * 4
    assert found.total("dev_max_mem_alloc") == wide + narrow
    assert found.total("dev_max_mem_alloc", "rasp-head") == narrow


def test_stat_prints_them_and_says_that_they_are_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    rasp.stat(get("mobilenet_v2").build(), (1, 3, 224, 224), memory=True, convention="rasp-head")
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if ".features.2.conv.1.1 " in line)
    assert line.split()[-3:] == ["6823936", "2146304", "8970240"]
    assert "net_dev_mem, dev_mem_alloc, dev_max_mem_alloc predicted for h200" in said


def test_a_loaded_profile_gives_the_same(profile: Profile, tmp_path: Path) -> None:
    again = rasp.load(profile.save(tmp_path / "p.json"))
    assert called(again, "rasp-head") == called(profile, "rasp-head")
    assert (again.memory.base, again.memory.peak, again.memory.reserved) == (
        profile.memory.base,
        profile.memory.peak,
        profile.memory.reserved,
    )
