"""What can be measured in a cell: how rasp.profile is asked for it, its columns, whether it needs the device."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..columns import COLUMNS, find
from ..columns import load as load_columns
from ..conventions import get as get_convention
from ..errors import InputError, UnknownName

STATIC = ("params", "macs", "flops", "mem_rw", "out_shape")


@dataclass(frozen=True)
class Measure:
    """One thing to measure. `timed`: it runs on the device and bears no neighbour."""

    name: str
    columns: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    timed: bool = False
    addon: str = ""


MEASURES = {
    item.name: item
    for item in (
        Measure("static", STATIC),
        Measure("memory", ("peak",), {"memory": True}),
        Measure("timing", ("lat", "FLOPS"), {"timing": True}, timed=True),
        Measure("energy", ("energy",), addon="energy"),
    )
}
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


def switch_on(measures: Iterable[str]) -> None:
    """Import the addons whose columns these measures show."""
    for name in measures:
        if MEASURES[name].addon:
            importlib.import_module(f"rasp.addons.{MEASURES[name].addon}")


def columns(measures: Iterable[Measure], given: Any) -> list[str]:
    """The columns that are asked for, checked; by default those of the measures that this version has."""
    load_columns()
    switch_on(measure.name for measure in measures)
    if given is not None:
        words = [word.strip() for word in given.split(",")] if isinstance(given, str) else list(given)
        for word in words:
            get_convention(find(word).convention)
        return list(dict.fromkeys(words))
    found = dict.fromkeys(name for measure in measures for name in measure.columns)
    return [name for name in found if name in COLUMNS]
