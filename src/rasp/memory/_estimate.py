"""An estimate of what a kernel takes for itself while it runs."""

from __future__ import annotations

from typing import NamedTuple


class Transient(NamedTuple):
    """Bytes taken after so many of the operator's outputs exist, and given back at once."""

    nbytes: int
    after: int = 1 << 30  # beyond any number of outputs: when all of them exist


class Estimate(NamedTuple):
    """What is likely taken, the least and the most it may be, and why."""

    likely: tuple[Transient, ...]
    low: int
    high: int
    why: str = ""

    def bounded(self, bound: str) -> list[Transient]:
        """What is taken: likely, or at the low or the high end of the range."""
        if bound == "likely" or self.low == self.high:
            return list(self.likely)
        return [Transient(self.low if bound == "low" else self.high)]


NOTHING = Estimate((), 0, 0)
