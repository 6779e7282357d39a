"""Devices: what one runs on and how time passes there, one file each; and the sheet of what is known of machines.

To add a device, put a file here: it is found by itself. Say how to wait for it, how to mark a moment without waiting,
what can change while one measures, and which meters it has:

>>> from rasp.devices import Device, device
>>> @device
... class Abacus(Device):
...     '''An abacus: it is done when the hand lets go.'''
...     kind = "abacus"
...     def why_not(self):
...         return None                      # a sentence, where it cannot be used here
...     def describe(self):
...         return {**super().describe(), "beads": 100}
>>> from rasp import devices
>>> devices.get("abacus:1").name
'abacus:1'

A meter counts something between `start` and `stop`, in its unit ('s', 'J', 'B'):

>>> from rasp.devices import Meter, Stopwatch
>>> watch = Stopwatch(devices.get("abacus"))
>>> isinstance(watch, Meter), watch.unit, watch.start(), watch.stop() >= 0
(True, 's', None, True)

Those that a machine has are in rasp/meters, a file each; a device's `meters()` names them.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from ..errors import InputError, MeterError
from ..meters import Meter as Meter
from ..meters import advanced as advanced
from ..registry import Registry, once
from . import _host
from ._sheet import DEFAULT_MACHINE as DEFAULT_MACHINE
from ._sheet import SHEET as SHEET
from ._sheet import TYPES as TYPES
from ._sheet import Machine as Machine
from ._sheet import as_kept as as_kept
from ._sheet import calibrated as calibrated
from ._sheet import keep as keep
from ._sheet import kept_at as kept_at
from ._sheet import machine as machine
from ._sheet import machine_here as machine_here
from ._sheet import sheet as sheet


class Device:
    """What a model runs on. `mark` and `seconds` time parts of a run without waiting for the device in between."""

    kind: ClassVar[str] = ""  # as torch calls it
    asynchronous: ClassVar[bool] = False  # the host runs ahead, so that its clock does not tell when work was done

    def __init__(self, index: int | None = None) -> None:
        self.index = index

    @property
    def name(self) -> str:
        """What it is called here: 'cpu', 'cuda:0'."""
        return self.kind if self.index is None else f"{self.kind}:{self.index}"

    @property
    def place(self) -> str:
        """Where torch puts tensors for it."""
        return self.name

    def why_not(self) -> str | None:
        """Why it cannot be used here, in a sentence; None where it can."""
        return None

    def available(self) -> bool:
        return self.why_not() is None

    def synchronize(self) -> None:
        """Wait until all that was given to the device is done."""

    def now(self) -> float:
        """Seconds on the host's clock."""
        return time.perf_counter()

    def rest(self, seconds: float) -> None:
        """Let time pass in which nothing runs."""
        time.sleep(seconds)

    def mark(self) -> Any:
        """A moment in the device's work, noted without waiting for it."""
        return self.now()

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds from one mark to another, both of which the device has passed (after `synchronize`)."""
        return float(end - start)

    def describe(self) -> dict[str, Any]:
        """The environment of a measurement, as plain data: versions, threads, clocks, power limit, driver."""
        return {"device": self.name, **_host.description()}

    def state(self) -> dict[str, float]:
        """What may change while one measures, as numbers: counters of the host's work, clocks, temperature."""
        return _host.state()

    def meters(self) -> list[Meter]:
        """The meters it has, energy's among them, beside its stopwatch."""
        return []

    def __repr__(self) -> str:
        return f"<rasp device {self.name}>"


class Stopwatch:
    """Seconds, the device waited for at both ends."""

    name, unit = "time", "s"

    def __init__(self, device: Device) -> None:
        self.device = device
        self._began: float | None = None

    def start(self) -> None:
        self.device.synchronize()
        self._began = self.device.now()

    def stop(self) -> float:
        self.device.synchronize()
        if self._began is None:
            raise MeterError("The stopwatch was stopped before it was started.")
        return self.device.now() - self._began


DEVICES: Registry[type[Device]] = Registry("device")
D = TypeVar("D", bound=type[Device])


def device(found: D) -> D:
    """Register a class of devices under its kind."""
    DEVICES.add(found.kind, found)
    return found


def get(given: Any = "cpu") -> Device:
    """'cpu', 'cuda:1', a torch.device, or a Device as it is; it need not be available here."""
    if isinstance(given, Device):
        return given
    load()
    kind, _, number = str(given).strip().lower().partition(":")
    if number and not number.isdecimal():
        raise InputError(f"device={given!r} is not a device: write a kind and a number, as in 'cuda:0'.")
    return DEVICES[kind](int(number) if number else None)


def usable(given: Any = "cpu") -> Device:
    """The same, refused with the reason where it cannot be used here."""
    found = get(given)
    reason = found.why_not()
    if reason is not None:
        raise InputError(f"device={str(given)!r} cannot be measured on: {reason}")
    return found


@once
def load() -> None:
    """Import every device's file once; names with _ are what they share."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{__name__}.{module.name}")


def remarks(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> list[str]:
    """What two states of a device tell of the time between them: other load, throttling, clocks that changed."""
    return [words for look in (_host.remarks, *_LOOKS) for words in look(before, after, seconds)]


Look = Callable[[Mapping[str, float], Mapping[str, float], float], list[str]]
_LOOKS: list[Look] = []


def watches(look: Look) -> Look:
    """Register what a device's file reads off two of its states."""
    _LOOKS.append(look)
    return look
