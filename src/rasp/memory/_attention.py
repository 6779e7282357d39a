"""Fused attention on CUDA: which kernel takes which inputs, and what it takes for itself.

Backends in the order in which they are asked on Hopper (torch 2.11): cuDNN, flash, memory-efficient, math.
"""

from __future__ import annotations

from ..records import OpSpec, TensorSpec
from ._estimate import Estimate, Transient

HALF = ("float16", "bfloat16")
BLOCK = 64  # rows that one block of the memory-efficient kernel works on


def backend(query: TensorSpec, key: TensorSpec, value: TensorSpec, mask: str, gqa: bool) -> str:
    """'cudnn', 'flash', 'efficient' or 'math'; `mask` is 'none', 'causal', 'bool', 'float' or 'trained'.

    cuDNN's kernel gives no gradient of a mask: where one is needed, the memory-efficient kernel runs.
    """
    wide = max(query.shape[-1], value.shape[-1])
    even = all(t.shape[-1] % 8 == 0 for t in (query, value))
    straight = all(t.stride[-1] == 1 or t.shape[-1] == 1 for t in (query, key, value))
    if not straight or 0 in (*query.shape, *key.shape):
        return "math"
    if query.dtype in HALF:
        if even and wide <= 256 and mask != "trained":
            return "cudnn"
        if mask in ("none", "causal") and wide <= 256 and query.shape[-1] == value.shape[-1]:
            return "flash"
        return "efficient" if even and not gqa else "math"
    aligned = all(t.shape[-1] % 4 == 0 for t in (query, value))
    return "efficient" if query.dtype == "float32" and aligned and not gqa else "math"


def cudnn(spec: OpSpec) -> Estimate:
    """256 bytes for the seed's partner; where nothing is kept, the seed's 16 too."""
    kept = bool(spec.args[4])
    return _exactly(256 if kept else 272, "state of cuDNN's attention kernel")


def cudnn_backward(spec: OpSpec) -> Estimate:
    """The gradient of the query in float32, a row sum for each query, and keys repeated for grouped queries."""
    _, query, key, value = spec.args[:4]
    heads = query.shape[0] * query.shape[1]
    grouped = query.shape[1] // max(key.shape[1], 1)
    repeated = grouped * (key.nbytes + value.nbytes) if grouped > 1 else 0
    return _exactly(query.numel * 4 + heads * query.shape[2] * 4 + 256 + repeated, "gradient of the query in float32")


def efficient_backward(spec: OpSpec) -> Estimate:
    """The gradient of the query in float32 by blocks of rows, a row sum for each query and a lock for each block."""
    query = spec.args[1]
    batch, heads, rows, width = query.shape
    blocks = -(-rows // BLOCK)
    padded = max(BLOCK, 1 << (width - 1).bit_length())
    exact = rows % BLOCK == 0 and padded == width
    each = blocks * BLOCK * padded * 4 + rows * 4 + (rows * 4 if exact else blocks * 16)
    return _exactly(batch * heads * each, "gradient of the query in float32, by blocks")


def flash_backward(spec: OpSpec) -> Estimate:
    """The gradient of the query in float32, rows padded to 128 and heads to 32, and a row sum for each query."""
    query = spec.args[1]
    batch, heads, rows, width = query.shape
    padded = -(-rows // 128) * 128
    return _exactly(batch * heads * padded * (-(-width // 32) * 32 + 1) * 4, "gradient of the query in float32")


def _exactly(nbytes: int, why: str) -> Estimate:
    return Estimate((Transient(nbytes),), nbytes, nbytes, why)
