"""Energy from power that is read again and again: where a device tells watts and counts no joules.

    energy = Σ (p[i] + p[i-1]) / 2 · (t[i] - t[i-1]),   with a reading at the start and one at the end

It is as good as the readings: a driver that averages over the last second lags behind by half of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise

from ..errors import MeterError

EVERY = 0.02  # seconds between two readings
WAIT = 5.0  # for the last reading


def trapezoid(readings: list[tuple[float, float]]) -> float:
    """∫ of (time, power) by the trapezoid rule.

    >>> trapezoid([(0.0, 100.0), (1.0, 200.0), (3.0, 200.0)])
    550.0
    """
    pairs = pairwise(readings)
    return sum((after[0] - before[0]) * (after[1] + before[1]) / 2 for before, after in pairs)


class Sampled:
    """Watts read by a thread from start to stop."""

    unit = "J"

    def __init__(
        self, name: str, watts: Callable[[], float], *, shortest: float, every: float = EVERY, counted: bool = True
    ) -> None:
        self.name, self.watts, self.shortest, self.every, self.counted = name, watts, shortest, every, counted
        self.how = f"power read every {1000 * every:.0f} ms and summed"
        self.readings: list[tuple[float, float]] = []
        self.failure: Exception | None = None
        self.thread: threading.Thread | None = None
        self.done = threading.Event()

    def start(self) -> None:
        self.readings, self.failure = [], None
        self.done.clear()
        self._read()
        self.thread = threading.Thread(target=self._go, name=f"rasp: {self.name}", daemon=True)
        self.thread.start()

    def stop(self) -> float:
        if self.thread is None:
            raise MeterError(f"{self.name} was stopped before it was started.")
        thread, self.thread = self.thread, None
        self.done.set()
        thread.join(WAIT)
        if thread.is_alive():
            raise MeterError(f"{self.name} gave no reading for {WAIT:.0f} s, so its energy is not known.")
        if self.failure is not None:
            raise MeterError(f"{self.name} could no longer be read midway: {self.failure}") from self.failure
        self._read()
        return trapezoid(self.readings)

    def _go(self) -> None:
        try:
            while not self.done.wait(self.every):
                self._read()
        except Exception as error:  # noqa: BLE001 - of a driver, in a thread of ours: told by stop()
            self.failure = error

    def _read(self) -> None:
        self.readings.append((time.monotonic(), self.watts()))
