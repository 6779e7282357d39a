"""A total that was measured of a whole run, shared by its rows: by their time, else by RASP's estimate; exactly."""

from __future__ import annotations

from collections.abc import Sequence
from math import frexp
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from .costs import COSTS, estimate
from .errors import UnknownName

if TYPE_CHECKING:
    from .view import View

TIME = "net_lat"
FINENESS = 44  # bits that a total is cut into: shares are whole multiples of that, so that they add up exactly
Weights = tuple[str, list[float]]
_weights: WeakKeyDictionary[View, tuple[tuple[float, ...], Weights]] = WeakKeyDictionary()


def weights(view: View) -> Weights:
    """By what rows share a total, and each entry's weight: time where it was measured, else RASP's estimate."""
    costs = tuple(COSTS.values())
    known = _weights.get(view)
    if known is None or known[0] != costs:
        known = _weights[view] = (costs, _by_time(view) or ("RASP's estimate", _by_estimate(view)))
    return known[1]


def _by_time(view: View) -> Weights | None:
    try:
        view.asked(TIME)
    except UnknownName:
        return None
    found = [view.value(TIME, view.part(entry)) for entry in view.ledger.entries]
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
