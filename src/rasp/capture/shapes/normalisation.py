"""Shape rules of normalisation, reductions and softmax."""

from __future__ import annotations

from typing import Any

import torch

from ._layout import Out, Tensor, dense, has_dims, innermost_channels, like, out, shape_rule, suggested


def _statistics(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


@shape_rule("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
def batch_norm(args: Any, kwargs: Any) -> list[Out] | None:
    """Output as the input; saved statistics per channel in training, empty in evaluation (as the CPU gives them)."""
    x = args[0]
    if x.dim() < 2 or any(isinstance(t, Tensor) and t.shape[0] != x.shape[1] for t in args[1:5]):
        return None
    training = next((a for a in args[3:6] if isinstance(a, bool)), False)
    stats = out((x.shape[1] if training else 0,), _statistics(x))
    return [suggested(x), stats, stats]


@shape_rule("native_batch_norm_backward")
def batch_norm_backward(args: Any, kwargs: Any) -> list[Out] | None:
    grad, x, weight, mask = args[0], args[1], args[2], args[9]
    if not ((x.is_contiguous() or innermost_channels(x)) and dense(x) and grad.stride() == x.stride()):
        return None
    per_channel = out((x.shape[1],), weight.dtype if weight is not None else x.dtype)
    return [like(x) if mask[0] else None, per_channel if mask[1] else None, per_channel if mask[2] else None]


@shape_rule("native_layer_norm")
def layer_norm(args: Any, kwargs: Any) -> list[Out] | None:
    x, normalized, weight = args[:3]
    split = x.dim() - len(normalized)
    if not x.is_contiguous() or tuple(x.shape[split:]) != tuple(normalized):
        return None
    if weight is not None and weight.dtype != x.dtype:
        return None
    stats = out((*x.shape[:split], *(1 for _ in normalized)), _statistics(x))
    return [like(x), stats, stats]


@shape_rule("native_layer_norm_backward")
def layer_norm_backward(args: Any, kwargs: Any) -> list[Out] | None:
    _, x, _, _, _, weight, bias, mask = args[:8]
    if not x.is_contiguous():
        return None
    wide = [
        like(weight) if weight is not None and mask[1] else None,
        like(bias) if bias is not None and mask[2] else None,
    ]
    return [like(x) if mask[0] else None, *wide]


@shape_rule("native_group_norm")
def group_norm(args: Any, kwargs: Any) -> list[Out] | None:
    x, n, groups = args[0], args[3], args[6]
    return [like(x), out((n, groups), _statistics(x)), out((n, groups), _statistics(x))] if x.is_contiguous() else None


@shape_rule("mean", "sum", "amax", "amin")
def reduction(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    dims = args[1] if len(args) > 1 else None
    if not dims and len(args) < 3 and not kwargs.get("keepdim") and x.dtype.is_floating_point and 0 not in x.shape:
        return [out((), kwargs.get("dtype") or x.dtype)]
    if not x.is_contiguous() or not x.dtype.is_floating_point or not isinstance(dims, (list, tuple)) or not dims:
        return None
    if not has_dims(x, dims) or 0 in x.shape:
        return None
    gone = {d % x.dim() for d in dims}
    keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    shape = (
        [1 if i in gone else n for i, n in enumerate(x.shape)]
        if keep
        else [n for i, n in enumerate(x.shape) if i not in gone]
    )
    return [out(shape, kwargs.get("dtype") or x.dtype)]


@shape_rule("_softmax", "_log_softmax", "_safe_softmax")
def softmax(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    n = max(x.dim(), 1)
    if not -n <= args[1] < n:  # the meta kernel lets it pass
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {args[1]})")
    plain = x.is_contiguous() and x.dtype.is_floating_point
    return [like(x)] if plain and not (len(args) > 2 and args[2]) and not kwargs.get("dtype") else None


@shape_rule("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_backward(args: Any, kwargs: Any) -> list[Out] | None:
    return elementwise_backward(args, kwargs) if args[0].is_contiguous() else None


@shape_rule(
    "gelu_backward",
    "silu_backward",
    "threshold_backward",
    "hardtanh_backward",
    "sigmoid_backward",
    "tanh_backward",
    "hardswish_backward",
    "hardsigmoid_backward",
)
def elementwise_backward(args: Any, kwargs: Any) -> list[Out] | None:
    grad, saved = args[:2]
    if grad.shape != saved.shape or grad.stride() != saved.stride() or grad.dtype != saved.dtype or not dense(grad):
        return None
    return [like(grad)]
