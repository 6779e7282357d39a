"""The tree: repeated blocks fold, own work shows, depth cuts without losing anything."""

from __future__ import annotations

from rasp.profile import Profile
from traces import Builder, blocks, spec


def names(profile: Profile, **how: object) -> list[tuple[int, str, int]]:
    return [(row.level, row.title, row.times) for row in profile.tree(**how).rows]


def test_equal_blocks_fold_into_their_sum() -> None:
    whole = Profile(blocks(32), {})
    assert names(whole) == [
        (0, "Blocks", 1),
        (1, "layers.0-31", 32),
        (2, "up", 1),
        (2, "down", 1),
        (2, "+ add", 1),
        (1, "head", 1),
    ]
    report = whole.tree(columns=["macs"])
    assert report.value(report.rows[1], "macs") == 32 * 2 * 256
    assert report.value(report.rows[2], "macs") == 32 * 256
    assert "layers.0-31 ×32" in str(report)


def test_unfolded_it_has_every_block() -> None:
    assert len(names(Profile(blocks(5), {}), fold=False)) == 1 + 5 * 4 + 1


def test_blocks_that_differ_in_anything_do_not_fold() -> None:
    b = Builder()
    b.enter("")
    for i, width in enumerate((8, 8, 4, 8)):
        b.leaf(f"layer.{i}", to=width)
    b.leave()
    assert [title for _, title, _ in names(Profile(b.trace, {}))][1:] == ["layer.0-1", "layer.2", "layer.3"]


def test_only_neighbours_in_number_fold() -> None:
    b = Builder()
    b.enter("")
    for i in (0, 1, 3, 4):
        b.leaf(f"layer.{i}")
    b.leave()
    assert [title for _, title, _ in names(Profile(b.trace, {}))][1:] == ["layer.0-1", "layer.3-4"]


def test_folds_nest() -> None:
    b = Builder()
    b.enter("")
    for i in range(2):
        b.module(f"stage.{i}", "Stage")
        b.enter(f"stage.{i}")
        for j in range(3):
            b.leaf(f"stage.{i}.{j}")
        b.leave()
    b.leave()
    report = Profile(b.trace, {}).tree(columns=["macs"])
    assert [(row.title, row.times, report.value(row, "macs")) for row in report.rows] == [
        ("Model", 1, 6 * 256),
        ("stage.0-1", 2, 6 * 256),
        ("0-2", 3, 6 * 256),
    ]


def test_depth_cuts_the_tree_and_keeps_the_totals() -> None:
    whole = Profile(blocks(4), {})
    assert [title for _, title, _ in names(whole, depth=1)] == ["Blocks", "layers.0-3", "head"]
    assert [title for _, title, _ in names(whole, depth=0)] == ["Blocks"]


def test_a_module_called_again_from_the_same_place_is_one_node() -> None:
    b = Builder()
    b.enter("")
    b.leaf("a")
    b.leaf("b")
    b.leaf("a")
    b.leave()
    report = Profile(b.trace, {}).tree(columns=["calls", "macs"])
    assert [(row.title, report.value(row, "calls")) for row in report.rows[1:]] == [("a", 2), ("b", 1)]


def test_a_module_shared_by_blocks_is_counted_where_it_is_called() -> None:
    b = Builder()
    b.module("act", "ReLU")
    b.enter("")
    for i in range(2):
        b.module(f"block.{i}", "Block")
        b.enter(f"block.{i}")
        b.leaf(f"block.{i}.fc")
        b.enter("act", (spec(4, 8),), (spec(4, 8),))
        b.op("aten::relu", spec(4, 8), out=spec(4, 8))
        b.leave()
        b.leave()
    b.leave()
    assert [title for _, title, _ in names(Profile(b.trace, {}))] == ["Model", "block.0-1", "fc", ".act"]


def test_print_shows_as_many_levels_as_fit() -> None:
    b = Builder()
    b.enter("")
    for i in range(40):
        b.module(f"m{i}", "Block")
        b.enter(f"m{i}")
        b.leaf(f"m{i}.x", to=i + 1)
        b.leaf(f"m{i}.y", to=i + 2)
        b.leave()
    b.leave()
    text = str(Profile(b.trace, {}))
    assert "1 of 2 levels shown" in text
    assert text.count("Block") == 40


def test_a_backward_shows_in_the_tree() -> None:
    trace = blocks(2)
    assert "flops_bwd" not in Profile(trace, {}).tree().columns
    trace.ops.append(trace.ops[0]._replace(phase=1))
    assert "flops_bwd" in Profile(trace, {}).tree().columns
    assert "forward + backward" in str(Profile(trace, {}))
