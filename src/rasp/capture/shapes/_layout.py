"""The registry of shape rules, and the layouts they speak of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
Out = Any  # (shape, stride, dtype) | None | int
ShapeRule = Callable[[Any, Any], "list[Out] | None"]

SHAPES: dict[str, ShapeRule] = {}


def shape_rule(*names: str) -> Callable[[ShapeRule], ShapeRule]:
    def register(function: ShapeRule) -> ShapeRule:
        for name in names:
            SHAPES[f"aten::{name}"] = function
        return function

    return register


def packed(shape: Any) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n if n > 1 else 1
    return tuple(reversed(strides))


def channels_last(shape: Any) -> tuple[int, ...]:
    """Strides of (N, C, *spatial) with the channels innermost."""
    c, spatial = shape[1], shape[2:]
    inner = packed((*spatial, c))
    return (inner[0] * spatial[0] if spatial else c, 1, *inner[:-1])


def dense(tensor: Tensor) -> bool:
    """Whether a tensor fills its span of memory without gaps or overlaps."""
    if tensor.is_contiguous():
        return True
    step = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride()) if n != 1):
        if stride != step:
            return False
        step *= size
    return True


def innermost_channels(tensor: Tensor) -> bool:
    """Whether kernels take a tensor for channels-last: by its strides alone, as c10's suggest_memory_format does."""
    shape, stride, least = tensor.shape, tensor.stride(), 0
    if len(shape) not in (4, 5) or stride[1] == 0:
        return False
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[d] == 0 or stride[d] < least or (d == 0 and least == stride[1]):
            return False
        least = stride[d] * max(shape[d], 1)
    return True


def suggested(tensor: Tensor) -> Out:
    """A tensor of the same shape in the memory format kernels take it for."""
    shape = tuple(tensor.shape)
    return (shape, channels_last(shape), tensor.dtype) if innermost_channels(tensor) else out(shape, tensor.dtype)


def has_dims(x: Tensor, dims: Any) -> bool:
    """Whether every dimension is one of the tensor's, none twice; the kernel has the words for it otherwise."""
    n = x.dim()
    return all(-n <= d < n for d in dims) and len({d % n for d in dims}) == len(dims)


def out(shape: Any, dtype: torch.dtype) -> Out:
    return tuple(shape), packed(shape), dtype


def like(tensor: Tensor, dtype: torch.dtype | None = None) -> Out:
    return tuple(tensor.shape), tensor.stride(), dtype or tensor.dtype


def spread(value: Any, n: int) -> list[int]:
    """A size per dimension from one size or several."""
    return list(value) * n if len(value) == 1 else list(value)
