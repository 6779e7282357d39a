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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UnknownName
from ..registry import Registry

if TYPE_CHECKING:
    from torch import nn


HALVES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # convnet-burden's scales, where a model has no others
TASKS = {  # other words for a task
    "image classification": "classification",
    "object detection": "detection",
    "semantic segmentation": "segmentation",
    "keypoint detection": "keypoints",
}


@dataclass(frozen=True)
class Reference:
    """A model to refer to.

    `build()` makes it with fresh weights, `inputs(batch, size)` makes the positional arguments of its forward; a size
    is a side or (height, width), `size` the one it was published with. `published` are the numbers that `source`
    printed, by column of the convention `convention`: a number as it is, words as they were printed. `errors` are the
    error rates as printed and where they came from. `trunk(model)` is the part up to the last map of features, which
    takes images of other sizes than the classifier does; `scales` are the multiples of the size it was published for.
    """

    name: str
    build: Callable[..., nn.Module]
    inputs: Callable[..., tuple[Any, ...]]
    published: Mapping[str, Any]
    source: str
    task: str
    convention: str = "rasp"
    family: str = ""
    size: tuple[int, int] = (224, 224)
    errors: Mapping[str, str] = field(default_factory=dict)
    citation: str = ""
    trunk: Callable[[nn.Module], nn.Module] | None = None
    scales: tuple[float, ...] = HALVES


REFERENCES: Registry[Reference] = Registry("zoo model")


def reference(item: Reference) -> Reference:
    return REFERENCES.add(item.name, item)


def get(name: str) -> Reference:
    """The reference model of that name."""
    load()
    return REFERENCES[name]


def list(task: str | None = None) -> builtins.list[str]:
    """Names of the reference models, of one task (classification, detection, segmentation, keypoints) or of all."""
    load()
    wanted = TASKS.get(task, task) if task is not None else None
    known = {item.task for item in REFERENCES.values()} | set(TASKS.values())
    if wanted is not None and wanted not in known:
        raise UnknownName("task", str(task), [*known, *TASKS])
    return sorted(name for name, item in REFERENCES.items() if wanted in (None, item.task))


def burden_report(name: str, batch: int = 128, scales: Sequence[float] | None = None) -> builtins.list[dict[str, Any]]:
    """The cost of a model's features at several sizes, as convnet-burden reports it: a dict for each size.

    input_h and input_w, batch, feat_h, feat_w, feat_c, feat_mem (bytes) and flops (a fused multiply-add is one), of the
    trunk alone, for a batch. `scales` are multiples of the published size, rounded half away from zero.
    """
    from ._sizes import sweep

    return sweep(get(name), batch, scales)


def report(
    models: Sequence[str] | None = None,
    out: str | Path = "docs/zoo",
    *,
    input_shape: Sequence[int] | None = None,
    said: Callable[[str], Any] = lambda name: None,
) -> builtins.list[Path]:
    """Write pages on the zoo, or on models of your own ("torchvision:resnet18", "file.py:factory"), into a folder.

    An index with tables and a scatter of MACs against parameters, and for each model a page and a figure of its profile
    along its depth. `input_shape` is the shape all models take, with its batch of 1, where they tell none; `said` hears
    which model is under way. Gives the files that were written, the index first; models that could not be run are named
    there with the reason.
    """
    from ._report import report as written

    return written(models, out, input_shape, said)[0]


def load() -> None:
    """Import every file of this folder that holds models."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
