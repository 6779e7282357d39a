"""Matrix products: m·k·n multiply-accumulates into m·n results, an added matrix or vector is a bias."""

from __future__ import annotations

from math import prod
from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._contractions import matrix_product, product, terms
from ._forms import FUSED, GELU_TANH, charge


@rule("aten::mm", "aten::bmm", "aten::_int_mm", "aten::linalg_matmul")
def mm(call: OpSpec) -> Work:
    """(m, k) × (k, n) is m·k·n; a batch multiplies it."""
    a, b = call.args[:2]
    return matrix_product(a, b, call.out.numel)


@rule("aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_")
def addmm(call: OpSpec) -> Work:
    """beta·C + alpha·A×B: the product, one bias addition per result, a multiplication where alpha or beta is not 1."""
    _, a, b = call.args[:3]
    n = call.out.numel
    return matrix_product(a, b, n) + _added(call, n)


@rule("aten::addbmm", "aten::addbmm_")
def addbmm(call: OpSpec) -> Work:
    """beta·C + alpha·sum over the batch of A×B: the batch is one more contracted axis."""
    _, a, b = call.args[:3]
    n = call.out.numel
    return product(terms(a, b), n, a) + _added(call, n)


@rule("aten::mv", "aten::dot", "aten::vdot", "aten::inner", "aten::linalg_vecdot")
def mv(call: OpSpec) -> Work:
    """A matrix or vector with a vector: one MAC per element of the first."""
    a = call.args[0]
    return product(a.numel if a.nnz is None else a.nnz, call.out.numel, a)


@rule("aten::addmv", "aten::addmv_")
def addmv(call: OpSpec) -> Work:
    a = call.args[1]
    n = call.out.numel
    return product(a.numel, n, a) + _added(call, n)


@rule("aten::outer", "aten::ger", "aten::kron")
def outer(call: OpSpec) -> Work:
    """An outer product contracts nothing: one multiplication per result."""
    return charge({"mul": 1}, call.out.numel, "complex" if call.out.dtype.startswith("complex") else "float")


@rule("aten::addr", "aten::addr_")
def addr(call: OpSpec) -> Work:
    return Work(mul=call.out.numel) + _added(call, call.out.numel)


@rule("aten::matmul")
def matmul(call: OpSpec) -> Work:
    """Vectors, matrices or batches of them, broadcast: (results) × (length of the contracted axis)."""
    a = call.args[0]
    return product(call.out.numel * a.shape[-1], call.out.numel, a)


@rule("aten::matmul_backward", "aten::linear_backward", "aten::mkldnn_linear_backward")
def matmul_backward(call: OpSpec) -> Work:
    """Two products of the forward's size, as far as they are asked for."""
    grads = [g for g in call.out[:2] if isinstance(g, TensorSpec)]
    first, second = _operands(call)
    work = sum((product(_cost(first, second), g.numel, first) for g in grads), Work())
    asked = call.args[-1]
    if isinstance(asked, tuple) and len(asked) == 3 and asked[2]:
        work += Work(add=max(call.args[1].numel - second.shape[0], 0))
    return work


def _operands(call: OpSpec) -> tuple[TensorSpec, TensorSpec]:
    if call.name == "aten::matmul_backward":
        return call.args[1], call.args[2]
    return call.args[0], call.args[2]


def _cost(a: TensorSpec, b: TensorSpec) -> int:
    return a.numel * (b.numel // max(a.shape[-1], 1)) if b.ndim <= 2 else terms(a, b)


@rule(
    "aten::linear", "aten::mkldnn_linear", "mkldnn::_linear_pointwise", "mkl::_mkl_linear", "aten::_mixed_dtypes_linear"
)
def linear(call: OpSpec) -> Work:
    """x × Wᵀ + b over the last axis: every input element meets every output feature. A fused unary or binary adds
    one.
    """
    x, weight = call.args[0], call.args[2 if call.name == "mkl::_mkl_linear" else 1]
    n = call.out.numel
    work = _linear(x, weight, n)
    if _bias(call) is not None:
        work.bias = n
    if call.name == "mkldnn::_linear_pointwise":
        fused = call.args[4] if call.overload == "binary" else call.args[3]
        work += charge(FUSED.get(fused, {}), n)
    return work


def _linear(x: TensorSpec, weight: TensorSpec, n: int) -> Work:
    out_features = weight.shape[0]
    if weight.nnz is not None:
        return product(x.numel // max(x.shape[-1], 1) * weight.nnz, n, x)
    return product((x.numel if x.nnz is None else x.nnz) * out_features, n, x)


def _bias(call: OpSpec) -> Any:
    if call.name == "mkl::_mkl_linear":
        return call.args[3]
    if call.name == "mkldnn::_linear_pointwise":
        return call.args[3 if call.overload == "binary" else 2]
    return call.kwargs.get("bias") if call.name == "aten::_mixed_dtypes_linear" else call.args[2]


@rule("aten::mkldnn_linear_backward_input", "aten::mkldnn_linear_backward_weights")
def mkldnn_linear_backward(call: OpSpec) -> Work:
    first = call.args[1] if call.name.endswith("input") else call.args[0]
    other = call.args[2] if call.name.endswith("input") else call.args[1]
    rows = first.numel // max(first.shape[-1], 1)
    mac = first.numel * other.shape[-1] if call.name.endswith("input") else rows * first.shape[-1] * other.shape[-1]
    work = product(mac, call.outputs[0].numel)
    if call.name.endswith("weights") and call.args[3]:
        work.add = max(first.numel - first.shape[-1], 0)
    return work


@rule("aten::_addmm_activation")
def addmm_activation(call: OpSpec) -> Work:
    """addmm with ReLU (1 per result) or tanh-GELU fused in."""
    activation = charge(GELU_TANH if call.kwargs.get("use_gelu") else {"cmp": 1}, call.out.numel)
    return addmm(call) + activation


@rule("aten::_trilinear")
def trilinear(call: OpSpec) -> Work:
    """Sum over `sumdim` of a product of three: two multiplications a term, one of them accumulated (bilinear
    layers).
    """
    sizes = _broadcast([_expanded(t, e) for t, e in zip(call.args[:3], call.args[3:6])])
    n = prod(sizes)
    return product(n, call.out.numel) + Work(mul=n)


def _expanded(tensor: TensorSpec, places: tuple[int, ...]) -> tuple[int, ...]:
    shape = list(tensor.shape)
    for place in sorted(places):
        shape.insert(place, 1)
    return tuple(shape)


def _broadcast(shapes: list[tuple[int, ...]]) -> list[int]:
    return [max(sizes) if 0 not in sizes else 0 for sizes in zip(*shapes)]


@rule("aten::bilinear")
def bilinear(call: OpSpec) -> Work:
    """x1 · W · x2 for every output feature: two multiplications for each of in1·in2·out terms."""
    weight, out = call.args[2], call.out.numel
    n = out * weight.shape[1] * weight.shape[2]
    return product(n, out) + Work(mul=n, bias=out if call.args[3] is not None else 0)


@rule("aten::tensordot")
def tensordot(call: OpSpec) -> Work:
    """Contracted axes are one axis of their product: 12 or 3×4 alike."""
    a, dims = call.args[0], call.args[2]
    return product(call.out.numel * prod(a.shape[d] for d in dims), call.out.numel, a)


@rule("aten::chain_matmul", "aten::linalg_multi_dot")
def chain(call: OpSpec) -> Work:
    """Matrices multiplied in the cheapest order (dynamic programming over the cut)."""
    sizes = [(t.shape[0], t.shape[1]) if t.ndim == 2 else _edge(i, t) for i, t in enumerate(call.args[0])]
    dims = [sizes[0][0], *(s[1] for s in sizes)]
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, 0) for i in range(len(sizes))}
    for length in range(2, len(sizes) + 1):
        for i in range(len(sizes) - length + 1):
            j = i + length - 1
            best[i, j] = min(
                (
                    best[i, c][0] + best[c + 1, j][0] + dims[i] * dims[c + 1] * dims[j + 1],
                    best[i, c][1] + best[c + 1, j][1] + dims[i] * dims[j + 1],
                )
                for c in range(i, j)
            )
    return Work(mac=best[0, len(sizes) - 1][0], dot=best[0, len(sizes) - 1][1])


def _edge(position: int, vector: TensorSpec) -> tuple[int, int]:
    return (1, vector.shape[0]) if position == 0 else (vector.shape[0], 1)


def _added(call: OpSpec, n: int) -> Work:
    beta, alpha = call.kwargs.get("beta", 1), call.kwargs.get("alpha", 1)
    scaled = (alpha != 1) + (beta not in (0, 1))
    return Work(bias=n if beta != 0 else 0, mul=scaled * n)
