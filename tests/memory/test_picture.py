"""The page on a run's memory: it fits its width, marks the peak, and says what the numbers say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import rasp
from rasp import units
from rasp.memory.picture import drawn, gathered, resampled
from rasp.profile import Profile


def trained(target: str | int = "h200") -> Profile:
    blocks = [nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(4)]
    how = {"backward": True, "optimizer": torch.optim.AdamW, "memory": True, "target": target}
    return rasp.profile(nn.Sequential(*blocks), input_shape=(1024, 64), **how)


@pytest.fixture(scope="module")
def profile() -> Profile:
    return trained()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_longer_than_the_width(profile: Profile, width: int) -> None:
    lines = profile.memory.text(width).splitlines()
    chart = [line for line in lines if "│" in line]
    assert len(chart) == 8
    assert max(map(len, lines[lines.index("held by") :])) <= width
    assert max(map(len, chart)) <= width


def test_the_numbers_are_those_of_the_memory(profile: Profile) -> None:
    found, page = profile.memory, str(profile.memory)
    for value in (found.base, found.peak, found.peak_first, found.reserved):
        assert units.size(value) in page
    assert "memory predicted for h200" in page
    assert all(kind in page for kind, nbytes in found.by_kind().items() if nbytes)


def test_equal_owners_of_repeated_blocks_are_one(profile: Profile) -> None:
    groups = gathered(profile.memory.at_peak(None))
    assert sum(group["bytes"] for group in groups) == profile.memory.peak
    assert sum(group["times"] for group in groups) == len(profile.memory.at_peak(None))
    assert len(groups) < len(profile.memory.at_peak(None)) / 2
    assert "×" in str(profile.memory).partition("held by")[2]


def test_the_mark_is_under_the_peak(profile: Profile) -> None:
    lines = str(profile.memory).splitlines()
    mark = next(line for line in lines if "▲" in line)
    top = next(line for line in lines if "│" in line)
    assert top[mark.index("▲")] in "▁▂▃▄▅▆▇█"
    op = profile.memory.owners.operator(profile.memory.plan.steady.at).partition("::")[2]
    assert f"peak: {op}" in str(profile.memory)
    assert "forward" in str(profile.memory)
    assert "backward" in str(profile.memory)
    assert "optimiser" in str(profile.memory)


def test_columns_are_the_most_of_what_falls_into_them() -> None:
    assert resampled([1, 5, 2, 8], 2) == [5, 8]
    assert resampled([1, 5], 4) == [1, 1, 5, 5]
    assert max(resampled(list(range(1000)), 7)) == 999


def test_heights_are_drawn_in_eighths() -> None:
    assert drawn([0, 4, 8, 16], 0, 16, 2) == ["   █", " ▄██"]
    assert drawn([16], 8, 16, 2) == ["█", "░"], "what is always there is lighter"


def test_it_says_whether_it_fits() -> None:
    assert "fits into 139.19 GiB" in str(trained().memory)
    assert "does not fit into 1.00 MiB" in str(trained("1MiB").memory)


def test_a_model_without_operators_has_a_page() -> None:
    found = rasp.profile(nn.Identity(), input_shape=(2, 2), memory=True).memory
    assert "0 B" not in str(found).splitlines()[1]
    assert "▲" not in str(found)
    assert found.by_kind()["inputs"] == found.peak == found.base == 512


def test_print_shows_the_peak_and_where_to_look(profile: Profile) -> None:
    said = str(profile)
    assert "peak" in said
    assert "saved" in said
    assert f"memory peak {units.size(profile.memory.peak)} on h200" in said
    assert "memory peak" not in str(rasp.profile(nn.Linear(2, 2), input_shape=(2, 2)))
    assert profile.text("memory", width=60) == profile.memory.text(60)


def test_a_loaded_profile_has_the_same_page(profile: Profile, tmp_path: Path) -> None:
    assert str(rasp.load(profile.save(tmp_path / "p.json")).memory) == str(profile.memory)
    assert repr(profile.memory).startswith("<rasp.Memory for h200: base ")
