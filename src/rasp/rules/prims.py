"""prims:: operators, which cost what the aten:: operator of that name does."""

from __future__ import annotations

from ..records import OpSpec
from . import RULES, Work, rule

SAME = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "cos", "cosh", "digamma", "eq", "erf",
    "erfc", "exp", "exp2", "expm1", "floor", "fmax", "fmin", "fmod", "frexp", "gcd", "ge", "gt", "hypot", "igamma",
    "igammac", "isfinite", "le", "lgamma", "log", "log10", "log1p", "log2", "lt", "maximum", "minimum", "mul", "ne",
    "neg", "nextafter", "pow", "reciprocal", "remainder", "round", "rsqrt", "sign", "signbit", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "add", "sub", "div",
    "conj_physical", "sum", "prod", "amax", "amin",
)  # fmt: skip


@rule(*(f"prims::{name}" for name in SAME))
def same(call: OpSpec) -> Work | None:
    return RULES[f"aten::{call.name.removeprefix('prims::')}"](call)
