"""Registering rules, and what happens when one is missing or wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rasp import rules
from rasp.errors import RuleError
from rasp.records import OpSpec, TensorSpec
from rasp.rules import Work, bound, module_rule, rule, work_of

A = TensorSpec((3, 4), (4, 1), "float32")


@pytest.fixture
def registry():
    """Rules as they were, whatever the test registers."""
    rules.load()
    kept = dict(rules.RULES), dict(rules.MODULE_RULES), set(rules.FREE)
    yield
    for mine, before in zip((rules.RULES, rules.MODULE_RULES), kept):
        mine.clear()
        mine.update(before)
    rules.FREE.clear()
    rules.FREE.update(kept[2])


def call(name="mylib::op", overload="default", args=(A,), out=A):
    return OpSpec(name, overload, args, {}, out)


@pytest.mark.usefixtures("registry")
class TestRegistry:
    def test_a_user_adds_one(self):
        @rule("mylib::op")
        def mine(call):
            return Work(fma=call.args[0].numel)

        work = work_of(call())
        assert (work.fma, work.read, work.write) == (12, 48, 48)

    def test_an_overload_comes_before_the_name(self):
        rule("mylib::op")(lambda call: Work(add=1))
        rule("mylib::op.special")(lambda call: Work(add=2))
        assert work_of(call()).add == 1
        assert work_of(call(overload="special")).add == 2

    def test_a_second_rule_is_refused_unless_meant(self):
        with pytest.raises(RuleError, match="replace=True"):
            rule("aten::mm")(lambda call: Work())
        rule("aten::mm", replace=True)(lambda call: Work(mac=7))
        assert work_of(call("aten::mm", args=(A, A))).mac == 7
        with pytest.raises(RuleError, match="namespace"):
            rule("mm")(lambda call: Work())

    def test_nonsense_is_refused(self):
        rule("mylib::op")(lambda call: 12)
        with pytest.raises(RuleError, match="must return"):
            work_of(call())

    def test_a_rule_that_cannot_tell_leaves_the_call_unknown(self):
        rule("mylib::op")(lambda call: None)
        assert work_of(call()) is None

    def test_a_module_rule_is_found_by_class(self):
        class Layer:
            pass

        module_rule(Layer)(lambda call: Work(mac=1))
        assert "Layer" in rules.MODULE_RULES
        with pytest.raises(RuleError, match="have a rule already"):
            module_rule("Layer")(lambda call: Work())


def test_unknown_is_not_free():
    assert work_of(call("mylib::never_seen")) is None
    assert work_of(call("aten::view")) == Work(read=0, write=0)


def test_the_bound_is_above_any_product():
    m, k, n = 3, 4, 5
    b = TensorSpec((k, n), (n, 1), "float32")
    out = TensorSpec((m, n), (n, 1), "float32")
    product = call("aten::mm", args=(A, b), out=out)
    assert bound(product) >= work_of(product).mac
    assert bound(call(out=None)) > 0


def test_work_adds_and_multiplies():
    one = Work(mac=2, add=3, read=4, write=5)
    assert one + one == 2 * one == Work(mac=4, add=6, read=8, write=10)
    assert (one + Work()).read is None


def test_families_share_through_underscored_files_only():
    for file in Path(rules.__file__).parent.glob("*.py"):
        shared = re.findall(r"^from \.(\w+) import", file.read_text(), re.MULTILINE)
        assert all(name.startswith("_") for name in shared), file.name
