"""The closed form of attention: two full products forward, four backward, whatever kernel runs.

Per head, L queries and S keys of E features, values of V features: q·kᵀ is L·S·E, p·v is L·S·V. A causal mask does not
halve that; `causal` holds what a causal kernel may skip. The elementwise part is that of the definition as torch
decomposes it (aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math): q and k scaled
by √scale each, a mask (given or causal) added to every score, a softmax, dropout. So one model counts the same
whichever kernel a device picks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..records import TensorSpec
from . import Work
from ._forms import DROPOUT, charge, softmax, softmax_backward


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one attention: `heads` counts query heads of the whole batch, `kv_heads` those of keys and values."""

    heads: int
    kv_heads: int
    queries: int
    keys: int
    features: int
    values: int
    masked: bool = False
    skipped: int = 0  # pairs per head that a causal or windowed kernel may skip
    dropout: float = 0.0

    @property
    def pairs(self) -> int:
        return self.heads * self.queries * self.keys


def forward(a: Shape) -> Work:
    """Two products, scaled, masked, normalised."""
    rows = a.heads * a.queries
    work = Work(
        mac=a.pairs * (a.features + a.values),
        dot=(a.pairs if a.features else 0) + (rows * a.values if a.keys else 0),
        causal=a.heads * a.skipped * (a.features + a.values),
        mul=a.heads * (a.queries + a.keys) * a.features,
        add=a.pairs if a.masked else 0,
    )
    work += softmax(a.pairs, rows)
    return work + charge(DROPOUT, a.pairs) if a.dropout > 0 else work


def backward(a: Shape, wanted: tuple[bool, ...] = (True, True, True, False)) -> Work:
    """Four products: dV = pᵀ·dO, dP = dO·vᵀ, dQ = dS·k, dK = dSᵀ·q; every kernel computes q·kᵀ once more.

    `wanted` says of which of q, k, v and mask the gradient is: where one is frozen, its product is left out.
    """
    q, k, v, mask = wanted
    scores = q or k or mask
    per_pair = a.values * (v + scores) + a.features * (q + k)
    grown = (
        (a.heads - a.kv_heads) * a.keys * (a.features * k + a.values * v)
    )  # gradients of shared key heads are summed
    work = Work(
        mac=a.pairs * per_pair,
        dot=a.heads * (a.queries * (a.keys * scores + a.features * q) + a.keys * (a.values * v + a.features * k))
        if a.pairs
        else 0,
        causal=a.heads * a.skipped * per_pair,
        recompute=a.pairs * a.features,
        mul=a.heads * (a.queries * q + a.keys * k) * a.features + (a.pairs if a.dropout > 0 else 0),
        add=grown,
    )
    return work + softmax_backward(a.pairs, a.heads * a.queries) if scores else work


def causal_pairs(queries: int, keys: int) -> int:
    """Pairs above the diagonal that starts at the first query and first key."""
    return keys * (keys - 1) // 2 if queries >= keys else queries * keys - queries * (queries + 1) // 2


def window_pairs(queries: int, keys: int, left: int | None, right: int | None) -> int:
    """Pairs outside a window around the diagonal that ends at the last query and last key (None or -1: unbounded)."""
    shift, seen = keys - queries, 0
    for i in range(shift, shift + queries):
        first = 0 if left is None or left < 0 else max(0, i - left)
        last = keys - 1 if right is None or right < 0 else min(keys - 1, i + right)
        seen += max(0, last - first + 1)
    return queries * keys - seen


def heads_first(
    q: TensorSpec, k: TensorSpec, v: TensorSpec, mask: Any, dropout: float = 0.0, *, causal: bool = False
) -> Shape:
    """The Shape of (…, heads, length, features) tensors."""
    (queries, features), (keys, values) = q.shape[-2:], v.shape[-2:]
    batch = _batch(q, k)
    kv_heads = batch // max(q.shape[-3], 1) * k.shape[-3] if q.ndim > 2 and k.ndim > 2 else batch
    skipped = causal_pairs(queries, keys) if causal else 0
    return Shape(batch, kv_heads, queries, keys, features, values, causal or mask is not None, skipped, dropout)


def _batch(q: TensorSpec, k: TensorSpec) -> int:
    """Heads of the whole batch: leading axes broadcast, the head axis is the query's."""
    count = q.shape[-3] if q.ndim > 2 else 1
    for i in range(4, max(q.ndim, k.ndim) + 1):
        count *= max(q.shape[-i] if q.ndim >= i else 1, k.shape[-i] if k.ndim >= i else 1)
    return count


def packed(q: TensorSpec, k: TensorSpec, v: TensorSpec, starts: Any) -> Shape:
    """The Shape of (batch, length, heads, features) tensors, or of (total length, heads, features) ones with
    `starts`.
    """
    heads, features = q.shape[-2:]
    if starts is None:
        batch, queries, keys = q.shape[0], q.shape[-3], k.shape[-3]
    else:
        batch = max(starts.shape[0] - 1, 1)
        queries, keys = -(-_length(q) // batch), -(-_length(k) // batch)
    return Shape(batch * heads, batch * k.shape[-2], queries, keys, features, v.shape[-1])


def _length(tensor: TensorSpec) -> int:
    return tensor.numel // max(tensor.shape[-1] * tensor.shape[-2], 1)


def windowed(a: Shape, window: Any, causal: Any) -> Shape:
    """Causal (from the last query) or bounded to a window; -1 and None leave a side open."""
    left, right = window or (None, None)
    bounded = causal or any(w is not None and w >= 0 for w in (left, right))
    skipped = window_pairs(a.queries, a.keys, left, 0 if causal else right) if bounded else 0
    return replace(a, masked=bool(bounded), skipped=skipped)
