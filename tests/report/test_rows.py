"""Nothing is lost between rows: every additive column sums to the total, in every kind of table, folded or not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rasp
from rasp.profile import Profile
from rasp.records import Trace
from rasp.report import Report
from traces import Builder, blocks, random_trace, spec

ADDITIVE = [column.name for column in rasp.columns() if column.additive]
TIMES = {column.name: column.form == "time" for column in rasp.columns()}
SHARES = [f"{name}%" for name in ("params", "macs", "flops", "read")]


def profile(trace: Trace) -> Profile:
    return Profile(trace, {"model": "Model"})


def assert_adds_up(report: Report, whole: Profile, names: list[str]) -> None:
    for name in names:
        values = [value for row in report.rows if (value := report.value(row, name)) is not None]
        assert sum(values) == total_of(whole, name), name


def total_of(whole: Profile, name: str) -> Any:
    """A column's total as sums are held against it: counts to the last digit, times as floats add up."""
    total = whole.total(name) or 0
    return pytest.approx(total, rel=1e-9) if TIMES[name] else total


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_rows_of_every_table_sum_to_the_total(seed: int) -> None:
    whole = profile(random_trace(seed))
    for report_type in ("tape", "leaves", "node", "root"):
        assert_adds_up(whole.table(report_type, ADDITIVE), whole, ADDITIVE)
    assert_adds_up(whole.by_type(["name", *ADDITIVE]), whole, ADDITIVE)
    of_ops = ["ops", "macs", "flops", "macc", "read", "write", "flops_bwd", "macs_opt", "flops_total"]
    assert_adds_up(whole.by_op(["name", *of_ops]), whole, of_ops)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_the_root_total_is_the_same_number_with_and_without_the_short_cut(seed: int) -> None:
    whole = profile(random_trace(seed))
    view = whole.view()
    for name in ADDITIVE:
        by_rows = [view.value(name, part) for part in [*map(_alone, view.ledger.entries)]]
        assert sum(v for v in by_rows if v is not None) == total_of(whole, name), name


def _alone(entry: object) -> object:
    from rasp.parts import Part

    return Part("call", "", "", [entry], entry.call)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000))
def test_every_operator_and_every_tensor_is_in_one_row(seed: int) -> None:
    trace = random_trace(seed)
    entries = profile(trace).view().ledger.entries
    assert sum(sum(counts.values()) for entry in entries for counts in entry.counts) == len(trace.ops)
    assert sorted(t for entry in entries for t in entry.tensors) == list(range(len(trace.tensors)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_a_level_of_the_tree_sums_to_the_level_above(seed: int) -> None:
    whole = profile(random_trace(seed))
    for fold in (False, True):
        report = whole.tree(fold=fold, columns=["name", *ADDITIVE])
        stack: list[tuple[int, list[int | None]]] = []
        children: dict[int, list[int]] = {}
        for at, row in enumerate(report.rows):
            del stack[row.level :]
            if stack:
                children.setdefault(stack[-1][0], []).append(at)
            stack.append((at, row.values))
        for parent, below in children.items():
            own = report.rows[parent]
            for name in ADDITIVE:
                inside = sum(report.value(report.rows[at], name) or 0 for at in below)
                assert inside <= (report.value(own, name) or 0) * (1 + 1e-9 * TIMES[name]), name
        assert [report.value(report.rows[0], name) for name in ADDITIVE] == [whole.total(name) for name in ADDITIVE]


def test_shares_sum_to_one() -> None:
    report = profile(blocks()).table(columns=["name", *SHARES])
    for name in SHARES:
        assert sum(report.value(row, name) for row in report.rows) == pytest.approx(1)
        assert report.total is not None
        assert report.value(report.total, name) == 1


def test_ratios_are_recomputed_for_the_total() -> None:
    whole = profile(blocks())
    traffic = whole.total("read") + whole.total("write")
    assert whole.total("intensity") == whole.total("flops") / traffic
    rows = whole.rows(columns=["intensity"])
    assert rows[-1]["intensity"] == whole.total("intensity")


def test_rows_have_kinds_and_calls_are_numbered() -> None:
    report = profile(blocks(2)).table()
    assert [row.kind for row in report.all_rows()] == ["call", "call", "own", "call", "call", "own", "call", "total"]
    assert [row.label for row in report.rows if row.kind == "call"] == [0, 1, 2, 3, 4]
    assert report.dicts()[2]["type"] == "add"
    assert report.dicts()[2]["name"] == ".layers.0"


def test_counts_of_a_known_model() -> None:
    whole = profile(blocks(3))
    assert whole.total("macs") == 3 * 2 * 4 * 8 * 8 + 4 * 8 * 3
    assert whole.total("flops") == 2 * whole.total("macs") - (6 * 4 * 8 + 4 * 3) + 3 * 4 * 8
    assert whole.total("params") == 6 * 64 + 24
    assert whole.total("calls") == 7
    assert whole.total("mem_r") == 7 * 4 * 8 * 4 + 4 * (6 * 64 + 24) + 3 * 2 * 4 * 8 * 4


def test_a_parameter_used_twice_is_charged_once_and_the_row_says_shared() -> None:
    b = Builder()
    b.enter("")
    b.leaf("embed")
    b.leaf("embed")
    b.leave()
    rows = profile(b.trace).rows(columns=["params", "mem_r", "macs"])
    assert [(row["params"], row["shared"]) for row in rows[:2]] == [(64, False), (0, True)]
    assert rows[0]["mem_r"] == rows[1]["mem_r"], "a second call reads its weights again"
    assert rows[-1]["params"] == 64


def test_a_tied_parameter_is_charged_to_its_first_call() -> None:
    b = Builder()
    b.enter("")
    b.leaf("embed")
    b.module("head", "Linear")
    b.tie("head", 0)
    b.leaf("head")
    b.leave()
    rows = profile(b.trace).rows(columns=["name", "params"])
    assert [(row["name"], row["params"], row["shared"]) for row in rows[:2]] == [
        (".embed", 64, False),
        (".head", 0, True),
    ]


def test_a_parameter_of_a_module_that_never_ran_goes_to_who_reads_it_else_to_a_row_of_its_own() -> None:
    b = Builder()
    b.enter("")
    b.leaf("first")
    for path in ("proj", "idle"):
        b.module(path, "Linear")
        b.tensor(path, "weight", 8, 8)
    read = b.trace.tensors[b.trace.modules[b.modules["proj"]].tensors[0]]
    b.op("aten::mm", spec(4, 8), read.spec, out=spec(4, 8), reads=(read.storage,))
    b.leave()
    whole = profile(b.trace)
    rows = {row["name"]: row for row in whole.rows(columns=["name", "params"])}
    assert (rows["."]["kind"], rows["."]["params"]) == ("own", 64)
    assert (rows[".idle"]["kind"], rows[".idle"]["params"]) == ("uncalled", 64)
    assert ".proj" not in rows
    assert any("never called: 1 module with 64 parameters: .idle" in note for note in whole.table().notes)


def test_a_call_that_ran_no_operator_moves_nothing() -> None:
    b = Builder()
    b.enter("")
    b.module("dropout", "Dropout")
    b.enter("dropout", (spec(4, 8),), (spec(4, 8),))
    b.leave()
    b.leave()
    row = profile(b.trace).rows()[0]
    assert (row["kind"], row["mem_r"], row["mem_w"], row["mem_rw"]) == ("call", 0, 0, 0)
    assert row["out_shape"] == (4, 8)


def test_phases_that_were_not_run_are_not_available() -> None:
    whole = profile(blocks())
    assert whole.total("flops_bwd") is None
    assert whole.total("macs_opt") is None
    assert whole.total("flops_total") == whole.total("flops")


def test_a_backward_counts_apart() -> None:
    b = Builder()
    b.enter("")
    b.leaf("a")
    b.leave()
    b.op_in(1, "aten::mm", spec(8, 4), spec(4, 8), out=spec(8, 8), phase=1)
    whole = profile(b.trace)
    assert whole.total("macs") == 256
    assert whole.total("macs_bwd") == 256
    assert whole.total("macs_total") == 512
    assert whole.rows(columns=["macs_bwd"])[0]["macs_bwd"] == 256


def test_leaves_are_one_row_per_module() -> None:
    b = Builder()
    b.enter("")
    b.leaf("a")
    b.leaf("b")
    b.leaf("a")
    b.module("c", "Dropout")
    b.leave()
    rows = profile(b.trace).rows("leaves", ["name", "calls", "params"])
    assert [(row["name"], row["kind"], row["calls"], row["params"]) for row in rows[:-1]] == [
        (".a", "call", 2, 64),
        (".b", "call", 1, 64),
        (".c", "uncalled", 0, 0),
    ]


def test_the_root_row_is_not_added_twice() -> None:
    report = profile(blocks()).table(include_root=True)
    assert [row.kind for row in report.all_rows()][-2:] == ["root", "total"]
    rows = report.dicts()
    assert rows[-2]["flops"] == rows[-1]["flops"]


def test_other_conventions_stand_beside() -> None:
    whole = profile(blocks())
    rows = whole.rows(columns=["flops", "flops@rasp"])
    assert rows[0]["flops"] == rows[0]["flops@rasp"]
    assert "flops@rasp" in whole.table(columns=["flops@rasp"]).columns


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda p: p.total("flop"), "Did you mean .*'flops'"),
        (lambda p: p.total("flops", "raps"), "Did you mean 'rasp'"),
        (lambda p: p.total("flops@raps"), "Did you mean 'rasp'"),
        (lambda p: p.total("intensity%"), "share column"),
        (lambda p: p.rows("tap"), "Did you mean 'tape'"),
        (lambda p: p.table().render("jsn"), "Did you mean 'json'"),
        (lambda p: p.save("report.cvs"), "Did you mean '.csv'"),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(ask: object, words: str) -> None:
    with pytest.raises(rasp.UnknownName, match=words):
        ask(profile(blocks()))


def test_a_file_without_a_suffix_is_refused() -> None:
    with pytest.raises(rasp.InputError, match="report has no suffix"):
        profile(blocks()).save("report")
