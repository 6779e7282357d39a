"""rasp calibrate: measure this machine's ceilings."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from .. import units
from ..devices import keep
from . import say, write


def calibrate(
    *,
    device: Annotated[str, Parameter(help="What to measure: cpu, or cuda:0.")] = "cpu",
    seconds: Annotated[float, Parameter(help="About how long to measure in all.")] = 10.0,
) -> None:
    """Measure what a device really reaches, and keep it: products of each type, a large copy, starting an operator.

    The columns least_time, attainable and bound then take it with --roof cpu (or cuda:0), and so does
    rasp.profile(..., roof="cpu"). Let nothing else run meanwhile.
    """
    from ..measure.ceilings import ceilings

    found = ceilings(device, seconds, lambda words: say(f"measuring {words} …"))
    path = keep(found)
    lines = [f"{found.name}: {found.source}"]
    lines += [f"{name:9} {units.count(rate, 'FLOP/s')}" for name, rate in found.peaks.items()]
    lines += [
        f"{'bandwidth':9} {units.count(found.bandwidth, 'B/s')}",
        f"{'launch':9} {units.time(found.launch or 0.0)}",
    ]
    write("\n".join(lines) + "\n")
    say(f"kept in {path}")
