"""Sparse tensors: only stored elements (nnz) multiply. Plain products of a sparse operand are in matmul."""

from __future__ import annotations

from ..records import OpSpec
from . import Work, rule
from ._contractions import matrix_product, product, terms
from ._forms import FUSED, charge, elements, form


@rule("aten::_sparse_mm", "aten::smm", "aten::hspmm", "aten::_sparse_sparse_matmul")
def sparse_mm(call: OpSpec) -> Work:
    """nnz · n; two sparse operands meet nnz·nnz/k times when their elements are spread evenly."""
    a, b = call.args[:2]
    return matrix_product(a, b, elements(call.out))


@rule("aten::_sparse_addmm", "aten::sspaddmm")
def sparse_addmm(call: OpSpec) -> Work:
    _, a, b = call.args[:3]
    n = elements(call.out)
    scaled = (call.kwargs["alpha"] != 1) + (call.kwargs["beta"] not in (0, 1))
    return matrix_product(a, b, n) + Work(bias=n if call.kwargs["beta"] != 0 else 0, mul=scaled * n)


@rule("aten::sparse_sampled_addmm")
def sampled_addmm(call: OpSpec) -> Work:
    """A dot product for every stored position only."""
    pattern, a, _ = call.args[:3]
    n = elements(pattern)
    return product(n * a.shape[-1], n, a) + Work(bias=n if call.kwargs["beta"] != 0 else 0)


@rule("aten::_sparse_mm_reduce_impl")
def mm_reduce(call: OpSpec) -> Work:
    """Sums (or means, maxima) of the rows that stored elements select."""
    a, b, reduce = call.args[:3]
    n = call.outputs[0].numel
    if reduce in ("amax", "amin"):
        return charge(form(mul=1, cmp=1), terms(a, b))
    return product(terms(a, b), n) + Work(div=n if reduce == "mean" else 0)


@rule("aten::_sparse_mm_reduce_impl_backward")
def mm_reduce_backward(call: OpSpec) -> Work:
    a, grad = call.args[:2]
    mac = elements(a) * grad.shape[-1]
    return sum((product(mac, elements(t)) for t in call.outputs), Work())


@rule("aten::_sparse_semi_structured_mm", "aten::_cslt_sparse_mm")
def semi_structured_mm(call: OpSpec) -> Work:
    """2:4 sparse: the stored half of the matrix multiplies."""
    a, dense = call.args[0], call.args[2 if call.name.endswith("structured_mm") else 1]
    bias = call.args[2] if call.name == "aten::_cslt_sparse_mm" else None
    n = call.out.numel
    stored = n * a.shape[-1] if call.name.endswith("structured_mm") else n * dense.shape[-2] // 2
    return product(stored, n) + Work(bias=n if bias is not None else 0)


@rule("aten::_sparse_semi_structured_addmm")
def semi_structured_addmm(call: OpSpec) -> Work:
    n = call.out.numel
    return product(n * call.args[1].shape[-1], n) + Work(bias=n)


@rule("aten::_sparse_semi_structured_linear")
def semi_structured_linear(call: OpSpec) -> Work:
    weight, n = call.args[1], call.out.numel
    work = product(n * weight.shape[-1], n) + charge(FUSED.get(call.kwargs.get("activation") or "", {}), n)
    return work + Work(bias=n if call.kwargs.get("bias") is not None else 0)


@rule("aten::_sparse_semi_structured_tile", "aten::_to_sparse_semi_structured", "aten::_cslt_compress")
def semi_structured_pack(call: OpSpec) -> Work:
    """The two largest of every four."""
    return Work(cmp=2 * call.args[0].numel)


@rule("aten::_sparse_semi_structured_apply", "aten::_sparse_semi_structured_apply_dense")
def semi_structured_apply(call: OpSpec) -> Work:
    return Work()


@rule(
    *(f"aten::{u}to_sparse{kind}" for u in ("", "_") for kind in ("", "_csr", "_csc", "_bsr", "_bsc")),
)
def to_sparse(call: OpSpec) -> Work:
    """Every element compared with zero."""
    return Work(cmp=elements(call.args[0]))


@rule(
    "aten::to_dense", "aten::_to_dense", "aten::to_dense_backward", "aten::sparse_mask",
    "aten::_sparse_mask_projection", "aten::copy_sparse_to_sparse", "aten::copy_sparse_to_sparse_",
    "aten::resize_as_sparse", "aten::resize_as_sparse_", "aten::_sparse_sum_backward", "aten::_spdiags",
    "aten::_sparse_coo_tensor_unsafe", "aten::sparse_coo_tensor", "aten::_sparse_coo_tensor_with_dims",
    "aten::_sparse_coo_tensor_with_dims_and_tensors", "aten::sparse_csr_tensor", "aten::sparse_csc_tensor",
    "aten::sparse_bsr_tensor", "aten::sparse_bsc_tensor", "aten::sparse_compressed_tensor",
    "aten::_sparse_csr_tensor_unsafe", "aten::_sparse_csc_tensor_unsafe", "aten::_sparse_bsr_tensor_unsafe",
    "aten::_sparse_bsc_tensor_unsafe", "aten::_sparse_compressed_tensor_unsafe",
    "aten::_sparse_compressed_tensor_with_dims", "aten::sparse_resize", "aten::sparse_resize_",
    "aten::sparse_resize_and_clear", "aten::sparse_resize_and_clear_",
)  # fmt: skip
def moved(call: OpSpec) -> Work:
    """Values and indices moved."""
    return Work()


@rule("aten::_convert_indices_from_coo_to_csr", "aten::_convert_indices_from_csr_to_coo")
def convert_indices(call: OpSpec) -> Work:
    return Work(int=call.tensors[0].numel)


@rule("aten::coalesce", "aten::_coalesce")
def coalesce(call: OpSpec) -> Work:
    """Positions sorted, values of equal positions added."""
    n = elements(call.args[0])
    return Work(int=n * max(n - 1, 1).bit_length(), add=n)


@rule("aten::_sparse_csr_sum", "aten::_sparse_csr_prod")
def csr_reduce(call: OpSpec) -> Work:
    n = elements(call.args[0])
    return Work(add=n) if call.name.endswith("sum") else Work(mul=n)


@rule("aten::_spsolve")
def spsolve(call: OpSpec) -> Work | None:
    """The fill-in of a sparse factorisation depends on the pattern: not counted."""
    return None
