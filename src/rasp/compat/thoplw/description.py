"""What the released package writes of a layer: its class, and the kernel, padding and stride of what has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DIMENSIONS = ("1d", "2d", "3d")
CONVOLUTIONS = {f"torch.nn.{name}{d}" for name in ("Conv", "ConvTranspose") for d in DIMENSIONS}
POOLINGS = {f"torch.nn.{name}{d}" for name in ("MaxPool", "AvgPool") for d in DIMENSIONS}


def description(kind: str, full_name: str, hyper: Mapping[str, Any]) -> str:
    """'Conv2d k=7 p=3 s=2', 'MaxPool2d k=3 s=2', 'ReLU'."""
    asked = {"k": "kernel_size", "p": "padding", "s": "stride"} if full_name in CONVOLUTIONS else {}
    if full_name in POOLINGS:
        asked = {"k": "kernel_size", "s": "stride"}
    return " ".join([kind, *(f"{letter}={_size(hyper.get(name))}" for letter, name in asked.items())])


def _size(size: Any) -> str:
    """One number where all are equal."""
    return str(size[0]) if isinstance(size, (tuple, list)) and len(set(size)) == 1 else str(size)
