"""Energy of NVIDIA GPUs by NVML: the board's own counter, or its power read again and again where it has none.

`nvmlDeviceGetTotalEnergyConsumption` counts millijoules since the driver was loaded (Volta and newer); a new value
comes every 20 to 100 ms. `nvmlDeviceGetPowerUsage` gives milliwatts: of the last second on average on Ampere and newer
boards, but for GA100 (NVML's reference). Both are of the whole board, whoever uses it.

The library is that of the driver (libnvidia-ml.so.1): read through nvidia-ml-py where it is installed, else directly.
"""

from __future__ import annotations

import importlib
import os
import time
from functools import partial
from typing import Any

from ..errors import MeterError
from . import Absent, Meter, advanced
from ._libnvml import Direct
from .sampled import Sampled

NAME = "NVML"
RENEWED = 0.1  # seconds, the slowest that was seen of the counter
SHORTEST = 2.0  # seconds: 20 times as long, so that one value too many or too few is 5 % at most
SHORTEST_OF_POWER = 5.0  # seconds: power is an average of the last one, and lags by half of it
POLL = 0.001
MILLI = 1e-3
NOT_FOUND = (
    "NVML could not be loaded ({error}): the energy of a GPU needs NVIDIA's driver, which brings libnvidia-ml.so.1."
)


class Counter:
    """Millijoules of one board. It starts on a change of the counter, so that only the end is out by a part of one."""

    unit = "J"
    how = "counter"
    shortest = SHORTEST
    counted = True

    def __init__(self, library: Any, handle: Any, index: int) -> None:
        self.library, self.handle, self.name = library, handle, f"{NAME} energy counter of GPU {index}"
        self.before: int | None = None

    def start(self) -> None:
        first, end = self.reading(), time.monotonic() + 3 * RENEWED
        now = first
        while now == first and time.monotonic() < end:
            time.sleep(POLL)
            now = self.reading()
        self.before = now

    def stop(self) -> float:
        if self.before is None:
            raise MeterError(f"{self.name} was stopped before it was started.")
        now, before, self.before = self.reading(), self.before, None
        return advanced(before, now) * MILLI

    def reading(self) -> int:
        """The counter as it stands, in millijoules."""
        return int(_asked(self.library, self.library.nvmlDeviceGetTotalEnergyConsumption, self.handle, self.name))


def meters(index: int = 0, uuid: str | None = None, library: Any = None) -> list[Meter]:
    """The best meter of a GPU: the counter, else power in its place, else one that says why there is neither.

    `index` counts as CUDA does, after CUDA_VISIBLE_DEVICES; a `uuid`, as torch tells it, leaves no doubt which it is.
    """
    try:
        library, handle = opened(index, uuid, library)
    except MeterError as error:
        return [Absent(NAME, "J", str(error))]
    counter = Counter(library, handle, index)
    try:
        counter.reading()
    except MeterError as error:
        why = str(error)
    else:
        return [counter]
    watts = partial(power, library, handle)
    try:
        watts()
    except MeterError as error:
        return [Absent(NAME, "J", f"{why} {error}")]
    return [Sampled(f"{NAME} power of GPU {index}", watts, shortest=SHORTEST_OF_POWER)]


def power(library: Any, handle: Any) -> float:
    """Watts of a board."""
    return float(_asked(library, library.nvmlDeviceGetPowerUsage, handle, f"{NAME} power")) * MILLI


def opened(index: int, uuid: str | None = None, library: Any = None) -> tuple[Any, Any]:
    """NVML and its handle of a GPU; MeterError where there is no NVML or no such GPU."""
    library = load() if library is None else library
    board = _board(index, uuid)
    try:
        library.nvmlInit()
        if isinstance(board, int):
            return library, library.nvmlDeviceGetHandleByIndex(board)
        return library, library.nvmlDeviceGetHandleByUUID(board)
    except _errors(library) as error:
        raise MeterError(f"NVML does not give GPU {board}: {error}.") from error


def _board(index: int, uuid: str | None) -> int | str:
    """How NVML calls CUDA's device of a number: NVML knows nothing of CUDA_VISIBLE_DEVICES."""
    names = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    found = uuid or (names[index] if index < len(names) else str(index))
    if found.isdigit():
        return int(found)
    return found if found.startswith(("GPU-", "MIG-")) else f"GPU-{found}"


def load() -> Any:
    """nvidia-ml-py, else the driver's library itself under the same names."""
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        try:
            return Direct()
        except OSError as error:
            raise MeterError(NOT_FOUND.format(error=error)) from error


def _asked(library: Any, function: Any, handle: Any, what: str) -> Any:
    try:
        return function(handle)
    except _errors(library) as error:
        raise MeterError(f"{what} cannot be read: {error}.") from error


def _errors(library: Any) -> tuple[type[Exception], ...]:
    return (library.NVMLError, OSError)
