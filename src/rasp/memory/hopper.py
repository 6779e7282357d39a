"""Kernels of a Hopper GPU: what each operator takes while it runs, as measured on an H200 with torch 2.11.

Convolutions: hopper_convolution.json, from some 7,000 measured workspaces. Attention: 216 measured calls. Reductions:
ATen's own configuration for 132 multiprocessors. benchmarks/memory.py holds the predictions against measured runs, and
benchmarks/convolution_rule.py grows the trees again; docs/memory-check.md has the figures.
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
FEW_IDS, ROWS_SUMMED = 3072, 10
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


@rule("native_layer_norm", "native_layer_norm_backward", "_softmax", "_log_softmax", "_log_softmax_backward_data",
      "native_group_norm", "native_group_norm_backward")  # fmt: skip
def contiguous(spec: OpSpec) -> Estimate | None:
    """Kernels that read their input in order copy one that is not."""
    return _exactly(_copied(spec), "contiguous copy of the input")


@rule("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "native_batch_norm")
def either_order(spec: OpSpec) -> Estimate | None:
    """Kernels that read channels first or last copy what is neither."""
    data = spec.args[0]
    return _exactly(0 if is_dense(data) or is_channels_last(data) else data.nbytes, "contiguous copy of the input")


@rule("native_batch_norm_backward", "max_pool2d_with_indices_backward", "avg_pool2d_backward")
def same_order(spec: OpSpec) -> Estimate | None:
    """A gradient that is not in the order of the forward's input is copied into it."""
    gradient, data = spec.args[:2]
    same = is_channels_last(gradient) if is_channels_last(data) else is_dense(gradient)
    return _exactly(0 if same else gradient.nbytes, "copy of the gradient in the order of the input")


@rule("_softmax_backward_data")
def softmax_backward(spec: OpSpec) -> Estimate | None:
    """The gradient times the output is a tensor of its own (SoftMax.cu: softmax_backward_cuda_out)."""
    return _exactly(_copied(spec) + spec.args[0].nbytes, "product of gradient and output")


@rule("_safe_softmax")
def safe_softmax(spec: OpSpec) -> Estimate | None:
    """Which scores are -inf, and in which rows all of them are: a byte each, and a zero."""
    scores = spec.args[0]
    rows = scores.numel // max(scores.shape[-1], 1)
    return _exactly(scores.numel + rows + scores.itemsize, "mask of the rows that are masked out wholly")


@rule("embedding_dense_backward")
def embedding_backward(spec: OpSpec) -> Estimate | None:
    """More ids than 3072 are sorted, and sums of up to ten rows are kept apart (EmbeddingBackwardKernel.cu)."""
    gradient, ids, rows = spec.args[:3]
    count = ids.numel
    if count <= FEW_IDS:
        return _exactly(0 if is_dense(gradient) else gradient.nbytes, "contiguous copy of the gradient")
    segments = min(count, rows)
    sums = count // ROWS_SUMMED + segments
    index = 3 * count + 2 * segments + sums  # sorted, their places, offsets; sizes and offsets of parts
    copied = 0 if is_dense(gradient) else gradient.nbytes
    return _exactly(copied + index * ids.itemsize + sums * gradient.shape[-1] * 4, "ids sorted, and sums by parts")


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


@rule("_scaled_dot_product_efficient_attention_backward")
def efficient_attention_backward(spec: OpSpec) -> Estimate | None:
    return _attention.efficient_backward(spec)


@rule("_scaled_dot_product_flash_attention_backward")
def flash_attention_backward(spec: OpSpec) -> Estimate | None:
    return _attention.flash_backward(spec)


def _copied(spec: OpSpec) -> int:
    """Bytes of the first two tensors where they are not in order."""
    return sum(t.nbytes for t in leaves(spec.args[:2]) if not is_dense(t))


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
