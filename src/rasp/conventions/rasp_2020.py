"""RASP as it was when its README's table of torchvision models was made: operations close to multiply-accumulates.

With b the batch, I the elements in per sample, K the kernel, β 1 with a bias: convolution b·O·(Cin/g·K − 1 + β), where
O has (in + 2·padding − K) / stride + 1 places along each dimension, not rounded down; batch norm b·(affine + 3)·I,
activation b·I, linear b·out·(in − 1 + β), pools b·O·(k − 1), of averages b·O·k. Every other layer is free.
"""

from __future__ import annotations

from math import prod

from . import Convention, convention
from ._rasp import PER_PIXEL, Layer, Row, charges

READS = "inputs, and the parameters once per sample"


def convolved(layer: Layer) -> Row:
    """b·O·(Cin/g·K − 1 + β), O with places that are not whole; dilation and transposition are not heeded."""
    outputs = layer.hyper["out_channels"] * prod(_places(layer))
    work = int(layer.batch * outputs * (layer.fan_in - 1 + layer.bias))
    return _row(layer, work, layer.batch * outputs)


def _places(layer: Layer) -> list[float]:
    """(in + 2·padding − kernel) / stride + 1 along each dimension; padding='same' keeps the size."""
    padding, kernel = layer.hyper["padding"], layer.kernel
    sides = layer.shape[-len(kernel) :]
    if isinstance(padding, str):
        around = [k - 1 if padding == "same" else 0 for k in kernel]
    else:
        around = [2 * p for p in padding]
    return [(n + p - k) / s + 1 for n, p, k, s in zip(sides, around, kernel, layer.hyper["stride"])]


def normalised(layer: Layer) -> Row:
    """b·(affine + 3)·I."""
    affine = int(bool(layer.hyper["affine"]))
    elements = layer.batch * layer.reads
    return _row(layer, elements * (affine + 3), elements)


def activated(layer: Layer) -> Row:
    """b·I; parameters are not read."""
    elements = layer.batch * layer.reads
    return Row(flops=elements, params=layer.stored, reads=elements, writes=elements)


def pooled(layer: Layer) -> Row:
    """b·O·(k − 1), of averages b·O·k."""
    name = layer.call.type
    window = _adaptive(layer) if "Adaptive" in name else layer.window
    outputs = layer.batch * layer.writes
    return _row(layer, outputs * (window - 1 if "Max" in name else window), outputs)


def _adaptive(layer: Layer) -> int:
    """The window of an adaptive pool: per dimension in − (out − 1)·⌊in / out⌋."""
    pairs = zip(layer.shape, layer.out_shape)
    return prod(wide - (narrow - 1) * (wide // narrow) for wide, narrow in pairs if narrow)


def multiplied(layer: Layer) -> Row:
    """b·out·(in − 1 + β), b the first dimension: dimensions between it and the features are not seen."""
    wide_in, outputs = layer.hyper["in_features"], layer.batch * layer.hyper["out_features"]
    moved = layer.batch * (wide_in + layer.stored)
    return Row(outputs * (wide_in - 1 + layer.bias), params=layer.stored, reads=moved, writes=outputs)


def enlarged(layer: Layer) -> Row:
    """A number of operations for each output, by mode; nearest neighbours are free."""
    outputs = layer.batch * layer.writes
    return _row(layer, outputs * PER_PIXEL.get(layer.hyper["mode"], (0, 0))[0], outputs)


def _row(layer: Layer, flops: int, writes: float) -> Row:
    """Reads b·(I + p)."""
    moved = layer.batch * (layer.reads + layer.stored)
    return Row(flops=flops, params=layer.stored, reads=moved, writes=writes)


FORMULAS = {
    "convolution": convolved,
    "norm": normalised,
    "activation": activated,
    "pool": pooled,
    "linear": multiplied,
    "upsample": enlarged,
}
MOVED = {"mem_r": READS, "mem_w": "outputs"}
REASONS = {
    "convolution": {
        "flops": "1 per multiply-accumulate, less 1 per output without a bias, places not rounded down",
        "mem_r": READS,
        "mem_w": "outputs, their places not rounded down",
    },
    "norm": {"flops": "4 per element, 3 without affine", **MOVED},
    "activation": {"flops": "1 per element", "mem_r": "inputs", "mem_w": "as many as its inputs"},
    "pool": {
        "flops": "the window per output, of maxima less 1, a window given as one number not raised to its dimensions",
        **MOVED,
    },
    "linear": {
        "flops": "1 per multiply-accumulate, less 1 per output without a bias, for the first dimension only",
        "mem_r": "in_features and the parameters, once per sample",
        "mem_w": "out_features once per sample",
    },
    "upsample": {"flops": "a number per output by mode, none for nearest", **MOVED},
}
RASP_2020 = convention(
    Convention(
        name="rasp-2020",
        title="RASP's table of torchvision models: about one per multiply-accumulate, of layers it has a formula for",
        source="RASP README, table of torchvision models; profiler/eval.py of 18 March 2020 (4b5854d)",
        year=2020,
        level="module",
        charges=charges("flops params mem_r mem_w mem_rw", FORMULAS, REASONS, hollow=True),
    )
)
