"""Traces made by hand, for tests of everything that reads one: no torch involved."""

from __future__ import annotations

import random
from math import prod

from rasp.records import ModuleCall, ModuleInfo, OpCall, OpSpec, Storage, TensorInfo, TensorSpec, Trace


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    """A contiguous tensor."""
    strides = tuple(prod(shape[i + 1 :]) for i in range(len(shape)))
    return TensorSpec(shape, strides, dtype)


class Builder:
    """Writes a Trace call by call: `with_call` opens a module call, `op` runs an operator in the innermost open one."""

    def __init__(self, root_type: str = "Model") -> None:
        self.trace = Trace([], [], [], [], [], [])
        self.root_type = root_type
        self.modules: dict[str, int] = {}
        self.open: list[int] = []
        self._specs: dict[str, int] = {}
        self.module("", root_type)

    def module(self, path: str, kind: str = "Layer", **hyper: object) -> int:
        if path in self.modules:
            return self.modules[path]
        parent = -1 if path == "" else self.module(path.rpartition(".")[0], "Sequential")
        self.trace.modules.append(ModuleInfo(path, kind, parent, [], False, dict(hyper), [], [path]))
        index = self.modules[path] = len(self.trace.modules) - 1
        if parent >= 0:
            self.trace.modules[parent].children.append(index)
        return index

    def tensor(self, path: str, name: str, *shape: int, kind: str = "parameter", trainable: bool = True) -> int:
        """A parameter or buffer on a module; gives its index."""
        value = spec(*shape)
        self.trace.storages.append(Storage(value.nbytes, kind))
        full = f"{path}.{name}".strip(".")
        storage = len(self.trace.storages) - 1
        self.trace.tensors.append(TensorInfo([full], value, kind, trainable, storage, value.numel))
        index = len(self.trace.tensors) - 1
        self.trace.modules[self.modules[path]].tensors.append(index)
        return index

    def tie(self, path: str, tensor: int, name: str = "weight") -> None:
        """The same tensor under a second module."""
        self.trace.tensors[tensor].names.append(f"{path}.{name}")
        self.trace.modules[self.modules[path]].tensors.append(tensor)

    def enter(self, path: str, inputs: tuple[TensorSpec, ...] = (), outputs: tuple[TensorSpec, ...] = ()) -> int:
        module = self.modules[path]
        number = sum(call.module == module for call in self.trace.calls)
        parent = self.open[-1] if self.open else -1
        self.trace.calls.append(ModuleCall(module, parent, number, inputs, outputs, len(self.trace.ops)))
        self.open.append(len(self.trace.calls) - 1)
        return self.open[-1]

    def leave(self) -> None:
        self.trace.calls[self.open.pop()].end = len(self.trace.ops)

    def op(self, name: str, *args: object, out: object = None, reads: tuple[int, ...] = (), phase: int = 0) -> None:
        self.op_in(self.open[-1], name, *args, out=out, reads=reads, phase=phase)

    def op_in(
        self, owner: int, name: str, *args: object, out: object = None, reads: tuple[int, ...] = (), phase: int = 0
    ) -> None:
        made = OpSpec(name, "default", args, {}, out)
        key = repr(made)
        if key not in self._specs:
            self.trace.specs.append(made)
            self._specs[key] = len(self.trace.specs) - 1
        self.trace.ops.append(OpCall(self._specs[key], owner, phase, reads, ()))

    def leaf(
        self, path: str, name: str = "aten::mm", *, rows: int = 4, of: int = 8, to: int = 8, kind: str = "Linear"
    ) -> None:
        """Call a module that runs one matrix product with its own weight, which is made when it is not there yet."""
        module = self.module(path, kind)
        if not self.trace.modules[module].tensors:
            self.tensor(path, "weight", of, to)
        tensor = self.trace.tensors[self.trace.modules[module].tensors[0]]
        self.enter(path, (spec(rows, of),), (spec(rows, to),))
        self.op(name, spec(rows, of), tensor.spec, out=spec(rows, to), reads=(tensor.storage,))
        self.leave()


def blocks(count: int = 3) -> Trace:
    """A model of equal blocks, each two products and a residual add of its own, and a head tied to nothing."""
    b = Builder("Blocks")
    b.trace.inputs.append(("x", spec(4, 8)))
    b.enter("", (spec(4, 8),), (spec(4, 8),))
    for i in range(count):
        b.module(f"layers.{i}", "Block")
        b.trace.modules[b.modules[f"layers.{i}"]].type = "Block"
        b.enter(f"layers.{i}", (spec(4, 8),), (spec(4, 8),))
        b.leaf(f"layers.{i}.up")
        b.leaf(f"layers.{i}.down")
        b.op("aten::add", spec(4, 8), spec(4, 8), 1, out=spec(4, 8))
        b.leave()
    b.leaf("head", to=3)
    b.leave()
    return b.trace


def random_trace(seed: int) -> Trace:
    """A random model: nested containers, repeats, tied weights, idle modules, unknown operators, all phases."""
    draw = random.Random(seed)
    b = Builder("Random")
    b.enter("", (spec(2, 3),), (spec(2, 3),))
    paths = ["a", "a.b", "a.b.c", "a.d", "e", "e.f", "g"]
    for _ in range(draw.randint(1, 12)):
        _random_call(b, draw, draw.choice(paths))
    if draw.random() < 0.5:
        b.module("idle", "Linear")
        b.tensor("idle", "weight", draw.randint(1, 5), 3)
    if draw.random() < 0.5:
        b.module("used.elsewhere", "Linear")
        tensor = b.trace.tensors[b.tensor("used.elsewhere", "weight", 3, 3)]
        b.op("aten::mm", spec(2, 3), tensor.spec, out=spec(2, 3), reads=(tensor.storage,))
    if b.trace.tensors and draw.random() < 0.5:
        b.module("tied", "Linear")
        b.tie("tied", 0)
        b.enter("tied", (spec(2, 3),), (spec(2, 3),))
        b.leave()
    if draw.random() < 0.5:
        b.tensor("", "table", 7, kind="buffer")
    b.leave()
    for _ in range(draw.randint(0, 5)):
        owner = draw.randrange(len(b.trace.calls))
        b.op_in(owner, "aten::mm", spec(2, 3), spec(3, 5), out=spec(2, 5), phase=draw.choice((1, 2, 3)))
    return b.trace


def _random_call(b: Builder, draw: random.Random, path: str) -> None:
    parts = path.split(".")
    opened = 0
    for depth in range(1, len(parts) + 1):
        here = ".".join(parts[:depth])
        module = b.module(here, draw.choice(("Linear", "Block")))
        if draw.random() < 0.3 and not b.trace.modules[module].tensors:
            b.tensor(here, "weight", draw.randint(1, 4), 3, trainable=draw.random() < 0.5)
        b.enter(here, (spec(2, 3),), (spec(2, 3),))
        opened += 1
        for _ in range(draw.randint(0, 2)):
            _random_op(b, draw)
    for _ in range(opened):
        if draw.random() < 0.3:
            _random_op(b, draw)
        b.leave()


def _random_op(b: Builder, draw: random.Random) -> None:
    rows, inner, columns = (draw.randint(1, 4) for _ in range(3))
    name = draw.choice(("aten::mm", "aten::mm", "aten::add", "mystery::op"))
    if name == "aten::mm":
        b.op(name, spec(rows, inner), spec(inner, columns), out=spec(rows, columns))
    else:
        b.op(name, spec(rows, inner), spec(rows, inner), out=spec(rows, inner))
