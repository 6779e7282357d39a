"""convnet-burden: a fused multiply-add is one flop, BatchNorm is merged, and every variable of the net takes memory.

The tool counted networks of MatConvNet in test mode, as AutoNN holds them. Layers that it never had are charged what
its rules imply where they do (products, sums, poolings of other dimensions), else nothing; `why` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from ..ledger import Ledger
from ..parts import operator_name
from ..records import OpSpec, TensorInfo, TensorSpec
from . import Charge, Convention, convention
from ._autonn import Layer, Network, kind_of

Cost = tuple[int, str]
UNKNOWN: Cost = (0, "not recognised by the tool: nothing charged")
FREE = {
    "BatchNorm": "merged into the convolution",
    "Concat": "moves only", "Crop": "moves only", "View": "moves only", "Same": "no layer of its own",
    "SoftMax": "exponentials are switched off", "Sigmoid": "exponentials are switched off",
    "Dropout": "not applied in test mode",
    "RoiPooling": "regions are not counted", "Proposal": "regions are not counted",
    "PriorBox": "regions are not counted", "Detections": "regions are not counted",
}  # fmt: skip
TAPS = {"linear": 2, "bilinear": 4, "trilinear": 8, "bicubic": 16}  # of the first four the tool has the second


def of_convolution(spec: OpSpec) -> Cost:
    """Output × kernel × input channels of a group, and the output once for a bias."""
    x, weight, bias, _, _, _, transposed = spec.args[:7]
    out = spec.outputs[0].numel
    added = out if bias is not None else 0
    also = ", 1 per output element for the bias" if added else ""
    if transposed:
        channels = weight.shape[0]
        return x.numel * prod(weight.shape[2:]) * channels + added, f"input × kernel × input channels{also}"
    return out * prod(weight.shape[1:]) + added, f"output × kernel × input channels of a group{also}"


def of_pooling(spec: OpSpec) -> Cost:
    """2 for each output element and position of its stride; of all the map at once, 1 for each input element."""
    x, out = spec.tensors[0], spec.outputs[0]
    name = operator_name(spec.name)
    spatial = int(name[name.index("pool") + 4])
    if name.startswith("adaptive"):
        if prod(out.shape[-spatial:]) == 1:
            return x.numel, "global: 1 per input element"
        stride = [max(1, n // max(1, m)) for n, m in zip(x.shape[-spatial:], out.shape[-spatial:])]
    else:
        stride = _each(spec.args[2] or spec.args[1], spatial)
    return 2 * out.numel * prod(stride), "2 × output × stride in each direction; the kernel does not enter"


def _each(sizes: int | tuple[int, ...], spatial: int) -> list[int]:
    found = (sizes,) if isinstance(sizes, int) else sizes
    return list(found) * spatial if len(found) == 1 else list(found)


def of_mean(spec: OpSpec) -> Cost:
    return spec.tensors[0].numel, "global pooling: 1 per input element"


def of_reduction(spec: OpSpec) -> Cost:
    return spec.tensors[0].numel, "not a layer of the tool; as its global pooling, 1 per input element"


def of_interpolation(spec: OpSpec) -> Cost:
    """4 for each output element where it is bilinear; other ways by how many inputs each output takes from."""
    name = operator_name(spec.name)
    way = next((way for way in ("trilinear", "bilinear", "bicubic", "linear") if way in name), "")
    taps = TAPS.get(way, 0)
    why = f"{taps} per output element" if way else "nearest: a copy"
    return taps * spec.outputs[0].numel, why if way in ("", "bilinear") else f"{why}, as the tool does for bilinear"


def of_sampling(spec: OpSpec) -> Cost:
    taps = 4 if spec.args[2] == 0 else 0
    return taps * spec.outputs[0].numel, "4 per output element, as its bilinear interpolation"


def _per_output(each: int, why: str) -> Callable[[OpSpec], Cost]:
    return lambda spec: (each * spec.outputs[0].numel, why)


OPERATORS: dict[str, Callable[[OpSpec], Cost]] = {
    "ReLU": _per_output(2, "2 per output element"),
    "Pooling": of_pooling,
    "GlobalPooling": of_mean,
    "Interp": of_interpolation,
    "Sum": _per_output(1, "1 per output element"),
    "Scale": _per_output(1, "1 per output element"),
    "sum": of_reduction, "amax": of_reduction, "amin": of_reduction, "max": of_reduction, "min": of_reduction,
    "nansum": of_reduction,
    "addcmul": _per_output(2, "not a layer of the tool; as its axpy, 2 per output element"),
    "lerp": _per_output(2, "not a layer of the tool; as its axpy, 2 per output element"),
    "grid_sampler_2d": of_sampling,
}  # fmt: skip


def of_operator(ledger: Ledger, index: int) -> Cost:
    """One operator, where a layer has not been told apart by its function."""
    spec, work = ledger.trace.specs[index], ledger.works[index]
    kind = kind_of(spec)
    if kind in FREE:
        return 0, FREE[kind]
    if operator_name(spec.name) == "convolution":
        return of_convolution(spec)
    if kind in OPERATORS and spec.outputs and spec.tensors:
        return OPERATORS[kind](spec)
    if work is not None and work.mac:
        macs, bias = int(work.mac), spec.outputs[0].numel if work.bias and spec.outputs else 0
        return macs + bias, f"1 per multiply-add{', 1 per output element for the bias' if bias else ''}"
    return UNKNOWN


def of_norm(layer: Layer) -> Cost:
    """Sums of squares over channels at each place, a root and a product."""
    x = layer.given[0]
    channels, places = x.shape[1], x.numel // max(1, x.shape[1])
    return x.numel + (2 + 2 * channels) * places, "output + (2 + 2 × channels) × places"


def of_layer(ledger: Ledger, layer: Layer) -> Cost:
    """The flops of a layer, and why."""
    out = layer.out
    if layer.within is not None and layer.kind in ("Sum", "Max"):
        return 0, "a term of the sum or maximum that reads it"
    if layer.kind in FREE:
        return 0, FREE[layer.kind]
    if layer.kind == "Max" and out is not None:
        return layer.terms * out.numel, f"{layer.terms} terms × output"
    if layer.holds and layer.kind == "NormScale":
        return 0, "within the norm"
    if layer.kind in ("LRN", "NormScale") and layer.given and layer.given[0].ndim > 1:
        return of_norm(layer)
    if layer.kind == "Axpy" and out is not None:
        return out.numel, "2 per output element, one of them of the scale before it"
    costs = [of_operator(ledger, index) for index in layer.numbers]
    whys = [why for amount, why in costs if amount] or [why for _, why in costs[-1:]] or [FREE["View"]]
    return sum(amount for amount, _ in costs), "; ".join(dict.fromkeys(whys))


def flops(ledger: Ledger) -> Iterator[Charge]:
    for layer in Network(ledger).layers:
        amount, why = of_layer(ledger, layer)
        yield Charge(ledger.trace.calls[layer.owner].module, layer.owner, amount, layer.kind, why)


def feat_mem(ledger: Ledger) -> Iterator[Charge]:
    """Every variable that is neither parameter nor input, nothing used again."""
    for layer in Network(ledger).layers:
        amount, why = of_memory(layer)
        yield Charge(ledger.trace.calls[layer.owner].module, layer.owner, amount, layer.kind, why)


def of_memory(layer: Layer) -> Cost:
    size = sum(spec.nbytes for spec in layer.variables)
    if layer.kind == "Dropout":
        return 2 * size, "a mask and an output, in test mode too"
    if layer.kind == "Concat" and len(layer.given) == 1:
        return 0, "of one tensor: no new variable"
    if layer.in_place:
        return 0, "in place: no other layer reads its input"
    return size, "a new variable" if size else "no variable of its own"


def _held(column: Callable[[TensorSpec], int]) -> Callable[[Ledger], Iterator[Charge]]:
    def charges(ledger: Ledger) -> Iterator[Charge]:
        counted: set[int] = set()
        for index, module in enumerate(ledger.trace.modules):
            own = {at: ledger.trace.tensors[at] for at in module.tensors if at not in counted}
            counted.update(own)
            normalised = any(_name(tensor) == "running_mean" for tensor in own.values())
            kept = [
                t for t in own.values() if t.kind == "parameter" or (normalised and _name(t) != "num_batches_tracked")
            ]
            why = "parameters, and mean and deviation" if normalised else "parameters"
            yield Charge(index, None, sum(column(tensor.spec) for tensor in kept), module.type, why)

    return charges


def _name(tensor: TensorInfo) -> str:
    return tensor.names[0].rpartition(".")[2]


BURDEN = convention(
    Convention(
        name="burden",
        title="a fused multiply-add of MatConvNet's layers; ReLU 2, BatchNorm merged",
        source="convnet-burden, core/burden.m and README",
        year=2017,
        level="function",
        charges={
            "flops": flops,
            "feat_mem": feat_mem,
            "params": _held(lambda spec: spec.numel),
            "param_mem": _held(lambda spec: spec.nbytes),
        },
        words={"flops": "FLOPs", "param_mem": "param mem", "feat_mem": "feature mem"},
    )
)
