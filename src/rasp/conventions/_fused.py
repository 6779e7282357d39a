"""Calls of nn.MultiheadAttention that torch runs as one operator, so that tools see nothing inside.

torch does so for self-attention in evaluation where no gradient is wanted: every tensor in it is frozen. With hooks on
its layers, as tools put them there, nn.TransformerEncoderLayer is never fused. Source: torch/nn/modules/activation.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..records import TensorSpec, leaves

if TYPE_CHECKING:
    from ..ledger import LayerCall, Ledger

MULTIHEAD = "torch.nn.MultiheadAttention"
SPLIT = {"q_proj_weight", "k_proj_weight", "v_proj_weight", "bias_k", "bias_v"}


def fused(ledger: Ledger, *, evaluated: bool) -> frozenset[int]:
    """The module calls that are one operator; `evaluated`: the tool puts the model in evaluation itself."""
    found = [
        layer
        for layer in ledger.layers()
        if layer.is_a(MULTIHEAD) and (evaluated or not layer.training) and _fits(layer) and _of_itself(ledger, layer)
    ]
    wanting = _wanting_gradients(ledger) if found else frozenset()
    ops, calls = ledger.trace.ops, ledger.trace.calls
    return frozenset(
        layer.call
        for layer in found
        if all(wanting.isdisjoint(op.reads) for op in ops[calls[layer.call].start : calls[layer.call].end])
    )


def _fits(layer: LayerCall) -> bool:
    hyper, names = layer.hyper, {name.rpartition(".")[2] for tensor in layer.tensors for name in tensor.names}
    masks = [spec for spec in leaves((layer.args[3:], layer.kwargs)) if spec.is_floating and spec.ndim < 3]
    whole = "in_proj_bias" in names and names.isdisjoint(SPLIT)
    plain = hyper.get("batch_first") and not hyper.get("num_heads", 1) % 2 and not hyper.get("add_zero_attn")
    return bool(whole and plain and not masks and layer.inputs and layer.inputs[0].ndim == 3)


def _of_itself(ledger: Ledger, layer: LayerCall) -> bool:
    """Query, key and value are one tensor: they are projected by one product, to three times the width."""
    inside = (call for call in ledger.functions if call.owner == layer.call and call.name.endswith(".linear"))
    first = next(inside, None)
    weight = first.args[1] if first is not None and len(first.args) > 1 else None
    return isinstance(weight, TensorSpec) and weight.shape[0] == 3 * weight.shape[1]


def _wanting_gradients(ledger: Ledger) -> frozenset[int]:
    """Storages that a trainable parameter is in, or went into."""
    wanting = {tensor.storage for tensor in ledger.trace.tensors if tensor.trainable}
    for op in ledger.trace.ops if wanting else ():
        if not wanting.isdisjoint(op.reads):
            wanting.update(op.writes)
    return frozenset(wanting)
