"""Pointwise arithmetic, as a table: what each operator costs per element of its result.

A transcendental function is one operation of its own kind (exp, log, tanh, erf, trig, pow). Taking a sign, rounding and
comparing are one `cmp`. On integers and booleans every operation is one `int`; a complex one is charged by its
real parts.
"""

from __future__ import annotations

from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._forms import (
    SIGMOID,
    Form,
    charge,
    form,
    function,
    numbers_of,
    per_output,
    pointwise,
    pointwise_rule,
    size_of,
    with_inplace,
)

# Comparisons, signs and rounding: one decision per element.
pointwise(
    "eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
    "logical_or", "logical_xor", "logical_not", "clamp", "clamp_min", "clamp_max", "clip", "abs", "absolute", "neg",
    "negative", "sign", "copysign", "floor", "ceil", "round", "trunc", "fix", "heaviside", "nextafter", "nan_to_num",
    "conj_physical", "ldexp",
    cmp=1,
)  # fmt: skip
function(
    "isnan", "isinf", "isfinite", "isneginf", "isposinf", "isreal", "signbit", "maximum", "minimum", "fmax", "fmin",
    "special_round", "frexp",
    cmp=1,
)  # fmt: skip
# Integer operators.
pointwise(
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift", "bitwise_right_shift", "gcd",
    "lcm",
    int=1,
)  # fmt: skip
function("__and__", "__or__", "__xor__", "__lshift__", "__rshift__", int=1)
rule("aten::__iand__", "aten::__ior__", "aten::__ixor__", "aten::__ilshift__", "aten::__irshift__")(
    lambda call: per_output(call, form(int=1))
)
# Arithmetic.
pointwise("mul", "multiply", "square", "deg2rad", "rad2deg", mul=1)
pointwise("true_divide", "reciprocal", div=1)
pointwise("floor_divide", "frac", div=1, cmp=1)
function("modf", div=1, cmp=1)
pointwise("remainder", "fmod", div=1, cmp=1, fma=1)
pointwise("sqrt", sqrt=1)
pointwise("rsqrt", sqrt=1, div=1)
pointwise("hypot", mul=2, add=1, sqrt=1)
pointwise("lerp", add=1, fma=1)
function("isclose", add=2, mul=1, cmp=3)
# Transcendental functions.
pointwise("exp", "expm1", "exp2", exp=1)
function("special_exp2", "special_expm1", exp=1)
pointwise("log", "log2", "log10", "log1p", log=1)
function("special_log1p", log=1)
pointwise("tanh", tanh=1)
pointwise("erf", "erfc", "erfinv", erf=1)
function("special_erf", "special_erfc", "special_erfinv", erf=1)
pointwise("sin", "cos", "tan", "asin", "acos", "atan", "arcsin", "arccos", "arctan", "atan2", "arctan2", trig=1)
pointwise("sinh", "cosh", exp=2, add=1, mul=1)
pointwise("asinh", "acosh", "arcsinh", "arccosh", log=1, sqrt=1, mul=1, add=2)
pointwise("atanh", "arctanh", log=1, div=1, add=2, mul=1)
pointwise("sinc", trig=1, mul=1, div=1)
function("special_sinc", trig=1, mul=1, div=1)
function("polar", trig=2, mul=2)
function("angle", trig=1)
pointwise("sgn", cmp=1)
pointwise("float_power", pow=1)
function("logaddexp", "logaddexp2", cmp=1, add=3, exp=1, log=1)
pointwise("xlogy", log=1, mul=1, cmp=1)
function("special_xlogy", "special_xlog1py", log=1, mul=1, cmp=1)
function("special_entr", log=1, mul=1, cmp=1)
pointwise("sigmoid", **SIGMOID)
function("special_expit", **SIGMOID)
function("special_ndtr", erf=1, add=1, mul=2)
function("special_log_ndtr", erf=1, add=1, mul=2, log=1)
function("special_ndtri", erf=1, add=1, mul=2)
function("special_erfcx", erf=1, exp=1, mul=2)
# Functions computed as polynomials or series of about ten terms behind one logarithm or exponential (Cephes).
pointwise("lgamma", "digamma", log=1, fma=8, div=1)
function("special_gammaln", "special_digamma", "special_psi", log=1, fma=8, div=1)
pointwise("polygamma", pow=2, fma=12, div=2)
function("special_polygamma", "special_zeta", pow=2, fma=12, div=2)
pointwise("mvlgamma", log=1, fma=8, div=1, add=1)
function("special_multigammaln", log=1, fma=8, div=1, add=1)
pointwise("igamma", "igammac", log=1, exp=1, fma=20, div=10)
function("special_gammainc", "special_gammaincc", log=1, exp=1, fma=20, div=10)
pointwise("i0", exp=1, fma=25, div=1)
function("special_i0", "special_i0e", "special_i1", "special_i1e", exp=1, fma=25, div=1)
_BESSEL = ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0", "airy_ai")
function(*(f"special_{name}" for name in _BESSEL), trig=2, fma=16, div=2, sqrt=1)
_MODIFIED = ("modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1")
function(
    *(f"special_{n}" for n in (*_MODIFIED, "scaled_modified_bessel_k0", "scaled_modified_bessel_k1")), exp=1, fma=25
)


@rule(*with_inplace(("add", "sub", "subtract")), "aten::rsub")
def add(call: OpSpec) -> Work:
    """x + alpha·y: one addition, and a multiplication where alpha is not 1."""
    alpha = call.kwargs.get("alpha", call.args[2] if len(call.args) > 2 else 1)
    return per_output(call, form(add=1) if alpha == 1 else form(add=1, mul=1))


@pointwise_rule("addcmul", "addcdiv")
def addc(call: OpSpec) -> Work:
    """x + value·y·z or x + value·y/z; a value of 1 does not multiply."""
    product = form(mul=1) if "mul" in call.name else form(div=1)
    scaled = form(mul=1) if call.kwargs.get("value", 1) != 1 else form()
    return per_output(call, form(add=1) + product + scaled)


@pointwise_rule("div", "divide")
def div(call: OpSpec) -> Work:
    """One division, and a rounding where one is asked for."""
    return per_output(call, form(div=1, cmp=1) if call.kwargs.get("rounding_mode") else form(div=1))


# A complex number with a real one: the real operations are two.
@rule(*(f"{name}.{overload}" for name in with_inplace(("mul", "div")) for overload in ("Tensor", "Scalar")))
def with_real(call: OpSpec) -> Work:
    other = call.args[1]
    multiplied = call.name.startswith("aten::mul")
    if numbers_of(call) == "complex" and not (_complex(other) and _complex(call.args[0])):
        return Work(mul=2 * size_of(call.out)) if multiplied else Work(div=2 * size_of(call.out))
    return per_output(call, form(mul=1)) if multiplied else div(call)


def _complex(value: Any) -> bool:
    return value.dtype.startswith("complex") if isinstance(value, TensorSpec) else isinstance(value, tuple)


@rule("aten::abs", "aten::abs_", replace=True)
def magnitude(call: OpSpec) -> Work:
    """A sign bit; of a complex number the root of two squares."""
    if call.tensors[0].dtype.startswith("complex"):
        return charge(form(mul=2, add=1, sqrt=1), size_of(call.out))
    return per_output(call, form(cmp=1))


_POWERS: dict[float, Form] = {
    0: form(), 1: form(), 2: form(mul=1), 3: form(mul=2), 0.5: form(sqrt=1), -0.5: form(sqrt=1, div=1),
    -1: form(div=1), -2: form(mul=1, div=1),
}  # fmt: skip


@pointwise_rule("pow")
def power(call: OpSpec) -> Work:
    """Small whole and half exponents are products and roots, as torch computes them; any other is one pow."""
    exponent = call.args[1]
    known = _POWERS.get(exponent) if isinstance(exponent, (int, float)) else None
    return per_output(call, form(pow=1) if known is None else known)


_POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
    "legendre_polynomial_p",
)  # fmt: skip


@rule(*(f"aten::special_{name}" for name in _POLYNOMIALS))
def orthogonal_polynomial(call: OpSpec) -> Work:
    """The three-term recurrence: two multiply-adds per degree; a degree given as a tensor counts as ten."""
    degree = call.args[1] if isinstance(call.args[1], (int, float)) else 10
    return charge(form(fma=2), size_of(call.out) * max(int(degree), 1))


@rule("aten::_test_serialization_subcmul", "aten::_add_relu", "aten::_add_relu_")
def add_and_one(call: OpSpec) -> Work:
    """An addition with one more operation fused in."""
    return per_output(call, form(add=1, cmp=1))


@rule("aten::cross", "aten::linalg_cross")
def cross(call: OpSpec) -> Work:
    return per_output(call, form(mul=2, add=1))


@rule("aten::_conj_physical")
def conj_physical(call: OpSpec) -> Work:
    return Work(cmp=size_of(call.out))


@rule("aten::_compute_linear_combination")
def linear_combination(call: OpSpec) -> Work:
    """Rows of coefficients times stacked tensors."""
    return Work(fma=call.args[0].numel * call.args[1].shape[0])
