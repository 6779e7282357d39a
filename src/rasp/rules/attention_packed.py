"""Attention kernels one level below SDPA (batch, length, heads, features), with sequences of unequal length packed
or not.

Of packed sequences only the number and the total length are known: they count as equally long (rounded up).
"""

from __future__ import annotations

from dataclasses import replace

from ..records import OpSpec
from . import Work, rule
from ._attention import Shape, backward, causal_pairs, forward, heads_first, packed, window_pairs, windowed


def flash_shape(call: OpSpec, first: int, starts: int, causal: int, dropout: int) -> Shape:
    q, k, v = call.args[first : first + 3]
    a = packed(q, k, v, call.args[starts])
    window = (call.kwargs.get("window_size_left"), call.kwargs.get("window_size_right"))
    return replace(windowed(a, window, call.args[causal]), dropout=call.args[dropout])


@rule("aten::_flash_attention_forward")
def flash_forward(call: OpSpec) -> Work:
    return forward(flash_shape(call, first=0, starts=3, causal=8, dropout=7))


@rule("aten::_flash_attention_forward_no_dropout_inplace")
def flash_forward_inplace(call: OpSpec) -> Work:
    return forward(flash_shape(call, first=1, starts=4, causal=9, dropout=8))


@rule("aten::_flash_attention_backward")
def flash_backward(call: OpSpec) -> Work:
    return backward(flash_shape(call, first=1, starts=6, causal=11, dropout=10))


def efficient_shape(call: OpSpec, first: int, bias: int, starts: int, mask: int, dropout: int) -> Shape:
    """`custom_mask_type` is 0: none, 1: causal from the first query, 2: causal from the last."""
    q, k, v = call.args[first : first + 3]
    a, causal = packed(q, k, v, call.args[starts]), call.args[mask]
    skipped = causal_pairs(a.queries, a.keys) if causal == 1 else 0
    if causal == 2:
        skipped = window_pairs(a.queries, a.keys, None, 0)
    masked = bool(causal) or call.args[bias] is not None
    return replace(a, masked=masked, skipped=skipped, dropout=call.args[dropout])


@rule("aten::_efficient_attention_forward")
def efficient_forward(call: OpSpec) -> Work:
    return forward(efficient_shape(call, first=0, bias=3, starts=4, mask=9, dropout=8))


@rule("aten::_efficient_attention_backward")
def efficient_backward(call: OpSpec) -> Work:
    return backward(efficient_shape(call, first=1, bias=4, starts=6, mask=14, dropout=11))


@rule("aten::_cudnn_attention_forward")
def cudnn_forward(call: OpSpec) -> Work:
    q, k, v, mask, starts = call.args[:5]
    if starts is None:
        return forward(heads_first(q, k, v, mask, call.args[9], causal=call.args[10]))
    a = packed(q, k, v, starts)
    skipped = causal_pairs(a.queries, a.keys) if call.args[10] else 0
    return forward(replace(a, masked=bool(call.args[10]) or mask is not None, skipped=skipped, dropout=call.args[9]))


@rule("torch_attn::_varlen_attn", "torch_attn::_varlen_attn_out")
def varlen(call: OpSpec) -> Work:
    return forward(_varlen(call, first=1 if call.name.endswith("_out") else 0))


@rule("torch_attn::_varlen_attn_backward")
def varlen_backward(call: OpSpec) -> Work:
    _, q, k, v, _, _, starts, _, _, _, causal = call.args[:11]
    return backward(windowed(packed(q, k, v, starts), call.args[13], causal))


def _varlen(call: OpSpec, first: int) -> Shape:
    q, k, v, starts = call.args[first : first + 4]
    return windowed(packed(q, k, v, starts), call.args[first + 9], call.args[first + 7])
