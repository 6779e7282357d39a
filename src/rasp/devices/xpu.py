"""Intel's GPUs, through torch.accelerator and torch.xpu. Written by its documentation; it has not run on one yet."""

from __future__ import annotations

from typing import Any

from ..meters import Absent, hwmon
from . import Device, Meter, device


@device
class XPU(Device):
    """A GPU of Intel's."""

    kind = "xpu"
    asynchronous = True

    def why_not(self) -> str | None:
        import torch

        if not torch.xpu.is_available():
            return "torch sees no XPU device here."
        count = torch.xpu.device_count()
        if self.index is not None and self.index >= count:
            return f"there are {count} XPU devices here, numbered from 0."
        return None

    def synchronize(self) -> None:
        import torch

        torch.accelerator.synchronize(torch.device(self.name))

    def mark(self) -> Any:
        import torch

        event = torch.xpu.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1e3

    def describe(self) -> dict[str, Any]:
        import torch

        return {**super().describe(), "gpu": torch.xpu.get_device_name(self.index)}

    def meters(self) -> list[Meter]:
        found = [hwmon.meters(driver, self.index or 0) for driver in ("xe", "i915")]
        return next((meters for meters in found if not isinstance(meters[0], Absent)), found[0])
