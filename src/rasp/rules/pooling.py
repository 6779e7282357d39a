"""Pooling: a window of k elements takes k - 1 comparisons (max) or k - 1 additions and a division (average)."""

from __future__ import annotations

from math import prod
from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, bytes_written, rule
from ._forms import charge, kind


def window(kernel: Any, dims: int) -> int:
    """Elements of a window; one number stands for all dimensions."""
    sizes = kernel if isinstance(kernel, tuple) else (kernel,)
    return prod(sizes) if len(sizes) == dims else int(sizes[0]) ** dims


def dims_of(name: str) -> int:
    """The 2 of aten::max_pool2d_with_indices."""
    return int(name[name.index("pool") + 4])


def adaptive_windows(sizes: tuple[int, ...], out: tuple[int, ...]) -> int:
    """Elements of all windows of one channel: window i spans floor(i·in/out) to ceil((i + 1)·in/out)."""
    return prod(sum(-(-(i + 1) * n // m) - i * n // m for i in range(m)) for n, m in zip(sizes, out))


@rule(*(f"aten::max_pool{d}d" for d in (1, 2, 3)), *(f"aten::max_pool{d}d_with_indices" for d in (1, 2, 3)))
def max_pool(call: OpSpec) -> Work:
    out = call.outputs[0]
    return _compared(out, out.numel * (window(call.args[1], dims_of(call.name)) - 1))


@rule(
    "aten::mkldnn_max_pool2d",
    "aten::mkldnn_max_pool3d",
    *(f"aten::quantized_max_pool{d}d" for d in (1, 2, 3)),
    "quantized::max_pool1d",
    "quantized::max_pool2d",
    "aten::fractional_max_pool2d",
    "aten::fractional_max_pool3d",
)
def other_max_pool(call: OpSpec) -> Work:
    return max_pool(call)


def _compared(out: TensorSpec, n: int) -> Work:
    return charge({"cmp": 1}, n, kind((out,)))


@rule(*(f"aten::avg_pool{d}d" for d in (1, 2, 3)))
def avg_pool(call: OpSpec) -> Work:
    n = call.out.numel
    return Work(add=n * (window(call.args[1], dims_of(call.name)) - 1), div=n)


@rule(*(f"aten::adaptive_avg_pool{d}d" for d in (1, 2, 3)), "aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d")
def adaptive_avg_pool(call: OpSpec) -> Work:
    summed = _adaptive(call.args[0], call.outputs[0], dims_of(call.name))
    return Work(add=summed - call.out.numel, div=call.out.numel)


@rule("aten::mkldnn_adaptive_avg_pool2d")
def mkldnn_adaptive_avg_pool(call: OpSpec) -> Work:
    return adaptive_avg_pool(call)


@rule(*(f"aten::adaptive_max_pool{d}d" for d in (1, 2, 3)))
def adaptive_max_pool(call: OpSpec) -> Work:
    out = call.outputs[0]
    return _compared(out, _adaptive(call.args[0], out, dims_of(call.name)) - out.numel)


def _adaptive(x: TensorSpec, out: TensorSpec, dims: int) -> int:
    return prod(out.shape[:-dims]) * adaptive_windows(x.shape[-dims:], out.shape[-dims:])


@rule(*(f"aten::max_pool{d}d_with_indices_backward" for d in (2, 3)))
def max_pool_backward(call: OpSpec) -> Work:
    """Each gradient is added to the place of its maximum."""
    return Work(add=call.args[0].numel)


@rule(
    "aten::max_pool2d_backward",
    "aten::mkldnn_max_pool2d_backward",
    "aten::mkldnn_max_pool3d_backward",
    "aten::adaptive_max_pool2d_backward",
    "aten::adaptive_max_pool3d_backward",
    "aten::fractional_max_pool2d_backward",
    "aten::fractional_max_pool3d_backward",
)
def other_max_pool_backward(call: OpSpec) -> Work:
    return max_pool_backward(call)


@rule("aten::avg_pool2d_backward", "aten::avg_pool3d_backward")
def avg_pool_backward(call: OpSpec) -> Work:
    """Each gradient is divided once and added to every element of its window."""
    n = call.args[0].numel
    return Work(div=n, add=n * window(call.args[2], dims_of(call.name)))


@rule(
    "aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward", "aten::adaptive_avg_pool3d_backward"
)
def adaptive_avg_pool_backward(call: OpSpec) -> Work:
    grad, x = call.args[:2]
    return Work(div=grad.numel, add=_adaptive(x, grad, dims_of(call.name)))


@rule("aten::mkldnn_adaptive_avg_pool2d_backward")
def mkldnn_adaptive_avg_pool_backward(call: OpSpec) -> Work:
    return adaptive_avg_pool_backward(call)


@rule("aten::max_unpool2d", "aten::max_unpool3d")
def max_unpool(call: OpSpec) -> Work:
    """Moves every element to where its maximum was; the rest is filled with zeros."""
    return Work(write=bytes_written(call))
