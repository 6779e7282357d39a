"""Sorting and searching: comparisons to leading order. A row of k sorts in k·log2 k, the largest m of it in k·log2
m.
"""

from __future__ import annotations

from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._forms import charge, form, kind


def levels(n: int) -> int:
    """Comparisons to place one element among n: log2, rounded up."""
    return max(n - 1, 1).bit_length() if n > 1 else 0


def compared(call: OpSpec, n: int) -> Work:
    return charge(form(cmp=1), n, kind(call.tensors[:1]))


def row_length(x: TensorSpec, dim: Any) -> int:
    return x.shape[dim] if x.shape and isinstance(dim, int) and not isinstance(dim, bool) else x.numel


@rule("aten::sort", "aten::argsort")
def sort(call: OpSpec) -> Work:
    x = call.args[0]
    dim = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else -1)
    return compared(call, x.numel * levels(row_length(x, dim)))


@rule("aten::msort")
def msort(call: OpSpec) -> Work:
    x = call.args[0]
    return compared(call, x.numel * levels(row_length(x, 0)))


@rule("aten::topk")
def topk(call: OpSpec) -> Work:
    """A heap of k: every element is compared with it once, and k·log2 k sorts what is left."""
    x, k, _, _, is_sorted = call.args[:5]
    kept = call.outputs[0].numel
    return compared(call, x.numel * max(levels(k), 1) + (kept * levels(k) if is_sorted else 0))


@rule("aten::kthvalue", "aten::median", "aten::nanmedian")
def select(call: OpSpec) -> Work:
    """Quickselect: three comparisons per element on average."""
    return compared(call, 3 * call.args[0].numel)


@rule("aten::mode")
def mode(call: OpSpec) -> Work:
    x, dim = call.args[:2]
    return compared(call, x.numel * (levels(row_length(x, dim)) + 1))


@rule("aten::quantile", "aten::nanquantile")
def quantile(call: OpSpec) -> Work:
    """A sort and an interpolation per result."""
    x, dim = call.args[0], call.args[2]
    return compared(call, x.numel * levels(row_length(x, dim))) + charge(form(fma=1, add=1), call.out.numel)


@rule("aten::unique_dim", "aten::_unique", "aten::_unique2")
def unique(call: OpSpec) -> Work:
    """A sort, then each element compared with its neighbour."""
    n = call.args[0].numel
    return compared(call, n * (levels(n) + 1))


@rule("aten::unique_consecutive", "aten::unique_dim_consecutive")
def unique_consecutive(call: OpSpec) -> Work:
    return compared(call, call.args[0].numel)


@rule("aten::searchsorted", "aten::bucketize")
def searchsorted(call: OpSpec) -> Work:
    """A binary search per value."""
    table = call.args[1 if call.name == "aten::bucketize" else 0]
    return compared(call, call.out.numel * levels(table.shape[-1] + 1))


@rule("aten::histc", "aten::histogram", "aten::_histogramdd_from_bin_cts")
def histogram(call: OpSpec) -> Work:
    """Bins of equal width: the bin by a subtraction and a division, then one count."""
    n = call.args[0].numel
    return charge(form(add=1, div=1, cmp=2), n) + Work(int=n)


@rule("aten::_histogramdd_from_bin_tensors", "aten::histogramdd")
def histogram_dd(call: OpSpec) -> Work:
    n = call.args[0].numel
    edges = max((t.shape[-1] for t in call.tensors[1:] if t.shape), default=100)
    return compared(call, n * levels(edges)) + Work(int=n)


@rule("aten::_histogramdd_bin_edges")
def bin_edges(call: OpSpec) -> Work:
    return compared(call, 2 * call.args[0].numel)


@rule("aten::bincount")
def bincount(call: OpSpec) -> Work:
    """One count or weighted addition per value, after the largest value was found."""
    n, weighted = call.args[0].numel, call.args[1] is not None
    return Work(int=n if weighted else 2 * n, add=n if weighted else 0)
