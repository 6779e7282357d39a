"""Energy of a run as it was measured: per pass and per sample, with and without what the machine takes while idle.

    gross = Σ meters,   idle = power while nothing runs · seconds of the windows,   net = gross - idle

Sums leave out meters whose reading another one holds. What no meter told is None, with the reason, and never 0.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from .errors import InputError

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class MeterReading:
    """What one meter told: joules of each window, and watts while nothing ran; or why it told nothing."""

    name: str
    how: str
    counted: bool
    idle_watts: float | None
    windows: list[float]
    why: str | None

    @property
    def gross(self) -> float | None:
        return None if self.why is not None else sum(self.windows)


@dataclass(frozen=True)
class Energy:
    """A measurement of energy, or why there is none."""

    windows: list[tuple[float, int]] = field(default_factory=list)  # seconds and passes of each
    meters: list[MeterReading] = field(default_factory=list)
    idle_seconds: float = 0.0
    batch: int | None = None
    device: str = ""
    grid_intensity: float | None = None  # grams of CO2-equivalent per kWh, as it was given
    partial: bool = False
    asked: bool = True

    @classmethod
    def of(cls, kept: dict[str, Any] | None) -> Energy:
        """From what a profile keeps."""
        if not kept:
            return cls(asked=False)
        meters = [MeterReading(**item) for item in kept["meters"]]
        windows = [(float(seconds), int(passes)) for seconds, passes in kept["windows"]]
        rest = {name: kept.get(name) for name in ("batch", "device", "grid_intensity", "partial")}
        return cls(windows, meters, float(kept["idle_seconds"]), **rest)  # type: ignore[arg-type]

    @property
    def available(self) -> bool:
        return bool(self._told)

    @property
    def reason(self) -> str | None:
        """Why there is no measured energy; None where there is."""
        if self.available:
            return None
        if not self.asked:
            return "Energy was not measured: profile with energy=True."
        told = " ".join(item.why for item in self.meters if item.why)
        return told or f"rasp knows no meter of energy for the device {self.device}."

    @property
    def seconds(self) -> float:
        """Length of the windows, together."""
        return sum(seconds for seconds, _ in self.windows)

    @property
    def passes(self) -> int:
        """How often the model ran in them."""
        return sum(passes for _, passes in self.windows)

    @property
    def gross(self) -> float | None:
        """Joules in the windows, all that the counted meters told."""
        return sum(item.gross or 0.0 for item in self._told) if self.available else None

    @property
    def idle_power(self) -> float | None:
        """Watts while nothing ran."""
        return sum(item.idle_watts or 0.0 for item in self._told) if self.available else None

    @property
    def idle(self) -> float | None:
        """Joules that the machine would have taken in the windows doing nothing."""
        power = self.idle_power
        return None if power is None else power * self.seconds

    @property
    def net(self) -> float | None:
        """Joules above idle."""
        gross, idle = self.gross, self.idle
        return None if gross is None or idle is None else gross - idle

    @property
    def per_pass(self) -> float | None:
        """Joules above idle of one pass of the batch."""
        return None if self.net is None else self.net / self.passes

    @property
    def gross_per_pass(self) -> float | None:
        """Joules of one pass of the batch, idle power included."""
        return None if self.gross is None else self.gross / self.passes

    @property
    def per_sample(self) -> float | None:
        """Joules above idle of one sample; None where the batch cannot be told from the inputs."""
        return None if self.per_pass is None or not self.batch else self.per_pass / self.batch

    @property
    def power(self) -> float | None:
        """Mean watts while the model ran, idle power included."""
        return None if self.gross is None else self.gross / self.seconds

    @property
    def spread(self) -> float | None:
        """Standard deviation of the joules of a pass between windows; None of a single one."""
        if self.gross is None or len(self.windows) < 2:
            return None
        sums = [sum(item.windows[number] for item in self._told) for number in range(len(self.windows))]
        return statistics.stdev(joules / passes for joules, (_, passes) in zip(sums, self.windows))

    def co2(self, grid_intensity: float | None = None) -> float | None:
        """Grams of CO2-equivalent of one pass above idle, at a grid's grams per kWh; None where neither was given."""
        intensity = self.grid_intensity if grid_intensity is None else check_intensity(grid_intensity)
        if intensity is None or self.per_pass is None:
            return None
        return self.per_pass / JOULES_PER_KWH * intensity

    @property
    def _told(self) -> list[MeterReading]:
        """Meters that count and told something in every window."""
        if not self.windows:
            return []
        return [m for m in self.meters if m.counted and m.why is None and len(m.windows) == len(self.windows)]

    @property
    def notes(self) -> list[str]:
        """How the figures came about, for the foot of a table."""
        if not self.available:
            return [f"measured energy is not available: {self.reason}"] if self.asked else []
        return [self._how(), *self._beside()]

    def _how(self) -> str:
        meters = ", ".join(f"{item.name} ({item.how})" for item in self._told)
        spread = "one window, so no spread" if self.spread is None else f"± {self.spread:.3g} J a pass between windows"
        ended = ", ended early" if self.partial else ""
        return (
            f"energy measured by {meters}: {self.gross:.4g} J in {self.seconds:.2f} s and {self.passes} passes, "
            f"{self.idle:.4g} J of it idle ({self.idle_power:.3g} W over {self.idle_seconds:.1f} s before), "
            f"{self.net:.4g} J net; {spread}{ended}"
        )

    def _beside(self) -> list[str]:
        """Meters that are no part of the sum, and a net that is no more than noise."""
        told = [
            f"{item.name}, not part of the sum: {item.gross:.4g} J"
            for item in self.meters
            if not item.counted and item.gross is not None
        ]
        failed = [f"not part of the energy measured: {item.why}" for item in self.meters if item.why]
        low = ["the energy measured is not above that of idling: run a larger batch"] if (self.net or 0) <= 0 else []
        return [*told, *failed, *low]

    def __str__(self) -> str:
        return "\n".join(self.notes) or str(self.reason)


def check_intensity(value: Any) -> float | None:
    """Grams of CO2-equivalent per kWh, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise InputError(f"grid_intensity={value!r} is not a number of grams of CO2-equivalent per kWh, 0 or more.")
    return float(value)
