"""Arithmetic: multiply-accumulates, and operations as the convention weighs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..rules import TRANSCENDENTAL, Work
from . import BACKWARD, FORWARD, OPTIMISER, RECOMPUTE, column, per_op

if TYPE_CHECKING:
    from ..parts import Part
    from ..view import View


@per_op("macs", "MACs", unit="MAC", twins=True)
def macs(work: Work, view: View) -> int:
    """Multiply-accumulates of contractions (matrix products, convolutions, attention), whatever the convention."""
    return work.mac


@per_op("flops", "FLOPs", unit="FLOP", twins=True, weighed=True)
def flops(work: Work, view: View) -> int | None:
    """Operations on floats, as the convention counts them."""
    return _weighed("flops", work, view)


@per_op("macc", "MACC", unit="MAC", weighed=True)
def macc(work: Work, view: View) -> int | None:
    """RASP's multiply-accumulates: those of contractions, and everything else as one operation per element and kind."""
    return _weighed("macc", work, view)


@per_op("ops", "operators", twins=True, unknown=lambda spec: 1)
def ops(work: Work, view: View) -> int:
    """Operators that ran, views left out."""
    return 1


@per_op("transcendentals", "transcendentals", unit="op", twins=True)
def transcendentals(work: Work, view: View) -> int:
    """Exponentials, logarithms, tanh, erf, sines and powers; they are part of flops as well."""
    return sum(getattr(work, primitive) for primitive in TRANSCENDENTAL)


@per_op("macs_causal", "causal MACs", unit="MAC", twins=True)
def macs_causal(work: Work, view: View) -> int:
    """Multiply-accumulates left when attention skips what a causal mask hides."""
    return work.mac - work.causal


@column("macs_recompute", "recomputed MACs", unit="MAC", additive=True)
def macs_recompute(part: Part, view: View) -> int | None:
    """Multiply-accumulates done again, not part of macs: by checkpointing, and inside fused attention's backward."""
    inside = view.sum_ops(part, _recompute, (FORWARD, BACKWARD, OPTIMISER))
    again = view.sum_ops(part, macs, (RECOMPUTE,))
    return inside if again is None else again if inside is None else inside + again


def _recompute(work: Work, view: View) -> int:
    return work.recompute


def _weighed(name: str, work: Work, view: View) -> int | None:
    weights = view.convention.weights.get(name)
    if weights is None:
        return None
    return sum(weight * int(getattr(work, primitive)) for primitive, weight in weights.items())
