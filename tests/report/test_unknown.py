"""Unknown is never zero: operators without a rule are listed with a bound, and what they touch is a lower bound."""

from __future__ import annotations

import pytest

import rasp
from rasp.profile import Profile
from traces import Builder, spec


@pytest.fixture
def partly_known() -> Profile:
    b = Builder()
    b.enter("")
    b.leaf("known")
    b.module("strange", "Strange")
    b.enter("strange", (spec(2, 3),), (spec(2, 3),))
    b.op("mylib::warp", spec(2, 3), out=spec(2, 3))
    b.op("mylib::warp", spec(2, 3), out=spec(2, 3))
    b.leave()
    b.leave()
    return Profile(b.trace, {})


def test_uncounted_lists_operator_calls_modules_and_bound(partly_known: Profile) -> None:
    assert partly_known.uncounted == [{"op": "mylib::warp", "calls": 2, "modules": [".strange"], "bound": 2 * 6 * 6}]


def test_a_row_of_unknown_work_is_not_available_and_never_zero(partly_known: Profile) -> None:
    known, strange, total = partly_known.rows(columns=["macs", "flops", "read"])
    assert strange["macs"] is None
    assert strange["flops"] is None
    assert strange["read"] == 2 * 24
    assert total["flops"] == known["flops"]


def test_the_table_marks_lower_bounds_and_says_why(partly_known: Profile) -> None:
    text = str(partly_known.table())
    assert "≥480" in text
    assert "?" in text
    assert "not counted: mylib::warp ×2 in .strange: no rule, at most 72 FLOP" in text


def test_work_that_no_operator_showed_is_uncounted_without_a_bound() -> None:
    b = Builder()
    b.enter("")
    b.leaf("known")
    b.leave()
    b.trace.untraced.append({"op": "a storage written by nothing seen", "module": "known", "call": 1, "bytes": 64})
    whole = Profile(b.trace, {})
    gap = whole.uncounted[0]
    assert (gap["modules"], gap["bound"]) == ([".known"], None)
    assert whole.table().rows[0].partial
    assert "no telling how much" in str(whole.table())


def test_a_rule_added_later_is_heeded(partly_known: Profile, own_rules: None) -> None:
    assert partly_known.total("flops") == 480
    rasp.rule("mylib::warp")(lambda call: rasp.Work(mul=call.out.numel))
    assert partly_known.total("flops") == 480 + 12
    assert partly_known.uncounted == []


def test_a_module_rule_stands_for_all_inside(partly_known: Profile, own_rules: None) -> None:
    @rasp.module_rule("Strange")
    def strange(call: object) -> rasp.Work:
        return rasp.Work(mac=7, dot=1, add=call.out.numel)

    assert partly_known.uncounted == []
    row = partly_known.rows(columns=["name", "macs", "flops", "read", "write", "mem_r"])[1]
    assert (row["kind"], row["macs"], row["flops"]) == ("call", 7, 2 * 7 - 1 + 6)
    assert (row["read"], row["write"], row["mem_r"]) == (24, 24, 24)
    assert partly_known.total("macs") == 256 + 7
    assert "Strange (module rule)" in str(partly_known.by_op())


def test_a_module_rule_makes_a_container_a_leaf(own_rules: None) -> None:
    b = Builder()
    b.enter("")
    b.module("block", "Fused")
    b.enter("block", (spec(4, 8),), (spec(4, 8),))
    b.leaf("block.inner")
    b.op("aten::add", spec(4, 8), spec(4, 8), 1, out=spec(4, 8))
    b.leave()
    b.leave()
    rasp.module_rule("Fused")(lambda call: rasp.Work(mac=sum(p.numel for p in call.params.values())))
    rows = Profile(b.trace, {}).rows(columns=["name", "type", "params", "macs", "mem_r"])
    assert [(r["name"], r["type"], r["params"], r["macs"]) for r in rows[:-1]] == [(".block", "Fused", 64, 64)]
    assert rows[0]["mem_r"] == 128 + 256


def test_a_module_rule_that_returns_something_else_is_refused(own_rules: None) -> None:
    rasp.module_rule("Strange")(lambda call: 7)
    b = Builder("Strange")
    b.enter("")
    b.leave()
    with pytest.raises(rasp.RuleError, match="returned int"):
        Profile(b.trace, {}).rows()
