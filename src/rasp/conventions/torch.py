"""torch.utils.flop_counter.FlopCounterMode of torch 2.14, run in evaluation without gradients where the model lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from ..entries import FORWARD
from ..ledger import Ledger
from ..records import OpSpec, TensorSpec
from . import Charge, Convention, convention
from ._torch_hidden import (
    ATTENTION,
    FLASH,
    FLASH_MULTIPLE,
    RECURRENT,
    SDPA,
    fused_attention,
    fused_calls,
    fused_recurrent,
    given_attention,
    home,
    recorded,
    trained,
)

PRODUCT = "2 per multiply-accumulate of the product, none for a bias"
CONVOLUTION = "2 · batch · points · kernel · channels in and out, none for a bias"
SCORES = "2 per multiply-accumulate of both products, a causal mask not halved"
PRODUCTS = {  # operator → positions of its two factors
    "mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2), "_scaled_mm": (0, 1),
}  # fmt: skip
CONVOLUTIONS = ("convolution", "_convolution", "cudnn_convolution", "convolution_overrideable")
TRANSPOSED = 6  # the argument of a convolution that says so
FLEX = "higher_order::flex_attention"
CUDNN = "aten::_scaled_dot_product_cudnn_attention"
PACKED_ATTENTION = ("aten::_flash_attention_forward", "aten::_efficient_attention_forward")


def product(at: tuple[int, int]) -> Callable[[OpSpec], int]:
    """2 · batch · m · n · k."""

    def count(spec: OpSpec) -> int:
        left, right = (spec.tensors[position] for position in at)
        return 2 * left.numel * right.shape[-1]

    return count


def convolved(spec: OpSpec) -> int:
    """2 · batch · points · the weight's elements; points of the output, of the input where transposed."""
    x, weight = spec.args[:2]
    points = x if spec.args[TRANSPOSED] else spec.outputs[0]
    return int(2 * x.shape[0] * prod(points.shape[2:]) * weight.numel)


def attended(query: TensorSpec, key: TensorSpec, value: TensorSpec) -> int:
    """2 · batch · heads · rows · columns · (width of the query and of the value)."""
    batch = _broadcast(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    return 2 * prod(batch) * query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def attention(spec: OpSpec) -> int:
    query, key, value = spec.args[:3]
    return attended(query, key, value)


def packed_attention(spec: OpSpec) -> int:
    """The same, on (batch, length, heads, width)."""
    query, key, value = (_heads_first(t) for t in spec.args[:3])
    return attended(query, key, value)


def _heads_first(t: TensorSpec) -> TensorSpec:
    *batch, length, heads, width = t.shape
    return TensorSpec((*batch, heads, length, width), (), t.dtype)


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Leading dimensions together; fewer heads of key and value are repeated."""
    rank = max(map(len, shapes))
    filled = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*filled))


def recurrent(spec: OpSpec) -> int:
    """Every matrix of every layer and direction with every row of the sequence."""
    params: tuple[TensorSpec, ...] = spec.args[3 if spec.overload == "data" else 2]
    x = spec.tensors[0]
    rows = x.numel // max(x.shape[-1], 1)
    return 2 * rows * sum(weight.numel for weight in params if weight.ndim == 2)


FORMULAS: dict[str, tuple[Callable[[OpSpec], int], str]] = {
    **{f"aten::{name}": (product(at), PRODUCT) for name, at in PRODUCTS.items()},
    **{f"aten::{name}": (convolved, CONVOLUTION) for name in CONVOLUTIONS},
    **dict.fromkeys((*SDPA, CUDNN, FLEX), (attention, SCORES)),
    **dict.fromkeys(PACKED_ATTENTION, (packed_attention, SCORES)),
    **dict.fromkeys(RECURRENT, (recurrent, "2 per multiply-accumulate of the products it is made of here")),
}


def flops(ledger: Ledger) -> Iterator[Charge]:
    """Operators of the forward that the counter has a formula for, unless a fused kernel stood in their place."""
    trace, device = ledger.trace, home(ledger)
    hidden = {index for start, end in fused_calls(ledger, device) for index in range(start, end)}
    hidden |= _fused_attentions(ledger) if device == "cpu" else set()
    found: dict[tuple[int, int], int] = {}
    for index, op in enumerate(trace.ops):
        if op.phase == FORWARD and trace.specs[op.spec].name in FORMULAS and index not in hidden:
            place = max(op.owner, 0), op.spec
            found[place] = found.get(place, 0) + 1
    for (call, index), times in found.items():
        spec = trace.specs[index]
        if spec.name not in RECURRENT or not fused_recurrent(spec, device):
            formula, why = FORMULAS[spec.name]
            amount = formula(_widened(spec) if device == "cuda" else spec)
            yield Charge(trace.calls[call].module, call, times * amount, spec.name.partition("::")[2], why)


def _fused_attentions(ledger: Ledger) -> set[int]:
    trace = ledger.trace
    return {
        index
        for index, given in given_attention(ledger).items()
        if fused_attention(given, trained(ledger, trace.ops[index].reads))
    }


def _widened(spec: OpSpec) -> OpSpec:
    """A GPU's flash kernel: half precision, no mask, one width, which is filled up to a multiple of 8."""
    if spec.name not in (FLASH, ATTENTION) or recorded(spec)[3] is not None:
        return spec
    every: tuple[Any, ...] = spec.args[:3]
    width = every[0].shape[-1]
    if every[0].dtype not in ("float16", "bfloat16") or any(t.ndim != 4 or t.shape[-1] != width for t in every):
        return spec
    full = -(-width // FLASH_MULTIPLE) * FLASH_MULTIPLE
    filled = tuple(TensorSpec((*t.shape[:-1], full), t.stride, t.dtype) for t in every)
    return OpSpec(spec.name, spec.overload, (*filled, *spec.args[3:]), spec.kwargs, spec.out)


TORCH = convention(
    Convention(
        name="torch",
        title="two for each multiply-accumulate of the products, convolutions and attention that its counter sees",
        source="torch.utils.flop_counter.FlopCounterMode of torch 2.14.1",
        year=2026,
        level="op",
        charges={"flops": flops},
    )
)
