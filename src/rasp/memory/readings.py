"""Memory around each module call: what was allocated before and after it, and the most in between."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ..records import Trace
from .plan import FORWARD, Pass, Plan


class Reading(NamedTuple):
    """Bytes allocated before a call, after it, and the most while it ran."""

    before: int
    after: int
    most: int


@dataclass(frozen=True)
class Readings:
    """The readings of every call; `base` is what was allocated before the run; `measured` tells on what, or None."""

    base: int
    calls: dict[int, Reading]
    measured: str | None = None

    def of(self, call: int) -> Reading | None:
        return self.calls.get(call)


def predicted(trace: Trace, plan: Plan) -> Readings:
    """Readings from a Plan's first pass, as a tool would take them that asks before and after each module."""
    whole = plan.first
    calls = {index: _predicted(trace, plan, whole, index) for index in range(len(trace.calls))}
    return Readings(plan.base, calls)


def _predicted(trace: Trace, plan: Plan, whole: Pass, index: int) -> Reading:
    call = trace.calls[index]
    before = _at(whole, plan, call.start)
    if call.end <= call.start:
        return Reading(before, before, before)
    gone = sum(whole.charged[i] for i in _dead_on_return(trace, plan, call.start, call.end))
    after = whole.after[call.end - 1] - gone
    return Reading(before, after, max(max(whole.most[call.start : call.end]), before))


def _at(whole: Pass, plan: Plan, number: int) -> int:
    """Allocated when an operator is about to run."""
    if number < len(whole.before):
        return whole.before[number]
    return whole.after[-1] if whole.after else plan.base


def _dead_on_return(trace: Trace, plan: Plan, start: int, end: int) -> list[int]:
    """What a module made for itself and let go before it returned: born inside, dead at its end."""
    return [i for i in plan.deaths.get(end, ()) if start <= trace.storages[i].born < end and i in plan.first.charged]


def measured(info: dict[str, Any]) -> Readings | None:
    """Readings that were taken on a device, as a profile keeps them."""
    found = info.get("measured_memory")
    if not found:
        return None
    calls = {int(index): Reading(*values) for index, values in found["calls"].items()}
    return Readings(int(found["base"]), calls, str(found["device"]))


class Inside:
    """What was allocated in the pass that lasts while each call's own operators ran, its backward included."""

    def __init__(self, trace: Trace, plan: Plan) -> None:
        self.trace, self.plan = trace, plan

    def before(self, call: int, own: bool) -> int:
        """Allocated when a call begins; of its own work, when the first of its own operators does."""
        start = self.first_own.get(call) if own else self.trace.calls[call].start
        return _at(self.plan.steady, self.plan, len(self.trace.ops) if start is None else start)

    @cached_property
    def first_own(self) -> dict[int, int]:
        """Call → the first operator of its own in the forward."""
        found: dict[int, int] = {}
        for number, op in enumerate(self.trace.ops):
            if op.phase == FORWARD:
                found.setdefault(op.owner, number)
        return found

    @cached_property
    def own(self) -> dict[int, int]:
        """Call → the most while its own operators ran, in any phase."""
        found: dict[int, int] = {}
        for op, most in zip(self.trace.ops, self.plan.steady.most):
            found[op.owner] = max(found.get(op.owner, 0), most)
        return found

    @cached_property
    def most(self) -> dict[int, int]:
        """For each call the most while it or anything in it ran, in any phase."""
        numbers = range(len(self.trace.calls))
        found = {index: max(self.own.get(index, 0), self.before(index, own=False)) for index in numbers}
        for index in reversed(numbers):
            parent = self.trace.calls[index].parent
            if 0 <= parent < index:
                found[parent] = max(found[parent], found[index])
        return found
