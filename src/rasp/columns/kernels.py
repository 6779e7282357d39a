"""Kernels as torch.profiler recorded them: how long those of a part ran, how many, how long the device waited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..kernels import Kernels
from . import COLUMNS, Column, Form

if TYPE_CHECKING:
    from ..parts import Part
    from ..view import View

FORWARD, BACKWARD = ("forward",), ("backward", "recompute")
Ask = Callable[[Kernels, int], float | int]


def _of(name: str, title: str, doc: str, unit: str, form: Form, phases: tuple[str, ...], ask: Ask) -> None:
    """Register a sum over the calls of a part; the total is that of all calls."""

    def value(part: Part, view: View) -> float | int | None:
        kernels = view.ledger.kernels
        if kernels is None or part.counts is not None or part.kind in ("phase", "remainder"):
            return None
        if not any(row.phase in phases for row in kernels.rows):
            return None
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
    lambda kernels, call: kernels.hosted(call, FORWARD),
)  # fmt: skip
