"""Energy that was measured, joules of one pass above idle; of rows an estimate: their share of the measured total.

The column `energy` is something else: RASP's estimate in pJ, which needs no device and comes with rasp.addons.energy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import frexp
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..costs import COSTS, estimate
from ..energy import Energy
from . import COLUMNS, Column, column

if TYPE_CHECKING:
    from ..entries import Entry
    from ..parts import Part
    from ..view import View

FINENESS = 44  # bits that a total is cut into: shares are whole multiples of that, so that they add up exactly
Weights = tuple[str, list[float]]
_weights: WeakKeyDictionary[View, tuple[tuple[float, ...], Weights]] = WeakKeyDictionary()


def _of(name: str, title: str, doc: str, unit: str, total: Callable[[Energy], float | None]) -> None:
    """Register a column of a measured total that its rows share."""

    def value(part: Part, view: View) -> float | None:
        found = total(view.ledger.energy)
        if found is None:
            return None
        shared = split(found, weights(view)[1])
        if part.whole:
            return rounded(found)
        if part.counts is not None or not shared:
            return None
        return sum(shared[entry.index] for entry in part.entries)

    COLUMNS.add(name, Column(name, title, doc, value, unit, "small", additive=True))


_of(
    "energy_measured", "energy (measured)",
    "Joules of one pass above idle, measured; of rows an estimate: their share of it.", "J", lambda e: e.per_pass,
)  # fmt: skip
_of(
    "energy_gross", "energy (with idle)",
    "Joules of one pass as the meter had them, idle power included; of rows an estimate.", "J",
    lambda e: e.gross_per_pass,
)  # fmt: skip
_of(
    "energy_per_sample", "energy/sample", "Measured joules above idle of one sample of the batch; of rows an estimate.",
    "J", lambda e: e.per_sample,
)  # fmt: skip
_of(
    "co2", "CO2e", "Grams of CO2-equivalent of one pass, at the grid_intensity given: of measured joules above idle.",
    "g", lambda e: e.co2(),
)  # fmt: skip


@column("power", "power", unit="W", form="small")
def power(part: Part, view: View) -> float | None:
    """Mean watts while the model ran, measured, idle power included; of the whole run, as a meter cannot tell parts."""
    return view.ledger.energy.power if part.whole else None


def weights(view: View) -> Weights:
    """By what rows share a total, and each entry's weight: time where it was measured, else RASP's estimate."""
    costs = tuple(COSTS.values())
    known = _weights.get(view)
    if known is None or known[0] != costs:
        known = _weights[view] = (costs, _by_time(view) or ("RASP's estimate", _by_estimate(view)))
    return known[1]


def _by_time(view: View) -> Weights | None:
    if "net_lat" not in COLUMNS:
        return None
    found = [COLUMNS["net_lat"].value(view.part(entry), view) for entry in view.ledger.entries]
    return ("measured time", [max(value or 0.0, 0.0) for value in found]) if any(found) else None


def _by_estimate(view: View) -> list[float]:
    return [estimate(view.part(entry), view) or 0.0 for entry in view.ledger.entries]


def split(total: float, weights: Sequence[float]) -> list[float]:
    """A total in shares that add up to `rounded(total)` exactly, in any order; nothing where all weights are 0.

    >>> sum(split(0.1, [1, 2, 4])) == rounded(0.1)
    True
    """
    whole = sum(weights)
    if not whole:
        return []
    step = _step(total)
    pieces, reached, given, ends = round(total / step), 0.0, 0, []
    for weight in weights:
        reached += weight
        end = round(pieces * min(reached / whole, 1.0))
        ends.append((end - given) * step)
        given = end
    last = max(index for index, weight in enumerate(weights) if weight)
    ends[last] += (pieces - given) * step
    return ends


def rounded(total: float) -> float:
    """A total as a whole multiple of the step its shares are cut in."""
    step = _step(total)
    return round(total / step) * step


def _step(total: float) -> float:
    return float(2.0 ** (frexp(total)[1] - FINENESS)) if total else 1.0
