"""Distances between rows: a difference, a power and an addition per term, a root per pair."""

from __future__ import annotations

from ..records import OpSpec
from . import Work, rule


@rule("aten::_cdist_forward", "aten::cdist", "aten::_euclidean_dist")
def cdist(call: OpSpec) -> Work:
    """Distances of p rows to r rows of length m: a subtraction, a power and an addition per term, a root per pair."""
    m = call.args[0].shape[-1]
    p = 2.0 if call.name == "aten::_euclidean_dist" else call.args[2]
    pairs = call.out.numel
    return _norm(p, pairs * m, pairs) + Work(add=pairs * m)


@rule("aten::_pdist_forward", "aten::pdist")
def pdist(call: OpSpec) -> Work:
    m, p, pairs = call.args[0].shape[-1], call.args[1], call.out.numel
    return _norm(p, pairs * m, pairs) + Work(add=pairs * m)


def _norm(p: float, n: int, results: int) -> Work:
    """A p-norm of n terms into so many results."""
    added = max(n - results, 0)
    if p == 2:
        return Work(mul=n, add=added, sqrt=results)
    if p == 1:
        return Work(cmp=n, add=added)
    if p in (0, float("inf")):
        return Work(cmp=n + added)
    return Work(cmp=n, pow=n + results, add=added)


@rule("aten::_cdist_backward", "aten::_pdist_backward")
def cdist_backward(call: OpSpec) -> Work:
    """Per term of every pair: difference, scale by grad/distance, accumulate."""
    grad, x = call.args[0], call.args[1]
    n = grad.numel * x.shape[-1]
    return Work(add=n, fma=n, div=grad.numel)
