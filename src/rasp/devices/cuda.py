"""CUDA devices (and AMD's, which torch calls by the same name), by index: the host runs ahead of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import MeterError
from ..meters import hwmon
from ..meters import nvml as nvml_meters
from . import Device, Meter, device, watches

CLOCK_CHANGE = 0.05
SLOWED = {  # NVML's reasons for lower clocks that spoil a measurement, by bit
    0x4: "its power limit",
    0x8: "a hardware slowdown (heat or power brake)",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "the power brake",
}


@device
class CUDA(Device):
    """A CUDA device: times inside a run are read from events, which are recorded without waiting."""

    kind = "cuda"
    asynchronous = True

    def __init__(self, index: int | None = None) -> None:
        super().__init__(index)
        self._spare: list[Any] = []

    @property
    def number(self) -> int:
        import torch

        return torch.cuda.current_device() if self.index is None else self.index

    def why_not(self) -> str | None:
        import torch

        if not torch.cuda.is_available():
            return "torch sees no CUDA device here."
        count = torch.cuda.device_count()
        if self.index is not None and self.index >= count:
            return f"there are {count} CUDA devices here, numbered from 0."
        return None

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize(self.number)

    def mark(self) -> Any:
        """An event in the current stream of the device."""
        import torch

        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.number))
        return event

    def seconds(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1e3

    def done_with(self, marks: list[Any]) -> None:
        """Marks that were read, to be recorded again: making an event costs more than recording it."""
        self._spare += marks

    def describe(self) -> dict[str, Any]:
        import torch

        props = torch.cuda.get_device_properties(self.number)
        found = {
            **super().describe(),
            "device": f"cuda:{self.number}",
            "gpu": props.name,
            "memory": props.total_memory,
            "processors": props.multi_processor_count,
            "cuda": torch.version.cuda or torch.version.hip,
            "cudnn": torch.backends.cudnn.version(),
            "tf32_products": torch.backends.cuda.matmul.allow_tf32,
            "tf32_convolutions": torch.backends.cudnn.allow_tf32,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
        }
        with nvml(self.number) as (lib, handle):
            if lib is not None:
                found |= _told(lib, handle)
        return found

    def state(self) -> dict[str, float]:
        found = super().state()
        with nvml(self.number) as (lib, handle):
            for name, ask in _STATE.items() if lib is not None else ():
                value = _asked(lib, ask, handle)
                if value is not None:
                    found[name] = float(value)
        return found

    def meters(self) -> list[Meter]:
        import torch

        if torch.version.hip:
            return hwmon.meters("amdgpu", self.number)
        return nvml_meters.meters(self.number, _unique(self.number))


_STATE: dict[str, Any] = {
    "gpu_clock_mhz": lambda lib, handle: lib.nvmlDeviceGetClockInfo(handle, lib.NVML_CLOCK_SM),
    "gpu_memory_clock_mhz": lambda lib, handle: lib.nvmlDeviceGetClockInfo(handle, lib.NVML_CLOCK_MEM),
    "gpu_celsius": lambda lib, handle: lib.nvmlDeviceGetTemperature(handle, lib.NVML_TEMPERATURE_GPU),
    "gpu_slowed": lambda lib, handle: lib.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
    "gpu_programs": lambda lib, handle: len(lib.nvmlDeviceGetComputeRunningProcesses(handle)),
}
_DESCRIBED: dict[str, Any] = {
    "driver": lambda lib, handle: str(lib.nvmlSystemGetDriverVersion()),
    "power_limit_watts": lambda lib, handle: lib.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3,
    "gpu_clock_limit_mhz": lambda lib, handle: lib.nvmlDeviceGetMaxClockInfo(handle, lib.NVML_CLOCK_SM),
    "persistence": lambda lib, handle: bool(lib.nvmlDeviceGetPersistenceMode(handle)),
}


@contextmanager
def nvml(number: int) -> Iterator[tuple[Any, Any]]:
    """NVIDIA's management library and its handle of a device; (None, None) where it is not there."""
    try:
        lib, handle = nvml_meters.opened(number, _unique(number))
    except MeterError:
        yield None, None
        return
    try:
        yield lib, handle
    finally:
        lib.nvmlShutdown()


def _unique(number: int) -> str | None:
    import torch

    unique = getattr(torch.cuda.get_device_properties(number), "uuid", None)
    return None if unique is None else str(unique)


def _told(lib: Any, handle: Any) -> dict[str, Any]:
    asked = {name: _asked(lib, ask, handle) for name, ask in _DESCRIBED.items()}
    return {name: value for name, value in asked.items() if value is not None}


def _asked(lib: Any, ask: Any, handle: Any) -> Any:
    try:
        return ask(lib, handle)
    except lib.NVMLError:
        return None  # not every device answers everything


@watches
def changes(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> list[str]:
    """Throttling, clocks that changed, and other programs on the device."""
    found = []
    slowed = int(before.get("gpu_slowed", 0)) | int(after.get("gpu_slowed", 0))
    reasons = [words for bit, words in SLOWED.items() if slowed & bit]
    if reasons:
        found.append(f"throttled: the GPU's clocks were held back by {' and '.join(reasons)}")
    if before.get("gpu_clock_mhz") and after.get("gpu_clock_mhz"):
        change = after["gpu_clock_mhz"] / before["gpu_clock_mhz"] - 1
        if abs(change) > CLOCK_CHANGE:
            found.append(
                f"clock change: the GPU went from {before['gpu_clock_mhz']:.0f} to {after['gpu_clock_mhz']:.0f} MHz"
            )
    if after.get("gpu_programs", 0) > 1:
        found.append(f"other load: {after['gpu_programs'] - 1:.0f} other programs hold the GPU")
    return found
