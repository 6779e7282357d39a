"""The plan: which cells there are, and what decides their keys."""

from __future__ import annotations

import sys

import pytest

from rasp.sweep.axes import Axes
from rasp.sweep.cells import Plan
from rasp.sweep.measures import chosen
from rasp.sweep.subjects import Described, Subject

IMAGES = Described("a", "digest a", Subject("a", words="a"), "pixels", size=(227, 513))
TEXT = Described("t", "digest t", Subject("t", words="t"), "tokens", length=128)
OTHER = Described("o", "digest o", Subject("o", words="o"), None)


def plan(models=(IMAGES,), measures="static", trunks=None, options=None, **axes):
    given = {
        "sized": None,
        "scaling": None,
        "tokens": None,
        "batches": 1,
        "dtypes": None,
        "devices": None,
        "part": None,
    }
    return Plan(models, chosen(measures), Axes.of(**{**given, **axes}), trunks, options or {})


def keys(*args, **named):
    return [cell.key for cell in plan(*args, **named).cells()]


def test_every_model_meets_every_size_batch_dtype_and_device():
    found = plan((IMAGES, OTHER), sized="64,128", batches="1,2,4", dtypes="float16,bfloat16", devices="cpu,cuda")
    points = list(found.points())
    assert len(points) == 2 * 2 * 3 * 2 * 2
    assert len({(p.model, p.size, p.batch, p.dtype, p.device) for p in points}) == len(points)


def test_sizes_are_for_images_and_lengths_for_text():
    points = list(plan((IMAGES, TEXT), sized=64, tokens="16,32").points())
    assert [(p.model, p.size, p.tokens) for p in points] == [(0, (64, 64), None), (1, None, 16), (1, None, 32)]


def test_without_sizes_a_model_has_its_own():
    assert [(p.size, p.tokens) for p in plan((IMAGES, TEXT, OTHER)).points()] == [
        ((227, 513), None),
        (None, 128),
        (None, None),
    ]


def test_scales_are_of_both_sides_a_half_away_from_zero():
    assert [p.size for p in plan(scaling="0.5:1.5:0.5").points()] == [(114, 257), (227, 513), (341, 770)]


def test_static_cells_do_not_depend_on_the_device():
    found = plan(devices="cpu,cuda")
    assert len(list(found.points())) == 2
    assert len(list(found.cells())) == len(found) == 1
    timed = plan(devices="cpu,cuda", measures="static,timing")
    assert [cell.timed for cell in timed.cells()] == [False, True, True]
    assert len(timed) == 3


@pytest.mark.parametrize(
    "change",
    [{"sized": 64}, {"batches": 2}, {"dtypes": "float16"}, {"measures": "memory"}, {"trunks": "layer"},
     {"options": {"backward": True}}, {"options": {"convention": "burden"}}],
)  # fmt: skip
def test_what_changes_the_numbers_changes_the_key(change):
    assert not set(keys()) & set(keys(**change))


def test_a_key_is_of_content_not_of_names():
    same = Described("b", IMAGES.digest, Subject("b", words="b"), "pixels", size=IMAGES.size)
    changed = Described("a", "another digest", IMAGES.subject, "pixels", size=IMAGES.size)
    given = Described("a", IMAGES.digest, Subject("a", given={"input_shape": (1, 3, 8, 8)}), "pixels", size=IMAGES.size)
    assert keys((same,)) == keys()
    assert not set(keys((changed,))) & set(keys())
    assert not set(keys((given,))) & set(keys())


def test_versions_are_part_of_the_key(monkeypatch):
    before = keys()
    monkeypatch.setattr(sys.modules[Plan.__module__], "versions", lambda: {"torch": "99"})
    assert not set(before) & set(keys())


def test_an_option_that_is_a_function_counts_by_its_code():
    assert keys(options={"loss": lambda out: out.sum()}) == keys(options={"loss": lambda out: out.sum()})
    assert keys(options={"loss": lambda out: out.sum()}) != keys(options={"loss": lambda out: out.mean()})


@pytest.mark.parametrize("of", [1, 2, 3, 7])
def test_shards_are_the_whole(of):
    axes = {"sized": "32:320:32", "batches": "1:3", "dtypes": "float16,float32", "devices": "cpu,cuda"}
    parts = [plan((IMAGES, TEXT), measures="static,timing", part=f"{n}/{of}", **axes) for n in range(1, of + 1)]
    found = [cell.key for part in parts for cell in part.cells()]
    assert sorted(found) == sorted(keys((IMAGES, TEXT), measures="static,timing", **axes))
    assert [len(part) for part in parts] == [len(list(part.cells())) for part in parts]


def test_ten_thousand_cells_are_planned_at_once():
    found = plan(sized="1:100", batches="1:100")
    assert len({cell.key for cell in found.cells()}) == len(found) == 10_000
