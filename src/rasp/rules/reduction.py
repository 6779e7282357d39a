"""Reductions: combining n elements into r results takes n - r operations; a mean divides r times more."""

from __future__ import annotations

from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._forms import charge, elements, form, kind, size_of, softmax, softmax_backward


def reduced(call: OpSpec, **counts: int) -> Work:
    """`counts` for every element folded into another one."""
    n, results = size_of(call.args), size_of(call.out)
    return charge(counts, max(n - results, 0), kind(call.tensors[:1]))


def results_of(call: OpSpec) -> int:
    return size_of(call.out)


@rule("aten::sum", "aten::trace", "aten::_sparse_sum", "aten::sum_to_size", "aten::_nested_sum_backward")
def total(call: OpSpec) -> Work:
    return reduced(call, add=1)


@rule("aten::nansum")
def nansum(call: OpSpec) -> Work:
    return reduced(call, add=1) + charge(form(cmp=1), size_of(call.args), kind(call.tensors[:1]))


@rule("aten::mean")
def mean(call: OpSpec) -> Work:
    return reduced(call, add=1) + charge(form(div=1), results_of(call), kind(call.outputs))


@rule("aten::nanmean")
def nanmean(call: OpSpec) -> Work:
    return mean(call) + Work(cmp=size_of(call.args))


@rule("aten::prod")
def product(call: OpSpec) -> Work:
    return reduced(call, mul=1)


@rule(
    *(f"aten::{name}" for name in ("amax", "amin", "argmax", "argmin", "all", "any", "_is_all_true", "_is_any_true")),
)
def extreme(call: OpSpec) -> Work:
    return reduced(call, cmp=1)


@rule("aten::max", "aten::min")
def max_or_min(call: OpSpec) -> Work:
    """Over an axis or the whole tensor, or of two tensors element by element."""
    if call.overload in ("other", "out") and isinstance(call.args[1], TensorSpec):
        return charge(form(cmp=1), size_of(call.out), kind(call.tensors))
    return reduced(call, cmp=1)


@rule("aten::aminmax", "aten::_aminmax")
def aminmax(call: OpSpec) -> Work:
    return reduced(call, cmp=2)


@rule("aten::count_nonzero")
def count_nonzero(call: OpSpec) -> Work:
    n = size_of(call.args)
    return charge(form(cmp=1), n, kind(call.tensors[:1])) + Work(int=n)


@rule("aten::hash_tensor")
def hash_tensor(call: OpSpec) -> Work:
    return Work(int=size_of(call.args))


@rule("aten::equal", "aten::allclose")
def equal(call: OpSpec) -> Work:
    each = form(cmp=1) if call.name == "aten::equal" else form(add=2, mul=1, cmp=3)
    return charge(each, size_of(call.args), kind(call.tensors))


@rule("aten::var", "aten::std", "aten::var_mean", "aten::std_mean")
def variance(call: OpSpec) -> Work:
    """The mean, then the squared deviations from it, summed and divided; a standard deviation is its root."""
    n, results = size_of(call.args), results_of(call)
    work = Work(add=max(3 * n - 2 * results, 0), mul=n, div=2 * results)
    return work + Work(sqrt=results) if "std" in call.name else work


@rule("aten::norm", "aten::linalg_vector_norm", "aten::frobenius_norm", "aten::native_norm")
def vector_norm(call: OpSpec) -> Work:
    """(Σ|x|^p)^(1/p): squares and a root for 2, comparisons for infinity and 0."""
    n, results = size_of(call.args), results_of(call)
    return norm_work(_order(call), n, results)


def _order(call: OpSpec) -> float:
    if call.name == "aten::frobenius_norm" or len(call.args) < 2 or not isinstance(call.args[1], (int, float)):
        return 2.0
    return float(call.args[1])


def norm_work(order: float, n: int, results: int) -> Work:
    added = max(n - results, 0)
    if order == 2:
        return Work(mul=n, add=added, sqrt=results)
    if order == 1:
        return Work(cmp=n, add=added)
    if order == 0 or abs(order) == float("inf"):
        return Work(cmp=n + added)
    return Work(cmp=n, pow=n + results, add=added)


@rule("aten::linalg__powsum")
def powsum(call: OpSpec) -> Work:
    """Σ|x|^p without the root."""
    n, results = size_of(call.args), results_of(call)
    each = form(mul=1) if _order(call) == 2 else form(cmp=1, pow=1)
    return charge(each, n) + Work(add=max(n - results, 0))


@rule("aten::norm_except_dim")
def norm_except_dim(call: OpSpec) -> Work:
    return norm_work(float(call.args[1]), size_of(call.args), results_of(call))


@rule("aten::dist")
def dist(call: OpSpec) -> Work:
    n = max(elements(t) for t in call.tensors)
    return Work(add=n) + norm_work(float(call.args[2]), n, 1)


@rule("aten::logsumexp", "aten::special_logsumexp")
def logsumexp(call: OpSpec) -> Work:
    """max + log Σ exp(x - max)"""
    n, rows = size_of(call.args), results_of(call)
    return Work(cmp=max(n - rows, 0), add=2 * n, exp=n, log=rows)


@rule("aten::cumsum", "aten::cumsum_", "aten::cumprod", "aten::cumprod_", "aten::cummax", "aten::cummin")
def cumulative(call: OpSpec) -> Work:
    """One operation per element after the first of a row."""
    each = {"aten::cums": "add", "aten::cump": "mul", "aten::cumm": "cmp"}[call.name[:10]]
    n = size_of(call.args)
    return charge({each: 1}, n - rows_of(call.args[0], call.args[1]), kind((*call.tensors[:1], *call.outputs[:1])))


@rule("aten::_cummax_helper", "aten::_cummin_helper")
def cumulative_helper(call: OpSpec) -> Work:
    return charge({"cmp": 1}, size_of(call.args), kind(call.tensors[:1]))


@rule("aten::logcumsumexp", "aten::_logcumsumexp")
def logcumsumexp(call: OpSpec) -> Work:
    n = size_of(call.args)
    return charge(form(cmp=1, add=3, exp=1, log=1), n - rows_of(call.args[0], call.args[1]))


@rule("aten::cummaxmin_backward", "aten::cumprod_backward")
def cumulative_backward(call: OpSpec) -> Work:
    return Work(add=size_of(call.args), mul=2 * size_of(call.args) if "prod" in call.name else 0)


def rows_of(x: TensorSpec, dim: Any) -> int:
    """Rows along an axis; a scalar is a row of one."""
    n = elements(x)
    length = x.shape[dim] if x.shape and isinstance(dim, int) else 1
    return n // max(length, 1)


@rule("aten::_softmax", "aten::_safe_softmax", "aten::softmax", "aten::special_softmax", "aten::_sparse_softmax")
def softmax_rule(call: OpSpec) -> Work:
    x, dim = call.args[:2]
    return softmax(elements(x), rows_of(x, dim))


@rule("aten::_masked_softmax")
def masked_softmax(call: OpSpec) -> Work:
    """A softmax over what the mask lets through; masking itself selects, it computes nothing."""
    x, dim = call.args[0], call.args[2]
    return softmax(elements(x), rows_of(x, -1 if dim is None else dim))


@rule("aten::_nested_tensor_softmax_with_shape")
def nested_softmax(call: OpSpec) -> Work:
    n = elements(call.args[0])
    return softmax(n, n // max(call.args[1].shape[-1], 1))


@rule("aten::_log_softmax", "aten::log_softmax", "aten::special_log_softmax", "aten::_sparse_log_softmax")
def log_softmax(call: OpSpec) -> Work:
    """x - max - log Σ exp(x - max)"""
    x, dim = call.args[:2]
    n, rows = elements(x), rows_of(x, dim)
    return Work(cmp=n - rows, add=3 * n - rows, exp=n, log=rows)


@rule("aten::_softmax_backward_data", "aten::_masked_softmax_backward", "aten::_sparse_softmax_backward_data")
def softmax_backward_rule(call: OpSpec) -> Work:
    grad = call.args[0]
    dim = call.args[3] if call.name == "aten::_masked_softmax_backward" else call.args[2]
    return softmax_backward(elements(grad), rows_of(grad, -1 if dim is None else dim))


@rule("aten::_log_softmax_backward_data", "aten::_sparse_log_softmax_backward_data")
def log_softmax_backward(call: OpSpec) -> Work:
    """g - exp(y)·Σg"""
    grad, _, dim = call.args[:3]
    n, rows = elements(grad), rows_of(grad, dim)
    return Work(exp=n, mul=n, add=2 * n - rows)


@rule("aten::segment_reduce", "aten::_segment_reduce_backward")
def segment_reduce(call: OpSpec) -> Work:
    return charge(form(add=1), size_of(call.args))
