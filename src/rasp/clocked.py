"""Times of module calls, brought together with the time of the whole model: what each took, and what no call shows.

The whole is the median of runs without an instrument. A call's time is its mean over the typical watched runs (the
half whose totals, less what watching costs, are nearest to the whole), less what watching it costs; so times add up
over calls. What a container takes between the calls in it (Python, freeing what was read) is its own row's, or that of
the nearest one around it that has a row. What is left to the whole is the remainder; in it is also what runs with and
without the instrument differ by.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property

from .records import Trace
from .samples import Samples, on_grid
from .spread import mean, median

PHASES = ("copy", "backward", "optimiser")  # parts of a run outside the forward


class Clocked:
    """What was timed of a Trace's calls, in milliseconds."""

    def __init__(self, trace: Trace, samples: Samples, rows: Container[int] | None = None) -> None:
        self.trace, self.samples, self.series = trace, samples, samples.time
        self.rows = rows if rows is not None else self.series.calls  # calls that a report has a row of

    @cached_property
    def whole(self) -> float | None:
        """The truth: the median of whole runs without an instrument."""
        return median(self.series.whole) if self.series.whole else None

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """The nearest timed calls with rows inside each call that has one; -1: inside none."""
        found: dict[int, list[int]] = {}
        for index in self.series.calls:
            if index in self.rows:
                found.setdefault(self._above(index), []).append(index)
        return found

    @cached_property
    def passing(self) -> dict[int, int]:
        """For each call with a row how many timed calls without one ran inside it: what they took is its own."""
        found: dict[int, int] = {}
        for index in self.series.calls:
            if index not in self.rows:
                above = self._above(index)
                found[above] = found.get(above, 0) + 1
        return found

    def _above(self, call: int) -> int:
        """The nearest call around it that has a row; -1 where none has."""
        above = self.trace.calls[call].parent
        while above >= 0 and above not in self.rows:
            above = self.trace.calls[above].parent
        return above

    def inside(self, call: int) -> list[float]:
        """Of each watched run that made the call: what it took, all inside included."""
        return [value for value in self.series.calls.get(call, ()) if value is not None]

    def runs(self, calls: Sequence[int], *, own: bool) -> list[float]:
        """Of each watched run: what these calls took together; `own` leaves out the calls inside them."""
        if not calls or any(call not in self.series.calls for call in calls):
            return []
        found = []
        for run in range(len(self.series.watched)):
            values = [self._of(call, run, own) for call in calls]
            known = [value for value in values if value is not None]
            if known:
                found.append(on_grid(sum(known)))
        return found

    def _of(self, call: int, run: int, own: bool) -> float | None:
        value = self.series.calls[call][run]
        if value is None or not own:
            return value
        return value - sum(self.series.calls[child][run] or 0.0 for child in self.children.get(call, ()))

    @cached_property
    def typical(self) -> list[int]:
        """The half of the watched runs whose totals, less the cost of watching, are nearest to the whole."""
        totals, whole = self.series.watched, self.whole or 0.0
        cost = len(self.series.calls) * self.samples.instrument.get("call", 0.0)
        nearest = sorted(range(len(totals)), key=lambda run: abs(totals[run] - cost - whole))
        return sorted(nearest[: -(-len(totals) // 2)])

    @cached_property
    def _means(self) -> dict[int, float]:
        found = {}
        for call, values in self.series.calls.items():
            kept = [value for run in self.typical if (value := values[run]) is not None]
            if kept:
                found[call] = mean(kept)
        return found

    @cached_property
    def below(self) -> dict[int, int]:
        """For each call how many timed calls ran inside it."""
        found = dict.fromkeys(range(len(self.trace.calls)), 0)
        for index in reversed(range(1, len(self.trace.calls))):
            above = self.trace.calls[index].parent
            if above >= 0:
                found[above] += found[index] + (index in self._means)
        return found

    def total(self, call: int) -> float | None:
        """What a call takes, all inside included, less the cost of watching it."""
        if call not in self._means:
            return None
        inside, outside = (self.samples.instrument.get(name, 0.0) for name in ("inside", "outside"))
        return on_grid(max(self._means[call] - inside - self.below[call] * (inside + outside), 0.0))

    def own(self, call: int) -> float | None:
        """What a call takes itself, the calls inside it that have rows left out."""
        if call not in self._means:
            return None
        inside, outside = (self.samples.instrument.get(name, 0.0) for name in ("inside", "outside"))
        children = [child for child in self.children.get(call, ()) if child in self._means]
        doors = inside + self.passing.get(call, 0) * (inside + outside)
        return on_grid(max(self._means[call] - doors - sum(self._means[child] + outside for child in children), 0.0))

    def part(self, name: str) -> float | None:
        """A part of a run outside the forward: 'backward', 'optimiser', 'copy'."""
        found = self.series.parts.get(name)
        return on_grid(median(found)) if found else None
