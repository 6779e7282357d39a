"""What a sweep goes over: the words, numbers and ranges that say it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rasp.errors import InputError
from rasp.sweep import axes
from rasp.sweep.limits import limits, nbytes


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (224, [(224, 224)]),
        ("128:256:64", [(128, 128), (192, 192), (256, 256)]),
        ("128:250:64", [(128, 128), (192, 192)]),
        ("600x850,224", [(600, 850), (224, 224)]),
        ([(600, 850), 32], [(600, 850), (32, 32)]),
        (range(32, 65, 32), [(32, 32), (64, 64)]),
        ([224, "224", 224.0], [(224, 224)]),
        (["32:64:32", "7X9"], [(32, 32), (64, 64), (7, 9)]),
    ],
)
def test_sizes(asked, found):
    assert axes.sizes(asked) == found


def test_scales_of_the_reports():
    assert axes.scales(True) == [Decimal(text) for text in ("0.5", "1", "1.5", "2", "2.5", "3")]
    assert axes.scales([1, 0.1, "0.1"]) == [Decimal(1), Decimal("0.1")]


@pytest.mark.parametrize(
    ("base", "scale", "side"), [(227, "0.5", 114), (513, "1.5", 770), (299, "0.5", 150), (3, "0.1", 0)]
)
def test_a_half_goes_away_from_zero(base, scale, side):
    assert axes.scaled(base, Decimal(scale)) == side


@given(st.integers(1, 5000), st.decimals("0.01", "10", places=2))
def test_a_scaled_side_is_the_nearest_whole_number(base, scale):
    assert abs(axes.scaled(base, scale) - base * scale) <= Decimal("0.5")
    if (base * scale) % 1 == Decimal("0.5"):
        assert axes.scaled(base, scale) > base * scale


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 50))
def test_a_range_ends_at_its_stop(start, more, step):
    found = axes.counts(f"{start}:{start + more}:{step}", "batches") if more else []
    assert found == list(range(start, start + more + 1, step))


@pytest.mark.parametrize(
    "asked",
    [[], "", " , ", 0, -1, 2.5, "big", True, "64:32", "32:64:0", "32:64:8:1", [(1, 2, 3)], "600x", None, "nan", "inf",
     "1:100000000", range(10**9)],
)  # fmt: skip
def test_sizes_that_are_none(asked):
    with pytest.raises(InputError, match="sizes"):
        axes.sizes(asked)


def test_a_step_taken_for_a_stop_is_told():
    with pytest.raises(InputError, match="Did you mean 1:64:1"):
        axes.counts("1:1:64", "batches")


@pytest.mark.parametrize("scale", [0, -1, "x", []])
def test_scales_that_are_none(scale):
    with pytest.raises(InputError, match="scales"):
        axes.scales(scale)


@given(st.integers(1, 40), st.integers(0, 200))
def test_shards_share_everything_once(of, cells):
    parts = [axes.shard(f"{number}/{of}") for number in range(1, of + 1)]
    assert all(sum(part.has(index) for part in parts) == 1 for index in range(cells))


@pytest.mark.parametrize("part", ["0/2", "3/2", "1/0", "a/b", "1", "1/2/3", "-1/2", ""])
def test_shards_that_are_none(part):
    with pytest.raises(InputError, match="shard"):
        axes.shard(part)


def test_names_of_dtypes_and_devices():
    import torch

    assert axes.names("float16, bfloat16", "dtypes") == ["float16", "bfloat16"]
    assert axes.names([torch.float16, None], "dtypes") == ["float16", None]
    assert axes.names([torch.device("cuda:1")], "devices") == ["cuda:1"]


@pytest.mark.parametrize(("words", "size"), [("4GiB", 4 << 30), ("500MB", 500_000_000), (1 << 20, 1 << 20)])
def test_memory(words, size):
    assert nbytes(words) == size


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", 0),
        ("timeout", "long"),
        ("timeout", True),
        ("memory", "much"),
        ("memory", 0),
        ("retries", -1),
        ("threads", 0),
    ],
)  # fmt: skip
def test_limits_that_are_none(name, value):
    given = {"timeout": None, "memory": None, "retries": 2, "threads": None}
    with pytest.raises(InputError, match=name):
        limits(**{**given, name: value})
