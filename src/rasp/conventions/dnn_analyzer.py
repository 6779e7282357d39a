"""DNN analyzer: multiply-accumulates of layers, activations and norms and pools by their inputs, memory of each layer.

With b the batch, I and O the elements in and out, p the parameters: convolution b·K·Cin·Cout/g·Π(out/stride), which
divides by the stride twice; ReLUs and pools b·I; batch norm b·I, twice where affine; linear b·in·out. Reads b·(I + p),
writes b·O; storage p; inference memory O of one sample. Source: its macs.py, memory.py and disk_storage.py (7b0f6ca);
Conv1d and Conv3d, which its README lists and its macs.py leaves out, count as Conv2d does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from . import Charge, Convention, convention

if TYPE_CHECKING:
    from ..ledger import LayerCall, Ledger

ACTIVATIONS = tuple(f"torch.nn.{name}" for name in ("ReLU", "ReLU6", "PReLU", "LeakyReLU"))
CONVOLUTIONS = tuple(f"torch.nn.Conv{n}d" for n in (1, 2, 3))
POOLS = tuple(
    f"torch.nn.{adaptive}{kind}Pool{n}d" for adaptive in ("", "Adaptive") for kind in ("Max", "Avg") for n in (1, 2, 3)
)
NORMS = tuple(f"torch.nn.BatchNorm{n}d" for n in (1, 2, 3))
BOTH = "every sample reads the parameters again"
NO_FORMULA = "it has no formula"


class Cost(NamedTuple):
    """MACs, and elements read and written, of one call."""

    macs: float
    reads: int
    writes: int


class Row(NamedTuple):
    """What DNN analyzer lists for one call: parameters, bytes, MACs; `known` is whether it has formulas for it."""

    layer: LayerCall
    params: int
    mem_r: int
    mem_w: int
    storage: int
    inference_mem: int
    flops: float
    known: bool

    @property
    def mem_rw(self) -> int:
        return self.mem_r + self.mem_w


def activated(layer: LayerCall, params: int) -> Cost:
    """b·I; PReLU reads its parameters once."""
    elements = layer.inputs[0].numel
    return Cost(elements, elements + params * layer.derives_from("torch.nn.PReLU"), elements)


def convolved(layer: LayerCall, params: int) -> Cost:
    """b·K·Cin·⌊Cout/g⌋·Π(out/stride): the places of the output divided by the stride once more."""
    kernel, stride, groups = (layer.hyper[name] for name in ("kernel_size", "stride", "groups"))
    shape, out = _batched(layer, len(kernel))
    places = (n / s for n, s in zip(out[2:], reversed(stride)))
    macs = prod((prod(kernel) * shape[1], *places, out[1] // groups, shape[0]))  # rounds as it does, factor by factor
    return Cost(macs, shape[0] * (prod(shape[1:]) + params), prod(out))


def _batched(layer: LayerCall, dimensions: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes in and out with a batch in front, where they had none."""
    shape, out = layer.inputs[0].shape, layer.outputs[0].shape
    return (shape, out) if len(shape) > dimensions + 1 else ((1, *shape), (1, *out))


def pooled(layer: LayerCall, params: int) -> Cost:
    """b·I, whatever the window."""
    elements = layer.inputs[0].numel
    return Cost(elements, elements, layer.outputs[0].numel)


def normalised(layer: LayerCall, params: int) -> Cost:
    """b·I, twice where affine; two statistics are read for every channel of every sample."""
    shape, out = _batched(layer, 0)
    return Cost(prod(shape) * (2 if layer.hyper["affine"] else 1), shape[0] * (prod(out[1:]) + 2 * shape[1]), prod(out))


def multiplied(layer: LayerCall, params: int) -> Cost:
    """b·in·out of dimension 1, whatever it is; reads what the other samples write in place of the input."""
    shape, out = _batched(layer, 0)
    return Cost(shape[0] * shape[1] * out[1], shape[0] * ((out[0] - 1) * prod(out[1:]) + params), prod(out))


Formula = Callable[["LayerCall", int], Cost]
REASONS: dict[Formula, dict[str, str]] = {
    activated: {"flops": "1 per input", "mem_r": "inputs, and PReLU's parameters", "mem_w": "as many as its inputs"},
    convolved: {
        "flops": "1 per multiply-accumulate, divided by the stride along every dimension once more",
        "mem_r": f"inputs and parameters, {BOTH}",
        "mem_w": "outputs",
    },
    pooled: {"flops": "1 per input", "mem_r": "inputs", "mem_w": "outputs"},
    normalised: {
        "flops": "1 per input, 2 where affine",
        "mem_r": "inputs, and 2 per channel for every sample",
        "mem_w": "outputs",
    },
    multiplied: {
        "flops": "dimension 1 in times dimension 1 out per sample",
        "mem_r": f"parameters, and what the other samples write, {BOTH}",
        "mem_w": "outputs",
    },
}
FORMULAS: tuple[tuple[tuple[str, ...], Formula], ...] = (
    (ACTIVATIONS, activated),
    (CONVOLUTIONS, convolved),
    (POOLS, pooled),
    (NORMS, normalised),
    (("torch.nn.Linear",), multiplied),
)
SIZES = {
    "params": "its own parameters, at every call",
    "storage": "parameters in the element size of the input, at every call",
    "inference_mem": "the output of one sample",
}


def formula(layer: LayerCall) -> Formula | None:
    """By isinstance, so that subclasses count as well."""
    if not layer.inputs or not layer.outputs:
        return None
    return next((found for classes, found in FORMULAS if layer.derives_from(*classes)), None)


def rows(ledger: Ledger) -> Iterator[Row]:
    """Calls of every class that a leaf of the model has, as they end: of containers too, where one of them is empty."""
    modules = ledger.trace.modules
    leaves = {info.lineage[:1] for info in modules if not info.children and not info.again}
    for layer in _ended(ledger):
        if layer.lineage[:1] in leaves:
            tensors = (ledger.trace.tensors[index] for index in modules[layer.module].tensors)
            yield _row(layer, sum(tensor.spec.numel for tensor in tensors if tensor.kind == "parameter"))


def _ended(ledger: Ledger) -> Iterator[LayerCall]:
    """Calls in the order they ended: a container after what is inside."""
    running: list[LayerCall] = []
    for layer in ledger.layers():
        while running and running[-1].call != ledger.trace.calls[layer.call].parent:
            yield running.pop()
        running.append(layer)
    yield from reversed(running)


def _row(layer: LayerCall, params: int) -> Row:
    found = formula(layer)
    cost = found(layer, params) if found else Cost(0, 0, 0)
    itemsize = layer.inputs[0].itemsize if layer.inputs else 0
    out = layer.outputs[0] if layer.outputs else None
    kept = 0 if out is None else prod(out.shape[1:]) * out.itemsize
    read, written = cost.reads * itemsize, cost.writes * itemsize
    return Row(layer, params, read, written, params * itemsize, kept, cost.macs, found is not None)


def _charged(column: str, ledger: Ledger) -> Iterator[Charge]:
    for row in rows(ledger):
        layer = row.layer
        yield Charge(layer.module, layer.call, getattr(row, column), layer.type, _why(column, layer))


def _why(column: str, layer: LayerCall) -> str:
    found = formula(layer)
    if column in SIZES:
        return SIZES[column]
    if found is None:
        return NO_FORMULA
    if column == "mem_rw":
        return f"read: {REASONS[found]['mem_r']}, write: {REASONS[found]['mem_w']}"
    if column == "flops" and layer.derives_from("torch.nn.Conv1d", "torch.nn.Conv3d"):
        return f"{REASONS[found][column]}, as for Conv2d (its README lists {layer.type}, its code counts 0)"
    return REASONS[found][column]


DNN_ANALYZER = convention(
    Convention(
        name="dnn-analyzer",
        title="multiply-accumulates of layers it has a formula for, convolutions divided by their stride twice",
        source="DNN analyzer, macs.py and memory.py (github.com/TUD-UCB-Boda/dnn_analyzer, 7b0f6ca)",
        year=2021,
        level="module",
        charges={
            column: partial(_charged, column)
            for column in ("flops", "params", "mem_r", "mem_w", "mem_rw", "storage", "inference_mem")
        },
        words={"flops": "MACs"},
    )
)
