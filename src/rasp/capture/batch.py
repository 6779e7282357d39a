"""What a run may be varied in: the batch of its inputs, and the blocks that could be checkpointed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..errors import InputError
from .inputs import is_made, map_tensors, tensors_in

Tensor = torch.Tensor


def batch_of(inputs: Any) -> int:
    """The batch of some inputs: the first dimension that their tensors share, or the length of a list of images."""
    tensors = [tensor for _, tensor in tensors_in(inputs) if tensor.dim()]
    if not tensors:
        raise InputError("The inputs hold no tensor, so there is no batch to vary. Leave max_batch out.")
    if _is_list_of_images(inputs):
        return len(inputs)
    sizes = {tensor.shape[0] for tensor in tensors}
    if len(sizes) > 1:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors[:4])
        raise InputError(
            f"The batch cannot be told: the inputs' first dimensions differ ({shapes}). "
            "Give inputs whose first dimension is the batch, or leave max_batch out."
        )
    return int(next(iter(sizes)))


def with_batch(inputs: Any, batch: int) -> Any:
    """The same inputs with another batch: floats on shapes alone, ids and masks repeated."""
    if _is_list_of_images(inputs):
        return [inputs[i % len(inputs)] for i in range(batch)]
    return map_tensors(inputs, lambda tensor, name: _resized(tensor, batch))


def _is_list_of_images(inputs: Any) -> bool:
    """What detectors take: [image, image …], each of three dimensions."""
    return isinstance(inputs, list) and all(isinstance(t, Tensor) and t.dim() == 3 for t in inputs)


def _resized(tensor: Tensor, batch: int) -> Tensor:
    if not tensor.dim():
        return tensor
    shape = (batch, *tensor.shape[1:])
    if is_made(tensor) or tensor.is_floating_point() or tensor.is_complex():
        made = torch.empty(shape, dtype=tensor.dtype, device="meta")
        made._rasp_fill = getattr(tensor, "_rasp_fill", 0)  # type: ignore[attr-defined]
        return made
    times = -(-batch // tensor.shape[0])
    return tensor.repeat(times, *[1] * (tensor.dim() - 1))[:batch].contiguous()


def blocks_of(model: nn.Module) -> Iterator[tuple[str, frozenset[str]]]:
    """Each list of composite modules, with the paths of its members: what one would checkpoint."""
    for path, module in model.named_modules():
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            names = [name for name, child in module.named_children() if len(list(child.children()))]
            if len(names) > 1:
                yield path, frozenset(f"{path}.{name}".strip(".") for name in names)
