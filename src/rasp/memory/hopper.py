"""Kernels of a Hopper GPU: what each operator takes while it runs, as measured on an H200 with torch 2.11.

Convolutions: hopper_convolution.json, from some 7,000 measured workspaces. Attention: 216 measured calls. Reductions:
ATen's own configuration for 132 multiprocessors. benchmarks/memory.py holds the predictions against measured runs, and
benchmarks/convolution_rule.py grows the trees again; docs/memory-accuracy.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..records import OpSpec, TensorSpec, leaves
from . import _attention
from ._convolution import Convolution, Heuristic, is_channels_last, is_dense, of_operator
from ._estimate import Estimate, Transient
from ._reduction import Card, buffer

Rule = Callable[[OpSpec], Estimate | None]
RULES: dict[str, Rule] = {}
CARD = Card(multiprocessors=132)
HEURISTIC = Heuristic(Path(__file__).with_name("hopper_convolution.json"))
CONVERTED = "cuDNN's workspace: transposed copies for kernels that read channels last, or parts of a split reduction"


def attention_backend(query: Any, key: Any, value: Any, mask: str, gqa: bool, grad: bool) -> str:
    """Which kernel scaled_dot_product_attention takes."""
    return _attention.backend(query, key, value, mask, gqa)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register what an operator takes besides its outputs."""

    def register(found: Rule) -> Rule:
        for name in names:
            RULES[f"aten::{name}"] = found
        return found

    return register


@rule("convolution")
def convolution(spec: OpSpec) -> Estimate | None:
    found = of_operator(spec)
    if found is None:
        return None
    likely, low, high = HEURISTIC.bytes(found, "forward")
    copied = _unordered(spec.args[0], found) + _unordered(spec.args[1], found)
    return _estimate([Transient(likely + copied)], low + copied, high + copied, CONVERTED)


@rule("convolution_backward")
def convolution_backward(spec: OpSpec) -> Estimate | None:
    """Data gradient and weight gradient one after the other, then the bias's sum over all but the channels."""
    found = of_operator(spec)
    if found is None:
        return None
    wanted = spec.args[10]
    copied = sum(_unordered(t, found) for t in spec.args[:3])
    taken, lows, highs, made = [], [0], [0], 0
    for part, asked in zip(("data_grad", "weight_grad"), wanted):
        if asked:
            made += 1
            likely, low, high = HEURISTIC.bytes(found, part)
            taken.append(Transient(likely + copied, after=made))
            lows.append(low + copied)
            highs.append(high + copied)
    if wanted[2]:
        summed = _over_all_but_channels(spec.args[0])
        taken.append(Transient(summed))
        lows.append(summed)
        highs.append(summed)
    return _estimate(taken, max(lows), max(highs), CONVERTED)


@rule("sum", "mean", "prod", "linalg_vector_norm")
def reduction(spec: OpSpec) -> Estimate | None:
    tensor = spec.args[0]
    if not isinstance(tensor, TensorSpec) or not tensor.stride:
        return None
    given = next((a for a in spec.args[1:] if isinstance(a, tuple) and all(isinstance(i, int) for i in a)), ())
    over = tuple(axis % tensor.ndim for axis in given) or tuple(range(tensor.ndim))
    nbytes = buffer(tensor, over, max(tensor.itemsize, 4), CARD)
    return _exactly(nbytes, "partial sums of blocks that share an output")


@rule("native_layer_norm", "native_layer_norm_backward", "_softmax", "_log_softmax", "native_group_norm",
      "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d")  # fmt: skip
def contiguous(spec: OpSpec) -> Estimate | None:
    """Kernels that read their input in order copy one that is not."""
    nbytes = sum(t.nbytes for t in leaves(spec.args[:2]) if not is_dense(t) and not is_channels_last(t))
    return _exactly(nbytes, "contiguous copy of the input")


@rule("mm", "bmm", "addmm", "baddbmm")
def product(spec: OpSpec) -> Estimate | None:
    """cuBLAS reads matrices by rows or by columns: others are copied first."""
    matrices = [t for t in spec.args if isinstance(t, TensorSpec)][-2:]
    return _exactly(sum(t.nbytes for t in matrices if not _is_matrix(t)), "copy of a matrix that cuBLAS cannot read")


@rule("_scaled_dot_product_cudnn_attention")
def cudnn_attention(spec: OpSpec) -> Estimate | None:
    return _attention.cudnn(spec)


@rule("_scaled_dot_product_cudnn_attention_backward")
def cudnn_attention_backward(spec: OpSpec) -> Estimate | None:
    return _attention.cudnn_backward(spec)


@rule("_scaled_dot_product_efficient_attention")
def efficient_attention(spec: OpSpec) -> Estimate | None:
    return _attention.efficient(spec)


@rule("_scaled_dot_product_efficient_attention_backward")
def efficient_attention_backward(spec: OpSpec) -> Estimate | None:
    return _attention.efficient_backward(spec)


@rule("_scaled_dot_product_flash_attention_backward")
def flash_attention_backward(spec: OpSpec) -> Estimate | None:
    return _attention.flash_backward(spec)


def _unordered(tensor: TensorSpec, found: Convolution) -> int:
    """Bytes of the copy of a tensor that is not in the layout that the convolution runs in."""
    if tensor.ndim < 4:
        return 0 if is_dense(tensor) else tensor.nbytes
    last = (0, *range(2, tensor.ndim), 1)
    return 0 if is_dense(tensor, last if found.channels_last else ()) else tensor.nbytes


def _over_all_but_channels(tensor: TensorSpec) -> int:
    over = (0, *range(2, tensor.ndim))
    return buffer(tensor, over, max(tensor.itemsize, 4), CARD)


def _is_matrix(tensor: TensorSpec) -> bool:
    """Whether rows or columns are contiguous and do not overlap."""
    (rows, columns), (across, along) = tensor.shape[-2:], tensor.stride[-2:]
    by_rows = (along == 1 or columns == 1) and (across >= columns or rows == 1)
    by_columns = (across == 1 or rows == 1) and (along >= rows or columns == 1)
    return by_rows or by_columns


def _exactly(nbytes: int, why: str) -> Estimate | None:
    return Estimate((Transient(nbytes),), nbytes, nbytes, why) if nbytes else None


def _estimate(taken: list[Transient], low: int, high: int, why: str) -> Estimate | None:
    taken = [t for t in taken if t.nbytes]
    return Estimate(tuple(taken), low, high, why) if taken or high else None
