"""What torch's counter cannot see: work in fused kernels, which differ with the device a model lives on.

Read off torch 2.14 by running it: on the meta device nothing is fused. On a CPU and a GPU encoder layers and
self-attention in evaluation take one fused operator; LSTM goes to oneDNN on a CPU, every recurrent layer to cuDNN on a
GPU; attention takes a CPU kernel of its own that the counter has no formula for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import NotRecorded
from ..ledger import LayerCall, Ledger
from ..records import OpSpec, TensorSpec

SPELLED = "scaled_dot_product_attention"
ATTENTION = f"aten::{SPELLED}"
FLASH, EFFICIENT = f"aten::_{SPELLED[:-9]}flash_attention", f"aten::_{SPELLED[:-9]}efficient_attention"
SDPA = (ATTENTION, FLASH, EFFICIENT)
RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
FUSED_CPU_LSTM = ("float32", "bfloat16", "float16")
ENCODER, MULTIHEAD = "torch.nn.TransformerEncoderLayer", "torch.nn.MultiheadAttention"
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm")  # of frozen weights and a transposed input the last
FOURTH = 3
KEY_PADDING, MASK = 3, 5  # positions of a MultiheadAttention's masks
FLASH_MULTIPLE = 8  # a GPU's flash kernel takes heads of a multiple of 8 wide


def home(ledger: Ledger) -> str:
    """The kind of device the tool would have met: where the model ran, or lives, when shapes alone were recorded."""
    info = ledger.source.info
    where = info.get("device") if info.get("capture_mode") == "real" else info.get("home")
    return str(where or "cpu").partition(":")[0]


# -- layers that are one operator --------------------------------------------------------------------------------------


def fused_calls(ledger: Ledger, device: str) -> Iterator[tuple[int, int]]:
    """Ranges of operators that one fused operator stands for, layer by layer."""
    info = ledger.source.info
    if device == "meta" or info.get("autocast"):
        return
    for layer in ledger.layers():
        if not layer.training and (_fused_encoder(ledger, layer) or _fused_multihead(ledger, layer)):
            call = ledger.trace.calls[layer.call]
            yield call.start, call.end


def _fused_encoder(ledger: Ledger, layer: LayerCall) -> bool:
    if not layer.is_a(ENCODER) or not layer.inputs or layer.inputs[0].ndim != 3:
        return False
    modules = {name: ledger.trace.modules[index] for name, index in ledger.members(layer.module)}
    if not {"self_attn", "norm1", "norm2"} <= set(modules) or not layer.hyper.get("activation_relu_or_gelu"):
        return False
    attention, one, two = modules["self_attn"], modules["norm1"], modules["norm2"]
    names = _own(ledger, attention.tensors)
    packed = {"in_proj_weight", "in_proj_bias"} <= names
    even = not attention.hyper.get("num_heads", 1) % 2
    return packed and even and bool(attention.hyper.get("batch_first")) and one.hyper.get("eps") == two.hyper.get("eps")


def _fused_multihead(ledger: Ledger, layer: LayerCall) -> bool:
    if not layer.is_a(MULTIHEAD) or not layer.inputs or layer.inputs[0].ndim != 3:
        return False
    names = _own(ledger, ledger.trace.modules[layer.module].tensors)
    hyper = layer.hyper
    fits = hyper.get("batch_first") and not hyper.get("num_heads", 1) % 2 and not hyper.get("add_zero_attn")
    packed = {"in_proj_weight", "in_proj_bias"} <= names and names.isdisjoint({"bias_k", "bias_v"})
    return bool(fits) and packed and not _floating_mask(layer) and _of_itself(ledger, layer)


def _own(ledger: Ledger, tensors: list[int]) -> set[str]:
    return {name.rpartition(".")[2] for tensor in tensors for name in ledger.trace.tensors[tensor].names}


def _floating_mask(layer: LayerCall) -> bool:
    positions = {"key_padding_mask": KEY_PADDING, "attn_mask": MASK}
    found = [layer.kwargs.get(name, layer.args[at] if len(layer.args) > at else None) for name, at in positions.items()]
    return any(isinstance(mask, TensorSpec) and mask.is_floating for mask in found)


def _of_itself(ledger: Ledger, layer: LayerCall) -> bool:
    """Query, key and value are one tensor: then they are projected by one product, to three times the width."""
    width = layer.inputs[0].shape[-1]
    call, trace = ledger.trace.calls[layer.call], ledger.trace
    specs = (trace.specs[trace.ops[index].spec] for index in range(call.start, call.end))
    first = next((spec for spec in specs if spec.name in PRODUCTS), None)
    return first is not None and bool(first.args[-1].shape[-2:] == (width, 3 * width))


# -- operators ---------------------------------------------------------------------------------------------------------


def fused_recurrent(spec: OpSpec, device: str) -> bool:
    """A whole recurrent layer in the library of a device; without one its products are seen."""
    if device != "cpu":
        return device != "meta"
    data, params = spec.args[0], spec.args[2]
    projected = spec.overload == "input" and any(t.ndim == 2 and t.shape[0] != params[0].shape[0] for t in params)
    plain = spec.name == "aten::lstm" and spec.overload == "input" and not projected
    return plain and data.dtype in FUSED_CPU_LSTM and data.numel > 0


def fused_attention(given: tuple[Any, ...], trained_mask: bool) -> bool:
    """Whether the CPU's flash kernel takes this attention, by the arguments as the model gave them.

    One width and one length of query, key and value in memory order; batches equal, heads a multiple; no dropout; a
    mask that broadcasts and is not itself trained.
    """
    query, key, value, mask, dropout = given
    if dropout or not query.ndim == key.ndim == value.ndim or query.ndim not in (3, 4):
        return False
    every = (query, key, value)
    if len({t.shape[-1] for t in every}) > 1 or any(t.stride and t.stride[-1] != 1 for t in every):
        return False
    shapes = [t.shape if t.ndim == 4 else (1, *t.shape) for t in every]
    (batch, heads, rows, _), (_, groups, columns, _) = shapes[:2]
    if any(shape[0] != batch for shape in shapes) or shapes[2][1] != groups or heads % max(groups, 1):
        return False
    return mask is None or (not trained_mask and _broadcasts(mask, query.ndim, (batch, heads, rows, columns)))


def _broadcasts(mask: TensorSpec, rank: int, scores: tuple[int, ...]) -> bool:
    """A mask of two or four dimensions, or of three where the query has three; each as long as the scores, or 1."""
    if mask.ndim not in (2, 4) and not mask.ndim == rank == 3:
        return False
    return all(n in (1, full) for n, full in zip(mask.shape[::-1], scores[::-1]))


def given_attention(ledger: Ledger) -> dict[int, tuple[Any, ...]]:
    """For each attention, by operator: query, key, value, mask and dropout before they were brought into one form."""
    found = {}
    unclear = False
    for index, op in enumerate(ledger.trace.ops):
        spec = ledger.trace.specs[op.spec]
        if spec.name in SDPA:
            found[index] = recorded(spec)
            unclear = unclear or (spec.name != ATTENTION and _unclear(spec))
    if unclear:
        found.update(_spelled(ledger, set(found)))
    return found


def recorded(spec: OpSpec) -> tuple[Any, ...]:
    """Query, key, value, mask and dropout as the operator has them."""
    args = spec.args
    if spec.name == FLASH:
        return (*args[:3], None, args[3])
    return (*args[:4], args[5]) if spec.name == EFFICIENT else (*args[:4], args[4])


def _unclear(spec: OpSpec) -> bool:
    """Masks are expanded, other ranks have one head, broadcast heads have no stride: the calls tell what was given."""
    query, key, value = spec.args[:3]
    return spec.name == EFFICIENT or query.shape[1] == 1 or any(t.stride[1] == 0 for t in (query, key, value))


def _spelled(ledger: Ledger, wanted: set[int]) -> dict[int, tuple[Any, ...]]:
    """The arguments in the calls of the function; nothing where the calls cannot be recorded any more."""
    try:
        functions = ledger.functions
    except NotRecorded:
        return {}
    found = {}
    names = ("query", "key", "value", "attn_mask", "dropout_p")
    for call in functions:
        if call.name.endswith(SPELLED):
            given = dict(zip(names, call.args)) | call.kwargs
            for index in wanted.intersection(range(call.start, call.end)):
                found[index] = tuple(given.get(name) for name in names)
    return found


def trained(ledger: Ledger, reads: tuple[int, ...]) -> bool:
    """Whether the mask, the fourth tensor read, is a trainable parameter or a view of one."""
    tensors = ledger.trace.tensors
    return len(reads) > FOURTH and any(t.trainable and t.storage == reads[FOURTH] for t in tensors)
