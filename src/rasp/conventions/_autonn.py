"""A run as AutoNN holds a network: layers, one per call of a function, and the variables that they make.

What the function computes inside is the layer's own matter. Memory of a ReLU, sums of many terms and the like depend
on who reads a variable; that is seen in which operator read which block of memory, after which write to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..ledger import Ledger
from ..parts import operator_name
from ..records import PHASES, FunctionCall, OpSpec, TensorSpec, leaves

FORWARD = PHASES.index("forward")
Variable = tuple[int, int]  # a block of memory, and how often it had been written to before
Shape = tuple[int, ...]

RELU = {  # a leak, or a ceiling, is an option of the same layer
    "relu", "relu6", "hardtanh", "leaky_relu", "prelu", "prelu_kernel", "rrelu", "rrelu_with_noise", "threshold",
}  # fmt: skip
DROPOUT = {
    "dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "alpha_dropout",
    "feature_alpha_dropout",
}  # fmt: skip
SAME = {"contiguous", "clone", "detach", "detach_", "requires_grad_", "fill_", "zero_", "copy_"}  # no layer of its own
NAMED = {"local_response_norm": "LRN", "normalize": "NormScale"}  # several operators that are one layer there
WHOLE = {  # modules whose functions together are one layer
    "FrozenBatchNorm2d": "BatchNorm", "RoIPool": "RoiPooling", "PSRoIPool": "RoiPooling", "Proposal": "Proposal",
    "PriorBox": "PriorBox", "Detections": "Detections",
}  # fmt: skip


@dataclass(eq=False)
class Layer:
    """One layer: its kind in the tool's words, in which module call, its operators, what it made and what it read."""

    kind: str
    owner: int
    numbers: list[int]  # of its operators' OpSpecs
    specs: list[OpSpec]
    given: tuple[TensorSpec, ...]
    made: list[TensorSpec]
    reads: dict[Variable, Shape] = field(default_factory=dict)
    terms: int = 2  # of a sum or a maximum
    within: Layer | None = None  # the layer that computes this one along: its variable is that one's
    holds: list[Layer] = field(default_factory=list)
    in_place: bool = False

    @property
    def out(self) -> TensorSpec | None:
        return self.made[0] if self.made else None

    @property
    def variables(self) -> list[TensorSpec]:
        """What takes memory of its own: nothing in place, nothing that another layer computes along."""
        if self.in_place or self.within is not None or self.kind == "Same":
            return []
        return self.made


class Network:
    """The layers of a forward in order, with in-place ReLUs and joined layers found."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.trace = ledger, ledger.trace
        self.layers: list[Layer] = []
        self.makers: dict[Variable, Layer] = {}
        self.readers: dict[Variable, list[Layer]] = {}
        self.writes: dict[int, int] = {}
        for owner, call, ops in _grouped(self._pieces()):
            self._add(owner, call, ops)
        for layer in self.layers:
            self._place(layer)
            self._join(layer)

    def _pieces(self) -> Iterator[tuple[int, FunctionCall | None, range]]:
        """Calls of functions that no other called, and operators that ran outside of any."""
        at, whole = 0, {i for i, c in enumerate(self.trace.calls) if self.trace.modules[c.module].type in WHOLE}
        for call in (*self.ledger.functions, None):
            if call is not None and call.parent >= 0:
                continue
            start = len(self.trace.ops) if call is None else call.start
            for index in range(at, start):
                if self.trace.ops[index].phase == FORWARD:
                    yield self.trace.ops[index].owner, None, range(index, index + 1)
            if call is not None:
                at = max(at, call.end)
                together = call.owner in whole
                yield (call.owner, call._replace(name=WHOLE_CALL) if together else call, range(call.start, call.end))

    def _add(self, owner: int, call: FunctionCall | None, ops: Sequence[int]) -> None:
        numbers = [self.trace.ops[index].spec for index in ops]
        specs = [self.trace.specs[number] for number in numbers]
        given = tuple(leaves((call.args, call.kwargs))) if call else tuple(specs[0].tensors)
        made = list(leaves(call.out)) if call else specs[-1].outputs
        if call is not None and call.name == WHOLE_CALL:
            made = list(self.trace.calls[owner].outputs)
        kind = self._kind(owner, call, specs)
        if kind in ONE_OUTPUT:
            made = made[:1]  # beside it torch gives positions, or statistics
        if not specs and kind != "Dropout" and made == list(given[:1]):
            kind = "Same"
        layer = Layer(kind, owner, numbers, specs, given, made)
        for index, spec in zip(ops, specs):
            self._follow(layer, spec, *self.trace.ops[index][3:5])
        if made or specs:
            self.layers.append(layer)

    def _kind(self, owner: int, call: FunctionCall | None, specs: list[OpSpec]) -> str:
        name = call.name.rpartition(".")[2] if call else ""
        if name == WHOLE_CALL:
            return WHOLE[self.trace.modules[self.trace.calls[owner].module].type]
        if name in DROPOUT or name in SAME or name in NAMED:
            return "Dropout" if name in DROPOUT else NAMED.get(name, "Same")
        return kind_of(specs[-1]) if specs else "View"

    def _follow(self, layer: Layer, spec: OpSpec, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        shapes = [tensor.shape for tensor in spec.tensors]
        for at, block in enumerate(reads):
            variable = block, self.writes.get(block, 0)
            if self.makers.get(variable) is not layer and variable not in layer.reads:
                layer.reads[variable] = shapes[at] if len(shapes) == len(reads) else ()
                self.readers.setdefault(variable, []).append(layer)
        for block in dict.fromkeys(writes):
            if (block, self.writes.get(block, 0)) in self.makers or self.trace.storages[block].born < 0:
                self.writes[block] = self.writes.get(block, 0) + 1
            self.makers[block, self.writes.get(block, 0)] = layer

    # -- who reads what --------------------------------------------------------------------------------------------

    def alone(self, layer: Layer, variable: Variable) -> bool:
        """Whether no other layer reads what this one reads; of a view, no other layer reads that view."""
        maker, shape = self.makers.get(variable), layer.reads[variable]
        readers = self.readers[variable]
        if maker is not None and maker.out is not None and maker.out.shape != shape:
            readers = [reader for reader in readers if reader.reads[variable] == shape]
        return readers == [layer]

    def _place(self, layer: Layer) -> None:
        """A ReLU works in the memory of what it reads, if that is a layer's and no other layer reads it."""
        if layer.kind == "ReLU" and layer.reads:
            variable = next(iter(layer.reads))
            layer.in_place = variable in self.makers and self.alone(layer, variable)

    def _join(self, layer: Layer) -> None:
        """Sums of sums and maxima of maxima are one layer, and so are a scale and the sum, or the norm, next to it."""
        for variable in layer.reads if layer.kind in JOINS else ():
            maker = self.makers.get(variable)
            if maker is None or maker.within is not None or (layer.kind, maker.kind) not in JOINED:
                continue
            shapes = {tensor.shape for found in (layer, maker) for tensor in found.made}
            if not self.alone(layer, variable) or len(shapes) != 1 or not self._fits(layer, maker):
                continue
            maker.within = layer
            layer.holds.append(maker)
            layer.terms += maker.terms - 1 if layer.kind == maker.kind else 0
            layer.kind = JOINED[layer.kind, maker.kind]

    def _fits(self, layer: Layer, maker: Layer) -> bool:
        scale = layer if layer.kind == "Scale" else maker
        return scale.kind != "Scale" or per_channel(scale)


ONE_OUTPUT = ("Pooling", "RoiPooling", "BatchNorm")
WHOLE_CALL = "(whole module)"
JOINED = {  # a layer of the first kind that alone reads one of the second → what both are together
    ("Sum", "Sum"): "Sum",
    ("Max", "Max"): "Max",
    ("Sum", "Scale"): "Axpy",
    ("Scale", "NormScale"): "NormScale",
}
JOINS = {kind for kind, _ in JOINED}


def _grouped(
    pieces: Iterable[tuple[int, FunctionCall | None, range]],
) -> Iterator[tuple[int, FunctionCall | None, list[int]]]:
    """Functions of one call of a whole module together, with what the last of them gave."""
    held: tuple[int, FunctionCall, list[int]] | None = None
    for owner, call, ops in pieces:
        together = call is not None and call.name == WHOLE_CALL
        if held is not None and not (together and held[0] == owner):
            yield held
            held = None
        if call is not None and together:
            held = owner, call, [*(held[2] if held else ()), *ops]
        else:
            yield owner, call, list(ops)
    if held is not None:
        yield held


KINDS = {
    "convolution": "Conv", "addmm": "Conv", "mm": "Conv", "linear": "Conv", "add": "Sum", "sub": "Sum", "rsub": "Sum",
    "mul": "Scale", "div": "Scale", "maximum": "Max", "minimum": "Max", "softmax": "SoftMax", "sigmoid": "Sigmoid",
    "roi_pool": "RoiPooling", "roi_align": "RoiPooling", "ps_roi_pool": "RoiPooling", "ps_roi_align": "RoiPooling",
    "nms": "Proposal", "cat": "Concat", "stack": "Concat", "slice": "Crop", "mean": "GlobalPooling",
}  # fmt: skip
PREFIXES = {
    "max_pool": "Pooling", "avg_pool": "Pooling", "adaptive_": "Pooling", "upsample_": "Interp",
    "batch_norm": "BatchNorm", "cudnn_batch_norm": "BatchNorm", "miopen_batch_norm": "BatchNorm",
}  # fmt: skip


def kind_of(spec: OpSpec) -> str:
    """What the tool would call an operator; its own name where the tool has no such layer."""
    name = operator_name(spec.name)
    if name in RELU or (name in ("clamp", "clamp_min") and spec.args[1] == 0):
        return "ReLU"
    if name == "convolution" and spec.args[6]:
        return "ConvTranspose"
    found = KINDS.get(name) or next((kind for prefix, kind in PREFIXES.items() if name.startswith(prefix)), None)
    return found or name


def per_channel(layer: Layer) -> bool:
    """Whether one factor of a product is a number per channel, the other a map."""
    out = layer.out
    if out is None or not layer.specs or len(layer.specs[-1].tensors) != 2:
        return False
    small = min(layer.specs[-1].tensors, key=lambda tensor: tensor.numel)
    return small.numel < out.numel and small.ndim >= out.ndim - 1 and all(n == 1 for n in small.shape[2 - out.ndim :])
