"""A run seen under one counting convention: what columns are computed from, each distinct value once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from . import parts
from .columns import Asked, Column, find
from .conventions import Charge, Convention
from .conventions import get as get_convention
from .entries import FORWARD, Entry
from .ledger import Ledger
from .parts import Part
from .records import OpSpec, TensorInfo, Trace
from .rules import Work

OfWork = Callable[[Work, "View"], int | None]
Unknown = Callable[[OpSpec], int] | None


class View:
    """Sums over parts of a Ledger, weighed by a Convention."""

    def __init__(self, ledger: Ledger, convention: Convention, siblings: dict[str, View] | None = None) -> None:
        self.ledger = ledger
        self.convention = convention
        self._siblings = {} if siblings is None else siblings
        self._siblings[convention.name] = self
        self._per_spec: dict[tuple[Any, Any], list[int | None]] = {}
        self._per_entry: dict[Any, dict[Entry, int | None]] = {}
        self._asked: dict[str, Asked] = {}
        self._totals: dict[str, Any] = {}
        self._charges: dict[str, dict[Entry, list[Charge]]] = {}

    @property
    def trace(self) -> Trace:
        return self.ledger.trace

    def under(self, name: str | None) -> View:
        """The same run under another convention."""
        if name is None or name == self.convention.name:
            return self
        return self._siblings.get(name) or View(self.ledger, get_convention(name), self._siblings)

    @cached_property
    def total(self) -> Part:
        return parts.whole(self.ledger)

    # -- asking ----------------------------------------------------------------------------------------------------

    def asked(self, spelling: str) -> Asked:
        found = self._asked.get(spelling)
        if found is None:
            found = self._asked[spelling] = find(spelling)
        return found

    def value(self, spelling: str, part: Part) -> Any:
        """A column's value for a part; 'flops%' is its share of the total, 'flops@name' that of another convention."""
        asked = self.asked(spelling)
        view = self.under(asked.convention)
        value = view._plain(asked.column, part)
        if not asked.share:
            return value
        of = view._total_of(asked.column)
        return None if value is None or of is None else value / of if of else 0.0

    def _total_of(self, column: Column) -> Any:
        if column.name not in self._totals:
            self._totals[column.name] = self._plain(column, self.total)
        return self._totals[column.name]

    def _plain(self, column: Column, part: Part) -> Any:
        if column.name in self.convention.charges:
            return self.sum_charges(part, column.name)
        return column.value(part, self)

    # -- summing ---------------------------------------------------------------------------------------------------

    def sum_ops(self, part: Part, function: OfWork, phases: tuple[int, ...], unknown: Unknown = None) -> int | None:
        """Σ function(work) over the operators of a part; None when no such phase ran, or only unknown work is left."""
        if phases != (FORWARD,) and self.ledger.phases.isdisjoint(phases):
            return None
        values = self._values(function, unknown)
        if part.counts is not None:
            return _weigh(values, part.counts, phases)
        if part.whole and not self.ledger.ruled and not self.trace.untraced:
            return _weigh(values, self.ledger.counts, phases)
        known = self._per_entry.setdefault((function, phases), {})
        found = []
        for entry in self.entries(part):
            if entry not in known:
                known[entry] = self._of_entry(entry, function, values, phases)
            found.append(known[entry])
        return add(found)

    def sum_tensors(self, part: Part, function: Callable[[TensorInfo, View], int]) -> int | None:
        """Σ function(tensor) over the parameters and buffers charged to a part."""
        if part.counts is not None:
            return None
        tensors = self.trace.tensors
        if part.whole:
            return sum(function(tensor, self) for tensor in tensors)
        return sum(function(tensors[index], self) for entry in part.entries for index in entry.tensors)

    def sum_entries(self, part: Part, function: Callable[[Entry, View], int | None]) -> int | None:
        """Σ function(entry) over the rows of a part."""
        if part.counts is not None:
            return None
        known = self._per_entry.setdefault(function, {})
        found = []
        for entry in self.entries(part):
            if entry not in known:
                known[entry] = function(entry, self)
            found.append(known[entry])
        return add(found)

    def charges(self, column: str) -> dict[Entry, list[Charge]]:
        """What the convention charges in a column, by the entry it belongs to."""
        if column not in self._charges:
            found: dict[Entry, list[Charge]] = {}
            for charge in self.convention.charges[column](self.ledger):
                entry = self.ledger.entry_of(charge.module, charge.call)
                if entry is not None and (charge.amount or charge.why):  # nothing, for a reason, is a reason
                    found.setdefault(entry, []).append(charge)
            self._charges[column] = found
        return self._charges[column]

    def sum_charges(self, part: Part, column: str) -> int | float | None:
        """What the convention charges to a part; a part that cuts across modules has none of its own."""
        if part.counts is not None:
            return None
        found = self.charges(column)
        entries = found if part.whole else part.entries
        return _whole(sum(charge.amount for entry in entries for charge in found.get(entry, ())))

    def part(self, entry: Entry) -> Part:
        """One entry as a part."""
        return Part(entry.kind, "", "", [entry], entry.call)

    def entries(self, part: Part) -> list[Entry]:
        return self.ledger.entries if part.whole else part.entries

    def is_partial(self, part: Part) -> bool:
        """Whether a part ran something that no rule covers: its counts are lower bounds."""
        if part.counts is not None:
            return any(not self.ledger.unknown.isdisjoint(counts) for counts in part.counts)
        if not self.ledger.unknown and not self.trace.untraced:
            return False
        return any(
            entry.opaque or any(not self.ledger.unknown.isdisjoint(counts) for counts in entry.counts)
            for entry in self.entries(part)
        )

    def _values(self, function: OfWork, unknown: Unknown) -> list[int | None]:
        """function(work) for every OpSpec, computed once."""
        found = self._per_spec.get((function, unknown))
        if found is None:
            pairs = zip(self.trace.specs, self.ledger.works)
            found = self._per_spec[function, unknown] = [
                function(work, self) if work is not None else unknown(spec) if unknown else None for spec, work in pairs
            ]
        return found

    def _of_entry(
        self, entry: Entry, function: OfWork, values: list[int | None], phases: tuple[int, ...]
    ) -> int | None:
        found = [_weigh(values, entry.counts, phases)]
        if entry.work is not None and FORWARD in phases:
            found.append(function(entry.work, self))
        if entry.opaque and FORWARD in phases:
            found.append(None)
        return add(found)


def _weigh(values: list[int | None], counts: tuple[dict[int, int], ...], phases: tuple[int, ...]) -> int | None:
    total, missing = 0, False
    for phase in phases:
        for spec, times in counts[phase].items():
            value = values[spec]
            if value is None:
                missing = True
            else:
                total += times * value
    return None if missing and not total else total


def _whole(value: int | float) -> int | float:
    """A float that is a whole number, as that number."""
    return int(value) if value == int(value) else value


def add(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None when something is unknown and the rest is zero."""
    total, missing = 0, False
    for value in values:
        if value is None:
            missing = True
        else:
            total += value
    return None if missing and not total else total
