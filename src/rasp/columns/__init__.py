"""Columns: what can be asked about a part of a model. One topic per file.

To add one, add a function to the file of its topic (or put a new file here: it is found by itself). Its docstring is
its description. `@per_op` sums over operators, `@per_tensor` over parameters and buffers, `@per_entry` over rows; such
columns are additive and get a share column ("flops%") for nothing. `@column` is for everything else:

>>> from rasp.columns import column, per_op
>>> @per_op("divisions", "divisions")
... def divisions(work, view):
...     '''Divisions, of floats.'''
...     return work.div
>>> @column("bytes_per_mac", "B/MAC", unit="B/MAC", form="ratio")
... def bytes_per_mac(part, view):
...     '''Bytes moved per multiply-accumulate.'''
...     macs = view.value("macs", part)
...     return view.value("read", part) / macs if macs else None
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError, UnknownName
from ..records import PHASES, OpSpec, TensorInfo
from ..registry import Registry, once
from ..rules import Work

if TYPE_CHECKING:
    from ..entries import Entry
    from ..parts import Part
    from ..view import View

Form = Literal["text", "shape", "count", "bytes", "ratio", "share", "time", "small"]
Value = Callable[["Part", "View"], Any]
FORWARD, BACKWARD, RECOMPUTE, OPTIMISER = range(len(PHASES))
TWINS: dict[str, tuple[str, tuple[int, ...]]] = {
    "_bwd": ("backward", (BACKWARD,)),
    "_opt": ("optimiser step", (OPTIMISER,)),
    "_total": ("forward, backward and optimiser step", (FORWARD, BACKWARD, OPTIMISER)),
}


@dataclass(frozen=True)
class Column:
    """Something to ask about a part: `value(part, view)`. None = not available, 0 = counted and found zero."""

    name: str
    title: str
    doc: str
    value: Value
    unit: str = ""
    form: Form = "count"
    additive: bool = False
    weighed: bool = False  # its value depends on the counting convention
    remark: str = ""  # what a report that shows it says of it


@dataclass(frozen=True)
class Asked:
    """A column as it was asked for: perhaps as a share of the total, perhaps under a convention of its own."""

    key: str
    column: Column
    share: bool = False
    convention: str | None = None


COLUMNS: Registry[Column] = Registry("column")


def column(
    name: str, title: str, *, unit: str = "", form: Form = "count", additive: bool = False
) -> Callable[[Value], Value]:
    """Register `function(part, view)` as a column: a label or a ratio (or, if it says so, something that adds up)."""

    def register(function: Value) -> Value:
        COLUMNS.add(name, Column(name, title, _doc(function), function, unit, form, additive))
        return function

    return register


def per_op(
    name: str,
    title: str,
    *,
    unit: str = "",
    form: Form = "count",
    twins: bool = False,
    weighed: bool = False,
    unknown: Callable[[OpSpec], int] | None = None,
) -> Callable[[Callable[[Work, View], int | None]], Any]:
    """Register `function(work, view)`, summed over a part's forward operators; `twins` adds the other phases.

    `unknown` gives the value of an operator that has no rule; without it, that is not available.
    """

    def register(function: Callable[[Work, View], int | None]) -> Any:
        def over(phases: tuple[int, ...]) -> Value:
            return lambda part, view: view.sum_ops(part, function, phases, unknown)

        first = Column(name, title, _doc(function), over((FORWARD,)), unit, form, additive=True, weighed=weighed)
        COLUMNS.add(name, first)
        for suffix, (words, phases) in TWINS.items() if twins else ():
            doc = f"{first.doc.rstrip('.')}: {words}."
            twin = replace(first, name=name + suffix, title=f"{title} ({words})", doc=doc, value=over(phases))
            COLUMNS.add(twin.name, twin)
        return function

    return register


def per_tensor(
    name: str, title: str, *, unit: str = "", form: Form = "count"
) -> Callable[[Callable[[TensorInfo, View], int]], Any]:
    """Register `function(tensor, view)`, summed over the parameters and buffers charged to a part."""

    def register(function: Callable[[TensorInfo, View], int]) -> Any:
        def value(part: Part, view: View) -> int | None:
            return view.sum_tensors(part, function)

        COLUMNS.add(name, Column(name, title, _doc(function), value, unit, form, additive=True))
        return function

    return register


def per_entry(
    name: str, title: str, *, unit: str = "", form: Form = "count"
) -> Callable[[Callable[[Entry, View], int | None]], Any]:
    """Register `function(entry, view)`, summed over the rows of a part."""

    def register(function: Callable[[Entry, View], int | None]) -> Any:
        def value(part: Part, view: View) -> int | None:
            return view.sum_entries(part, function)

        COLUMNS.add(name, Column(name, title, _doc(function), value, unit, form, additive=True))
        return function

    return register


def find(spelling: str) -> Asked:
    """'flops', 'flops%' (its share of the total), 'flops@thop' (under another convention) → the column asked for."""
    load()
    if spelling in COLUMNS:
        return Asked(spelling, COLUMNS[spelling])
    plain, _, convention = spelling.partition("@")
    share = plain.endswith(("%", "[%]"))
    name = plain.removesuffix("[%]").removesuffix("%")
    if name not in COLUMNS and name in _addons():
        raise InputError(f"The column {name!r} comes with an addon: import rasp.addons.{name} before you ask for it.")
    found = COLUMNS[name]
    if share and not found.additive:
        raise UnknownName("share column", spelling, [f"{c.name}%" for c in COLUMNS.values() if c.additive])
    return Asked(spelling, found, share, convention or None)


def _addons() -> list[str]:
    """Files of the addons' folder, named after the column that each brings."""
    return [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent.parent / "addons")])]


@once
def load() -> None:
    """Import every file of this folder once."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def _doc(function: Callable[..., Any]) -> str:
    return (getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
