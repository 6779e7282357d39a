"""Matrix products of 8- and 4-bit weights and of grouped (expert) matrices: MACs as ever, scales apart."""

from __future__ import annotations

from typing import Any

from ..records import OpSpec
from . import Work, rule
from ._contractions import product


@rule("aten::_scaled_mm")
def scaled_mm(call: OpSpec) -> Work:
    """An 8-bit product with its scales: one multiplication per result for the scales, one addition for a bias."""
    return _scaled(call, call.args[4])


@rule("aten::_scaled_mm_v2")
def scaled_mm_v2(call: OpSpec) -> Work:
    return _scaled(call, call.args[8])


def _scaled(call: OpSpec, bias: Any) -> Work:
    a, b = call.args[:2]
    n = call.out.numel
    pack = 2 if a.dtype.endswith("x2") else 1  # two 4-bit values to a byte, along the contracted axis
    return product(a.numel * pack * b.shape[-1], n) + Work(mul=n, bias=n if bias is not None else 0)


@rule("aten::_grouped_mm", "aten::_scaled_grouped_mm", "aten::_scaled_grouped_mm_v2")
def grouped_mm(call: OpSpec) -> Work:
    """Each row of a meets the matrix of its group: (tokens, k) × (groups, k, n) is tokens·k·n, however they are
    divided.
    """
    a, b = call.args[:2]
    n = call.out.numel
    rows, k = a.numel // max(a.shape[-1], 1), a.shape[-1]
    if a.ndim == 3 and b.ndim == 2:
        rows = a.shape[1]  # the groups divide b's columns: each column meets the rows of one group
    work = product(rows * k * b.shape[-1], n, a)
    position = {"aten::_grouped_mm": 3, "aten::_scaled_grouped_mm": 5, "aten::_scaled_grouped_mm_v2": 9}[call.name]
    scales = 0 if call.name == "aten::_grouped_mm" else n
    return work + Work(mul=scales, bias=n if call.args[position] is not None else 0)


@rule("aten::_weight_int8pack_mm")
def int8pack_mm(call: OpSpec) -> Work:
    """Activations × int8 weights (n, k), one scale per output feature."""
    return product(call.args[0].numel * call.out.shape[-1], call.out.numel) + Work(mul=call.out.numel)


@rule(
    "aten::_weight_int4pack_mm",
    "aten::_weight_int4pack_mm_for_cpu",
    "aten::_weight_int4pack_mm_with_scales_and_zeros",
    "quantized::int4mm_packed_weight_cpu",
)
def int4pack_mm(call: OpSpec) -> Work:
    """Activations × 4-bit weights; every weight is unpacked as value·scale + zero once."""
    x, n = call.args[0], call.out.shape[-1]
    return product(x.numel * n, call.out.numel) + Work(fma=x.shape[-1] * n)


@rule("aten::_dyn_quant_matmul_4bit")
def dyn_quant_matmul(call: OpSpec) -> Work:
    """Activations quantised on the fly (one division and rounding each), then in·out MACs a row."""
    x, out_features = call.args[0], call.args[4]
    return product(x.numel * out_features, call.out.numel) + Work(div=x.numel, cmp=x.numel, mul=call.out.numel)
