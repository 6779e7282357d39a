"""The rows of torchinfo's summary (1.8.0), as its hooks gather them: what its numbers and its layout are made of.

A row is a call of a module, at the depth and under the name of the last place its module is registered in. Modules
that hold others and are not called get a row where something below them was called. What comes after a row at a
greater depth counts as being inside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from ..ledger import LayerCall, Ledger
from ..records import TensorInfo, TensorSpec

SCRIPTED = "torch.jit._script.RecursiveScriptModule"
HOLDERS = ("ImageList", "NestedTensor")  # objects whose `tensors` it looks at
PRUNED = "_orig"
STORAGE_OBJECT = 64  # bytes of Python's own that sys.getsizeof adds to a storage


class Place(NamedTuple):
    """Where a module is registered: the name there, how deep, and the place above."""

    name: str
    module: int
    depth: int
    above: Place | None


class Sized(NamedTuple):
    """The shape of a tensor and the bytes of one element, as far as they were found."""

    shape: tuple[int, ...] = ()
    itemsize: int = 0


@dataclass(slots=True, eq=False)
class Row:
    """One line of the summary; sizes and mult-adds stay empty where no call was seen."""

    place: Place
    type: str
    leaf: bool
    call: int | None = None
    number: int = 0  # its place among the rows of its depth
    recursive: bool = False  # its module has a row before
    params: int = 0
    trainable: int = 0
    param_bytes: int = 0
    mult_adds: int = 0
    kernel: Any = None
    given: Sized = field(default_factory=Sized)
    made: Sized = field(default_factory=Sized)
    inside: list[Row] = field(default_factory=list)
    leftover: int = 0  # parameters that no row inside accounts for; can be negative
    leftover_trainable: int = 0
    why: str = ""

    @property
    def module(self) -> int:
        return self.place.module

    @property
    def depth(self) -> int:
        return self.place.depth

    @property
    def counted(self) -> int:
        """Parameters this row adds to the total."""
        if self.recursive:
            return 0
        return max(self.params if self.leaf else self.leftover, 0)

    @property
    def counted_trainable(self) -> int:
        if self.recursive:
            return 0
        return max(self.trainable if self.leaf else self.leftover_trainable, 0)

    @property
    def counted_bytes(self) -> int:
        """Bytes of parameters; those a container holds itself are left out."""
        return self.param_bytes if self.leaf and not self.recursive else 0

    @property
    def pass_bytes(self) -> int:
        """Forward and backward: twice the output of a layer that has parameters, at every call."""
        return 2 * self.made.itemsize * prod(self.made.shape) if self.leaf and self.params > 0 else 0

    @property
    def total_mult_adds(self) -> int:
        return self.mult_adds if self.leaf else 0


class Summary:
    """All rows of a run in their order."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.trace = ledger, ledger.trace
        self.places = {place.module: place for place in self._registered()}

    @cached_property
    def rows(self) -> list[Row]:
        rows = self._with_containers([*self._scripted(), *self._called()])
        numbers: dict[int, int] = {}
        for row in rows:
            row.number = numbers[row.depth] = numbers.get(row.depth, 0) + 1
        last = {id(row): index for index, row in enumerate(rows)}
        for index in sorted(last.values(), reverse=True):
            self._settle(rows, index)
        return rows

    @cached_property
    def input_bytes(self) -> int | float:
        """Whole storages of the inputs, and what Python takes for each; numbers given count as themselves."""
        blocks = [storage.nbytes for storage in self.trace.storages if storage.kind == "input"]
        specs = [spec for _, spec in self.trace.inputs]
        if len(blocks) == 1:
            blocks *= len(specs)
        if len(blocks) != len(specs):  # some share a block: each counts with what it spans
            blocks = [_span(spec) for spec in specs]
        call = self.trace.calls[0] if self.trace.calls else None
        return sum(blocks) + STORAGE_OBJECT * len(blocks) + sum(_numbers(call.args or call.kwargs if call else ()))

    def total(self, name: str) -> int:
        return sum(getattr(row, name) for row in self.rows)

    # -- which rows ------------------------------------------------------------------------------------------------

    def _registered(self) -> Iterator[Place]:
        """Every place of every module, a module before what it holds; the last place of each stands."""
        stack = [Place(self.trace.modules[0].type, 0, 0, None)]
        while stack:
            place = stack.pop()
            yield place
            members = self.ledger.members(place.module)
            above = set(_path(place))
            stack += [
                Place(name, module, place.depth + 1, place) for name, module in members[::-1] if module not in above
            ]

    def _scripted(self) -> Iterator[Row]:
        """TorchScript modules are listed when they are found, and never when they are called."""
        for place in self.places.values():
            if self.trace.modules[place.module].lineage[:1] == (SCRIPTED,):
                yield self._row(place)

    def _called(self) -> Iterator[Row]:
        seen: set[int] = set()
        for layer in self.ledger.layers():
            place = self.places.get(layer.module)
            if place is None or layer.lineage[:1] == (SCRIPTED,):
                continue
            row = self._row(place, layer)
            row.recursive = layer.module in seen
            seen.add(layer.module)
            yield row

    def _with_containers(self, rows: list[Row]) -> list[Row]:
        """A row for each module above a call that the rows before do not show; shown again, it is the same row."""
        known = {row.module for row in rows}
        found: list[Row] = []
        made: dict[int, Row] = {}
        shown: dict[int, Place] = {}  # by depth, what is open here
        for row in rows:
            above = {place.depth: place for place in _above(row.place)}
            for depth in range(1, row.depth):
                place = above[depth]
                open_here = shown.get(depth)
                if (open_here is None or open_here.module != place.module) and found[-1] is not made.get(place.module):
                    container = made.setdefault(place.module, self._row(place))
                    container.recursive = place.module in known
                    known.add(place.module)
                    found.append(container)
                    shown[depth] = place
            shown[row.depth] = row.place
            found.append(row)
            for depth in [d for d in shown if d > row.depth]:
                del shown[depth]
        return found

    def _settle(self, rows: list[Row], index: int) -> None:
        """What is inside a row, and the parameters that are left to itself."""
        row, end = rows[index], index + 1
        while end < len(rows) and rows[end].depth > row.depth:
            end += 1
        row.inside = rows[index + 1 : end]
        inside = [other for other in row.inside if not other.recursive]
        row.leftover = row.params - sum(o.params if o.leaf else o.leftover for o in inside)
        row.leftover_trainable = row.trainable - sum(o.trainable if o.leaf else o.leftover_trainable for o in inside)

    # -- what a row says -------------------------------------------------------------------------------------------

    def _row(self, place: Place, layer: LayerCall | None = None) -> Row:
        info = self.trace.modules[place.module]
        row = Row(place, info.type, not self.ledger.members(place.module), kernel=info.hyper.get("kernel_size"))
        named = list(self._named_parameters(place.module))
        for _, tensor in named:
            row.params += tensor.spec.numel
            row.param_bytes += tensor.nbytes
            row.trainable += tensor.spec.numel if tensor.trainable else 0
        if layer is not None:
            row.call = layer.call
            row.given = sized(layer.args, layer.inputs)
            row.made = sized(layer.returned, layer.outputs)
            reasons = dict.fromkeys(self._multiplied(row, name, tensor) for name, tensor in named)
            row.why = "; ".join(reason for reason in reasons if reason)
        return row

    def _multiplied(self, row: Row, name: str, tensor: TensorInfo) -> str:
        """Add a parameter's mult-adds: its elements times some dimensions of the output, by its name."""
        shape, count = row.made.shape, tensor.spec.numel
        if name in ("weight", "bias"):
            if "Conv" in row.type:
                row.mult_adds += count * prod((*shape[:1], *shape[2:]))
                return "weights and biases × output without its second dimension"
            row.mult_adds += count * prod(shape[:1])
            return "weights and biases × first dimension of the output"
        if "weight" in name or "bias" in name:
            row.mult_adds += count * prod(shape[:2])
            return "parameters named for weights and biases × first two dimensions of the output"
        return ""

    @cached_property
    def _masked(self) -> set[str]:
        """Names of parameters that pruning keeps a mask of."""
        return {t.names[0].removesuffix("_mask") for t in self.trace.tensors if t.names[0].endswith("_mask")}

    def _named_parameters(self, module: int) -> Iterator[tuple[str, TensorInfo]]:
        """Parameters of a module and of all below it, each once, by their name within it."""
        path = self.trace.modules[module].path
        prefix, own = f"{path}." if path else "", set(self.trace.modules[module].tensors)
        for index in self.ledger.all_tensors(module):
            tensor = self.trace.tensors[index]
            if tensor.kind != "parameter" or _packed(tensor.spec):
                continue
            if len(tensor.names) == 1:
                name = tensor.names[0].removeprefix(prefix)
            else:
                names = [name[len(prefix) :] for name in tensor.names if name.startswith(prefix)]
                if index in own:
                    names = [name for name in names if "." not in name] or names
                name = names[0] if names else tensor.names[0]
            if name.endswith(PRUNED) and tensor.names[0].removesuffix(PRUNED) in self._masked:
                name = name.removesuffix(PRUNED)
            yield name, tensor


def _above(place: Place) -> Iterator[Place]:
    """The places above one, but for the model's own."""
    above = place.above
    while above is not None and above.depth > 0:
        yield above
        above = above.above


def _path(place: Place | None) -> Iterator[int]:
    while place is not None:
        yield place.module
        place = place.above


def _packed(spec: TensorSpec) -> bool:
    """Weights packed out of sight of parameters()."""
    return bool(spec.shape) and not spec.stride and spec.nnz is None


def _span(spec: TensorSpec) -> int:
    if not spec.numel:
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(spec.shape, spec.stride))) * spec.itemsize


def _numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)


def sized(value: Any, flat: tuple[TensorSpec, ...]) -> Sized:
    """The size shown for arguments or results: of the first tensor; of a dict at the top, of its last entry."""
    if isinstance(value, dict):
        value = list(value.values())[-1] if value else ()
    while not isinstance(value, TensorSpec):
        if isinstance(value, dict):
            value = tuple(value.values())
        if value in HOLDERS and flat:
            value = flat[0]
        elif isinstance(value, (tuple, list)) and value:
            value = value[0]
        else:
            return Sized()
    return Sized(value.shape, value.itemsize)
