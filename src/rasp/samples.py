"""Samples: what meters read of each run, and where, as plain data. Statistics are made from them when asked for.

Times are in milliseconds, on a grid of 2⁻²⁰ ms (a nanosecond): sums and differences of them are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .spread import Latency

GRID = float(1 << 20)


def milliseconds(seconds: float) -> float:
    """Seconds → milliseconds on the grid."""
    return round(seconds * 1e3 * GRID) / GRID


def on_grid(value: float) -> float:
    return round(value * GRID) / GRID


@dataclass
class Series:
    """What one meter read, in its unit: of whole runs and, where runs were watched, of each module call.

    `whole`: runs without any instrument on the model. `watched`: runs with the instrument, `calls` what each module
    call took in them, all inside included (index of the call in the trace → one value for each watched run; None where
    it was not called). `parts`: shares of the whole runs by name ('forward', 'backward', 'optimiser', 'copy', 'host').
    `others`: runs of another kind, by name ('compiled').
    """

    unit: str = "ms"
    whole: list[float] = field(default_factory=list)
    warmup: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)
    calls: dict[int, list[float | None]] = field(default_factory=dict)
    parts: dict[str, list[float]] = field(default_factory=dict)
    others: dict[str, list[float]] = field(default_factory=dict)
    failed: str | None = None  # why the meter broke off


@dataclass(repr=False)
class Samples:
    """Everything that was measured of a model: a Series for each meter, where, how, and what to know of it."""

    device: str = ""
    series: dict[str, Series] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    how: dict[str, Any] = field(default_factory=dict)  # settings of the measurement
    instrument: dict[str, float] = field(default_factory=dict)  # what watching one call costs, in ms
    remarks: list[str] = field(default_factory=list)
    partial: bool = False  # interrupted: what there is was measured

    def __repr__(self) -> str:
        told = [f"{name}: {len(series.whole)} runs in {series.unit}" for name, series in self.series.items()]
        return f"<rasp.Samples on {self.device}: {', '.join(told) or 'none'}{', partial' if self.partial else ''}>"

    @property
    def time(self) -> Series:
        return self.series.get("time") or Series()

    @property
    def latency(self) -> Latency | None:
        """Of the whole model; None where no run of it was timed."""
        return Latency(tuple(self.time.whole), len(self.time.warmup)) if self.time.whole else None

    @property
    def watching(self) -> float | None:
        """How much slower runs are with the instrument on every module, as a share; None where none was watched."""
        from .spread import median

        series = self.time
        if not series.whole or not series.watched or not median(series.whole):
            return None
        return median(series.watched) / median(series.whole) - 1

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as a profile's file keeps it."""
        found = asdict(self)
        for series in found["series"].values():
            series["calls"] = {str(call): values for call, values in series["calls"].items()}
        return found

    @classmethod
    def of(cls, data: Mapping[str, Any] | None) -> Samples | None:
        """From a profile's file; None where nothing was measured. Keys that are not known are ignored."""
        if not data:
            return None
        known = _known(cls, data)
        known["series"] = {name: _series(found) for name, found in data.get("series", {}).items()}
        return cls(**known)


def _series(data: Mapping[str, Any]) -> Series:
    known = _known(Series, data)
    known["calls"] = {int(call): list(values) for call, values in data.get("calls", {}).items()}
    return Series(**known)


def _known(cls: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    return {item.name: data[item.name] for item in fields(cls) if item.name in data}
