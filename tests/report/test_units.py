"""Numbers for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rasp import units

POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (864, "864"),
        (999, "999"),
        (1000, "1.00 K"),
        (3_504_872, "3.50 M"),
        (999_999, "1.00 M"),
        (-5000, "-5.00 K"),
    ],
)
def test_counts(value: int, text: str) -> None:
    assert units.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (92_223_904, "87.95 MiB"), (2**40, "1.00 TiB")],
)
def test_sizes(value: int, text: str) -> None:
    assert units.size(value) == text


def test_a_unit_joins_its_prefix() -> None:
    assert units.count(627_688_672, "FLOP") == "627.69 MFLOP"
    assert units.count(12, "MAC") == "12 MAC"


@given(st.integers(0, 10**20))
def test_a_count_reads_back_to_half_a_percent(value: int) -> None:
    number, _, prefix = units.count(value).partition(" ")
    assert float(number) * 1000 ** POWERS[prefix] == pytest.approx(value, rel=0.005)
    assert float(number) < 1000 or prefix == "E"


@given(st.floats(0, 1))
def test_a_share_that_is_there_never_reads_zero(share: float) -> None:
    assert (units.percent(share) == "0 %") == (share == 0)


def test_shapes() -> None:
    assert units.shape((1, 3, 224, 224)) == "1×3×224×224"
    assert units.shape(((1, 2), (3,))) == "1×2 +1"
    assert units.shape(()) == "scalar"
    assert units.shape(None) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.00321, "3.21 ms"),
        (0.0009999999, "1.00 ms"),
        (0.9999999, "1.00 s"),
        (75.0, "75.00 s"),
        (4.2e-6, "4.20 µs"),
        (3e-9, "3.00 ns"),
        (-0.002, "-2.00 ms"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert units.time(seconds) == text
