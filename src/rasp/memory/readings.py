"""Memory around each module call: what was allocated before and after it, and the most in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..records import Trace
from .plan import Pass, Plan


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
