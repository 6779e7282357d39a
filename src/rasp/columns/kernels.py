"""Kernels as torch.profiler recorded them: how long those of a part ran, how many, how long the device waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..kernels import Kernels
from ..parts import BETWEEN, operator_name
from . import COLUMNS, Column, Form

if TYPE_CHECKING:
    from ..parts import Part
    from ..view import View

FORWARD, BACKWARD = ("forward",), ("backward", "recompute")
Ask = Callable[[Kernels, int], float | int]


def _named(part: Part, view: View) -> Callable[[str], bool]:
    """Whether an operator is of a row of a table by operator; those that no row is for are of the last."""
    if part.name != BETWEEN:
        return lambda op: operator_name(op) == part.name
    known = {operator_name(spec.name) for spec in view.trace.specs}
    return lambda op: operator_name(op) not in known


def _of(
    name: str, title: str, doc: str, unit: str, form: Form, phases: tuple[str, ...], ask: Ask, *, by_op: bool = True
) -> None:
    """Register a sum over the calls of a part; the total is that of all calls."""

    def value(part: Part, view: View) -> float | int | None:
        kernels = view.ledger.kernels
        if kernels is None or part.kind in ("phase", "remainder"):
            return None
        if not any(row.phase in phases for row in kernels.rows):
            return None
        if part.counts is not None:
            return ask(kernels.of_operators(_named(part, view)), 0) if by_op else None
        entries = None if part.whole else {entry.index for entry in part.entries}
        homes = view.ledger.homes_of_calls
        return sum(ask(kernels, call) for call, home in homes.items() if entries is None or home in entries)

    COLUMNS.add(name, Column(name, title, doc, value, unit, form, additive=True))


_of(
    "kernel_time", "kernel time", "Time of the kernels of its forward on the device, as torch.profiler recorded them.",
    "s", "time", FORWARD, lambda kernels, call: kernels.seconds(call, FORWARD),
)  # fmt: skip
_of(
    "kernel_time_bwd", "kernel time (backward)",
    "Time of the kernels of its backward, those of a checkpoint's second forward among them.",
    "s", "time", BACKWARD, lambda kernels, call: kernels.seconds(call, BACKWARD),
)  # fmt: skip
_of(
    "kernels", "kernels", "Kernels that its forward launches.", "", "count", FORWARD,
    lambda kernels, call: kernels.count(call, FORWARD),
)  # fmt: skip
_of(
    "kernel_gap", "idle before kernels", "Time in which the device did nothing before a kernel of its forward.", "s",
    "time", FORWARD, lambda kernels, call: kernels.gap(call, FORWARD),
)  # fmt: skip
_of(
    "host_time", "host time", "Time in which the host ran its forward, that of the modules inside it left out, under "
    "torch.profiler.", "s", "time", FORWARD,
    lambda kernels, call: kernels.hosted(call, FORWARD), by_op=False,
)  # fmt: skip
