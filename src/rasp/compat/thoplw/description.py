"""What the released package writes of a layer: its class, and the kernel, padding and stride of what has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

CONVOLUTIONS = (
    nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
)  # fmt: skip
POOLINGS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)


def description(kind: type, hyper: Mapping[str, Any]) -> str:
    """'Conv2d k=7 p=3 s=2', 'MaxPool2d k=3 s=2', 'ReLU'."""
    asked = {"k": "kernel_size", "p": "padding", "s": "stride"} if kind in CONVOLUTIONS else {}
    if kind in POOLINGS:
        asked = {"k": "kernel_size", "s": "stride"}
    return " ".join([kind.__name__, *(f"{letter}={_size(hyper.get(name))}" for letter, name in asked.items())])


def _size(size: Any) -> str:
    """One number where all are equal."""
    return str(size[0]) if isinstance(size, (tuple, list)) and len(set(size)) == 1 else str(size)
