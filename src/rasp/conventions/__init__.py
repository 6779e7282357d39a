"""Conventions: the ways of counting, one per file, as data. What a tool prints, mistakes included, is its convention.

To add one, put a file here that builds a Convention and registers it. Where a number follows from what operators
compute, `weights` are enough: how much each primitive of Work weighs in a column.

>>> from rasp.conventions import Charge, Convention, convention
>>> weights = {"flops": {"mac": 2}, "macc": {"mac": 1}}
>>> mine = convention(Convention("mine", "2 for each MAC", "my paper", 2024, weights))

A tool that counts modules, or calls of functions, says for each what it charges, and why:

>>> def squares(ledger):
...     for layer in ledger.layers():
...         if layer.is_a("torch.nn.Linear"):
...             side = layer.hyper["in_features"]
...             yield Charge(layer.module, layer.call, side * side, "Linear", "in_features squared")
>>> ours = convention(Convention("squares", "sides", "a talk", 2025, level="module", charges={"flops": squares}))
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..registry import Registry

if TYPE_CHECKING:
    from ..ledger import Ledger

Level = Literal["op", "function", "module"]
Weights = Mapping[str, int]


class Charge(NamedTuple):
    """What a convention counts for one thing: in which module and call (None: no call), for what kind, and why so much.

    `kind` is a module class, a function or an operator, as the tool calls it; `why` the formula in words.
    """

    module: int
    call: int | None
    amount: int | float
    kind: str = ""
    why: str = ""


Charges = Callable[["Ledger"], Iterable[Charge]]


@dataclass(frozen=True)
class Convention:
    """A way of counting. `weights[column][primitive]`: primitives not named weigh 0; `charges[column]`: said outright.

    Columns that neither names are counted as by default, but for flops and macc, which then are not available.
    """

    name: str
    title: str  # what one unit of its flops is, in a sentence
    source: str
    year: int
    weights: Mapping[str, Weights] = field(default_factory=dict)
    level: Level = "op"
    charges: Mapping[str, Charges] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)  # what the tool calls a column: {"flops": "MACs"}
    why: Mapping[str, str] = field(default_factory=dict)  # operator kind → how it is counted, where weights do it
    memory: Literal["most", "after"] = "most"  # what dev_max_mem_alloc reads: the most inside, or what is there after


CONVENTIONS: Registry[Convention] = Registry("convention")
DEFAULT = "rasp"


def convention(item: Convention) -> Convention:
    return CONVENTIONS.add(item.name, item)


_loaded: set[str] = set()  # folders


def load() -> None:
    """Import every file of this folder once."""
    for folder in __path__:
        if folder not in _loaded:
            for module in pkgutil.iter_modules([folder]):
                importlib.import_module(f"{__name__}.{module.name}")
            _loaded.add(folder)


def get(name: str | None) -> Convention:
    load()
    return CONVENTIONS[name or DEFAULT]
