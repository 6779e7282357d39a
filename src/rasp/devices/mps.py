"""Apple's GPUs, through torch.mps. Written by its documentation; it has not run on one yet."""

from __future__ import annotations

from typing import Any

from ..meters import Absent
from . import Device, Meter, device

NO_COUNTER = "A Mac tells the power of its GPU to 'sudo powermetrics' alone, which rasp does not run."


@device
class MPS(Device):
    """The GPU of a Mac."""

    kind = "mps"
    asynchronous = True

    def why_not(self) -> str | None:
        import torch

        return None if torch.backends.mps.is_available() else "torch sees no MPS device here."

    def synchronize(self) -> None:
        import torch

        torch.mps.synchronize()

    def mark(self) -> Any:
        import torch

        event = torch.mps.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1e3

    def meters(self) -> list[Meter]:
        return [Absent("powermetrics", "J", NO_COUNTER)]
