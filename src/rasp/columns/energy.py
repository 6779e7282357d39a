"""Energy that was measured, joules of one pass above idle; of rows an estimate: their share of the measured total.

The column `energy` is something else: RASP's estimate in pJ, which needs no device and comes with rasp.addons.energy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..energy import Energy
from ..shares import rounded, split, weights
from . import COLUMNS, Column, column

if TYPE_CHECKING:
    from ..parts import Part
    from ..view import View


def _of(name: str, title: str, doc: str, unit: str, total: Callable[[Energy], float | None]) -> None:
    """Register a column of a measured total that its rows share."""

    def value(part: Part, view: View) -> float | None:
        found = total(view.ledger.energy)
        if found is None:
            return None
        shared = split(found, weights(view)[1])
        if part.whole:
            return rounded(found)
        if part.counts is not None or not shared or part.kind in ("phase", "remainder"):
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
