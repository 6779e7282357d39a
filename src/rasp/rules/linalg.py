"""Decompositions and solvers: the textbook leading term in real operations, half multiplications and half additions.

Golub and Van Loan, Matrix Computations (4th ed.); LAPACK Working Note 41. They are no contractions, so no MACs.
"""

from __future__ import annotations

from math import prod

from ..records import OpSpec, TensorSpec
from . import Work, rule


def spread(operations: float, x: TensorSpec) -> Work:
    """Operations of one matrix, for the whole batch; complex ones are four times as many."""
    batch = prod(x.shape[:-2])
    half = round(operations / 2) * batch * (4 if x.dtype.startswith("complex") else 1)
    return Work(mul=half, add=half)


def lu_operations(m: int, n: int) -> float:
    """m·n² - n³/3 for m ≥ n: 2/3·n³ of a square matrix."""
    m, n = max(m, n), min(m, n)
    return m * n * n - n**3 / 3


def qr_operations(m: int, n: int) -> float:
    """Householder: 2·n²·(m - n/3) for m ≥ n."""
    m, n = max(m, n), min(m, n)
    return 2 * n * n * (m - n / 3)


def columns(b: TensorSpec, a: TensorSpec) -> int:
    """Right-hand sides: a vector (or a batch of them) is one."""
    return b.shape[-1] if b.ndim >= a.ndim else 1


@rule("aten::linalg_cholesky_ex", "aten::linalg_cholesky", "aten::cholesky")
def cholesky(call: OpSpec) -> Work:
    """n³/3"""
    x = call.args[0]
    return spread(x.shape[-1] ** 3 / 3, x)


@rule("aten::linalg_lu_factor_ex", "aten::linalg_lu", "aten::linalg_lu_factor", "aten::_lu_with_info")
def lu(call: OpSpec) -> Work:
    """2/3·n³"""
    x = call.args[0]
    return spread(lu_operations(*x.shape[-2:]), x)


@rule("aten::linalg_ldl_factor_ex", "aten::linalg_ldl_factor")
def ldl(call: OpSpec) -> Work:
    """n³/3"""
    x = call.args[0]
    return spread(x.shape[-1] ** 3 / 3, x)


@rule(
    "aten::_linalg_det", "aten::linalg_det", "aten::det", "aten::_linalg_slogdet", "aten::linalg_slogdet",
    "aten::slogdet", "aten::logdet",
)  # fmt: skip
def det(call: OpSpec) -> Work:
    """An LU decomposition and the product of its diagonal."""
    x = call.args[0]
    return spread(lu_operations(*x.shape[-2:]), x) + Work(mul=x.numel // max(x.shape[-1], 1))


@rule("aten::linalg_inv_ex", "aten::linalg_inv", "aten::inverse")
def inverse(call: OpSpec) -> Work:
    """2·n³"""
    x = call.args[0]
    return spread(2 * x.shape[-1] ** 3, x)


@rule("aten::cholesky_inverse")
def cholesky_inverse(call: OpSpec) -> Work:
    """2/3·n³ from the factor"""
    x = call.args[0]
    return spread(2 * x.shape[-1] ** 3 / 3, x)


@rule("aten::_linalg_solve_ex", "aten::linalg_solve_ex", "aten::linalg_solve")
def solve(call: OpSpec) -> Work:
    """An LU decomposition and two triangular solves, 2·n² each right-hand side."""
    a, b = call.args[:2]
    n = a.shape[-1]
    return spread(lu_operations(n, n) + 2 * n * n * columns(b, a), a)


@rule("aten::linalg_lu_solve")
def lu_solve(call: OpSpec) -> Work:
    a, b = call.args[0], call.args[2]
    return spread(2 * a.shape[-1] ** 2 * columns(b, a), b)


@rule("aten::lu_solve", "aten::cholesky_solve", "aten::_cholesky_solve_helper")
def factor_solve(call: OpSpec) -> Work:
    """Two triangular solves from the factor."""
    b, a = call.args[:2]
    return spread(2 * a.shape[-1] ** 2 * columns(b, a), b)


@rule("aten::linalg_ldl_solve")
def ldl_solve(call: OpSpec) -> Work:
    a, b = call.args[0], call.args[2]
    return spread(2 * a.shape[-1] ** 2 * columns(b, a), b)


@rule("aten::linalg_solve_triangular")
def solve_triangular(call: OpSpec) -> Work:
    """n² each right-hand side"""
    a, b = call.args[:2]
    wide = b.shape[-1] if call.kwargs.get("left", True) else b.shape[-2]
    return spread(a.shape[-1] ** 2 * wide, b)


@rule("aten::triangular_solve")
def triangular_solve(call: OpSpec) -> Work:
    b, a = call.args[:2]
    return spread(a.shape[-1] ** 2 * b.shape[-1], b)


@rule("aten::linalg_qr", "aten::qr")
def qr(call: OpSpec) -> Work:
    """Householder: 2·n²·(m - n/3), and as much again to form Q."""
    x, mode = call.args[:2]
    return spread(qr_operations(*x.shape[-2:]) * (1 if mode == "r" else 2), x)


@rule("aten::geqrf", "aten::linalg_householder_product", "aten::orgqr")
def geqrf(call: OpSpec) -> Work:
    x = call.args[0]
    return spread(qr_operations(*x.shape[-2:]), x)


@rule("aten::ormqr")
def ormqr(call: OpSpec) -> Work:
    """k reflections of an m × n matrix: 4·m·n·k"""
    tau, c = call.args[1:3]
    return spread(4 * c.shape[-2] * c.shape[-1] * tau.shape[-1], c)


@rule("aten::_linalg_eigh", "aten::linalg_eigh", "aten::linalg_eigvalsh")
def eigh(call: OpSpec) -> Work:
    """Symmetric QR: 4/3·n³ for the values, 9·n³ with vectors."""
    x = call.args[0]
    values_only = call.name == "aten::linalg_eigvalsh" or (call.name == "aten::_linalg_eigh" and not call.args[2])
    return spread((4 / 3 if values_only else 9) * x.shape[-1] ** 3, x)


@rule("aten::linalg_eig")
def eig(call: OpSpec) -> Work:
    """Hessenberg QR with vectors: 25·n³"""
    x = call.args[0]
    return spread(25 * x.shape[-1] ** 3, x)


@rule("aten::_linalg_eigvals", "aten::linalg_eigvals")
def eigvals(call: OpSpec) -> Work:
    """10·n³"""
    x = call.args[0]
    return spread(10 * x.shape[-1] ** 3, x)


@rule("aten::_linalg_svd", "aten::linalg_svd", "aten::linalg_svdvals", "aten::svd")
def svd(call: OpSpec) -> Work:
    """R-SVD for m ≥ n: 2·m·n² + 2·n³ for the values, 6·m·n² + 20·n³ with both sets of vectors."""
    x = call.args[0]
    m, n = max(x.shape[-2:]), min(x.shape[-2:])
    vectors = call.name != "aten::linalg_svdvals" and (call.name == "aten::linalg_svd" or bool(call.args[2]))
    return spread(6 * m * n * n + 20 * n**3 if vectors else 2 * m * n * n + 2 * n**3, x)


@rule("aten::linalg_lstsq")
def lstsq(call: OpSpec) -> Work:
    """QR, then Qᵀ·b and a triangular solve: 4·m·n per right-hand side."""
    a, b = call.args[:2]
    m, n = a.shape[-2:]
    return spread(qr_operations(m, n) + 4 * m * n * columns(b, a), a)


@rule("aten::linalg_matrix_exp", "aten::matrix_exp")
def matrix_exp(call: OpSpec) -> Work:
    """Taylor polynomial of degree 18 with scaling: about 8 matrix products of 2·n³."""
    x = call.args[0]
    return spread(16 * x.shape[-1] ** 3, x)


@rule("aten::linalg_polar", "aten::linalg_matrix_sqrth")
def by_eigenvectors(call: OpSpec) -> Work:
    """An eigen- or singular value decomposition and two products."""
    x = call.args[0]
    return spread(30 * max(x.shape[-2:]) * min(x.shape[-2:]) ** 2, x)


@rule("aten::linalg_pinv", "aten::pinverse")
def pseudo_inverse(call: OpSpec) -> Work:
    """A singular value decomposition and the product of its parts, 2·m·n·min(m, n)."""
    x = call.args[0]
    m, n = max(x.shape[-2:]), min(x.shape[-2:])
    return spread(6 * m * n * n + 20 * n**3 + 2 * m * n * n, x)


@rule("aten::lu_unpack")
def lu_unpack(call: OpSpec) -> Work:
    return Work()
