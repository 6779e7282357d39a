"""Shape rules of fused attention."""

from __future__ import annotations

from typing import Any

import torch

from ._layout import Out, Tensor, out, shape_rule


def _heads_inside(shape: Any) -> tuple[int, ...]:
    """Strides of (B, H, L, E) kept as (B, L, H, E): fused kernels write heads next to each other."""
    _, h, n, e = shape
    return (n * h * e, e, h * e, 1)


def _attended(query: Tensor, value: Tensor) -> Out:
    shape = (*query.shape[:3], value.shape[3])
    return shape, _heads_inside(shape), query.dtype


@shape_rule("_scaled_dot_product_flash_attention")
def flash(args: Any, kwargs: Any) -> list[Out] | None:
    q, k, v = args[:3]
    logsumexp = out(q.shape[:3], torch.float32)
    seed = out((2,), torch.uint64)
    return [
        _attended(q, v),
        logsumexp,
        None,
        None,
        q.shape[2],
        k.shape[2],
        seed,
        out((), torch.uint64),
        out((0,), q.dtype),
    ]


@shape_rule("_scaled_dot_product_cudnn_attention")
def cudnn(args: Any, kwargs: Any) -> list[Out] | None:
    """Without a gradient there is no log-sum-exp, though the meta kernel makes one; the output is laid out as q is."""
    q, k, v, keep = args[0], args[1], args[2], args[4]
    if keep:
        return None
    shape, strides, step = (*q.shape[:3], v.shape[3]), [0, 0, 0, 0], 1
    for axis in sorted(range(4), key=lambda axis: (q.stride(axis), -axis)):
        strides[axis], step = step, step * shape[axis]
    seed = out((), torch.int64)
    return [
        (shape, tuple(strides), q.dtype),
        out((0,), torch.float32),
        None,
        None,
        q.shape[2],
        k.shape[2],
        seed,
        seed,
        out((0,), q.dtype),
    ]


@shape_rule("_scaled_dot_product_efficient_attention")
def efficient(args: Any, kwargs: Any) -> list[Out] | None:
    q, v, keep = args[0], args[2], args[4]
    rows = -(-q.shape[2] // 32) * 32 if keep else 0
    scalar = out((), torch.int64)
    return [_attended(q, v), out((*q.shape[:2], rows), torch.float32), scalar, scalar]


@shape_rule("_scaled_dot_product_flash_attention_backward")
def flash_backward(args: Any, kwargs: Any) -> list[Out] | None:
    return [(tuple(t.shape), _heads_inside(t.shape), t.dtype) for t in args[1:4]]


@shape_rule("_scaled_dot_product_efficient_attention_backward")
def efficient_backward(args: Any, kwargs: Any) -> list[Out] | None:
    bias, mask = args[4], args[10]
    grads: list[Out] = [(tuple(t.shape), _heads_inside(t.shape), t.dtype) for t in args[1:4]]
    return [*grads, out(bias.shape, bias.dtype) if bias is not None and mask[3] else None]
