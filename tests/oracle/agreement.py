"""rasp beside the oracle on one case of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import rasp

from .case import Case
from .counter import Counts, count


@dataclass
class Agreement:
    """Both counts of a case, forward and backward (None where that was not asked), and what rasp had no rule for."""

    case: Case
    forward: tuple[int, int] | None = None
    backward: tuple[int, int] | None = None
    uncounted: list[str] = field(default_factory=list)
    capture_mode: str = ""
    params: int = 0
    error: str = ""

    @property
    def exact(self) -> bool:
        pairs = [pair for pair in (self.forward, self.backward) if pair is not None]
        return not self.error and not self.uncounted and all(ours == theirs for ours, theirs in pairs)


def profiled(case: Case, backward: bool = False, **options: Any) -> rasp.Profile:
    """rasp's profile of a case, on the same inputs as the oracle's."""
    model = case.build("meta" if case.meta else "cpu")
    args, kwargs = case.inputs(batch=2 if backward else None)
    if backward:
        options |= {"backward": True, "mode": "train" if case.training else "eval"}
    return rasp.profile(model, args, kwargs=kwargs, **options)


def forward_agreement(case: Case) -> Agreement:
    profile = profiled(case)
    return Agreement(
        case,
        forward=(profile.total("macs"), count(case).macs),
        uncounted=[gap["op"] for gap in profile.uncounted],
        capture_mode=profile.capture_mode,
        params=profile.total("params"),
    )


def backward_agreement(case: Case) -> Agreement:
    """Forward and backward of a training step."""
    profile = profiled(case, backward=True)
    expected: Counts = count(case, backward=True)
    return Agreement(
        case,
        forward=None if case.macs is not None else (profile.total("macs"), expected.macs),
        backward=(profile.total("macs_bwd"), expected.macs_bwd),
        uncounted=[gap["op"] for gap in profile.uncounted],
        capture_mode=profile.capture_mode,
    )
