"""Shape rules of elementwise operators, comparisons and their in-place forms."""

from __future__ import annotations

from typing import Any

import torch

from ._layout import SHAPES, Out, Tensor, dense, like, packed, shape_rule


def broadcast(*tensors: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape and strides of an elementwise result, in the two plain cases: same dense layout, or all contiguous."""
    first = tensors[0]
    shape, stride = first.shape, first.stride()
    if all(t.shape == shape and t.stride() == stride for t in tensors[1:]):
        return (tuple(shape), stride) if dense(first) else None
    if not all(t.is_contiguous() for t in tensors):
        return None
    try:
        joined = torch.broadcast_shapes(*(t.shape for t in tensors))
    except RuntimeError:
        return None
    return tuple(joined), packed(joined)


def _shaped(*operands: Any) -> tuple[Tensor, ...]:
    """The operands that decide the shape: tensors with dimensions, else the first."""
    return tuple(t for t in operands if isinstance(t, Tensor) and t.dim()) or (operands[0],)


def unary(args: Any, kwargs: Any) -> list[Out] | None:
    """Same shape and dtype, for floating tensors; a dense layout is kept."""
    x = args[0]
    return [like(x)] if x.dtype.is_floating_point and not kwargs and dense(x) else None


UNARY = (
    "relu", "relu_", "sigmoid", "sigmoid_", "tanh", "tanh_", "silu", "silu_", "gelu", "hardtanh", "hardtanh_",
    "hardswish", "hardswish_", "hardsigmoid", "hardsigmoid_", "leaky_relu", "leaky_relu_", "elu", "elu_", "mish",
    "exp", "log", "sqrt", "rsqrt", "neg", "abs", "sin", "cos", "erf", "softplus", "reciprocal", "floor", "ceil",
    "round", "log1p", "expm1", "exp_", "neg_", "sqrt_", "clamp_min", "clamp_min_", "hardtanh", "relu6", "rsqrt_",
    "reciprocal_", "logit", "threshold", "log2",
)  # fmt: skip
for _name in UNARY:
    SHAPES[f"aten::{_name}"] = unary


@shape_rule("bernoulli")
def drawn(args: Any, kwargs: Any) -> list[Out] | None:
    return unary(args, kwargs) if args[0].is_contiguous() else None


def binary(args: Any, kwargs: Any) -> list[Out] | None:
    """Arithmetic of two operands, promoted as torch.result_type says, where the result is floating."""
    a, b = args[0], args[1]
    dtype = torch.result_type(a, b)
    if not dtype.is_floating_point:
        return None
    if isinstance(a, Tensor) and not isinstance(b, Tensor) and not any(a.stride()):  # a number that was expanded
        return [(tuple(a.shape), packed(a.shape), dtype)]
    where = broadcast(*_shaped(a, b))
    return None if where is None else [(*where, dtype)]


@shape_rule("sub", "rsub")
def difference(args: Any, kwargs: Any) -> list[Out] | None:
    """As binary; the kernel refuses truth values."""
    refused = any(a.dtype == torch.bool if isinstance(a, Tensor) else isinstance(a, bool) for a in args[:2])
    return None if refused else binary(args, kwargs)


BINARY = (
    "add", "mul", "div", "maximum", "minimum", "atan2", "fmod", "remainder",
)  # fmt: skip
for _name in BINARY:
    SHAPES[f"aten::{_name}"] = binary


@shape_rule("pow")
def power(args: Any, kwargs: Any) -> list[Out] | None:
    return binary(args, kwargs) if isinstance(args[0], Tensor) and args[0].dtype.is_floating_point else None


def in_place(args: Any, kwargs: Any) -> list[Out] | None:
    """An in-place operator is fine when its operands broadcast to the first and promote to its dtype's kind."""
    x = args[0]
    for other in args[1:]:
        if isinstance(other, Tensor):
            if other.dtype != x.dtype or other.dim() > x.dim():
                return None
            if any(n not in (1, m) for n, m in zip(reversed(other.shape), reversed(x.shape))):
                return None
        elif isinstance(other, (list, tuple, torch.Generator)):
            return None
    return [like(x)] if x.dtype.is_floating_point else None


for _name in (
    "add_",
    "sub_",
    "mul_",
    "div_",
    "copy_",
    "fill_",
    "zero_",
    "addcmul_",
    "addcdiv_",
    "lerp_",
    "clamp_",
    "dropout_",
    "bernoulli_",
    "uniform_",
    "normal_",
):
    SHAPES[f"aten::{_name}"] = in_place


def comparison(args: Any, kwargs: Any) -> list[Out] | None:
    where = broadcast(*_shaped(*args[:2]))
    return None if where is None else [(*where, torch.bool)]


IN_PLACE = (
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
)  # fmt: skip
for _name in IN_PLACE:
    SHAPES[f"aten::{_name}"] = comparison


@shape_rule("bitwise_and", "bitwise_or", "bitwise_xor")
def bitwise(args: Any, kwargs: Any) -> list[Out] | None:
    a, b = args[:2]
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype == b.dtype and a.dim() and b.dim()):
        return None
    if a.dtype.is_floating_point:
        return None
    where = broadcast(a, b)
    return None if where is None else [(*where, a.dtype)]


@shape_rule("logical_not", "bitwise_not", "isnan", "isinf")
def negation(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    return [like(x, torch.bool)] if x.dtype == torch.bool and dense(x) else None


@shape_rule("where")
def where(args: Any, kwargs: Any) -> list[Out] | None:
    if len(args) != 3 or not all(isinstance(a, Tensor) for a in args) or args[1].dtype != args[2].dtype:
        return None
    place = broadcast(*args)
    return None if place is None else [(*place, args[1].dtype)]


@shape_rule("masked_fill")
def masked_fill(args: Any, kwargs: Any) -> list[Out] | None:
    """A contiguous copy of the broadcast tensor, which is then written."""
    x, mask = args[:2]
    if mask.dtype != torch.bool:
        return None
    try:
        shape = torch.broadcast_shapes(x.shape, mask.shape)
    except RuntimeError:
        return None
    return [(tuple(shape), packed(shape), x.dtype)]


@shape_rule("masked_fill_", "index_put_", "index_put", "index_add_", "scatter_", "index_copy_", "index_fill_")
def same_as_first(args: Any, kwargs: Any) -> list[Out] | None:
    return [like(args[0])] if dense(args[0]) else None


@shape_rule(
    "fake_quantize_per_tensor_affine_cachemask",
    "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)
def fake_quantised(args: Any, kwargs: Any) -> list[Out] | None:
    """The value and where it was in bounds; these have no meta kernel."""
    x = args[0]
    return [like(x), like(x, torch.bool)] if dense(x) else None
