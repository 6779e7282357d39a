"""A Case: one model with its inputs, built on demand, on the meta device (no weights) or for real."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One model of the catalogue.

    `make` builds it, `example(batch)` its inputs. `meta` says that the plain model runs on the meta device, `small`
    that it is cheap to build and run for real, `training` that its backward is profiled in training mode (not for
    models that then want targets or branch at random), `backward` that it has one worth counting.
    """

    name: str
    family: str
    make: Callable[[], nn.Module]
    example: Callable[[int], Inputs]
    meta: bool = True
    small: bool = False
    training: bool = True
    backward: bool = True
    batch: int = 1
    macs: int | None = None
    macs_bwd: int | None = None

    def build(self, device: str = "meta") -> nn.Module:
        """The model in eval mode; the same weights each time."""
        torch.manual_seed(0)
        if device != "meta":
            return self.make().to(device).eval()
        try:
            with torch.device("meta"):
                return self.make().eval()
        except (
            NotImplementedError,
            RuntimeError,
        ):  # its __init__ reads a value
            torch.manual_seed(0)
            return self.make().to("meta").eval()

    def inputs(self, device: str = "cpu", batch: int | None = None) -> Inputs:
        """Positional and keyword arguments; the same values each time, fresh tensors each time."""
        torch.manual_seed(1)
        given = self.example(batch or self.batch)
        if device == "cpu":
            return given
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), given)
        return args, kwargs

    def __str__(self) -> str:
        return self.name


def image(*size: int, channels: int = 3) -> Callable[[int], Inputs]:
    """One image tensor: image(224), image(160, 224), with frames image(16, 112, 112)."""
    shape = (size[0], size[0]) if len(size) == 1 else size
    return lambda batch: ((torch.rand(batch, channels, *shape),), {})
