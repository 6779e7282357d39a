"""Rooflines: what a machine's peaks and bandwidth allow at best, and which of them is in the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..roofline import Times, arithmetic
from ..rules import Work
from . import COLUMNS, FORWARD, TWINS, Column, column, per_op

if TYPE_CHECKING:
    from ..parts import Part
    from ..view import View


@per_op("operations", "operations", unit="FLOP", twins=True)
def operations(work: Work, view: View) -> int:
    """Operations that a machine carries out, the same under every convention: two for each MAC, ones for the rest."""
    return arithmetic(work)


def least_time(part: Part, view: View, phases: tuple[int, ...] = (FORWARD,)) -> float | None:
    """The least time the operators need on a machine, one by one: at its peak or its bandwidth, the slower."""
    found = _times(part, view, phases)
    return None if found is None else sum(times * needed.least for times, needed in found)


def _register() -> None:
    """The column, and its twins for the other phases."""
    doc = (least_time.__doc__ or "").strip()
    first = Column("least_time", "least time", doc, least_time, "s", "time", additive=True)
    COLUMNS.add(first.name, first)
    for suffix, (words, phases) in TWINS.items():
        twin = replace(
            first,
            name=first.name + suffix,
            title=f"{first.title} ({words})",
            doc=f"{doc.rstrip('.')}: {words}.",
            value=partial(least_time, phases=phases),
        )
        COLUMNS.add(twin.name, twin)


_register()


@column("attainable", "attainable", unit="FLOP/s")
def attainable(part: Part, view: View) -> int | None:
    """The rate that the roofline allows: operations for each second of the least time."""
    work, seconds = view.value("operations", part), least_time(part, view)
    return round(work / seconds) if work is not None and seconds else None


@column("bound", "bound by", form="text")
def bound(part: Part, view: View) -> str | None:
    """What sets the least time: compute, memory, or launch where starting the operators takes longer than both."""
    found = _times(part, view, (FORWARD,))
    if not found:
        return None
    least = sum(times * needed.least for times, needed in found)
    starting = (view.ledger.machine.launch or 0.0) * sum(times * needed.launches for times, needed in found)
    if not least:
        return None
    if starting > least:
        return "launch"
    compute = sum(times * needed.compute for times, needed in found if needed.compute >= needed.memory)
    return "compute" if 2 * compute >= least else "memory"


def _times(part: Part, view: View, phases: tuple[int, ...]) -> list[tuple[int, Times]] | None:
    """How often each operator of a part runs, and what it needs; None where no such phase ran or one cannot be told."""
    ledger = view.ledger
    if phases != (FORWARD,) and ledger.phases.isdisjoint(phases):
        return None
    found = [(times, ledger.times[spec]) for spec, times in _counts(part, view, phases)]
    if part.counts is None and FORWARD in phases:
        found += [(1, ledger.times_of_module(e.call)) for e in view.entries(part) if e.work is not None]
    if any(needed is None for _, needed in found):
        return None
    return [(times, needed) for times, needed in found if needed is not None]


def _counts(part: Part, view: View, phases: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    every = [part.counts] if part.counts is not None else [entry.counts for entry in view.entries(part)]
    for counts in every:
        for phase in phases:
            yield from counts[phase].items()
