"""Multi-head attention and encoder layers that run as one operator: projections, attention, feed-forward, in their
parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._attention import Shape, forward
from ._forms import AFFINE, GELU_ERF, MOMENTS, SELECT, charge, elements


def linear(rows: int, weight: TensorSpec) -> Work:
    """x·Wᵀ + b of so many rows."""
    out = rows * weight.shape[0]
    return Work(mac=rows * weight.numel, dot=out if weight.numel else 0, bias=out)


def heads(q: TensorSpec, k: TensorSpec, embed: int, count: int, mask: Any) -> Shape:
    """The Shape inside (batch, length, embed) tensors; of nested ones only the mean length is known."""
    batch = max(q.shape[0], 1)
    queries, keys = (elements(t) // (batch * embed) if t.nnz is not None else t.shape[1] for t in (q, k))
    size = embed // count
    return Shape(batch * count, batch * count, queries, keys, size, size, mask is not None)


@rule("aten::_native_multi_head_attention", "aten::_triton_multi_head_attention")
def native_multi_head_attention(call: OpSpec) -> Work:
    """in_proj (q, k, v), attention, out_proj; with weights wanted only q is scaled, and they are averaged over the
    heads.
    """
    q, k, _, embed, count, qkv, _, proj, _, mask = call.args[:10]
    need_weights, average = call.args[10:12] if len(call.args) > 10 else (False, False)
    a = heads(q, k, embed, count, mask)
    rows_q, rows_k = elements(q) // embed, elements(k) // embed
    third = replace_rows(qkv)
    work = linear(rows_q, third) + 2 * linear(rows_k, third) + linear(rows_q, proj) + forward(a)
    if need_weights:
        work.mul -= a.heads * a.keys * a.features
        if average:
            averaged = a.pairs // max(count, 1)
            work += Work(add=a.pairs - averaged, div=averaged)
    return work


def replace_rows(qkv: TensorSpec) -> TensorSpec:
    """One third of a packed q, k, v weight."""
    return replace(qkv, shape=(qkv.shape[0] // 3, *qkv.shape[1:]))


@rule("aten::_transformer_encoder_layer_fwd")
def encoder_layer(call: OpSpec) -> Work:
    """Self-attention and a two-layer feed-forward, each with a residual addition and a layer normalisation."""
    x, embed, count, qkv, _, proj, _, use_gelu = call.args[:8]
    first, second = call.args[14], call.args[16]
    mask = call.args[18]
    n = elements(x)
    rows = n // embed
    work = linear(rows, qkv) + linear(rows, proj) + forward(heads(x, x, embed, count, mask))
    work += linear(rows, first) + linear(rows, second)
    work += charge(GELU_ERF if use_gelu else SELECT, rows * first.shape[0])
    normalised = charge(MOMENTS + AFFINE + AFFINE, n)
    return work + 2 * normalised + Work(add=2 * n)


@rule("aten::_transform_bias_rescale_qkv")
def transform_bias_rescale_qkv(call: OpSpec) -> Work:
    """Adds the bias to q, k and v and scales q."""
    n = elements(call.args[0])
    return Work(bias=n, mul=n // 3)
