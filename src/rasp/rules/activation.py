"""Activations, as a table of forms per element, and their derivatives.

Bounds and piecewise linear functions (ReLU, ReLU6, Hardtanh, LeakyReLU, PReLU …) are exactly one operation per element.
"""

from __future__ import annotations

from ..records import OpSpec
from . import Work, rule
from ._forms import (
    GELU_ERF,
    GELU_TANH,
    SIGMOID,
    SIGMOID_BACKWARD,
    SILU,
    SOFTPLUS,
    TANH_BACKWARD,
    charge,
    form,
    function,
    per_output,
    pointwise,
    pointwise_rule,
    size_of,
)

pointwise("relu", "relu6", "hardtanh", "leaky_relu", "threshold", "rrelu", cmp=1)
function("prelu", "_prelu_kernel", "hardshrink", "softshrink", cmp=1)
pointwise("selu", cmp=1, exp=1, add=1, mul=2)
pointwise("silu", **SILU)
pointwise("mish", **(SOFTPLUS + form(tanh=1, mul=1)))
function("softplus", **SOFTPLUS)
pointwise("hardsigmoid", add=1, cmp=1, div=1)
pointwise("hardswish", add=1, cmp=1, mul=1, div=1)
pointwise("logit", add=1, div=1, log=1)
function("special_logit", add=1, div=1, log=1)
function("log_sigmoid", cmp=1, exp=1, log=1, add=2)
rule("aten::log_sigmoid_forward")(lambda call: per_output(call, form(cmp=1, exp=1, log=1, add=2)))
rule("aten::glu", "aten::glu_jvp")(lambda call: per_output(call, SIGMOID + form(mul=1)))

# Derivatives, per element of the gradient.
function(
    "threshold_backward", "hardtanh_backward", "leaky_relu_backward", "hardshrink_backward", "softshrink_backward",
    "rrelu_with_noise_backward",
    cmp=1,
)  # fmt: skip
function("hardsigmoid_backward", cmp=1, mul=1)
function("hardswish_backward", cmp=1, mul=1, fma=1)
function("elu_backward", cmp=1, exp=1, mul=2)
function("sigmoid_backward", **SIGMOID_BACKWARD)
function("tanh_backward", **TANH_BACKWARD)
function("silu_backward", **(SIGMOID + form(mul=3, add=2)))  # g · s · (1 + x·(1 - s))
function("mish_backward", **(SOFTPLUS + SIGMOID + form(tanh=1, mul=4, add=2)))
function("softplus_backward", exp=1, add=1, div=1, mul=1, cmp=1)
function("logit_backward", add=1, mul=1, div=1)
function("log_sigmoid_backward", exp=1, add=1, div=1, mul=1, cmp=1)


@pointwise_rule("elu", "celu")
def elu(call: OpSpec) -> Work:
    """x, or alpha·(e^x - 1) below zero; scales of the result (SELU) and of the input multiply once more each."""
    scales = call.args[2:4] if call.name.startswith("aten::elu") else ()
    return per_output(call, form(cmp=1, exp=1, add=1, mul=1 + sum(scale != 1 for scale in scales)))


@pointwise_rule("gelu")
def gelu(call: OpSpec) -> Work:
    """x/2·(1 + erf(x/√2)), or the form with tanh."""
    return per_output(call, GELU_TANH if call.kwargs.get("approximate") == "tanh" else GELU_ERF)


@rule("aten::gelu_backward", "aten::infinitely_differentiable_gelu_backward")
def gelu_backward(call: OpSpec) -> Work:
    """g·(Φ(x) + x·φ(x)): the forward's function and its density."""
    if call.kwargs.get("approximate") == "tanh":
        return per_output(call, form(tanh=1, mul=11, add=5))
    return per_output(call, form(erf=1, exp=1, mul=5, add=2))


@rule("aten::rrelu_with_noise", "aten::rrelu_with_noise_", "aten::rrelu_with_noise_functional")
def rrelu(call: OpSpec) -> Work:
    """One operation per element; in training a random slope each."""
    n = call.outputs[0].numel
    return Work(cmp=n, rand=n if call.args[4] else 0)


@rule("aten::_prelu_kernel_backward")
def prelu_backward(call: OpSpec) -> Work:
    """One operation per element by input, a masked product by weight."""
    return charge(form(cmp=1, mul=1), size_of(call.args))


@rule("aten::glu_backward", "aten::glu_backward_jvp")
def glu_backward(call: OpSpec) -> Work:
    """Both halves from the same sigmoid."""
    return charge(SIGMOID + form(mul=4, add=1), call.args[0].numel)
