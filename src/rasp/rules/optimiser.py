"""Optimiser steps: a _foreach_ operator is its operator over lists, a fused one the sum of the operators it
replaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import RuleError
from ..records import OpSpec, TensorSpec
from . import Work, bytes_read, rule, work_of
from ._forms import charge, form

_UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)  # fmt: skip
_OTHERS = (
    "add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max", "lerp", "addcmul", "addcdiv",
    "copy",
)  # fmt: skip
_LISTS = {f"aten::_foreach_{n}{end}": f"aten::{n}" for n in (*_UNARY, *_OTHERS) for end in ("", "_")} | {
    "aten::_foreach_zero": "aten::zero",
    "aten::_foreach_zero_": "aten::zero_",
    "aten::_foreach_clone": "aten::clone",
    "aten::_foreach_norm": "aten::linalg_vector_norm",
    "aten::_foreach_powsum": "aten::linalg__powsum",
    "aten::_foreach_max": "aten::max",
    "aten::_foreach_mm": "aten::mm",
}


@rule(*_LISTS)
def foreach(call: OpSpec) -> Work:
    """The sum over the list."""
    work = Work(read=0, write=0)
    for one in each(call):
        part = work_of(one)
        if part is None:
            raise RuleError(f"{call.name} has no rule for {one.name}.")
        work += part
    return work


def each(call: OpSpec) -> Iterator[OpSpec]:
    """One OpSpec per item; in place the result is the item itself."""
    name = _LISTS[call.name]
    lists = [a for a in call.args if isinstance(a, tuple)]
    overload = "Tensor" if call.overload in ("List", "Tensor") else "Scalar"
    for i in range(max(map(len, lists), default=0)):
        args = tuple(a[i] if isinstance(a, tuple) else a for a in call.args)
        kwargs = dict(call.kwargs)
        if name in ("aten::addcmul", "aten::addcdiv"):
            kwargs["value"] = args[3]
        out = call.out[i] if call.out else args[0]
        yield OpSpec(name, overload, args, kwargs, out)


def updated(call: OpSpec, **counts: int) -> Work:
    """`counts` for every parameter element; the lists are read and those that change written back."""
    n = sum(t.numel for t in call.args[0])
    work = charge(counts, n)
    changed = [call.args[i] for i in range(len(call.args)) if i != 1 and i != 5]
    work.read = bytes_read(call)
    work.write = sum(t.touched_bytes for tensors in changed for t in tensors if isinstance(t, TensorSpec))
    return work


def _before(call: OpSpec, decoupled: bool = False) -> Any:
    """Unscaling, a changed sign and weight decay, which come first in every optimiser."""
    scaled, decay = call.kwargs.get("grad_scale") is not None, call.kwargs.get("weight_decay", 0)
    counts = form(div=1 if scaled else 0, cmp=1 if call.kwargs.get("maximize") else 0)
    if decay:
        counts += form(mul=1) if decoupled else form(mul=1, add=1)
    return counts


@rule("aten::_fused_adam_", "aten::_fused_adam", "aten::_fused_adamw_", "aten::_fused_adamw")
def adam(call: OpSpec) -> Work:
    """m.lerp(g), v·β2 + (1 - β2)·g², p - step·m / (√v / c + eps); AdamW scales p instead of adding to g."""
    counts = _before(call, decoupled="adamw" in call.name)
    counts += form(add=1, fma=1)  # lerp
    counts += form(mul=3, add=1)  # v
    counts += form(sqrt=1, div=1, add=1)  # denominator
    counts += form(div=1, mul=1, add=1)  # step
    if call.kwargs.get("amsgrad"):
        counts += form(cmp=1)
    return updated(call, **counts)


@rule("aten::_fused_sgd_", "aten::_fused_sgd")
def sgd(call: OpSpec) -> Work:
    """p - lr·g, with g from the momentum buffer: buf·momentum + (1 - dampening)·g, Nesterov one more multiply-add."""
    kwargs = call.kwargs
    counts = _before(call) + form(mul=1, add=1)
    if kwargs.get("momentum"):
        if not kwargs.get("is_first_step"):
            counts += form(mul=1 if kwargs.get("dampening") == 0 else 2, add=1)
        if kwargs.get("nesterov"):
            counts += form(mul=1, add=1)
    return updated(call, **counts)


@rule("aten::_fused_adagrad_", "aten::_fused_adagrad")
def adagrad(call: OpSpec) -> Work:
    """s + g², p - lr·g / (√s + eps)"""
    return updated(call, **(_before(call) + form(mul=1, add=1) + form(sqrt=1, add=1) + form(div=1, mul=1, add=1)))


@rule("aten::_amp_foreach_non_finite_check_and_unscale_", "aten::_amp_foreach_non_finite_check_and_unscale")
def unscale(call: OpSpec) -> Work:
    """Every gradient checked for infinities and multiplied."""
    gradients = call.args[0]
    n = sum(t.numel for t in gradients)
    return Work(cmp=n, mul=n, write=sum(t.touched_bytes for t in gradients))


@rule("aten::_amp_update_scale_", "aten::_amp_update_scale")
def update_scale(call: OpSpec) -> Work:
    return Work(mul=1, cmp=2, int=1)
