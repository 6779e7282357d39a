"""What can be measured in a cell: how rasp.profile is asked for it, its columns, whether it needs the device."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..columns import find
from ..columns import load as load_columns
from ..conventions import get as get_convention
from ..errors import InputError, UnknownName

STATIC = ("params", "macs", "flops", "mem_rw", "out_shape")
TIMING = ("lat", "ci_low", "ci_high", "samples", "FLOPS")
ENERGY = ("energy_measured", "energy_per_sample", "power")
ADDONS = {"energy": "energy"}  # columns that are there once an addon is imported


@dataclass(frozen=True)
class Measure:
    """One thing to measure. `timed`: it runs on the device and bears no neighbour."""

    name: str
    columns: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    timed: bool = False


MEASURES = {
    item.name: item
    for item in (
        Measure("static", STATIC),
        Measure("memory", ("peak",), {"memory": True}),
        Measure("timing", TIMING, {"timing": "whole"}, timed=True),
        Measure("energy", ENERGY, {"energy": True}, timed=True),
    )
}
MEASURING = (  # options of rasp.profile that say how to measure: cells that only count are not given them
    "batches", "warmup", "seconds", "precision", "channels_last", "copy_inputs", "compiled", "progress",
    "keep_trace", "grid_intensity",
)  # fmt: skip
ON_DEVICE = ("memory",)  # predicted without a device, measured on a CUDA device: then it bears no neighbour


def chosen(given: Any) -> list[Measure]:
    """The measures of these names."""
    words = [word.strip() for word in given.split(",")] if isinstance(given, str) else list(given)
    if not words:
        raise InputError(f"measures is empty: there is nothing to measure. Choose from {', '.join(MEASURES)}.")
    found = []
    for word in dict.fromkeys(words):
        if word not in MEASURES:
            raise UnknownName("measure", word, MEASURES)
        found.append(MEASURES[word])
    return found


def profile_options() -> set[str]:
    """Options of rasp.profile."""
    from ..api import profile

    return set(inspect.signature(profile).parameters) - {"model", "inputs"}


def switch_on(columns: Iterable[str]) -> None:
    """Import the addons that have these columns."""
    for name in columns:
        addon = ADDONS.get(name.partition("@")[0])
        if addon is not None:
            importlib.import_module(f"rasp.addons.{addon}")


def need_functions(columns: Iterable[str]) -> bool:
    """Whether a column is counted by torch functions as they were called, which are then to be recorded."""
    return any(get_convention(find(name).convention).level == "function" for name in columns)


def columns(measures: Iterable[Measure], given: Any) -> list[str]:
    """The columns that are asked for, checked; by default those of the measures."""
    load_columns()
    if given is not None:
        words = [word.strip() for word in given.split(",")] if isinstance(given, str) else list(given)
        switch_on(words)
        for word in words:
            get_convention(find(word).convention)
        return list(dict.fromkeys(words))
    return list(dict.fromkeys(name for measure in measures for name in measure.columns))
