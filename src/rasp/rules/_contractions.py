"""Products: how many MACs, dot products and bias additions a contraction is."""

from __future__ import annotations

from ..records import TensorSpec
from . import Work


def product(mac: int, out: int, numbers: TensorSpec | None = None) -> Work:
    """A contraction of `mac` terms into `out` results; a complex one is four real ones whose results are twice as many.

    A result of k terms is one dot product: k multiplications, k - 1 additions. Results without a term count nothing.
    """
    if numbers is not None and numbers.dtype.startswith("complex"):
        mac, out = 4 * mac, 2 * out
    return Work(mac=mac, dot=min(out, mac))


def terms(a: TensorSpec, b: TensorSpec) -> int:
    """MACs of a matrix product (…, m, k) × (…, k, n); of a sparse operand only the stored elements multiply."""
    k, n = b.shape[-2], b.shape[-1]
    if a.nnz is not None and b.nnz is not None:
        return a.nnz * b.nnz // max(k, 1)  # stored elements spread evenly over the contracted axis
    if a.nnz is not None:
        return a.nnz * n
    if b.nnz is not None:
        return b.nnz * a.shape[-2]
    return a.numel * n


def matrix_product(a: TensorSpec, b: TensorSpec, out: int) -> Work:
    return product(terms(a, b), out, a)
