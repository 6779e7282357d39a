"""Measure: what a run takes on a device that is here, beside what was predicted of it.

Profiles that were timed one after the other are compared with `different`, which claims little: load and clocks may
have changed in between. Two models at hand are better compared in turns: rasp.compare_times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import InputError
from ..spread import Difference

if TYPE_CHECKING:
    from ..profile import Profile


def different(a: Profile, b: Profile) -> Difference:
    """Whether two profiles' latencies differ, by more than their noise, their drift and other load could be."""
    first, second = a.latency, b.latency
    if first is None or second is None:
        which = "first" if first is None else "second"
        raise InputError(f"The {which} profile was not timed: make it with rasp.profile(..., timing=True).")
    return first.differs(second)
