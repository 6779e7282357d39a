"""The driver's own library, libnvidia-ml.so.1, under the names of nvidia-ml-py: the few that are read."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
TOO_SMALL = 7  # NVML_ERROR_INSUFFICIENT_SIZE
LONGEST = 96  # characters of a text


class NVMLError(Exception):
    """What NVML said."""


class Utilization(ctypes.Structure):
    """Percent of the last sample period in which the GPU, and its memory, were busy."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


# of each function: its name in the library, and what it writes
NUMBERS: dict[str, tuple[str, type[Any]]] = {
    "nvmlDeviceGetTotalEnergyConsumption": ("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong),
    "nvmlDeviceGetPowerUsage": ("nvmlDeviceGetPowerUsage", ctypes.c_uint),
    "nvmlDeviceGetEnforcedPowerLimit": ("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint),
    "nvmlDeviceGetClockInfo": ("nvmlDeviceGetClockInfo", ctypes.c_uint),
    "nvmlDeviceGetMaxClockInfo": ("nvmlDeviceGetMaxClockInfo", ctypes.c_uint),
    "nvmlDeviceGetTemperature": ("nvmlDeviceGetTemperature", ctypes.c_uint),
    "nvmlDeviceGetPersistenceMode": ("nvmlDeviceGetPersistenceMode", ctypes.c_uint),
    "nvmlDeviceGetCurrentClocksThrottleReasons": ("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong),
    "nvmlDeviceGetUtilizationRates": ("nvmlDeviceGetUtilizationRates", Utilization),
    "nvmlDeviceGetHandleByIndex": ("nvmlDeviceGetHandleByIndex_v2", ctypes.c_void_p),
    "nvmlDeviceGetHandleByUUID": ("nvmlDeviceGetHandleByUUID", ctypes.c_void_p),
}


class Direct:
    """A module's worth of functions that return what they find and raise NVMLError."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, library: Any = None) -> None:
        self.library = ctypes.CDLL(LIBRARY) if library is None else library
        self.library.nvmlErrorString.restype = ctypes.c_char_p

    def nvmlInit(self) -> None:
        self._checked(self.library.nvmlInit_v2())

    def nvmlShutdown(self) -> None:
        self._checked(self.library.nvmlShutdown())

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> range:
        """As many as programs hold the GPU; asked for without room for them, the library tells how many there are."""
        count = ctypes.c_uint(0)
        code = self.library.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), None)
        if code != TOO_SMALL:
            self._checked(code)
        return range(count.value)

    def nvmlSystemGetDriverVersion(self) -> str:
        text = ctypes.create_string_buffer(LONGEST)
        self._checked(self.library.nvmlSystemGetDriverVersion(text, LONGEST))
        return text.value.decode()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in NUMBERS:
            raise AttributeError(name)
        spelled, kind = NUMBERS[name]
        function = getattr(self.library, spelled)

        def read(*given: Any) -> Any:
            found = kind()
            self._checked(function(*map(_passed, given), ctypes.byref(found)))
            return found if kind in (Utilization, ctypes.c_void_p) else found.value

        return read

    def _checked(self, code: int) -> None:
        if code:
            raise NVMLError(self.library.nvmlErrorString(code).decode())


def _passed(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else ctypes.c_uint(value) if isinstance(value, int) else value
