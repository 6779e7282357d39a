"""Meters: what reads a counter of the machine before and after something. One source of readings per file.

A Meter has a name, a unit ('s', 'J' or 'B'), `start()` and `stop()`; `stop` gives the amount since `start`. One that
cannot be read raises MeterError, which says why and what to do: a counter that is not there is never 0. Meters of
energy may also say

    shortest    seconds of the shortest window that it tells anything of; a shorter one is refused
    how         'counter' (the machine's own), or what was done in its place
    counted     False for one whose reading another meter holds already, so that sums count nothing twice
    reading     a function that gives the counter as it stands, so that a window can end on a change of it

To add a source, put a file here with a function that gives its meters, and name it in the `meters()` of the devices
that have it. A meter of one's own is used like any other:

>>> class Kettle:
...     name, unit = "kettle", "J"
...     def start(self): self.before = 100.0
...     def stop(self): return 350.0 - self.before
>>> isinstance(Kettle(), Meter)
True
>>> absent = Absent("kettle", "J", "The kettle is not plugged in: plug it in.")
>>> absent.start()
Traceback (most recent call last):
    ...
rasp.errors.MeterError: The kettle is not plugged in: plug it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..errors import MeterError


@runtime_checkable
class Meter(Protocol):
    """Something that counts: seconds, joules, bytes."""

    name: str
    unit: str

    def start(self) -> None:
        """Begin to count."""

    def stop(self) -> float:
        """What was counted since `start`, in `unit`; raises MeterError, saying why, when it cannot tell."""


def advanced(before: float, after: float, wraps_at: float | None = None) -> float:
    """How far a counter went that begins again at 0 after `wraps_at`; at most once, as nobody could tell more."""
    if after >= before:
        return after - before
    if wraps_at is None or before > wraps_at:
        raise MeterError(f"A counter that only grows went from {before:g} to {after:g}: it was reset, or is broken.")
    return after + wraps_at - before


@dataclass
class Absent:
    """A meter that a device could have and has not here; to start it says why."""

    name: str
    unit: str
    why: str

    def start(self) -> None:
        raise MeterError(self.why)

    def stop(self) -> float:
        raise MeterError(self.why)


def shortest(meter: Meter) -> float:
    """Seconds of the shortest window that a meter tells anything of."""
    return float(getattr(meter, "shortest", 0.0))


def is_counted(meter: Meter) -> bool:
    """Whether a sum over meters takes this one in."""
    return bool(getattr(meter, "counted", True))


def how(meter: Meter) -> str:
    """What the reading is: the machine's counter, or what was done in its place."""
    return str(getattr(meter, "how", "counter"))
