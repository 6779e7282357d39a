"""Convolutions: every output element is a dot product of K·Cin/g terms; a transposed one spreads every INPUT
element over K·Cout/g.

Positions in the padding count as terms, as in every published figure.
"""

from __future__ import annotations

from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._contractions import product
from ._forms import FUSED, charge


def forward(x: TensorSpec, weight: TensorSpec, out: TensorSpec, bias: Any = None, *, transposed: bool = False) -> Work:
    """N·Cout·out_positions·K·Cin/g; transposed N·Cin·in_positions·K·Cout/g."""
    work = product(terms(x, weight, out, transposed=transposed), out.numel, weight)
    if bias is not None:
        work.bias = out.numel * (2 if out.dtype.startswith("complex") else 1)
    return work


def terms(x: TensorSpec, weight: TensorSpec, out: TensorSpec, *, transposed: bool) -> int:
    """MACs. The weight is (Cout, Cin/g, K…), transposed (Cin, Cout/g, K…); its first axis is the channels of
    `charged`.
    """
    charged = x if transposed else out
    channels = weight.shape[0] if weight.stride else charged.shape[1]  # an opaque oneDNN weight may be (g, Cout/g, …)
    return charged.numel * (weight.numel // max(channels, 1))


@rule("aten::convolution", "aten::_convolution", "aten::convolution_overrideable")
def convolution(call: OpSpec) -> Work:
    x, weight, bias, _, _, _, transposed = call.args[:7]
    return forward(x, weight, call.out, bias, transposed=transposed)


@rule(
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::_convolution_mode",
    "aten::mkldnn_convolution",
    "aten::miopen_convolution",
    "aten::miopen_depthwise_convolution",
    "aten::_mps_convolution",
    "aten::_nnpack_spatial_convolution",
)
def plain(call: OpSpec) -> Work:
    x, weight, bias = call.args[:3]
    return forward(x, weight, call.out, bias)


@rule(
    "aten::conv_transpose1d",
    "aten::conv_transpose2d",
    "aten::conv_transpose3d",
    "aten::miopen_convolution_transpose",
)
def transposed(call: OpSpec) -> Work:
    x, weight, bias = call.args[:3]
    return forward(x, weight, call.out, bias, transposed=True)


@rule("aten::cudnn_convolution")
def cudnn(call: OpSpec) -> Work:
    return forward(call.args[0], call.args[1], call.out)


@rule("aten::cudnn_convolution_transpose", "aten::_mps_convolution_transpose")
def cudnn_transposed(call: OpSpec) -> Work:
    return forward(call.args[0], call.args[1], call.out, transposed=True)


@rule(
    "aten::_conv_depthwise2d",
    "aten::conv_depthwise3d",
    "aten::_slow_conv2d_forward",
    "aten::slow_conv3d_forward",
    "aten::slow_conv3d",
    "aten::thnn_conv2d",
    "aten::slow_conv_dilated2d",
    "aten::slow_conv_dilated3d",
)
def with_kernel_size(call: OpSpec) -> Work:
    x, weight, _, bias = call.args[:4]
    return forward(x, weight, call.out, bias)


@rule("aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d")
def slow_transposed(call: OpSpec) -> Work:
    x, weight, _, bias = call.args[:4]
    return forward(x, weight, call.out, bias, transposed=True)


@rule("aten::cudnn_convolution_relu", "aten::miopen_convolution_relu")
def with_relu(call: OpSpec) -> Work:
    x, weight, bias = call.args[:3]
    return forward(x, weight, call.out, bias) + Work(cmp=call.out.numel)


@rule("aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu")
def with_add_relu(call: OpSpec) -> Work:
    """relu(conv(x) + alpha·z)"""
    x, weight, _, alpha, bias = call.args[:5]
    n = call.out.numel
    return forward(x, weight, call.out, bias) + Work(add=n, cmp=n, mul=0 if alpha in (None, 1) else n)


@rule("mkldnn::_convolution_pointwise")
def pointwise_fused(call: OpSpec) -> Work:
    """A convolution with an activation, or with an addition and an activation, fused in: one operation each."""
    x, *rest = call.args
    binary = call.overload == "binary"
    weight, bias = rest[1:3] if binary else rest[:2]
    attributes = (call.args[8], call.args[10]) if binary else (call.args[7],)
    return forward(x, weight, call.out, bias) + _fused(attributes, call.out.numel)


@rule("mkldnn::_convolution_pointwise_")
def pointwise_fused_inplace(call: OpSpec) -> Work:
    _, x, weight, bias = call.args[:4]
    return forward(x, weight, call.out, bias) + _fused((call.args[8], call.args[10]), call.out.numel)


@rule("mkldnn::_convolution_transpose_pointwise")
def transpose_pointwise(call: OpSpec) -> Work:
    x, weight, bias = call.args[:3]
    return forward(x, weight, call.out, bias, transposed=True) + _fused((call.args[8],), call.out.numel)


def _fused(attributes: tuple[str | None, ...], n: int) -> Work:
    return sum((charge(FUSED[a], n) for a in attributes if a in FUSED), Work())


@rule("aten::conv_tbc")
def conv_tbc(call: OpSpec) -> Work:
    """Time × batch × channels; the weight is (K, Cin, Cout)."""
    _, weight, bias = call.args[:3]
    n = call.out.numel
    return product(n * weight.shape[0] * weight.shape[1], n) + Work(bias=n if bias is not None else 0)


@rule("aten::conv_tbc_backward")
def conv_tbc_backward(call: OpSpec) -> Work:
    grad, x, weight = call.args[:3]
    mac = grad.numel * weight.shape[0] * weight.shape[1]
    return product(mac, x.numel) + product(mac, weight.numel) + Work(add=max(grad.numel - weight.shape[2], 0))


@rule("aten::convolution_backward", "aten::convolution_backward_overrideable")
def convolution_backward(call: OpSpec) -> Work:
    """One product of the forward's size per gradient asked for (input, weight); the bias gradient is a sum."""
    grad, x, weight = call.args[:3]
    is_transposed = call.args[7 if call.name == "aten::convolution_backward" else 6]
    return backward(grad, x, weight, call.args[-1], transposed=is_transposed)


def backward(
    grad: TensorSpec, x: TensorSpec, weight: TensorSpec, mask: tuple[bool, ...], *, transposed: bool = False
) -> Work:
    mac = terms(x, weight, grad, transposed=transposed)
    work = Work()
    if mask[0]:
        work += product(mac, x.numel, weight)
    if mask[1]:
        work += product(mac, weight.numel, weight)
    if len(mask) > 2 and mask[2]:
        channels = grad.shape[1] if grad.ndim == weight.ndim else grad.shape[0]
        work += Work(add=max(grad.numel - channels, 0))
    return work


@rule("aten::_slow_conv2d_backward")
def slow_conv2d_backward(call: OpSpec) -> Work:
    grad, x, weight = call.args[:3]
    mask = call.args[-1]
    return backward(grad, x, weight, mask if isinstance(mask[0], bool) else (True, True, True))


@rule("aten::mps_convolution_backward")
def mps_backward(call: OpSpec) -> Work:
    x, grad, weight = call.args[:3]
    return backward(grad, x, weight, call.args[-1])


@rule("aten::mps_convolution_transpose_backward")
def mps_transpose_backward(call: OpSpec) -> Work:
    x, grad, weight = call.args[:3]
    return backward(grad, x, weight, call.args[-1], transposed=True)


@rule("aten::_convolution_double_backward")
def double_backward(call: OpSpec) -> Work:
    """Per gradient of a gradient given, one product for the output and one for the operand it meets."""
    given_input, given_weight, _, grad, weight, x = call.args[:6]
    mac = terms(x, weight, grad, transposed=call.args[9])
    work = Work()
    for given, other in ((given_input, weight), (given_weight, x)):
        if given is not None:
            work += product(mac, grad.numel, weight) + product(mac, other.numel, weight)
    return work
