"""The allocators' rules, one by one, by hand and by their own invariants."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

import rasp
from rasp.memory import allocators
from rasp.memory.allocators import OutOfMemory

MIB = 1 << 20


def cuda(settings: str = "", limit: int | None = None) -> allocators.Allocator:
    found = allocators.get("cuda", settings)
    found.limit = limit
    return found


@pytest.mark.parametrize(("asked", "counted"), [(1, 512), (512, 512), (513, 1024), (112896, 113152), (4000, 4096)])
def test_requests_are_rounded_to_512_bytes(asked: int, counted: int) -> None:
    found = cuda()
    found.take(asked)
    assert found.allocated == counted


def test_segments_by_size() -> None:
    for asked, reserved in ((1000, 2 * MIB), (3 * MIB, 20 * MIB), (11 * MIB, 12 * MIB), (10 * MIB + 1, 12 * MIB)):
        found = cuda()
        found.take(asked)
        assert found.reserved == reserved, asked


def test_a_rest_of_up_to_a_mebibyte_is_not_split_off() -> None:
    found = cuda()
    found.take(19 * MIB)  # of a segment of 20: one MiB is left, which counts
    assert found.allocated == 20 * MIB
    whole = cuda()
    whole.take(18 * MIB + 512)  # rounds up to 20 as well, and leaves more than one
    assert whole.allocated == 18 * MIB + 512


def test_best_fit_and_merging() -> None:
    found = cuda()
    held = [found.take(4 * MIB) for _ in range(5)]
    for block in (held[0], held[1], held[3]):
        found.give_back(block)
    again = found.take(4 * MIB)  # the hole of four, not the merged one of eight
    assert again.address == 12 * MIB
    large = found.take(8 * MIB)
    assert large.address == 0
    assert found.reserved == 20 * MIB


def test_large_blocks_are_kept_whole_under_max_split_size() -> None:
    free, kept = cuda(), cuda("max_split_size_mb:32")
    for found in (free, kept):
        found.give_back(found.take(100 * MIB))
        found.take(50 * MIB)
    assert free.reserved == 100 * MIB
    assert kept.reserved == 150 * MIB, "a block of 100 is too much too large for 50"
    small = cuda("max_split_size_mb:32")
    small.give_back(small.take(100 * MIB))
    small.take(12 * MIB)
    assert small.reserved == 112 * MIB, "and never cut for a small one"


def test_expandable_segments_grow() -> None:
    plain, grown = cuda(), cuda("expandable_segments:True")
    for found in (plain, grown):
        found.give_back(found.take(30 * MIB))
        found.take(50 * MIB)
    assert plain.reserved == 80 * MIB
    assert grown.reserved == 60 * MIB, "the same pages, and as many more as lack, by 20 MiB"


@pytest.mark.parametrize(
    ("settings", "asked", "counted"),
    [
        ("roundup_power2_divisions:4", 1200, 1536), ("roundup_power2_divisions:4", 2100, 2560),
        ("roundup_power2_divisions:4", 1100 * 1024, 1280 * 1024),
        ("roundup_power2_divisions:[1:4,>:1]", 5 * MIB, 5 * MIB), ("", 5 * MIB, 5 * MIB),
        ("roundup_power2_divisions:4", 5 * MIB + 512, 6 * MIB),
    ],
)  # fmt: skip
def test_divisions_between_powers_of_two(settings: str, asked: int, counted: int) -> None:
    found = cuda(settings)
    found.take(asked)
    assert found.allocated == counted


def test_settings_of_one_string_and_of_none() -> None:
    settings = "garbage_collection_threshold:0.8,max_split_size_mb:128,expandable_segments:True"
    allocators.get("cuda", settings)
    for wrong in ("max_split_size:3", "max_split_size_mb:many"):
        with pytest.raises(rasp.InputError, match="max_split_size"):
            allocators.get("cuda", wrong)


def test_nothing_beyond_the_limit() -> None:
    found = cuda(limit=40 * MIB)
    first = found.take(20 * MIB)
    found.take(20 * MIB)
    with pytest.raises(OutOfMemory):
        found.take(2 * MIB)
    found.give_back(first)
    found.take(12 * MIB)
    assert found.reserved == 40 * MIB


def test_free_segments_are_given_back_before_it_fails() -> None:
    found = cuda(limit=60 * MIB)
    found.give_back(found.take(20 * MIB))
    found.give_back(found.take(30 * MIB))
    found.take(44 * MIB)
    assert found.reserved == 44 * MIB


@pytest.mark.parametrize("settings", ["", "max_split_size_mb:64", "expandable_segments:True"])
def test_whatever_is_taken_and_given_back_the_sums_hold(settings: str) -> None:
    """Blocks never overlap, what is allocated is the sum of them, and all that is given back is free."""
    found, generator, held = cuda(settings), random.Random(0), []
    for _ in range(600):
        if held and generator.random() < 0.45:
            found.give_back(held.pop(generator.randrange(len(held))))
        else:
            held.append(found.take(int(2 ** generator.uniform(4, 27))))
        assert found.allocated == sum(block.size for block in held)
        assert found.allocated <= found.reserved <= found.most_reserved
    places = sorted((block.pool.small, block.address, block.size) for block in held)
    for (small, address, size), (other, following, _) in pairwise(places):
        assert small != other or address + size <= following
    for block in held:
        found.give_back(block)
    assert found.allocated == 0


@pytest.mark.parametrize(("name", "asked", "counted"), [("none", 1000, 1000), ("cpu", 1000, 1024), ("none", 0, 0)])
def test_the_other_allocators(name: str, asked: int, counted: int) -> None:
    found = allocators.get(name)
    handle = found.take(asked)
    assert found.allocated == found.most == counted
    found.give_back(handle)
    assert found.allocated == 0
