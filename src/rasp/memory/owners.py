"""Who holds memory: for each storage what made it, what kind it is at a moment, and why it is still there."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import Any

from ..records import Trace, leaves
from .plan import BACKWARD, FORWARD, LASTING, Plan

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
        """Storage → the name of the parameter or buffer in it."""
        return {tensor.storage: tensor.names[0] for tensor in reversed(self.trace.tensors)}

    @cached_property
    def forward_end(self) -> int:
        """The first operator after the forward."""
        return next((n for n, op in enumerate(self.trace.ops) if op.phase != FORWARD), len(self.trace.ops))

    @cached_property
    def saved(self) -> frozenset[int]:
        """Storages made in the forward that the backward reads."""
        end = self.forward_end
        return frozenset(
            index
            for index, storage in enumerate(self.trace.storages)
            if storage.kind == "activation" and storage.born < end and self.readers.get(index, (0,))[-1] >= end
        )

    def path(self, number: int) -> str:
        """The module that ran an operator."""
        return self.trace.modules[self.trace.calls[self.trace.ops[number].owner].module].path

    def operator(self, number: int) -> str:
        return self.trace.specs[self.trace.ops[number].spec].name

    def shape(self, index: int) -> tuple[int, ...] | None:
        """The shape that a storage was made with; of a parameter or input its own."""
        maker = self.maker.get(index)
        storage = self.trace.storages[index]
        if storage.kind in LASTING or maker is None:
            return next((t.spec.shape for t in self.trace.tensors if t.storage == index), None)
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
        return "temporaries" if storage.born >= self.forward_end or storage.kind == "temporary" else "activations"

    def why(self, index: int, number: int) -> str:
        """Why a storage is there while an operator runs: who reads it next, or who holds it though nobody does."""
        storage = self.trace.storages[index]
        if storage.kind in ("parameter", "buffer"):
            return f"{storage.kind} {self.names.get(index, '')}".strip()
        if storage.kind in ("input", "constant"):
            return "input of the run" if storage.kind == "input" else "constant from outside the model"
        if storage.kind == "optimiser state":
            return "kept by the optimiser from step to step"
        readers = self.readers.get(index, [])
        at = bisect_left(readers, number)
        if at < len(readers):
            return self._read_later(index, readers[at], number)
        if storage.kind == "gradient":
            return "gradient, kept for the optimiser or until zero_grad"
        return self._held(index, number)

    def _read_later(self, index: int, reader: int, number: int) -> str:
        op, path = self.operator(reader).partition("::")[2], self.path(reader) or "the model itself"
        if reader == number:
            return f"read now by {op} in {path}"
        if self.trace.ops[reader].phase == BACKWARD and index in self.saved:
            return f"saved for {op} of {path}"
        return f"read again by {op} in {path}"

    def _held(self, index: int, number: int) -> str:
        storage = self.trace.storages[index]
        if self.maker.get(index) == number:
            return "made now"
        if storage.died is None:
            return "held to the end, though nothing reads it again: by an output, an attribute or a list"
        for call in reversed(self.trace.calls):
            if call.end == storage.died and call.start <= storage.born:
                path = self.trace.modules[call.module].path or "the model itself"
                return f"held by a variable in the forward of {path}, though nothing reads it again"
        return "held though nothing reads it again: by a variable, or by autograd"

    def described(self, index: int, number: int) -> dict[str, Any]:
        """A storage as a row: module, op, shape, bytes, kind, why."""
        maker = self.maker.get(index)
        module = self.names[index].rpartition(".")[0] if index in self.names else "" if maker is None else None
        return {
            "module": self.path(maker) if module is None and maker is not None else module or "",
            "op": None if maker is None or self.trace.storages[index].born < 0 else self.operator(maker),
            "shape": self.shape(index),
            "bytes": self.plan.steady.charged[index],
            "kind": self.kind(index),
            "why": self.why(index, number),
        }
