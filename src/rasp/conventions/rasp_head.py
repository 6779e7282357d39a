"""RASP as its code stands: multiplications and additions of layers, parameters read again for every sample.

With b the batch, I and O the elements in and out per sample, p the parameters, K the kernel, β 1 with a bias:
convolution b·O·(2·Cin/g·K − 1 + β), batch norm 2·b·(1 + affine)·I, activation b·I, linear b·out·(2·in − 1 + β),
pools b·O·(k − 1) and b·O·(2k − 1); reads b·(I + p), writes b·O. Every other layer is free.
"""

from __future__ import annotations

from math import prod

from . import Convention, convention
from ._rasp import PER_PIXEL, Layer, Row, charges

READS = "inputs, and the parameters once per sample"
WRITES = "outputs"


def convolved(layer: Layer) -> Row:
    """b·O·(2·Cin/g·K − 1 + β); transposed ones as if they were plain."""
    outputs, fan_in, stored = layer.batch * layer.writes, layer.fan_in, _kernels(layer)
    return _row(layer, outputs * (2 * fan_in - 1 + layer.bias), outputs * (fan_in + layer.bias), stored)


def _kernels(layer: Layer) -> int:
    """Cout·Cin·K/g + β·Cout, from the shapes in and out."""
    channels = layer.out_shape[1]
    return int(channels * layer.shape[1] * prod(layer.kernel) // layer.hyper["groups"] + channels * layer.bias)


def normalised(layer: Layer) -> Row:
    """2·b·(1 + affine)·I."""
    affine = int(bool(layer.hyper["affine"]))
    macc = layer.batch * (affine + 1) * layer.reads
    return _row(layer, 2 * macc, macc, 2 * affine * layer.shape[1])


def activated(layer: Layer) -> Row:
    """b·I; its parameters are written as well as read."""
    moved = layer.batch * (layer.reads + layer.stored)
    work = layer.batch * layer.reads
    return Row(work, work, layer.stored, moved, moved)


def pooled(layer: Layer) -> Row:
    """b·O·(k − 1), of averages b·O·(2k − 1)."""
    name = layer.call.type
    window = _adaptive(layer) if "Adaptive" in name else layer.window
    outputs = layer.batch * layer.writes
    per_output = window - 1 if "Max" in name else 2 * window - 1
    return _row(layer, outputs * per_output, outputs * window, layer.stored)


def _adaptive(layer: Layer) -> int:
    """The window of an adaptive pool: per dimension in − ⌊(out − 1)·in / out⌋."""
    pairs = zip(layer.shape, layer.out_shape)
    return prod(wide - (narrow - 1) * wide // narrow for wide, narrow in pairs if narrow)


def multiplied(layer: Layer) -> Row:
    """b·out·(2·in − 1 + β), b the first dimension: dimensions between it and the features are not seen."""
    wide_in, wide_out = layer.hyper["in_features"], layer.hyper["out_features"]
    outputs, stored = layer.batch * wide_out, wide_out * (wide_in + layer.bias)
    moved = layer.batch * (wide_in + stored)
    work = outputs * (2 * wide_in - 1 + layer.bias)
    return Row(work, outputs * (wide_in + layer.bias), stored, moved, outputs)


def enlarged(layer: Layer) -> Row:
    """A number of operations for each output, by mode; nearest neighbours are free."""
    per_output, macc = PER_PIXEL.get(layer.hyper["mode"], (0, 0))
    outputs = layer.batch * layer.writes
    return _row(layer, outputs * per_output, outputs * macc, layer.stored)


def _row(layer: Layer, flops: int, macc: int, stored: int) -> Row:
    """Reads b·(I + p), writes b·O."""
    return Row(flops, macc, stored, layer.batch * (layer.reads + stored), layer.batch * layer.writes)


FORMULAS = {
    "convolution": convolved,
    "norm": normalised,
    "activation": activated,
    "pool": pooled,
    "linear": multiplied,
    "upsample": enlarged,
}
MOVED = {"mem_r": READS, "mem_w": WRITES}
REASONS = {
    "convolution": {
        "flops": "2 per multiply-accumulate, less 1 per output, 1 more with a bias",
        "macc": "1 per multiply-accumulate, and 1 per output with a bias",
        "params": "kernels of Cin/g for every output channel, and biases",
        **MOVED,
    },
    "norm": {
        "flops": "4 per element, 2 without affine",
        "macc": "2 per element, 1 without affine",
        "params": "2 per channel where affine",
        **MOVED,
    },
    "activation": {
        "flops": "1 per element",
        "macc": "1 per element",
        "mem_r": READS,
        "mem_w": "inputs, and the parameters once per sample, as if written",
    },
    "pool": {
        "flops": "the window less 1 per output, of averages twice the window less 1, a window given as one number not "
        "raised to its dimensions",
        "macc": "the window per output",
        **MOVED,
    },
    "linear": {
        "flops": "2 per multiply-accumulate, less 1 per output, 1 more with a bias, for the first dimension only",
        "macc": "1 per multiply-accumulate, and 1 per output with a bias, for the first dimension only",
        "params": "in times out, and biases",
        "mem_r": "in_features and the parameters, once per sample",
        "mem_w": "out_features once per sample",
    },
    "upsample": {
        "flops": "a number per output by mode, none for nearest",
        "macc": "a number per output by mode, none for nearest",
        **MOVED,
    },
}
RASP_HEAD = convention(
    Convention(
        name="rasp-head",
        title="RASP's code as it stands: multiplications and additions of layers it has a formula for, per call",
        source="RASP, profiler/eval.py at its last commit (c45f9ad)",
        year=2020,
        level="module",
        memory="after",
        charges=charges("flops macc params mem_r mem_w mem_rw", FORMULAS, REASONS, hollow=False),
    )
)
