"""Quantised products: a MAC is a MAC whatever its bits; rescaling a result costs a multiplication and a rounding.

A packed weight shows as (weight, bias) where capture can look inside. Where it cannot, a linear layer still counts
from its input and output, and a convolution is unknown.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._contractions import product
from ._forms import FUSED, SELECT, charge, form

RESCALE = form(mul=1, cmp=1)
NAMES = ("linear", "linear_relu", "linear_leaky_relu", "linear_tanh")
ACTIVATIONS = {"relu": SELECT, "leaky": SELECT, "tanh": form(tanh=1)}


def activation(name: str) -> Counter[str]:
    return next((counts for part, counts in ACTIVATIONS.items() if part in name), form())


def packed(value: Any) -> tuple[TensorSpec, TensorSpec | None] | None:
    """Weight and bias out of what stands for packed parameters; None when their shapes are hidden."""
    if isinstance(value, TensorSpec):
        return value, None
    if isinstance(value, tuple) and value and isinstance(value[0], TensorSpec):
        return value[0], value[1] if len(value) > 1 else None
    return None


def rescaled(call: OpSpec, out: TensorSpec) -> Work:
    """Static forms rescale every result to 8 bits; dynamic ones quantise their input and scale the result back."""
    if "dynamic" in call.name:
        n = call.args[0].numel
        return Work(cmp=3 * n, div=n, mul=out.numel)
    return charge(RESCALE, out.numel)


@rule(
    *(f"quantized::{name}" for name in NAMES),
    *(f"quantized::linear{name}" for name in ("_dynamic", "_relu_dynamic", "_dynamic_fp16", "_relu_dynamic_fp16")),
    "quantized::linear_with_input_q_dq_qweight_dq_output_fp32",
    "quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32",
    "quantized::linear_dynamic_fp16_unpacked_weight",
    "_quantized::linear",
    "_quantized::linear_dynamic",
    "_quantized::wrapped_quantized_linear",
    "_quantized::_wrapped_quantized_linear_prepacked",
    "_quantized::wrapped_fbgemm_linear_fp16_weight",
    "aten::_wrapped_quantized_linear_prepacked",
    "aten::fbgemm_linear_fp16_weight",
    "aten::fbgemm_linear_fp16_weight_fp32_activation",
    "aten::fbgemm_linear_int8_weight",
    "aten::fbgemm_linear_int8_weight_fp32_activation",
    "sparse::qlinear",
    "sparse::qlinear_relu",
    "sparse::qlinear_dynamic",
    "sparse::qlinear_relu_dynamic",
)
def linear(call: OpSpec) -> Work:
    """Every input element meets every output feature; the bias is taken to be there unless it is seen not to be."""
    x, out = call.args[0], call.out
    inside = packed(call.args[1]) if isinstance(call.args[1], tuple) else None
    bias = inside is None or inside[1] is not None
    work = product(x.numel * out.shape[-1], out.numel) + Work(bias=out.numel if bias else 0)
    scaled = Work() if "fp16" in call.name else rescaled(call, out)
    return work + scaled + charge(activation(call.name), out.numel)


@rule("onednn::qlinear_pointwise")
def onednn_linear(call: OpSpec) -> Work:
    x, weight = call.args[0], call.args[3]
    binary = call.overload.startswith("binary")
    bias = call.args[7 if binary else 6]
    n = call.out.numel
    attributes = (call.args[13], call.args[15]) if binary else (call.args[10],)
    work = product(x.numel * call.out.shape[-1], n) if weight.ndim != 2 else product(x.numel * _out(x, weight), n)
    return work + Work(bias=n if bias is not None else 0) + charge(RESCALE, n) + _post(attributes, n)


def _out(x: TensorSpec, weight: TensorSpec) -> int:
    """Output features of a (in, out) or (out, in) weight."""
    return weight.numel // max(x.shape[-1], 1)


def _post(attributes: tuple[Any, ...], n: int) -> Work:
    return sum((charge(FUSED[a], n) for a in attributes if a in FUSED), Work())


@rule("onednn::linear_dynamic_fp16", "onednn::linear_relu_dynamic_fp16")
def onednn_linear_fp16(call: OpSpec) -> Work:
    x, _, bias = call.args[:3]
    n = call.out.numel
    return product(x.numel * call.out.shape[-1], n) + Work(bias=n if bias else 0) + charge(activation(call.name), n)


@rule(
    *(f"quantized::conv{d}d{end}" for d in (1, 2, 3) for end in ("", "_relu", "_dynamic")),
    "quantized::conv2d_add",
    "quantized::conv2d_add_relu",
    "_quantized::conv2d",
    "_quantized::conv2d_relu",
    "_quantized::conv3d",
    "_quantized::conv3d_relu",
)
def convolution(call: OpSpec) -> Work | None:
    """K·Cin/g terms per output element, as the packed weight (Cout, Cin/g, K…) says."""
    added = "_add" in call.name
    inside = packed(call.args[2 if added else 1])
    if inside is None:
        return None
    weight, bias = inside
    n = call.out.numel
    work = product(n * (weight.numel // max(weight.shape[0], 1)), n) + Work(bias=n if bias is not None else 0)
    return work + rescaled(call, call.out) + charge(activation(call.name), n) + Work(add=n if added else 0)


@rule(
    *(f"quantized::conv_transpose{d}d{end}" for d in (1, 2, 3) for end in ("", "_dynamic")),
    "_quantized::conv_transpose1d",
    "_quantized::conv_transpose2d",
)
def conv_transpose(call: OpSpec) -> Work | None:
    """Every input element spread over K·Cout/g results: the weight is (Cin, Cout/g, K…)."""
    inside = packed(call.args[1])
    if inside is None:
        return None
    weight, bias = inside
    x, n = call.args[0], call.out.numel
    mac = x.numel * (weight.numel // max(weight.shape[0], 1))
    return product(mac, n) + Work(bias=n if bias is not None else 0) + rescaled(call, call.out)


@rule("onednn::qconv_pointwise", *(f"onednn::qconv{d}d_pointwise" for d in (1, 2, 3)))
def onednn_convolution(call: OpSpec) -> Work:
    weight = call.args[3]
    binary = call.overload.startswith("binary")
    bias = call.args[7 if binary else 6]
    n = call.out.numel
    attributes = (call.args[17], call.args[19]) if binary else (call.args[14],)
    channels = weight.shape[0] if weight.stride else call.out.shape[1]
    work = product(n * (weight.numel // max(channels, 1)), n)
    return work + Work(bias=n if bias is not None else 0) + charge(RESCALE, n) + _post(attributes, n)


@rule("quantized::matmul")
def matmul(call: OpSpec) -> Work:
    a, n = call.args[0], call.out.numel
    return product(n * a.shape[-1], n) + charge(RESCALE, n)


@rule(
    *(f"quantized::{name}" for name in ("add", "add_relu", "add_out", "add_relu_out", "add_scalar", "add_scalar_relu")),
    *(f"quantized::{name}" for name in ("mul", "mul_relu", "mul_out", "mul_relu_out", "mul_scalar", "mul_scalar_relu")),
    *(f"quantized::{op}_scalar{end}_out" for op in ("add", "mul") for end in ("", "_relu")),
    *(f"onednn::{name}" for name in ("qadd", "qadd_relu", "qmul")),
    "_quantized::add",
)
def arithmetic(call: OpSpec) -> Work:
    """Two numbers brought to one scale, combined and scaled back."""
    each = form(mul=1) if "mul" in call.name else form(add=1)
    return charge(each + form(mul=2) + RESCALE + activation(call.name), call.out.numel)


@rule(*(f"quantized::{name}" for name in ("cat", "cat_relu", "cat_out", "cat_relu_out", "dropout")))
def moved(call: OpSpec) -> Work:
    return charge(RESCALE + activation(call.name), call.out.numel) if "cat" in call.name else Work()


POINTWISE = {
    "clamp": SELECT, "threshold": SELECT, "relu6": SELECT, "leaky_relu": SELECT, "prelu": SELECT,
    "hardswish": form(add=1, cmp=1, mul=1, div=1), "sigmoid": form(exp=1, add=1, div=1),
    "elu": form(cmp=1, exp=1, add=1, mul=1), "celu": form(cmp=1, exp=1, add=1, mul=1),
    "softmax": form(cmp=1, exp=1, add=2, div=1),
}  # fmt: skip


@rule(*(f"quantized::{name}" for name in POINTWISE))
def pointwise(call: OpSpec) -> Work:
    return charge(POINTWISE[call.name.removeprefix("quantized::")] + RESCALE, call.outputs[0].numel)


@rule(
    *(f"quantized::batch_norm{d}{end}" for d in ("", "1d", "2d", "3d") for end in ("", "_relu")),
    "onednn::qbatch_norm2d",
)
def batch_norm(call: OpSpec) -> Work:
    return charge(form(fma=2) + RESCALE + activation(call.name), call.out.numel)


@rule("quantized::layer_norm", "quantized::group_norm", "quantized::instance_norm")
def row_norm(call: OpSpec) -> Work:
    return charge(form(add=1, fma=3) + RESCALE, call.out.numel)
