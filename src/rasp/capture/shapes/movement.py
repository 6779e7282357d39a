"""Shape rules of operators that move data: copies, concatenation, lookups, resampling, pooling."""

from __future__ import annotations

from typing import Any

import torch

from ._layout import Out, dense, has_dims, like, out, shape_rule, spread


@shape_rule("cat")
def cat(args: Any, kwargs: Any) -> list[Out] | None:
    parts = args[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    first = parts[0]
    n = first.dim()
    if any(t.dim() != n or t.dtype != first.dtype or not t.is_contiguous() for t in parts) or not n:
        return None
    if not has_dims(first, (dim,)):
        return None
    dim %= n
    shape = list(first.shape)
    for t in parts[1:]:
        if any(a != b for i, (a, b) in enumerate(zip(shape, t.shape)) if i != dim):
            return None
    shape[dim] = sum(t.shape[dim] for t in parts)
    return [out(shape, first.dtype)]


@shape_rule("clone")
def clone(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    form = kwargs.get("memory_format")
    if form is torch.contiguous_format:
        return [out(x.shape, x.dtype)]
    return [like(x)] if form in (None, torch.preserve_format) and dense(x) else None


@shape_rule("_to_copy")
def to_copy(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    dtype = kwargs.get("dtype") or x.dtype
    return [like(x, dtype)] if kwargs.get("memory_format") in (None, torch.preserve_format) and dense(x) else None


@shape_rule("embedding")
def embedding(args: Any, kwargs: Any) -> list[Out] | None:
    weight, ids = args[:2]
    return (
        [out((*ids.shape, weight.shape[1]), weight.dtype)]
        if ids.dtype in (torch.int64, torch.int32) and weight.dim() == 2
        else None
    )


@shape_rule("roll", "flip")
def rearranged(args: Any, kwargs: Any) -> list[Out] | None:
    return [like(args[0])] if args[0].is_contiguous() and has_dims(args[0], args[-1]) else None


@shape_rule("tril", "triu")
def triangle(args: Any, kwargs: Any) -> list[Out] | None:
    return [like(args[0])] if args[0].is_contiguous() and args[0].dim() > 1 else None


@shape_rule("constant_pad_nd")
def pad(args: Any, kwargs: Any) -> list[Out] | None:
    x, amounts = args[:2]
    if not x.is_contiguous() or len(amounts) % 2 or len(amounts) > 2 * x.dim():
        return None
    shape = list(x.shape)
    for i in range(len(amounts) // 2):
        shape[-1 - i] += amounts[2 * i] + amounts[2 * i + 1]
    return [out(shape, x.dtype)] if min(shape, default=0) >= 0 else None


@shape_rule(
    "upsample_nearest2d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)
def upsample(args: Any, kwargs: Any) -> list[Out] | None:
    x, size = args[:2]
    if size is None or x.dim() != 4 or not x.is_contiguous() or len(size) != 2 or isinstance(size[0], float):
        return None
    return [out((*x.shape[:2], *size), x.dtype)]


@shape_rule("grid_sampler_2d")
def grid_sampler(args: Any, kwargs: Any) -> list[Out] | None:
    x, grid = args[:2]
    fits = x.dim() == grid.dim() == 4 and x.shape[0] == grid.shape[0] and grid.shape[3] == 2 and x.dtype == grid.dtype
    return [out((*x.shape[:2], *grid.shape[1:3]), x.dtype)] if fits and x.is_contiguous() else None


@shape_rule("max_pool2d_with_indices")
def max_pool(args: Any, kwargs: Any) -> list[Out] | None:
    x, kernel = args[:2]
    stride = (args[2] if len(args) > 2 else []) or kernel
    padding = args[3] if len(args) > 3 else [0]
    dilation = args[4] if len(args) > 4 else [1]
    if x.dim() != 4 or not x.is_contiguous() or (len(args) > 5 and args[5]):
        return None
    spatial = []
    for n, k, s, p, d in zip(x.shape[2:], *(spread(v, 2) for v in (kernel, stride, padding, dilation))):
        if 2 * p > k or n + 2 * p < d * (k - 1) + 1:
            return None
        spatial.append((n + 2 * p - d * (k - 1) - 1) // s + 1)
    shape = (*x.shape[:2], *spatial)
    return [out(shape, x.dtype), out(shape, torch.int64)]
