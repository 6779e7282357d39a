"""Operators that other libraries register: flash-attn, bitsandbytes, transformers. Names only, nothing is imported."""

from __future__ import annotations

from dataclasses import replace

from ..records import OpSpec
from . import Work, rule
from ._attention import Shape, backward, forward, packed, windowed
from ._contractions import product
from ._forms import charge, form


@rule("transformers::grouped_mm_fallback")
def grouped_mm(call: OpSpec) -> Work:
    """Rows sorted by expert, each meets the matrix of its own: rows·k·n."""
    x, weight = call.args[:2]
    return product(x.numel * weight.shape[-1], call.out.numel)


@rule("transformers::grouped_mm_fallback_backward")
def grouped_mm_backward(call: OpSpec) -> Work:
    x, weight = call.args[:2]
    mac = x.numel * weight.shape[-1]
    return product(mac, x.numel) + product(mac, weight.numel)


@rule("transformers_msa::sparse_atten")
def block_sparse_attention(call: OpSpec) -> Work:
    """Each query meets the keys of its `topk` blocks, or all of them where there are fewer."""
    q, k, v, _, starts, _, blocks, size = call.args[:8]
    a = packed(q, k, v, starts)
    return forward(replace(a, keys=min(a.keys, blocks * size), masked=True))


# Position of (first of q, k, v; starts; dropout; causal, with the window two places on) in flash-attn 2.
_FLASH: dict[str, tuple[int, int | None, int, int]] = {
    "_flash_attn_forward": (0, None, 3, 5),
    "_flash_attn_varlen_forward": (0, 3, 7, 9),
    "_flash_attn_backward": (1, None, 9, 11),
    "_flash_attn_varlen_backward": (1, 9, 13, 15),
}


def flash_shape(call: OpSpec) -> Shape:
    first, starts, dropout, causal = _FLASH[call.name.partition("::")[2]]
    q, k, v = call.args[first : first + 3]
    a = packed(q, k, v, None if starts is None else call.args[starts])
    window = call.args[causal + 1 : causal + 3]
    return replace(windowed(a, window, call.args[causal]), dropout=call.args[dropout])


@rule(*(f"{space}::{name}" for space in ("flash_attn", "flashattn") for name in _FLASH))
def flash_attention(call: OpSpec) -> Work:
    """flash-attn 2: the products in full; its backward returns what it is given to write into."""
    if call.name.endswith("forward"):
        return forward(flash_shape(call))
    work = backward(flash_shape(call))
    work.write = sum(t.touched_bytes for t in call.args[6:9] if t is not None)
    return work


@rule(*(f"bitsandbytes::{name}" for name in ("int8_linear_matmul", "int8_scaled_mm", "int8_mixed_scaled_mm")))
def int8_product(call: OpSpec) -> Work:
    """A (…, k) × B (n, k); the scaled forms multiply each result by the scales of its row and column."""
    x, out = call.args[0], call.outputs[0] if call.out is not None else call.kwargs.get("out", call.args[-1])
    scaled = 0 if call.name.endswith("linear_matmul") else 2
    bias = call.args[4 if call.name.endswith("int8_scaled_mm") else 6] if scaled else None
    return product(x.numel * out.shape[-1], out.numel) + Work(
        mul=scaled * out.numel, bias=out.numel if bias is not None else 0
    )


@rule("bitsandbytes::gemm_4bit", "bitsandbytes::gemv_4bit")
def four_bit_product(call: OpSpec) -> Work:
    """A (…, k) × a packed (n, k), whose every value is looked up and scaled once."""
    x, _, (n, k) = call.args[:3]
    rows = x.numel // max(k, 1)
    bias = call.args[6] if call.name.endswith("gemm_4bit") else None
    return product(rows * k * n, rows * n) + Work(mul=n * k, bias=rows * n if bias is not None else 0)


@rule(*(f"bitsandbytes::{name}" for name in ("dequantize_4bit", "dequantize_blockwise", "int8_vectorwise_dequant")))
def dequantised(call: OpSpec) -> Work:
    """A table entry times the scale of its block."""
    given = call.outputs or [t for t in call.args if t is not None][-1:]
    return Work(mul=given[0].numel)


@rule("bitsandbytes::int8_mm_dequant")
def product_dequantised(call: OpSpec) -> Work:
    n = call.out.numel
    return Work(mul=2 * n, bias=n if call.args[4] is not None else 0)


@rule(
    *(f"bitsandbytes::{name}" for name in ("quantize_4bit", "quantize_blockwise", "int8_vectorwise_quant")),
    "bitsandbytes::int8_double_quant",
)
def quantised(call: OpSpec) -> Work:
    """The largest of a block, a division by it, the nearest entry."""
    return charge(form(cmp=3, div=1), call.args[0].numel)
