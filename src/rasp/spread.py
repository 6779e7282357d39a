"""Statistics of samples: what is typical, how far they spread, how well that is known, and whether two differ.

Samples that follow each other are not independent: a busy moment lasts. Intervals count them as fewer, by the
correlation of neighbours: n (1 − r) / (1 + r), r that of being above the median (an order-1 chain's).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from . import units
from .errors import InputError

Z95, Z99, Z999 = 1.96, 2.576, 3.29
FEW = 6  # below it an interval of 95 % has no order statistics: the least and the largest stand for it
SMALL = 0.01  # differences below this share are not claimed from samples taken at different times
BLOCKS = 5


def quantile(samples: Sequence[float], share: float) -> float:
    """The value below which a share of the samples lies, between neighbours linearly."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    if ordered[low] == ordered[high]:
        return ordered[low]
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def median(samples: Sequence[float]) -> float:
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def mean(samples: Sequence[float]) -> float:
    return math.fsum(samples) / len(samples)


def deviation(samples: Sequence[float]) -> float:
    """The standard deviation, with n − 1; 0 of a single sample."""
    if len(samples) < 2:
        return 0.0
    centre = mean(samples)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in samples) / (len(samples) - 1))


def independent(samples: Sequence[float]) -> float:
    """How many independent samples these are worth, heeding that neighbours resemble each other."""
    n, centre = len(samples), median(samples)
    above = [1.0 if value > centre else -1.0 for value in samples]
    shift = sum(above) / n
    power = sum((sign - shift) ** 2 for sign in above)
    if n < FEW or not power:
        return float(n)
    alike = sum((a - shift) * (b - shift) for a, b in pairwise(above)) / power
    alike = min(max(alike, 0.0), 0.9)
    return max(n * (1 - alike) / (1 + alike), min(n, 4.0))


def interval(samples: Sequence[float], z: float = Z95) -> tuple[float, float]:
    """A confidence interval of the median, from order statistics: no shape of the distribution is supposed."""
    if len(samples) < FEW:
        return min(samples), max(samples)
    half = z * 0.5 / math.sqrt(independent(samples))
    return quantile(samples, max(0.0, 0.5 - half)), quantile(samples, min(1.0, 0.5 + half))


@dataclass(frozen=True)
class Latency:
    """How long a run of the whole model takes, in milliseconds: statistics of `samples`, warm-up not among them."""

    samples: tuple[float, ...]
    warmup: int = 0
    what: str = "latency"
    unit: str = "ms"

    @property
    def n(self) -> int:
        return len(self.samples)

    @cached_property
    def median(self) -> float:
        return median(self.samples)

    @cached_property
    def mean(self) -> float:
        return mean(self.samples)

    @cached_property
    def std(self) -> float:
        return deviation(self.samples)

    @cached_property
    def p5(self) -> float:
        return quantile(self.samples, 0.05)

    @cached_property
    def p95(self) -> float:
        return quantile(self.samples, 0.95)

    @cached_property
    def ci(self) -> tuple[float, float]:
        """The 95 % confidence interval of the median."""
        return interval(self.samples)

    @property
    def precision(self) -> float:
        """Half the interval's width, as a share of the median."""
        low, high = self.ci
        return (high - low) / 2 / self.median if self.median else 0.0

    def differs(self, other: Latency) -> Difference:
        """Whether another latency, taken at another time, is a different one; what noise or drift could be is not."""
        return apart(self.samples, other.samples)

    def __str__(self) -> str:
        low, high = (units.time(value / 1e3) for value in self.ci)
        if self.n < FEW:
            return (
                f"{units.time(self.median / 1e3)} (median of {self.n}, from {low} to {high}: too few for an interval)"
            )
        return (
            f"{units.time(self.median / 1e3)} (median of {self.n}, known to lie between {low} and {high} with 95 % "
            f"confidence; runs from {units.time(self.p5 / 1e3)} to {units.time(self.p95 / 1e3)})"
        )

    def __repr__(self) -> str:
        return f"<{self.what} {self}>"


@dataclass(frozen=True)
class Difference:
    """Whether two things differ, by what ratio (the second to the first), and why one may say so or not."""

    ratio: float
    low: float
    high: float
    why: str
    different: bool = False

    def __bool__(self) -> bool:
        return self.different

    def __str__(self) -> str:
        return self.why


def apart(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Whether samples taken one set after the other differ: more than their spread, drift and busy moments explain.

    Claimed only when the 99.9 % intervals of the medians are apart, the fastest tenths agree on the direction with at
    least half the effect (load slows the slow runs most), and no drift within a set is as large as the difference.
    """
    if not a or not b:
        raise InputError("There are no samples to compare: one of the two was not measured.")
    first, second = median(a), median(b)
    ratio = second / first if first else math.inf if second else 1.0
    (a_low, a_high), (b_low, b_high) = interval(a, Z999), interval(b, Z999)
    low = b_low / a_high if a_high else 0.0
    high = b_high / a_low if a_low else math.inf
    words = f"{units.time(first / 1e3)} and {units.time(second / 1e3)} ({ratio - 1:+.1%})"
    if min(len(a), len(b)) < FEW:
        return Difference(ratio, low, high, f"{words}: too few samples to tell ({min(len(a), len(b))})")
    if abs(ratio - 1) < SMALL:
        return Difference(ratio, low, high, f"{words}: a difference this small is not told from noise")
    if low <= 1 <= high:
        return Difference(ratio, low, high, f"{words}: noise could be all of it")
    fast = quantile(b, 0.1) / quantile(a, 0.1) if quantile(a, 0.1) else 1.0
    if (fast - 1) * (ratio - 1) <= 0 or abs(fast - 1) < abs(ratio - 1) / 2:
        return Difference(ratio, low, high, f"{words}: the fastest runs do not differ as much: other load")
    drift = max(_drift(a), _drift(b))
    if abs(ratio - 1) < drift:
        return Difference(ratio, low, high, f"{words}: within one of them times drifted by {drift:.1%}")
    said = f"{words}: more than noise (ratio between {low:.3f} and {high:.3f})"
    return Difference(ratio, low, high, said, different=True)


def _drift(samples: Sequence[float]) -> float:
    """How far the medians of blocks of samples lie apart, as a share."""
    size = max(1, len(samples) // BLOCKS)
    centres = [median(samples[at : at + size]) for at in range(0, size * BLOCKS, size) if samples[at : at + size]]
    return max(centres) / min(centres) - 1 if min(centres) else 0.0


def paired(a: Sequence[float], b: Sequence[float], z: float = Z99, least: float = 0.005) -> Difference:
    """Whether runs taken in turns differ: by the ratios of neighbours, which load and drift slow alike."""
    ratios = [second / first for first, second in zip(a, b) if first > 0]
    if not ratios:
        return Difference(1.0, 1.0, 1.0, "no time passed in the first: there is no ratio")
    centre = median(ratios)
    low, high = interval(ratios, z)
    words = f"{centre - 1:+.1%} (between {low - 1:+.1%} and {high - 1:+.1%}, {len(ratios)} pairs)"
    if len(ratios) < 2 * FEW:
        return Difference(centre, low, high, f"{words}: too few pairs to tell")
    different = (low > 1 or high < 1) and abs(centre - 1) >= least
    said = words if different else f"{words}: noise could be all of it"
    return Difference(centre, low, high, said, different)
