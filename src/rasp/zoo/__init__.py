"""The zoo: reference models that come with rasp, each with its inputs and the numbers that were published for it.

To add one, put a file here that builds the model and registers a Reference (it is found by itself):

>>> import torch
>>> from rasp.zoo import Reference, reference
>>> one_layer = reference(
...     Reference(
...         name="one_layer",
...         build=lambda: torch.nn.Linear(8, 4),
...         inputs=lambda batch=1, size=None: (torch.rand(batch, size or 8),),
...         published={"params": 36},
...         source="8·4 weights and 4 biases",
...         task="example",
...     )
... )
>>> import rasp.zoo
>>> rasp.zoo.get("one_layer").published["params"]
36
"""

from __future__ import annotations

import builtins
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..registry import Registry

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Reference:
    """A model to refer to.

    `build()` makes it with fresh weights, `inputs(batch, size)` makes the positional arguments of its forward.
    `published` are the sums over its leaf calls that `source` printed, by column of the default convention.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[..., tuple[Any, ...]]
    published: Mapping[str, int]
    source: str
    task: str


REFERENCES: Registry[Reference] = Registry("zoo model")


def reference(item: Reference) -> Reference:
    return REFERENCES.add(item.name, item)


def get(name: str) -> Reference:
    """The reference model of that name."""
    load()
    return REFERENCES[name]


def list(task: str | None = None) -> builtins.list[str]:
    """Names of the reference models, of one task or of all."""
    load()
    return sorted(name for name, item in REFERENCES.items() if task in (None, item.task))


def load() -> None:
    """Import every file of this folder that holds models."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
