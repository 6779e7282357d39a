"""Conventions: how primitives of Work are weighed into the numbers people quote. One way of counting per file, as data.

To add one, put a file here that builds a Convention and registers it:

>>> from rasp.conventions import Convention, convention
>>> weights = {"flops": {"mac": 2}, "macc": {"mac": 1}}
>>> mine = convention(Convention("mine", "MACs twice", "my paper, 2024", weights))
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass

from ..registry import Registry

Weights = Mapping[str, int]


@dataclass(frozen=True)
class Convention:
    """A way of counting: `weights[column][primitive]`; primitives not named weigh 0."""

    name: str
    title: str
    source: str
    weights: Mapping[str, Weights]
    level: str = "op"


CONVENTIONS: Registry[Convention] = Registry("convention")
DEFAULT = "rasp"


def convention(item: Convention) -> Convention:
    return CONVENTIONS.add(item.name, item)


def load() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def get(name: str | None) -> Convention:
    load()
    return CONVENTIONS[name or DEFAULT]
