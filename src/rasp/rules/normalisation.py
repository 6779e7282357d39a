"""Normalisations: statistics in one pass (an addition and a multiply-add per element), then multiply-adds to normalise.

Evaluation-mode batch normalisation is x·scale + shift with scale and shift computed once per channel (folded in,
as RASP counts it): 2 operations per element without affine parameters, 4 with. What is done once per channel or
row is folded in everywhere but in RMS norm, whose form equals the operators it decomposes into.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._forms import AFFINE, MOMENTS, charge, elements, form

NORMALISE = AFFINE  # x·rstd + (-mean·rstd)
STATISTICS_BACKWARD = form(fma=2, add=1)  # x̂ again, sum of g·x̂, sum of g
INPUT_BACKWARD = form(fma=2)  # (g - mean(g) - x̂·mean(g·x̂)) · scale


def batch_norm(x: TensorSpec, weight: Any, *, training: bool) -> Work:
    """fma = n per affine step, and mean and variance of the batch in training: 4 per element, 7 in training."""
    counts = NORMALISE + AFFINE if weight is not None else NORMALISE
    return charge(counts + MOMENTS if training else counts, elements(x))


@rule(
    "aten::native_batch_norm",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
    "aten::_native_batch_norm_legit_functional",
)
def with_training_flag(call: OpSpec) -> Work:
    x, weight = call.args[:2]
    return batch_norm(x, weight, training=call.args[5])


@rule("aten::batch_norm", "aten::instance_norm", "aten::_batch_norm_impl_index")
def composite(call: OpSpec) -> Work:
    x, weight = call.args[:2]
    return batch_norm(x, weight, training=call.args[5])


@rule("aten::_native_batch_norm_legit")
def legit(call: OpSpec) -> Work:
    x, weight = call.args[:2]
    return batch_norm(x, weight, training=call.args[3] if call.overload.startswith("no_stats") else call.args[5])


@rule("aten::_native_batch_norm_legit_no_training", "aten::_batch_norm_no_update", "aten::quantized_batch_norm")
def no_training(call: OpSpec) -> Work:
    return batch_norm(call.args[0], call.args[1], training=False)


@rule("aten::_batch_norm_with_update", "aten::_batch_norm_with_update_functional")
def with_update(call: OpSpec) -> Work:
    return batch_norm(call.args[0], call.args[1], training=True)


@rule("aten::batch_norm_elemt")
def elemt(call: OpSpec) -> Work:
    return batch_norm(call.args[0], call.args[1], training=False)


@rule("aten::batch_norm_stats", "aten::batch_norm_update_stats")
def stats(call: OpSpec) -> Work:
    return charge(MOMENTS, call.args[0].numel)


@rule("aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts")
def gather_stats(call: OpSpec) -> Work:
    """Means and variances of several devices combined per channel."""
    return charge(MOMENTS, call.args[1].numel) + charge(form(sqrt=1, div=2), call.outputs[0].numel)


def batch_norm_backward(x: TensorSpec, mask: tuple[bool, ...], *, training: bool) -> Work:
    """Gradients of scale and shift are sums over the batch, which the input's gradient needs too in training."""
    n = elements(x)
    if training:
        return charge(STATISTICS_BACKWARD, n) + charge(INPUT_BACKWARD if mask[0] else {}, n)
    work = charge(form(mul=1) if mask[0] else {}, n)
    work += charge(form(fma=2) if mask[1] else {}, n)
    return work + charge(form(add=1) if mask[2] else {}, n)


@rule("aten::native_batch_norm_backward")
def native_batch_norm_backward(call: OpSpec) -> Work:
    return batch_norm_backward(call.args[1], call.args[9], training=call.args[7])


@rule("aten::batch_norm_backward")
def any_batch_norm_backward(call: OpSpec) -> Work:
    return batch_norm_backward(call.args[1], call.args[9], training=call.args[7])


@rule("aten::_batch_norm_impl_index_backward")
def impl_index_backward(call: OpSpec) -> Work:
    return batch_norm_backward(call.args[1], call.args[10], training=call.args[8])


@rule("aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward")
def cudnn_batch_norm_backward(call: OpSpec) -> Work:
    return batch_norm_backward(call.args[0], (True, True, True), training=True)


@rule("aten::batch_norm_backward_reduce")
def backward_reduce(call: OpSpec) -> Work:
    return charge(STATISTICS_BACKWARD, call.args[0].numel)


@rule("aten::batch_norm_backward_elemt")
def backward_elemt(call: OpSpec) -> Work:
    return charge(INPUT_BACKWARD, call.args[0].numel)


@rule("aten::native_layer_norm", "aten::layer_norm")
def layer_norm(call: OpSpec) -> Work:
    return row_norm(call.args[0], call.args[2])


@rule("aten::native_group_norm")
def group_norm(call: OpSpec) -> Work:
    return row_norm(call.args[0], call.args[1])


@rule("aten::group_norm")
def composite_group_norm(call: OpSpec) -> Work:
    return row_norm(call.args[0], call.args[2])


def row_norm(x: TensorSpec, weight: Any) -> Work:
    """Statistics are always computed: 5 per element, 7 with affine parameters."""
    counts = MOMENTS + NORMALISE + AFFINE if weight is not None else MOMENTS + NORMALISE
    return charge(counts, elements(x))


@rule("aten::native_layer_norm_backward")
def layer_norm_backward(call: OpSpec) -> Work:
    return row_norm_backward(call.args[1], call.args[5], call.args[7])


@rule("aten::native_group_norm_backward")
def group_norm_backward(call: OpSpec) -> Work:
    return row_norm_backward(call.args[1], call.args[4], call.args[9])


def row_norm_backward(x: TensorSpec, weight: Any, mask: tuple[bool, ...]) -> Work:
    """By input: g·weight, its sums over a row, the correction. By weight and bias: sums over the rows."""
    n = elements(x)
    work = Work()
    if mask[0]:
        work += charge(STATISTICS_BACKWARD + INPUT_BACKWARD, n) + Work(mul=n if weight is not None else 0)
    if mask[1]:
        work += charge(form(fma=1 if mask[0] else 2), n)
    if mask[2]:
        work += Work(add=n)
    return work


@rule("aten::_fused_rms_norm")
def fused_rms_norm(call: OpSpec) -> Work:
    return rms(call.args[0], call.args[1], call.args[2])


@rule("aten::rms_norm")
def rms_norm(call: OpSpec) -> Work:
    return rms(call.args[0], call.args[1], call.args[2])


def rms(x: TensorSpec, axes: tuple[int, ...], weight: Any) -> Work:
    """x / sqrt(mean(x²) + eps) · weight: a square, an addition and a product per element, root and two divisions
    per row.
    """
    n = elements(x)
    rows = n // max(prod(axes), 1)
    return Work(mul=n * (3 if weight is not None else 2), add=n, div=2 * rows, sqrt=rows)


@rule("aten::_fused_rms_norm_backward")
def rms_backward(call: OpSpec) -> Work:
    """By input: g·weight, sum of g·x per row, correction and scale. By weight: sum of g·x̂ over the rows."""
    x, weight, mask = call.args[1], call.args[4], call.args[5]
    n = elements(x)
    work = charge(form(fma=2, mul=1) if mask[0] else {}, n) + Work(mul=n if weight is not None and mask[0] else 0)
    return work + charge(form(mul=1, fma=1) if mask[1] else {}, n)


@rule("aten::_weight_norm", "aten::_weight_norm_interface")
def weight_norm(call: OpSpec) -> Work:
    """v · g/|v|, the norm taken per slice of v."""
    v, g = call.args[:2]
    return Work(mul=2 * v.numel, add=max(v.numel - g.numel, 0), sqrt=g.numel, div=g.numel)


@rule("aten::_weight_norm_interface_backward", "aten::_weight_norm_differentiable_backward")
def weight_norm_backward(call: OpSpec) -> Work:
    v, g = call.args[1], call.args[2]
    return Work(fma=2 * v.numel, mul=v.numel, div=2 * g.numel)


@rule("aten::renorm", "aten::renorm_")
def renorm(call: OpSpec) -> Work:
    """A norm per slice, then the slice scaled to it."""
    n = call.out.numel
    return Work(mul=2 * n, add=n)
