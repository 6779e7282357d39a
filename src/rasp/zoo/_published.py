"""Registers a model of convnet-burden's tables with what they printed of it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from . import HALVES, Reference, reference
from ._classifiers import images

PUBLISHED = Path(__file__).parent.parent / "published"
TABLES = PUBLISHED / "burden_models.csv"
COLUMNS = ("param_mem", "feat_mem", "flops")
ERRORS = ("top1_err", "top5_err", "src")
FROM_WHOLE = HALVES[1:]  # of models whose last pooling needs the whole image


class Trunk(nn.Module):
    """A model up to its last map of features: what its `features` makes of an image."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.model.features(x)
        return features


@cache
def tables() -> dict[str, dict[str, str]]:
    """The printed rows by the model's name."""
    with TABLES.open(newline="", encoding="utf-8") as file:
        return {row["model"]: row for row in csv.DictReader(file)}


def published(
    name: str,
    build: Callable[..., nn.Module],
    *,
    family: str,
    citation: str,
    scales: tuple[float, ...] = HALVES,
) -> Reference:
    """Register a model under the name it has in the tables."""
    row = tables()[name]
    size = int(row["input_h"]), int(row["input_w"])
    return reference(
        Reference(
            name=name,
            build=build,
            inputs=partial(images, usual=size),
            published={column: row[column] for column in COLUMNS},
            source="convnet-burden, README (MB are MiB there, a fused multiply-add is one flop)",
            task=row["task"],
            convention="burden",
            family=family,
            size=size,
            errors={column: row[column] for column in ERRORS if row[column]},
            citation=citation,
            trunk=Trunk,
            scales=scales,
        )
    )
