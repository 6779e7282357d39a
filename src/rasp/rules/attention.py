"""Scaled dot-product attention under all its names, and flex attention."""

from __future__ import annotations

from typing import Any

from ..records import OpSpec
from . import Work, free, rule
from ._attention import backward, forward, heads_first

free("aten::_fused_sdp_choice")


@rule("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_attention_math")
def sdpa(call: OpSpec) -> Work:
    q, k, v, mask, dropout, causal = call.args[:6]
    return forward(heads_first(q, k, v, mask, dropout, causal=causal))


@rule("aten::_scaled_dot_product_attention_math_for_mps", "aten::_scaled_dot_product_fused_attention_overrideable")
def sdpa_overrideable(call: OpSpec) -> Work:
    return sdpa(call)


@rule("aten::_scaled_dot_product_flash_attention_for_cpu")
def sdpa_flash_cpu(call: OpSpec) -> Work:
    q, k, v, dropout, causal = call.args[:5]
    return forward(heads_first(q, k, v, call.kwargs.get("attn_mask"), dropout, causal=causal))


@rule("aten::_scaled_dot_product_flash_attention")
def sdpa_flash(call: OpSpec) -> Work:
    q, k, v, *rest = call.args
    dropout, causal = rest[3:5] if call.overload == "quantized" else rest[:2]
    return forward(heads_first(q, k, v, None, dropout, causal=causal))


@rule("aten::_scaled_dot_product_efficient_attention", "aten::_scaled_dot_product_cudnn_attention")
def sdpa_efficient(call: OpSpec) -> Work:
    q, k, v, mask, _, dropout, causal = call.args[:7]
    return forward(heads_first(q, k, v, mask, dropout, causal=causal))


@rule("aten::_triton_scaled_dot_attention")
def sdpa_triton(call: OpSpec) -> Work:
    q, k, v, dropout = call.args[:4]
    return forward(heads_first(q, k, v, None, dropout))


@rule("higher_order::flex_attention")
def flex(call: OpSpec) -> Work:
    """Flex attention: the two products in full; what its block mask skips and its score function costs is not seen."""
    q, k, v = call.args[:3]
    return forward(heads_first(q, k, v, None))


@rule("higher_order::flex_attention_backward")
def flex_backward(call: OpSpec) -> Work:
    q, k, v = call.args[:3]
    return backward(heads_first(q, k, v, None))


# Position of (mask, dropout, causal=causal) in each backward; None: there is no such argument.
_BACKWARD: dict[str, tuple[int | None, int, int]] = {
    "aten::_scaled_dot_product_flash_attention_backward": (None, 10, 11),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (None, 6, 7),
    "aten::_scaled_dot_product_efficient_attention_backward": (4, 9, 11),
    "aten::_scaled_dot_product_cudnn_attention_backward": (8, 13, 14),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": (4, 12, 13),
    "aten::_cudnn_attention_backward": (8, 13, 14),
}


@rule(*_BACKWARD)
def sdpa_backward(call: OpSpec) -> Work:
    _, q, k, v = call.args[:4]
    mask, dropout, causal = _BACKWARD[call.name]
    given = None if mask is None else call.args[mask]
    wanted = _asked(call.args) or (*call.kwargs.get("wanted", (True, True, True)), False)
    return backward(heads_first(q, k, v, given, call.args[dropout], causal=call.args[causal]), wanted)


def _asked(args: tuple[Any, ...]) -> tuple[bool, ...] | None:
    """The four booleans some of these kernels take: of which of q, k, v and mask the gradient is wanted."""
    return next((a for a in args if isinstance(a, tuple) and len(a) == 4 and any(b is True for b in a)), None)
