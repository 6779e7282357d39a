"""Numbers computed from printed ones, which were rounded: they can be as far off as the digits left away allow."""

from __future__ import annotations


def slack(digits: str, decimals: int) -> float:
    """How far off a printed number may be for its last decimal, as a part of it."""
    return 0.5 * _step(decimals) / float(digits) if float(digits) else 0.0


def as_far_as(printed: float, ours: float, of_inputs: float, decimals: int) -> bool:
    """Whether both can be one number; `of_inputs`: the slack of what ours was computed from."""
    return abs(printed - ours) <= of_inputs * max(printed, ours) * (1 + of_inputs) + _step(decimals)


def _step(decimals: int) -> float:
    return float(10**-decimals)
