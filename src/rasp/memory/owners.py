"""Who holds memory: for each storage what made it, what kind it is at a moment, and why it is still there."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import Any

from ..records import Trace, leaves
from .plan import BACKWARD, LASTING, OPTIMISER, RECOMPUTE, Plan

KINDS = (
    "parameters", "buffers", "inputs", "activations", "saved for backward", "gradients", "optimiser state",
    "temporaries", "workspace",
)  # fmt: skip
PLAIN = {"parameter": "parameters", "buffer": "buffers", "input": "inputs", "constant": "inputs",
         "gradient": "gradients", "optimiser state": "optimiser state"}  # fmt: skip


class Owners:
    """The storages of a Plan, asked one by one."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.trace: Trace = plan.trace

    # -- where a storage comes from and goes ----------------------------------------------------------------------

    @cached_property
    def maker(self) -> dict[int, int]:
        """Storage → the operator that wrote it first."""
        found: dict[int, int] = {}
        for number, op in enumerate(self.trace.ops):
            for index in op.writes:
                found.setdefault(index, number)
        return found

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """Storage → the operators that read it, in order."""
        found: dict[int, list[int]] = {}
        for number, op in enumerate(self.trace.ops):
            for index in dict.fromkeys(op.reads):
                found.setdefault(index, []).append(number)
        return found

    @cached_property
    def names(self) -> dict[int, str]:
        """Storage → the names of the parameter or buffer in it, tied ones with their other names."""
        return {tensor.storage: _named(tensor.names) for tensor in reversed(self.trace.tensors)}

    @cached_property
    def inputs(self) -> dict[int, tuple[str, tuple[int, ...]]]:
        """Storage → name and shape of the input in it."""
        found: dict[int, tuple[str, tuple[int, ...]]] = {}
        waiting = [i for i, storage in enumerate(self.trace.storages) if storage.kind == "input"]
        for name, spec in self.trace.inputs:
            index = next((i for i in waiting if self.trace.storages[i].nbytes == spec.nbytes), None)
            if index is not None:
                waiting.remove(index)
                found[index] = ("" if name.replace(".", "").isdigit() else name, spec.shape)
        return found

    @cached_property
    def turn(self) -> int:
        """The first operator of the backward: where the loss is known."""
        if self.trace.turn is not None:
            return self.trace.turn
        later = (BACKWARD, RECOMPUTE, OPTIMISER)
        return next((n for n, op in enumerate(self.trace.ops) if op.phase in later), len(self.trace.ops))

    @cached_property
    def saved(self) -> frozenset[int]:
        """Storages made in the forward or by the loss that the backward reads."""
        return frozenset(
            index
            for index, storage in enumerate(self.trace.storages)
            if storage.kind in ("activation", "temporary")
            and 0 <= storage.born < self.turn <= self.readers.get(index, (-1,))[-1]
        )

    def path(self, number: int) -> str:
        """The module that ran an operator."""
        return self.trace.modules[self.trace.calls[self.trace.ops[number].owner].module].path

    def place(self, number: int) -> str:
        """Where an operator ran, in words: a module, its backward, the loss, the optimiser."""
        phase, path = self.trace.ops[number].phase, self.path(number) or "the model itself"
        if phase == OPTIMISER:
            return "the optimiser's step"
        if phase == BACKWARD:
            return "the loss" if number < self.turn else f"the backward of {path}"
        return f"the recomputation of {path}" if phase == RECOMPUTE else path

    def operator(self, number: int) -> str:
        return self.trace.specs[self.trace.ops[number].spec].name

    def shape(self, index: int) -> tuple[int, ...] | None:
        """The shape that a storage was made with; of a parameter or input its own."""
        maker = self.maker.get(index)
        storage = self.trace.storages[index]
        if storage.kind in LASTING or maker is None:
            own = next((t.spec.shape for t in self.trace.tensors if t.storage == index), None)
            return own if own is not None else self.inputs.get(index, (None, None))[1]
        op = self.trace.ops[maker]
        outs = [spec for spec in leaves(self.trace.specs[op.spec].out) if spec.nbytes]
        fitting = [spec.shape for spec in outs if spec.nbytes == storage.nbytes]
        position = op.writes.index(index)
        if position < len(outs) and outs[position].nbytes == storage.nbytes:
            return outs[position].shape
        return fitting[0] if fitting else None

    # -- at a moment ----------------------------------------------------------------------------------------------

    def alive(self, number: int) -> list[int]:
        """Storages that are there while an operator runs, in the pass that lasts."""
        charged = self.plan.steady.charged
        return [
            index
            for index, storage in enumerate(self.trace.storages)
            if index in charged and self._lives(index, number, storage.born, storage.died)
        ]

    def _lives(self, index: int, number: int, born: int, died: int | None) -> bool:
        if index in self.plan.lasting or born < 0:
            return True
        return born <= number and (died is None or died > number)

    def kind(self, index: int) -> str:
        """The kind of a storage, in the words of a report."""
        storage = self.trace.storages[index]
        if storage.kind in PLAIN:
            return PLAIN[storage.kind]
        if index in self.saved:
            return "saved for backward"
        return "temporaries" if storage.kind == "temporary" or storage.born >= self.turn else "activations"

    def why(self, index: int, number: int) -> str:
        """Why a storage is there while an operator runs: who reads it next, or who holds it though nobody does."""
        storage, name = self.trace.storages[index], self.names.get(self.trace.serves.get(index, index), "")
        if storage.kind in ("parameter", "buffer"):
            return f"{storage.kind} {name}".strip()
        if storage.kind == "input":
            given = self.inputs.get(index, ("", ()))[0]
            return f"input {given}" if given else "input of the run"
        if storage.kind == "constant":
            return "constant from outside the model"
        if storage.kind == "optimiser state":
            return f"kept from step to step by the optimiser{f' for {name}' if name else ''}"
        if storage.kind == "gradient":
            return f"gradient{f' of {name}' if name else ''}, kept for the optimiser or until zero_grad"
        readers = self.readers.get(index, [])
        at = bisect_left(readers, number)
        return self._read_later(index, readers[at], number) if at < len(readers) else self._held(index, number)

    def _read_later(self, index: int, reader: int, number: int) -> str:
        op, place = self.operator(reader).partition("::")[2], self.place(reader)
        through = self._view(index, reader)
        if reader == number:
            return f"read now by {op} in {place}{through}"
        if index in self.saved and reader >= self.turn:
            return f"saved for {place} ({op}){through}"
        return f"read again by {op} in {place}{through}"

    def _view(self, index: int, reader: int) -> str:
        """Where an operator reads but a small part: a view keeps all of it alive."""
        op, whole = self.trace.ops[reader], self.trace.storages[index].nbytes
        tensors = self.trace.specs[op.spec].tensors
        if len(tensors) != len(op.reads):
            return ""
        seen = [spec for spec, read in zip(tensors, op.reads) if read == index]
        if not seen or 2 * sum(spec.touched_bytes for spec in seen) > whole:
            return ""
        return f", a view {'×'.join(map(str, seen[0].shape)) or 'of one element'} that keeps all of it"

    def _held(self, index: int, number: int) -> str:
        """Why something is still there that nothing reads any more."""
        storage = self.trace.storages[index]
        if index in self.trace.returned and storage.died is None:
            return "output of the run"
        if self.maker.get(index) == number:
            return "made now"
        if storage.died is None:
            return "held to the end, though nothing reads it again: by an attribute, a list or a hook"
        if index in self.saved and number >= self.turn:
            last = self.readers[index][-1]
            return f"was saved for {self.place(last)} ({self.operator(last).partition('::')[2]}), which is about to end"
        ended = [call for call in self.trace.calls if call.end == storage.died]
        for call in ended:
            if call.start > storage.born and any(call.start <= n < call.end for n in self.readers.get(index, ())):
                return f"input of {self.trace.modules[call.module].path}, held until that returns"
        for call in reversed(ended):
            if call.start <= storage.born:
                path = self.trace.modules[call.module].path or "the model itself"
                return f"held by a variable in the forward of {path}, though nothing reads it again"
        return "held though nothing reads it again: by a variable, or by autograd"

    def described(self, index: int, number: int) -> dict[str, Any]:
        """A storage as a row: module, op, shape, bytes, kind, why."""
        maker, storage = self.maker.get(index), self.trace.storages[index]
        named = self.trace.serves.get(index, index)
        if named in self.names:
            module = self.names[named].partition(" ")[0].rpartition(".")[0]
        else:
            module = "" if maker is None or storage.born < 0 else self.path(maker)
        return {
            "module": module,
            "op": None if maker is None or storage.born < 0 else self.operator(maker),
            "shape": self.shape(index),
            "bytes": self.plan.steady.charged[index],
            "kind": self.kind(index),
            "why": self.why(index, number),
        }


def _named(names: list[str]) -> str:
    """'head.weight (tied to embed.weight)'."""
    return names[0] if len(names) == 1 else f"{names[0]} (tied to {', '.join(names[1:3])})"
