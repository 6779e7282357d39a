"""Axes: where ticks stand and what they say, even and logarithmic."""

from __future__ import annotations

from math import ceil, floor, log10, sqrt

BELOW, ABOVE = 1.3, 1.7  # room around the values of an axis, for names right of points more above
SI = ("", "K", "M", "G", "T", "P", "E")


def even(top: float, most: int = 4) -> list[float]:
    """Ticks at 1, 2 or 5 times a power of ten from 0 to at least `top`, at most about `most`."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / most
    power = 10.0 ** floor(log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    return [step * at for at in range(ceil(top / step * 0.999) + 1)]


def plain(value: float) -> str:
    """A tick's number without needless zeros."""
    return f"{value:.6g}"


def limits(low: float, high: float) -> tuple[float, float]:
    """Ends of a logarithmic axis: 1 to 9 times a power of ten, with room around the values; at least a decade."""
    start, end = low / BELOW, high * ABOVE
    if end < 10 * start:
        middle = sqrt(start * end)
        start, end = middle / sqrt(10), middle * sqrt(10)
    below, above = 10.0 ** floor(log10(start)), 10.0 ** floor(log10(end))
    return floor(start / below) * below, ceil(end / above) * above


def grid(low: float, high: float) -> list[tuple[float, bool]]:
    """Every 1 to 9 times a power of ten between the ends, and whether it is named: few decades name more of them."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    named = (1, 2, 5) if log10(high / low) < 4 else (1,)
    values = [(digit * 10.0**power, digit in named) for power in powers for digit in range(1, 10)]
    return [(value, shown) for value, shown in values if low * 0.999 <= value <= high * 1.001]


def counted(value: float) -> str:
    """A number with a prefix: 2e7 → '20 M'."""
    step = max(0, min(floor(log10(value) + 1e-9) // 3, len(SI) - 1))
    return f"{value / 1000**step:.6g} {SI[step]}".strip()
