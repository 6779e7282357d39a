"""Into and out of few bits: quantising is a division, an offset and a rounding with its bounds, going back a difference
and a product. Fake quantisation does both."""

from __future__ import annotations

from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, bytes_read, rule
from ._forms import charge, form, size_of

QUANTISE = form(div=1, add=1, cmp=2)
DEQUANTISE = form(add=1, mul=1)


@rule("aten::quantize_per_tensor", "aten::quantize_per_channel")
def quantise(call: OpSpec) -> Work:
    return charge(QUANTISE, sum(t.numel for t in call.outputs))


@rule("aten::quantize_per_tensor_dynamic")
def quantise_dynamic(call: OpSpec) -> Work:
    """The extremes first."""
    return charge(QUANTISE + form(cmp=2), size_of(call.out))


@rule("aten::dequantize")
def dequantise(call: OpSpec) -> Work:
    return charge(DEQUANTISE, sum(t.numel for t in call.outputs))


@rule(
    *(f"aten::fake_quantize_per_{kind}_affine{end}" for kind in ("tensor", "channel") for end in ("", "_cachemask")),
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
    "aten::_fake_quantize_learnable_per_tensor_affine",
    "aten::_fake_quantize_learnable_per_channel_affine",
)
def fake_quantise(call: OpSpec) -> Work:
    return charge(QUANTISE + DEQUANTISE, size_of(call.out))


@rule(
    "aten::fake_quantize_per_tensor_affine_cachemask_backward",
    "aten::fake_quantize_per_channel_affine_cachemask_backward",
)
def fake_quantise_backward(call: OpSpec) -> Work:
    """The gradient where the value was in bounds."""
    return Work(mul=size_of(call.out))


@rule(
    "aten::_fake_quantize_learnable_per_tensor_affine_backward",
    "aten::_fake_quantize_learnable_per_channel_affine_backward",
)
def learnable_backward(call: OpSpec) -> Work:
    """Gradients of value, scale and zero point: two sums of products more."""
    return charge(form(mul=1, fma=2, add=1) + QUANTISE, size_of(call.out))


@rule(
    "aten::_fused_moving_avg_obs_fq_helper",
    "aten::_fused_moving_avg_obs_fq_helper_functional",
    "aten::fused_moving_avg_obs_fake_quant",
)
def observed(call: OpSpec) -> Work:
    """The extremes observed, then fake quantisation."""
    return charge(QUANTISE + DEQUANTISE + form(cmp=2), size_of(call.out))


@rule("aten::_choose_qparams_per_tensor")
def choose_qparams(call: OpSpec) -> Work:
    return Work(cmp=2 * call.args[0].numel)


@rule("aten::choose_qparams_optimized")
def choose_qparams_optimised(call: OpSpec) -> Work:
    """A search over bins: one quantisation error of the whole tensor per step."""
    x, _, bins, ratio = call.args[:4]
    steps = max(int(bins * ratio), 1)
    return charge(QUANTISE + DEQUANTISE + form(add=1, fma=1), 2 * steps * x.numel)


@rule(
    "aten::int_repr",
    "aten::_make_per_tensor_quantized_tensor",
    "aten::_make_per_channel_quantized_tensor",
    "aten::fbgemm_pack_quantized_matrix",
    "aten::fbgemm_pack_gemm_matrix_fp16",
    "aten::_wrapped_linear_prepack",
    "_quantized::_wrapped_linear_prepack",
    "_quantized::wrapped_fbgemm_pack_gemm_matrix_fp16",
    *(f"quantized::linear_prepack{end}" for end in ("", "_fp16", "_fp16_legacy", "_legacy")),
    *(f"quantized::conv{d}_prepack" for d in ("1d", "2d", "3d", "", "_transpose1d", "_transpose2d", "_transpose3d")),
    *(f"quantized::conv{d}_unpack" for d in ("1d", "2d", "3d", "", "_transpose1d", "_transpose2d", "_transpose3d")),
    "quantized::linear_unpack",
    "quantized::linear_unpack_fp16",
    "onednn::qlinear_prepack",
    "onednn::qconv_prepack",
    "onednn::linear_prepack_fp16",
    "sparse::qlinear_prepack",
    "sparse::qlinear_unpack",
    *(f"quantized::make_quantized_cell_params{end}" for end in ("", "_dynamic", "_fp16")),
    *(f"quantized::embedding_bag_{bits}_unpack" for bits in ("byte", "4bit", "2bit")),
    "quantized::embedding_bag_prepack",
    "quantized::embedding_bag_unpack",
)
def packed(call: OpSpec) -> Work:
    """Bytes in another order."""
    return Work()


@rule(
    "aten::fbgemm_linear_quantize_weight",
    *(f"quantized::embedding_bag_{bits}_prepack" for bits in ("byte", "4bit", "2bit")),
)
def pack_by_rows(call: OpSpec) -> Work:
    """Each row quantised between its extremes."""
    return charge(QUANTISE + form(cmp=2), size_of(call.args))


BAGS = tuple(f"quantized::embedding_bag_{name}" for name in ("byte", "4bit"))
BAG_ROWS = tuple(f"quantized::embedding_bag_{bits}_rowwise_offsets" for bits in ("byte", "4bit", "2bit"))


@rule(*BAGS, *BAG_ROWS)
def embedding_bag(call: OpSpec) -> Work:
    """Rows dequantised by a multiply-add and added up per bag."""
    return _looked_up(call, call.args[1], bag=True)


@rule("quantized::embedding_byte", "quantized::embedding_4bit")
def embedding(call: OpSpec) -> Work:
    return _looked_up(call, call.args[1], bag=False)


def _looked_up(call: OpSpec, indices: Any, *, bag: bool) -> Work:
    width = call.out.shape[-1]
    n = indices.numel * width
    bits = 4 if "4bit" in call.name else 2 if "2bit" in call.name else 8
    hidden = not isinstance(call.args[0], TensorSpec)
    read = (bytes_read(call) if hidden else bytes_read(call, skip=(0,))) + n * bits // 8
    return Work(fma=n, add=max(n - call.out.numel, 0) if bag else 0, read=read)
