"""thop (pytorch-OpCounter) 0.1.1, `thop.profile(model, inputs)`: MACs of layers by their very class, and parameters.

A layer has a hook for each parent it is found under, and is summed once for each of them too: what is shared by two
parents counts four times. Parameters count for layers with a formula that were called, never for the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from ..ledger import LayerCall, Ledger
from ..records import TensorSpec, leaves
from . import Charge, Convention, convention

UPSAMPLED = {"nearest": 1, "linear": 5, "bilinear": 11, "bicubic": 224 + 35}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ELEMENTWISE = {"RNN": 0, "GRU": 4, "LSTM": 4}  # products of a cell beside its gates, for each unit
DESCENDED = ("torch.nn.Sequential", "torch.nn.ModuleList")  # what is below them is summed, whatever their own rule

Formula = Callable[[LayerCall], int]


def first(layer: LayerCall) -> TensorSpec | None:
    """The first argument: a tensor, or the data of a packed sequence."""
    return next(leaves(layer.args), None) or next(leaves(layer.kwargs), None)


def size(spec: TensorSpec | None, dim: int) -> int:
    return spec.shape[dim] if spec is not None and -spec.ndim <= dim < spec.ndim else 1


def elements(spec: TensorSpec | None) -> int:
    return 0 if spec is None else spec.numel


def zero(layer: LayerCall) -> int:
    return 0


def convolution(layer: LayerCall) -> int:
    """Outputs × (second dimension of the input // groups) × kernel, also where transposed or not in a batch."""
    groups, kernel = layer.hyper.get("groups", 1), layer.hyper.get("kernel_size", ())
    return int(elements(layer.out) * (size(first(layer), 1) // groups) * prod(kernel))


def normalisation(layer: LayerCall) -> int:
    affine = layer.hyper.get("affine") or layer.hyper.get("elementwise_affine")
    return elements(first(layer)) * (4 if affine else 2)


def inputs(layer: LayerCall) -> int:
    return elements(first(layer))


def outputs(layer: LayerCall) -> int:
    return elements(layer.out)


def softmax(layer: LayerCall) -> int:
    """Per row an exponential and a division for each feature, and additions between them: 3 · features - 1."""
    x = first(layer)
    if x is None or not x.numel:
        return 0
    dim = layer.hyper.get("dim")
    features = size(x, dim if dim is not None else 0 if x.ndim in (0, 1, 3) else 1)
    return x.numel // features * (3 * features - 1)


def adaptive(layer: LayerCall) -> int:
    """Outputs × (ratio of the sizes after the second dimension, as floats, + 1), cut to a whole number."""
    x, out = first(layer), layer.out
    if x is None or out is None or not out.numel:
        return 0
    ratio = 1.0
    for before, after in zip(x.shape[2:], out.shape[2:]):
        ratio *= before / after
    return int((ratio + 1) * out.numel)


def upsampling(layer: LayerCall) -> int:
    return UPSAMPLED.get(str(layer.hyper.get("mode")), 0) * elements(layer.out)


def linear(layer: LayerCall) -> int:
    return int(layer.hyper.get("in_features", 0)) * elements(layer.out)


def step(kind: str, width: int, hidden: int, bias: bool) -> int:
    """One cell for one row: gates of (width + hidden + 1, and 2 for biases) each, and the products between them."""
    gate = hidden * (width + hidden + 1 + (2 if bias else 0))
    return GATES[kind] * gate + ELEMENTWISE[kind] * hidden


def cell(kind: str) -> Formula:
    def count(layer: LayerCall) -> int:
        hyper = layer.hyper
        return size(first(layer), 0) * step(kind, hyper["input_size"], hyper["hidden_size"], hyper["bias"])

    return count


def recurrent(kind: str) -> Formula:
    """Steps × batch × cells; a packed sequence as if every row of it were as long as the longest."""

    def count(layer: LayerCall) -> int:
        hyper, hidden = layer.hyper, layer.hyper["hidden_size"]
        dirs = 2 if hyper.get("bidirectional") else 1
        widths = [hyper["input_size"], *[hidden * dirs] * (hyper["num_layers"] - 1)]
        return rows(layer) * dirs * sum(step(kind, width, hidden, hyper["bias"]) for width in widths)

    return count


def rows(layer: LayerCall) -> int:
    """Steps × batch: the first two dimensions; of a packed sequence its steps and its widest one."""
    given: Any = layer.args[0] if layer.args else next(iter(layer.kwargs.values()), None)
    if isinstance(given, tuple):  # data, batch sizes, and two orders
        state = next(leaves(layer.returned[1]), None) if isinstance(layer.returned, tuple) else None
        return size(given[1], 0) * size(state, -2)
    x = first(layer)
    return size(x, 0) * size(x, 1)


NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "LayerNorm", "InstanceNorm1d",
         "InstanceNorm2d", "InstanceNorm3d")  # fmt: skip
FREE = ("ZeroPad2d", "ReLU", "ReLU6", "LeakyReLU", "MaxPool1d", "MaxPool2d", "MaxPool3d", "AdaptiveMaxPool1d",
        "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "Dropout", "Sequential", "PixelShuffle")  # fmt: skip
CONVOLUTION = "outputs × input channels // groups × kernel, none for a bias"
ADAPTIVE = "outputs × (window + 1), the window as the ratio of the sizes"
UPSAMPLING = "a fixed number per output element: 1 nearest, 5 linear, 11 bilinear, 259 bicubic"
CELL = "batch × gates, each hidden · (inputs + hidden + 1, and 2 for biases), and the products between them"
RECURRENT = "steps × batch × cells, whose gates are hidden · (inputs + hidden + 1, and 2 for biases) each"
RULES: dict[str, tuple[Formula, str]] = {
    **dict.fromkeys(FREE, (zero, "counts nothing")),
    **dict.fromkeys(NORMS, (normalisation, "2 per input element, 4 with affine parameters")),
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d"), (convolution, CONVOLUTION)),
    **dict.fromkeys(("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"), (convolution, CONVOLUTION)),
    **dict.fromkeys(("AvgPool1d", "AvgPool2d", "AvgPool3d"), (outputs, "1 per output element, whatever the window")),
    **dict.fromkeys(("AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d"), (adaptive, ADAPTIVE)),
    **dict.fromkeys(("Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"), (upsampling, UPSAMPLING)),
    **{f"{kind}Cell": (cell(kind), CELL) for kind in GATES},
    **{kind: (recurrent(kind), RECURRENT) for kind in GATES},
    "PReLU": (inputs, "1 per input element"),
    "Softmax": (softmax, "3 · features - 1 per row"),
    "Linear": (linear, "in_features × outputs, none for a bias"),
}


def rule(lineage: tuple[str, ...]) -> tuple[Formula, str] | None:
    place, _, name = lineage[0].rpartition(".") if lineage else ("", "", "")
    return RULES.get(name) if place == "torch.nn" else None


class Times:
    """How often a layer is hooked (once for each way to it) and how often it is summed (each way not cut short)."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.modules = ledger, ledger.trace.modules
        self.hooked: dict[int, int] = {}
        self.summed: dict[int, int] = {0: 1}
        for module in self._downwards():
            ways, sums = self.hooked.setdefault(module, 1), self.summed.get(module, 0)
            ends = module and rule(self.modules[module].lineage) and self.modules[module].lineage[0] not in DESCENDED
            for child in dict.fromkeys(child for _, child in ledger.members(module)):
                self.hooked[child] = self.hooked.get(child, 0) + ways
                self.summed[child] = self.summed.get(child, 0) + (0 if ends else sums)

    def _downwards(self) -> list[int]:
        """Modules so that each comes after all that hold it."""
        order: list[int] = []
        seen: set[int] = set()
        stack = [(0, False)]
        while stack:
            module, done = stack.pop()
            if done:
                order.append(module)
            elif module not in seen:
                seen.add(module)
                stack.append((module, True))
                stack.extend((child, False) for _, child in self.ledger.members(module) if child not in seen)
        return order[::-1]


def flops(ledger: Ledger) -> Iterator[Charge]:
    times = Times(ledger)
    for layer in ledger.layers():
        found = rule(layer.lineage)
        often = times.hooked.get(layer.module, 0) * times.summed.get(layer.module, 0)
        if found and often:
            formula, why = found
            more = f", {often} times: it is found under several parents" if often > 1 else ""
            yield Charge(layer.module, layer.call, often * formula(layer), layer.type, why + more)


def params(ledger: Ledger) -> Iterator[Charge]:
    """Of layers with a formula, at their first call; a tensor that two layers share counts in both."""
    times, seen = Times(ledger), {0}
    for layer in ledger.layers():
        if layer.module in seen or not rule(layer.lineage):
            continue
        seen.add(layer.module)
        tensors = (ledger.trace.tensors[index] for index in ledger.all_tensors(layer.module))
        count = sum(tensor.spec.numel for tensor in tensors if tensor.kind == "parameter")
        if layer.lineage[0] not in DESCENDED:
            yield Charge(
                layer.module, layer.call, count * times.summed.get(layer.module, 0), layer.type,
                "parameters of a layer that has a formula and was called",
            )  # fmt: skip


THOP = convention(
    Convention(
        name="thop",
        title="MACs of convolutions, linear, recurrent and pooling layers, 2 or 4 per element of a normalisation",
        source="thop (pytorch-OpCounter) 0.1.1, thop.profile",
        year=2022,
        level="module",
        charges={"flops": flops, "params": params},
        words={"flops": "MACs"},
    )
)
