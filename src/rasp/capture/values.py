"""Values that are known without running the model: shapes, constants, the user's ids, and what follows from them.

Operators whose inputs are all known go on a tape instead of being computed. When a model asks for a value (`.item()`,
`.any()`, `nonzero` …) the part of the tape it depends on is replayed for real on the CPU, in program order, on real
storages, so aliasing and in-place writes are exact. What depends on an activation is unknown, and asking for it raises
DependsOnData.
"""

from __future__ import annotations

from typing import Any

import torch

LIMIT = 1 << 24  # elements: a question that needs more work than this is treated as unknown


class DependsOnData(BaseException):
    """The model asked for a value that only real data can give. Not an Exception: a model's `except Exception` must
    not hide it.
    """

    def __init__(self, op: str, shapes: list[tuple[int, ...]], why: str = "depends on an activation's value") -> None:
        super().__init__(f"{op} {why}")
        self.op, self.shapes, self.why = op, shapes, why


class _Slot:
    """One known storage: real bytes once computed, the operators that write it, those still to read it."""

    __slots__ = ("__weakref__", "assumed", "nodes", "owned", "readers", "source", "storage")

    def __init__(self, source: torch.Tensor | None = None) -> None:
        self.source = source
        self.storage: torch.UntypedStorage | None = None
        self.owned = source is None
        self.assumed: tuple[str, str] | None = None
        self.nodes: list[_Node] = []
        self.readers: list[_Node] = []


class _Operand:
    """A view of a slot: how to look at its bytes."""

    __slots__ = ("dtype", "offset", "shape", "slot", "stride")

    def __init__(self, slot: _Slot, tensor: torch.Tensor) -> None:
        self.slot = slot
        self.shape, self.stride = tuple(tensor.shape), tensor.stride()
        self.offset, self.dtype = tensor.storage_offset(), tensor.dtype

    def real(self) -> torch.Tensor:
        storage = self.slot.storage
        if storage is None:
            source = self.slot.source
            if source is None:
                raise DependsOnData("value", [self.shape], "was never computed")
            with torch.no_grad():
                host = source.detach().cpu()
            storage = self.slot.storage = host.untyped_storage()
            self.slot.owned = host.data_ptr() != source.data_ptr()
        return torch.empty(0, dtype=self.dtype, device="cpu").set_(storage, self.offset, self.shape, self.stride)  # type: ignore[arg-type]


class _Node:
    """One operator on the tape."""

    __slots__ = ("args", "done", "func", "kwargs", "number", "outs", "size", "writes")

    def __init__(
        self, number: int, func: Any, args: Any, kwargs: Any, outs: list[_Operand], writes: list[_Slot]
    ) -> None:
        self.number, self.func, self.args, self.kwargs = number, func, args, kwargs
        self.outs, self.writes, self.done = outs, writes, False
        self.size = sum(_count(o.shape) for o in outs)


def _count(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


class Values:
    """The known storages of a run, by storage index."""

    def __init__(self) -> None:
        self.slots: dict[int, Any] = {}  # a _Slot, or the real tensor it will be made of when first looked at
        self.number = 0
        self.assumptions: set[tuple[str, str]] = set()  # (what was assumed, module) wherever a decision rested on it

    def assume(self, index: int, what: str, where: str) -> None:
        """What was just noted for this storage is an assumption."""
        self.slot(index).assumed = (what, where)

    def know(self, index: int, real: torch.Tensor) -> None:
        """A storage whose real content is at hand (the user's ids, an integer buffer, a constant)."""
        self.slots[index] = real

    def slot(self, index: int) -> _Slot:
        held = self.slots[index]
        if held.__class__ is not _Slot:
            held = self.slots[index] = _Slot(held)
        return held  # type: ignore[no-any-return]

    def forget(self, index: int) -> None:
        self.slots.pop(index, None)

    def note(
        self,
        func: Any,
        args: Any,
        kwargs: Any,
        reads: tuple[int, ...],
        outs: Any,
        made: tuple[int, ...],
        written: tuple[int, ...],
    ) -> None:
        """Put an operator on the tape. `made`: storage indices of its fresh outputs; `written`: of those it writes in
        place.
        """
        for index in made:
            self.slots[index] = _Slot()
        holders = [self.slot(i) for i in (*made, *written)]
        flat = [t for t in (outs if isinstance(outs, (tuple, list)) else (outs,)) if isinstance(t, torch.Tensor)]
        operands = [_Operand(self.slot(i), t) for i, t in zip(made, flat)] if made else []
        queue = iter(reads)
        node = _Node(self.number, func, self._bind(args, queue), self._bind(kwargs, queue), operands, holders)
        self.number += 1
        for slot in holders:
            slot.nodes.append(node)
        for index in reads:
            self.slot(index).readers.append(node)

    def _bind(self, value: Any, queue: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return _Operand(self.slot(next(queue)), value)
        if isinstance(value, (list, tuple)):
            return [self._bind(v, queue) for v in value]
        if isinstance(value, dict):
            return {k: self._bind(v, queue) for k, v in value.items()}
        return value

    def real(self, index: int, tensor: torch.Tensor, op: str) -> torch.Tensor:
        """The real value of a known tensor (do not write to it), or DependsOnData."""
        if index not in self.slots:
            raise DependsOnData(op, [tuple(tensor.shape)])
        slot = self.slot(index)
        self._replay(slot, op, tuple(tensor.shape))
        return _Operand(slot, tensor).real()

    def _replay(self, slot: _Slot, op: str, shape: tuple[int, ...]) -> None:
        """Run what the slot's content depends on, in program order."""
        wanted: dict[int, _Node] = {}
        todo = [n for n in slot.nodes if not n.done]
        while todo:
            node = todo.pop()
            if node.number in wanted or node.done:
                continue
            wanted[node.number] = node
            for operand in _operands((node.args, node.kwargs)):
                todo.extend(n for n in operand.slot.nodes if not n.done and n.number < node.number)
            for written in node.writes:  # earlier readers must see the bytes as they were
                todo.extend(n for n in written.readers if not n.done and n.number < node.number)
                todo.extend(n for n in written.nodes if not n.done and n.number < node.number)
        if sum(n.size for n in wanted.values()) > LIMIT:
            raise DependsOnData(op, [shape], "needs a value that is too large to compute beforehand")
        for number in sorted(wanted):
            node = wanted[number]
            self.assumptions.update(s.assumed for s in node.writes if s.assumed is not None)
            _run(node)


def _operands(value: Any) -> Any:
    if isinstance(value, _Operand):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _operands(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _operands(item)


def _resolve(value: Any) -> Any:
    if isinstance(value, _Operand):
        return value.real()
    if isinstance(value, list):
        return [_resolve(v) for v in value]
    if isinstance(value, dict):
        return {k: (torch.device("cpu") if k == "device" else _resolve(v)) for k, v in value.items()}
    return value


def _run(node: _Node) -> None:
    """Compute one operator for real and put its outputs where the tape says."""
    for slot in node.writes:
        if not slot.owned and slot.source is not None:
            slot.storage = slot.source.detach().cpu().untyped_storage().clone()
            slot.owned = True
    with torch.no_grad():
        out = node.func(*_resolve(node.args), **_resolve(node.kwargs))
    flat = [t for t in (out if isinstance(out, (tuple, list)) else (out,)) if isinstance(t, torch.Tensor)]
    for operand, real in zip(node.outs, flat):
        if real.stride() != operand.stride or real.storage_offset():
            moved = torch.empty_strided(operand.shape, operand.stride, dtype=operand.dtype, device="cpu")
            real = moved.copy_(real)
        operand.slot.storage = real.untyped_storage()
    node.done = True
    for operand in _operands((node.args, node.kwargs)):
        if node in operand.slot.readers:
            operand.slot.readers.remove(node)
    node.args = node.kwargs = None
