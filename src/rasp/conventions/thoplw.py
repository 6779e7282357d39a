"""thoplw: a table of layer classes, matched exactly; what a layer's last call costs, and nothing between layers.

`thoplw` is what its README prints, where a BatchNorm holds four numbers a channel; `thoplw-2024` the package as it was
released, where it holds two. Multiply-accumulates are the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import NamedTuple

from ..ledger import LayerCall, Ledger
from ..records import TensorSpec
from . import Charge, Convention, convention

STATISTICS = ("running_mean", "running_var")
NOTHING = "listed at no cost"
STOPS = " (the tool itself stops here)"


class Cost(NamedTuple):
    """The multiply-accumulates of one layer, and why so many; None: the tool leaves the layer out."""

    macs: int | None
    why: str


def of_linear(layer: LayerCall, x: TensorSpec, y: TensorSpec) -> Cost:
    """The second sizes in and out, multiplied: of a sequence its lengths, not its features; and the bias once."""
    bias = _biases(layer, layer.hyper["out_features"])
    if x.ndim < 2:
        sizes, stops = layer.hyper["in_features"] * layer.hyper["out_features"], STOPS
    else:
        sizes, stops = x.shape[1] * y.shape[1], ""
    return Cost(sizes + bias, f"dimension 1 in × dimension 1 out, no batch{_and_bias(bias)}{stops}")


def of_convolution(layer: LayerCall, x: TensorSpec, y: TensorSpec) -> Cost:
    """Weights × positions of the output, for one image: a transposed one costs stride² of what it does."""
    hyper = layer.hyper
    bias = _biases(layer, hyper["out_channels"])
    if x.ndim == 5 and not bias:
        return Cost(None, "has no formula for five dimensions and leaves the layer out")
    weights = hyper["in_channels"] * hyper["out_channels"] // hyper["groups"] * prod(hyper["kernel_size"])
    positions = prod(y.shape[-len(hyper["kernel_size"]) :])
    stops = "" if x.ndim == 4 and len(hyper["kernel_size"]) == 2 else STOPS
    return Cost(weights * positions + bias, f"weights × output positions, no batch{_and_bias(bias)}{stops}")


def of_upsampling(layer: LayerCall, x: TensorSpec, y: TensorSpec) -> Cost:
    """So many for each output element, by the way of interpolating."""
    mode = layer.hyper["mode"]
    each = PER_UPSAMPLED.get(mode, 0)
    stops = "" if mode in ("nearest", "linear", "bilinear", "bicubic") else STOPS
    return Cost(each * y.numel, f"{each} per output element, {mode}{stops}")


PER_UPSAMPLED = {"linear": 4, "bilinear": 6, "trilinear": 2 * 6 + 4, "bicubic": 20}  # two planes, and a line between


def of_average(layer: LayerCall, x: TensorSpec, y: TensorSpec) -> Cost:
    """Means the area of the kernel, takes the length of its vector: the number of spatial dimensions."""
    sides = max(x.ndim - 2, 0)
    return Cost(sides * y.numel, f"{sides} per output element: the dimensions of the kernel, not its area")


def of_slopes(layer: LayerCall, x: TensorSpec, y: TensorSpec) -> Cost:
    return Cost(int(layer.hyper["num_parameters"]), "1 per slope, not per element")


def of_one_slope(layer: LayerCall, x: TensorSpec, y: TensorSpec) -> Cost:
    return Cost(1, f"1 for the slope{STOPS}")


def _per_input(each: int) -> Callable[[LayerCall, TensorSpec, TensorSpec], Cost]:
    return lambda layer, x, y: Cost(each * x.numel, f"{each} per input element")


def _free(layer: LayerCall, x: TensorSpec, y: TensorSpec) -> Cost:
    return Cost(0, NOTHING)


def _sizes(name: str, *dimensions: str) -> tuple[str, ...]:
    return tuple(f"{name}{dimension}" for dimension in dimensions or ("1d", "2d", "3d"))


FORMULAS: dict[str, Callable[[LayerCall, TensorSpec, TensorSpec], Cost]] = {
    f"torch.nn.{name}": formula
    for names, formula in {
        ("Linear",): of_linear,
        (*_sizes("Conv"), *_sizes("ConvTranspose")): of_convolution,
        _sizes("BatchNorm"): _per_input(4),
        ("LayerNorm", *_sizes("InstanceNorm")): _per_input(2),
        ("Softmax",): _per_input(1),
        ("PReLU",): of_slopes,
        ("LeakyReLU",): of_one_slope,
        (*_sizes("AvgPool"), *_sizes("AdaptiveAvgPool")): of_average,
        ("Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"): of_upsampling,
        ("ReLU", "ReLU6", "Dropout", "Flatten", "PixelShuffle", "ZeroPad2d"): _free,
        (*_sizes("MaxPool"), *_sizes("AdaptiveMaxPool")): _free,
    }.items()
    for name in names
}


def cost(layer: LayerCall) -> Cost:
    """What the tool's formula gives for a call of a layer; of a class it has none for, nothing."""
    formula = FORMULAS.get(layer.lineage[0]) if layer.lineage else None
    if formula is None:
        return Cost(None, "no formula for this class")
    if not layer.inputs or not layer.outputs:
        return Cost(0, NOTHING)
    return formula(layer, layer.inputs[0], layer.outputs[0])


def parameters(ledger: Ledger, module: int, statistics: bool) -> int:
    """Parameters of a module and all inside it, a shared one for each that has it; running statistics if wanted."""
    found = [ledger.trace.tensors[tensor] for tensor in ledger.all_tensors(module)]
    counted = [t for t in found if t.kind == "parameter" or (statistics and _is_statistic(t.names))]
    return sum(t.spec.numel for t in counted)


def _is_statistic(names: list[str]) -> bool:
    return names[0].rpartition(".")[2] in STATISTICS


def _biases(layer: LayerCall, size: int) -> int:
    """Elements of the bias, if it has one; it may hide behind a reparametrisation (`bias_orig`)."""
    names = (name.rpartition(".")[2] for t in layer.tensors for name in t.names)
    return size if any(name.startswith("bias") for name in names) else 0


def _and_bias(bias: int) -> str:
    return ", and the bias once, not per position" if bias else ""


def rows(ledger: Ledger) -> Iterator[tuple[LayerCall, Cost]]:
    """The last call of every module, in the order modules are registered."""
    last = sorted((layer for layer in ledger.layers() if layer.last), key=lambda layer: layer.module)
    return ((layer, cost(layer)) for layer in last)


def macs(ledger: Ledger) -> Iterator[Charge]:
    for layer, (amount, why) in rows(ledger):
        if amount is not None:
            yield Charge(layer.module, layer.call, amount, ledger.trace.modules[layer.module].type, why)


def _params(statistics: bool) -> Callable[[Ledger], Iterator[Charge]]:
    why = "each parameter, of each layer listed" + (", and running statistics" if statistics else "")

    def params(ledger: Ledger) -> Iterator[Charge]:
        for layer, (amount, _) in rows(ledger):
            if amount is not None:
                held = parameters(ledger, layer.module, statistics)
                yield Charge(layer.module, layer.call, held, ledger.trace.modules[layer.module].type, why)

    return params


THOPLW = convention(
    Convention(
        name="thoplw",
        title="a multiply-accumulate of a layer, by its table of classes; bias once a channel",
        source="thoplw README: example, table of results and tables of layers",
        year=2024,
        level="module",
        charges={"flops": macs, "params": _params(statistics=True)},
        words={"flops": "MACs", "params": "Params"},
    )
)
THOPLW_2024 = convention(
    Convention(
        name="thoplw-2024",
        title="as thoplw; a BatchNorm has two parameters a channel, not four",
        source="thoplw 2024.1.25, counts.py and linfo.py",
        year=2024,
        level="module",
        charges={"flops": macs, "params": _params(statistics=False)},
        words={"flops": "MACs", "params": "Params"},
    )
)
