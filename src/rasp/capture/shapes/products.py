"""Shape rules of matrix products and convolutions."""

from __future__ import annotations

from typing import Any

from ._layout import Out, Tensor, channels_last, innermost_channels, like, out, shape_rule, spread


def _same_dtype(op: str, *tensors: Tensor) -> None:
    kinds = {t.dtype for t in tensors}
    if len(kinds) > 1:
        names = ", ".join(str(t.dtype).removeprefix("torch.") for t in tensors)
        raise RuntimeError(f"{op}: expected operands of one dtype, but got {names}")


def _matrices(op: str, a: Tensor, b: Tensor) -> None:
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"{op}: mat1 and mat2 shapes cannot be multiplied "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )
    _same_dtype(op, a, b)


@shape_rule("mm")
def mm(args: Any, kwargs: Any) -> list[Out] | None:
    a, b = args[:2]
    if len(args) > 2 or kwargs or a.dim() != 2 or b.dim() != 2:
        return None
    _matrices("mm", a, b)
    return [out((a.shape[0], b.shape[1]), a.dtype)]


@shape_rule("addmm")
def addmm(args: Any, kwargs: Any) -> list[Out] | None:
    bias, a, b = args[:3]
    if len(args) > 3 or a.dim() != 2 or b.dim() != 2 or bias.shape[-1:] != b.shape[1:] or bias.dim() != 1:
        return None
    _matrices("addmm", a, b)
    _same_dtype("addmm", bias, a)
    return [out((a.shape[0], b.shape[1]), a.dtype)]


@shape_rule("bmm")
def bmm(args: Any, kwargs: Any) -> list[Out] | None:
    a, b = args[:2]
    if len(args) > 2 or a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0]:
        return None
    _matrices("bmm", a, b)
    return [out((a.shape[0], a.shape[1], b.shape[2]), a.dtype)]


@shape_rule("baddbmm")
def baddbmm(args: Any, kwargs: Any) -> list[Out] | None:
    start, a, b = args[:3]
    rows = bmm((a, b), {}) if start.dtype == a.dtype and start.dim() <= 3 else None
    if rows is None or any(n not in (1, m) for n, m in zip(reversed(start.shape), reversed(rows[0][0]))):
        return None
    return rows


@shape_rule("_grouped_mm")
def grouped_mm(args: Any, kwargs: Any) -> list[Out] | None:
    """Matrix products of consecutive groups of rows, each with a matrix of its own."""
    a, b = args[:2]
    dtype = kwargs.get("out_dtype") or a.dtype
    if a.dim() == 2 and b.dim() == 3:
        return [out((a.shape[0], b.shape[2]), dtype)]
    if a.dim() == 3 and b.dim() == 2:
        return [out((a.shape[1], b.shape[1]), dtype)]
    if a.dim() == 2 and b.dim() == 2:
        groups = (args[2] if len(args) > 2 else kwargs["offs"]).shape[0]
        return [out((groups, a.shape[0], b.shape[1]), dtype)]
    return [out((a.shape[0], a.shape[1], b.shape[2]), dtype)]


@shape_rule("convolution")
def convolution(args: Any, kwargs: Any) -> list[Out] | None:
    x, w, bias, stride, padding, dilation, transposed, _, groups = args[:9]
    n = w.dim() - 2
    if transposed or x.dim() != n + 2 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        return None
    _same_dtype("convolution", x, w, *(() if bias is None else (bias,)))
    stride, padding, dilation = (spread(v, n) for v in (stride, padding, dilation))
    spatial = []
    for size, k, s, p, d in zip(x.shape[2:], w.shape[2:], stride, padding, dilation):
        if s <= 0 or size + 2 * p < d * (k - 1) + 1:
            return None
        spatial.append((size + 2 * p - d * (k - 1) - 1) // s + 1)
    shape = (x.shape[0], w.shape[0], *spatial)
    if innermost_channels(x) or innermost_channels(w):
        return [(shape, channels_last(shape), x.dtype)]
    return [out(shape, x.dtype)] if n > 1 or x.is_contiguous() else None


@shape_rule("convolution_backward")
def convolution_backward(args: Any, kwargs: Any) -> list[Out] | None:
    grad, x, w, *_, mask = args
    if not (grad.is_contiguous() and x.is_contiguous() and w.is_contiguous()):
        return None
    bias = out((w.shape[0] if not args[7] else w.shape[1] * args[9],), grad.dtype)
    return [like(x) if mask[0] else None, like(w) if mask[1] else None, bias if mask[2] else None]
