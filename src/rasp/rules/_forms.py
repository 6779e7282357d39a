"""What composite functions cost in primitives, and how a form is charged per element. Shared by the families,
owned by none.

A form is a count per element: SIGMOID is one exponential, one addition, one division. Integers count every operation as
`int`; complex numbers by the real operations of the textbook formula (a complex product is 4 multiplications, 2
additions).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..records import OpSpec, TensorSpec, leaves
from . import R, Work, rule

Form = Mapping[str, int]


def form(**counts: int) -> Counter[str]:
    return Counter(counts)


def times(counts: Form, n: int) -> Counter[str]:
    """n of a form."""
    return Counter({name: count * n for name, count in counts.items()})


SIGMOID = form(exp=1, add=1, div=1)  # 1 / (1 + e^-x), the sign folded in
SILU = SIGMOID + form(mul=1)
SOFTPLUS = form(exp=1, add=1, log=1, cmp=1)  # log(1 + e^x), or x above the threshold
GELU_ERF = form(mul=3, add=1, erf=1)  # x/2 · (1 + erf(x/√2))
GELU_TANH = form(mul=6, add=2, tanh=1)  # x/2 · (1 + tanh(c·(x + 0.044715·x³)))
DROPOUT = form(rand=1, div=1, mul=1)  # x · noise, noise = bernoulli(1 - p) / (1 - p)
SIGMOID_BACKWARD = form(mul=2, add=1)  # g · y · (1 - y)
TANH_BACKWARD = form(mul=2, add=1)  # g · (1 - y²)
SELECT = form(cmp=1)  # bounds and piecewise linear functions: one decision per element
AFFINE = form(fma=1)  # x · scale + shift
MOMENTS = form(add=1, fma=1)  # sum of x and of x², for mean and variance in one pass
FUSED: dict[str, Form] = {  # what oneDNN fuses into a product, by its name there
    "relu": SELECT, "leaky_relu": SELECT, "hardtanh": SELECT, "sigmoid": SIGMOID, "swish": SILU, "tanh": form(tanh=1),
    "gelu": GELU_ERF, "hardswish": form(add=1, cmp=1, mul=1, div=1), "hardsigmoid": form(add=1, cmp=1, div=1),
    "add": form(add=1), "sum": form(add=1), "sub": form(add=1), "mul": form(mul=1), "div": form(div=1),
}  # fmt: skip


def softmax(n: int, rows: int) -> Work:
    """exp(x - max) / sum over n elements in so many rows: a maximum, a difference, an exponential, a sum, a
    division.
    """
    return Work(cmp=n - rows, add=2 * n - rows, exp=n, div=n)


def softmax_backward(n: int, rows: int) -> Work:
    """(g - sum(g·y)) · y"""
    return Work(mul=2 * n, add=2 * n - rows)


# Real operations in one operation on complex numbers.
_COMPLEX: dict[str, Form] = {
    "add": form(add=2),
    "mul": form(mul=4, add=2),
    "div": form(mul=6, add=3, div=2),
    "cmp": form(cmp=2),
    "fma": form(mul=4, add=4),
    "sqrt": form(sqrt=2, add=2, mul=2, div=1),
    "exp": form(exp=1, trig=2, mul=2),
    "log": form(log=1, trig=1, mul=2, add=1),
    "pow": form(log=1, trig=3, exp=1, mul=6, add=3),
    "trig": form(trig=2, exp=2, mul=2, add=2),
    "tanh": form(trig=2, exp=2, mul=2, add=2, div=2),
}


def elements(tensor: TensorSpec) -> int:
    """Elements that are there to compute on: the stored ones of a sparse or nested tensor."""
    return tensor.numel if tensor.nnz is None else tensor.nnz


def size_of(value: Any) -> int:
    """Elements of the first tensor in an operator's result (or arguments)."""
    return next((elements(t) for t in leaves(value)), 0)


def kind(tensors: Iterable[TensorSpec]) -> str:
    """What the arithmetic is done in: "complex" if any tensor is, else "float" if any is, else "int"."""
    found = "int"
    for tensor in tensors:
        if tensor.dtype.startswith("complex"):
            return "complex"
        if tensor.is_floating:
            found = "float"
    return found


def charge(counts: Form, n: int, numbers: str = "float") -> Work:
    """`counts` for each of n elements of such numbers."""
    if numbers == "float":
        return Work(**{name: count * n for name, count in counts.items()})
    if numbers == "int":
        return Work(int=sum(counts.values()) * n)
    real: Counter[str] = Counter()
    for name, count in counts.items():
        for part, times in _COMPLEX.get(name, {name: 2}).items():
            real[part] += times * count * n
    return Work(**real)


def numbers_of(spec: OpSpec) -> str:
    return kind((*spec.tensors, *spec.outputs))


def per_output(spec: OpSpec, counts: Form) -> Work:
    """`counts` for every element of the (first) result."""
    n = size_of(spec.out) if spec.out is not None else size_of(spec.args)
    return charge(counts, n, numbers_of(spec))


def pointwise(*names: str, **counts: int) -> None:
    """Register operators and their in-place forms at `counts` per element of the result (names without "aten::")."""
    rule(*with_inplace(names))(lambda spec: per_output(spec, counts))


def function(*names: str, **counts: int) -> None:
    """Like `pointwise`, for operators that have no in-place form."""
    rule(*(f"aten::{name}" for name in names))(lambda spec: per_output(spec, counts))


def with_inplace(names: Iterable[str]) -> list[str]:
    return [full for name in names for full in (f"aten::{name}", f"aten::{name}_")]


def pointwise_rule(*names: str) -> Callable[[R], R]:
    """Like `rule`, for a name and its in-place form (names without "aten::")."""
    return rule(*with_inplace(names))
