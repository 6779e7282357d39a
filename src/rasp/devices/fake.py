"""A device whose time is scripted: models compute on the CPU, and its clock goes as far as one tells it.

>>> from rasp.devices.fake import Fake, Counter
>>> fake = Fake(script=[0.25, 0.5])
>>> before = fake.now(); fake.spend(); fake.spend(); fake.spend(1.0)
>>> fake.now() - before
1.75

Its meters are counters of one's own: what they show at each reading, where they wrap, when they fail.

>>> meter = Counter("joules", "J", readings=[90.0, 10.0], wraps_at=100.0)
>>> meter.start(); meter.stop()
20.0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import MeterError
from . import Device, Meter, advanced, device


@device
class Fake(Device):
    """Time passes when a model calls `spend`, and by `reading` whenever the clock is read."""

    kind = "fake"

    def __init__(
        self,
        index: int | None = None,
        *,
        script: Iterable[float] = (),
        reading: float = 0.0,
        meters: Iterable[Meter] = (),
        states: Iterable[dict[str, float]] = (),
    ) -> None:
        super().__init__(index)
        self.time = 0.0
        self.reading = reading
        self._script: Iterator[float] = iter(script)
        self._states: Iterator[dict[str, float]] = iter(states)
        self._meters = list(meters)

    @property
    def place(self) -> str:
        return "cpu"

    def now(self) -> float:
        self.time += self.reading
        return self.time

    def spend(self, seconds: float | None = None) -> None:
        """Let time pass: so many seconds, or the next of the script (none, when it is at its end)."""
        self.time += next(self._script, 0.0) if seconds is None else seconds

    def rest(self, seconds: float) -> None:
        self.spend(seconds)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "clock": "scripted"}

    def state(self) -> dict[str, float]:
        return next(self._states, {})

    def meters(self) -> list[Meter]:
        return list(self._meters)


class Counter:
    """A meter that shows what it was told to, one value at each start and stop; an exception among them is raised."""

    def __init__(
        self, name: str, unit: str, readings: Iterable[float | Exception], wraps_at: float | None = None
    ) -> None:
        self.name, self.unit, self.wraps_at = name, unit, wraps_at
        self._readings = iter(readings)
        self._before: float | None = None

    def start(self) -> None:
        self._before = self._read()

    def stop(self) -> float:
        if self._before is None:
            raise MeterError(f"The meter {self.name} was stopped before it was started.")
        return advanced(self._before, self._read(), self.wraps_at)

    def _read(self) -> float:
        found = next(self._readings, None)
        if found is None:
            raise MeterError(f"The meter {self.name} has nothing more to show.")
        if isinstance(found, Exception):
            raise found
        return found
