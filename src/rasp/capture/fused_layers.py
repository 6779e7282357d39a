"""Layers that a CUDA device runs as one kernel where nothing is trained, taken apart into what that kernel allocates.

nn.MultiheadAttention and nn.TransformerEncoderLayer have a fast path in evaluation (torch 2.11:
aten/src/ATen/native/transformers/cuda/attention.cu, native_multi_head_attention_cuda, and transformer.cpp), which
meta tensors never take. Where memory is asked for as it is on a CUDA device, the forwards here stand before torch's:
the same products on the same modules, with the storages of the fused kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from .routes import ways_now
from .specs import tensor_spec

Tensor = torch.Tensor
aten = torch.ops.aten
_attention, _layer = nn.MultiheadAttention.forward, nn.TransformerEncoderLayer.forward


@contextmanager
def fused_layers(ways: Any) -> Iterator[None]:
    """While memory is asked for as on a device that has these kernels, let them be taken."""
    if ways is None:
        yield
        return
    before = nn.MultiheadAttention.forward, nn.TransformerEncoderLayer.forward
    nn.MultiheadAttention.forward, nn.TransformerEncoderLayer.forward = attention, layer  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        nn.MultiheadAttention.forward, nn.TransformerEncoderLayer.forward = before  # type: ignore[method-assign]


def attention(self: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
    """nn.MultiheadAttention.forward, with its fast path."""
    names = ("key_padding_mask", "need_weights", "attn_mask", "average_attn_weights", "is_causal")
    given = {"need_weights": True, "average_attn_weights": True} | dict(zip(names, args)) | kwargs
    masks = given.get("attn_mask"), given.get("key_padding_mask")
    fast = (
        query is key
        and key is value
        and self.batch_first
        and not any(mask is not None and mask.is_floating_point() for mask in masks)
        and _may(self, query)
    )
    if not fast:
        return _attention(self, query, key, value, *args, **kwargs)
    out, weights = _fused(self, query, *masks, given["need_weights"])
    if weights is not None:
        weights = weights.sum(1).div_(self.num_heads) if given["average_attn_weights"] else weights
    return out, weights


def layer(
    self: nn.TransformerEncoderLayer,
    src: Tensor,
    src_mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """nn.TransformerEncoderLayer.forward, with its fast path: sums and the activation write where they read."""
    inner = self.self_attn
    fast = (
        inner.batch_first
        and inner.in_proj_bias is not None
        and self.activation_relu_or_gelu
        and self.norm1.eps == self.norm2.eps
        and not any(m._forward_hooks or m._forward_pre_hooks for m in self.modules())
        and _may(inner, src, [*self.parameters()])
    )
    if not fast:
        return _layer(self, src, src_mask, src_key_padding_mask, is_causal)
    x = self.norm1(src) if self.norm_first else src
    x = self.dropout1(inner(x, x, x, attn_mask=src_mask, key_padding_mask=src_key_padding_mask, need_weights=False)[0])
    x.add_(src)
    if not self.norm_first:
        x = self.norm1(x)
    before = x
    if self.norm_first:
        x = self.norm2(x)
    wide = self.linear1(x)
    wide = wide.relu_() if self.activation_relu_or_gelu == 1 else aten.gelu_(wide)
    x = self.dropout2(self.linear2(self.dropout(wide)))  # in evaluation each gives back what it gets
    del wide
    x.add_(before)
    return x if self.norm_first else self.norm2(x)  # type: ignore[no-any-return]


def _may(module: nn.MultiheadAttention, x: Tensor, parameters: list[Tensor] | None = None) -> bool:
    """What both fast paths ask of a layer and its input."""
    if ways_now() is None or x.dim() != 3 or module.training or module.num_heads % 2 or torch.is_autocast_enabled():
        return False
    if module.in_proj_weight is None or not module._qkv_same_embed_dim or module.in_proj_weight.dtype != x.dtype:
        return False
    if module.bias_k is not None or module.bias_v is not None or module.add_zero_attn or x.is_nested:
        return False
    own = [module.in_proj_weight, module.out_proj.weight] if parameters is None else parameters
    return not (torch.is_grad_enabled() and any(t.requires_grad for t in (x, *own)))


def _fused(
    module: nn.MultiheadAttention, x: Tensor, mask: Tensor | None, padding: Tensor | None, need_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """What native_multi_head_attention_cuda allocates: a fused kernel where it may, else products of its own."""
    batch, rows, width = x.shape
    heads, each = module.num_heads, width // module.num_heads
    weight, bias, last = module.in_proj_weight, module.in_proj_bias, module.out_proj
    if each % 8 == 0 and not need_weights and mask is None and padding is None:
        like = tensor_spec(x.view(batch, rows, heads, each).transpose(1, 2))
        if ways_now().attention(like, like, like, "none", gqa=False, grad=False) != "math":
            packed = F.linear(x, weight, bias)
            q, k, v = (part.view(batch, rows, heads, each).transpose(1, 2) for part in packed.chunk(3, -1))
            done = F.scaled_dot_product_attention(q, k, v)
            return F.linear(done.transpose(1, 2).reshape(batch, rows, width), last.weight, last.bias), None
    packed = F.linear(x, weight)
    packed = (packed if bias is None else packed + bias).view(batch, rows, 3, heads, each).permute(2, 0, 3, 1, 4)
    q, k, v = (part.reshape(batch * heads, rows, each) for part in packed.contiguous())
    q.mul_(each**-0.5)
    scores = torch.bmm(q, k.transpose(1, 2)).view(batch, heads, rows, rows)
    scores = _softmax(scores, _merged(mask, padding, scores))
    torch.bmm(scores.view(batch * heads, rows, rows), v, out=q)  # the context is written where the queries were
    weights = scores if need_weights else None
    del scores
    done = q.view(batch, heads, rows, each).transpose(1, 2).reshape(batch, rows, width)
    return F.linear(done, last.weight, last.bias), weights


def _merged(mask: Tensor | None, padding: Tensor | None, scores: Tensor) -> Tensor | None:
    """Both masks as one, of the shape of the scores where there are two."""
    batch, heads, rows, columns = scores.shape
    found = None if mask is None else mask.view(-1, 1, rows, columns).expand(-1, heads, -1, -1)
    if padding is None:
        return found
    along = padding.view(batch, 1, 1, columns).expand(-1, heads, -1, -1)
    return along if found is None else found.logical_or(along)


def _softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Without a mask the softmax writes where it reads."""
    if mask is None:
        return aten._softmax.out(scores, dim=-1, half_to_float=False, out=scores)  # type: ignore[no-any-return]
    kept = mask.expand(scores.shape).to(torch.bool, copy=True)
    found = torch.softmax(scores, -1)
    del kept
    return found
