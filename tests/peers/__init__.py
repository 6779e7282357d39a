"""Other profilers, run as their users run them: what each prints, in one form, to hold its convention against.

To add one, put a file here named after its convention, with LIBRARY and `run(model, inputs) -> Printed`.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

SHARED = ("models", "layers", "comparing")


@dataclass(frozen=True)
class Printed:
    """What a tool prints for a model: its headline cost, its second one and its parameters where it has them, and the
    headline cost of each module by path ("" is the model), where it tells them.
    """

    flops: int | float
    macc: int | float | None = None
    params: int | None = None
    layers: dict[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """A tool: the convention named for it, the library it is in, and how it is run."""

    convention: str
    library: str
    run: Callable[[nn.Module, tuple[Any, ...]], Printed]

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.library) is not None


def tools() -> list[Tool]:
    """Every tool that has a file here."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.name not in SHARED]
    found = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [Tool(module.CONVENTION, module.LIBRARY, module.run) for module in found]
