"""Run a model for real and write down what happened: when shapes alone are not enough, or a device was asked for."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..records import OpSpec
from .plans import Plan, collect, duplicates, plan_of
from .recorder import Recorder
from .specs import op_spec, tensor_spec

Tensor = torch.Tensor
STATISTICS = ((3, "running_mean"), (4, "running_var"))
UNDECLARED_WRITES = {
    f"aten::{n}": STATISTICS
    for n in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_impl_index")
}
USERS = ("parameter", "buffer", "input", "constant")


class RealRun(TorchDispatchMode):
    """The dispatch mode of a real run: operators execute, the user's storages are put back when they were written."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.rec = recorder
        self.backups: dict[int, tuple[Tensor, Tensor]] = {}
        self.notes: list[str] = []
        self.inside = 0
        self.known: dict[str, OpSpec] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        plan = plan_of(func)
        if plan.kind == "view":
            return func(*args, **kwargs)
        if plan.written or plan.name in UNDECLARED_WRITES:
            self.protect(plan, args, kwargs)
        if self.inside:
            return func(*args, **kwargs)
        tensors: list[Tensor] = []
        collect((args, kwargs), tensors)
        reads = tuple(self.at(t) for t in tensors)
        if self.rec.lent:
            self.rec.check_lent(tensors, reads)
        out = func(*args, **kwargs)
        self.note(plan, func, args, kwargs, out, tensors, reads)
        return out

    def note(
        self, plan: Plan, func: Any, args: Any, kwargs: Any, out: Any, tensors: list[Tensor], reads: tuple[int, ...]
    ) -> None:
        """Record one executed operator and the storages it made or wrote."""
        outs: list[Tensor] = []
        collect(out, outs)
        for position, name in plan.written:
            value = args[position] if position < len(args) else kwargs.get(name)
            if value is not None:
                collect(value, outs)
        written = [self.at(t, fresh=True) for t in outs]
        if self.rec.lent:
            self.rec.lent.written(outs, written)
        writes = tuple(dict.fromkeys(written))
        if plan.hollow:
            self.rec.hollow.update(w for w in writes if self.rec.kinds[w] == "activation")
        if not plan.work or plan.kind == "ignore":
            return
        if plan.kind == "to_copy" and _only_moves(args[0], out):
            return
        if plan.kind == "item":
            return
        same = _same(tensors, reads)
        result = out if out is not None or not plan.written else tuple(outs)
        if plan.kind == "higher_order":
            specs = tuple(tensor_spec(t) for t in tensors[:3])
            spec = OpSpec(plan.name, "default", specs, {}, tuple(tensor_spec(t) for t in outs))
        else:
            spec = op_spec(func, args, kwargs, result, same)
        self.rec.op(self.intern(spec), reads, writes)

    def intern(self, spec: OpSpec) -> OpSpec:
        """One object for equal specs, so that their rule runs once."""
        key = repr((spec.name, spec.overload, spec.args, spec.kwargs, spec.out, spec.same))
        return self.known.setdefault(key, spec)

    def at(self, tensor: Tensor, *, fresh: bool = False) -> int:
        """The storage index of a tensor; one not met before is a constant from outside, or new."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return self.rec._opaque(tensor, "activation" if fresh else "constant")
        index = self.rec.by_address.get(storage._cdata)
        if index is not None:
            return index
        if fresh:
            return self.rec.birth(tensor, storage.nbytes())
        index = self.rec.before(tensor, "constant")
        if (
            not storage.resizable() and storage.nbytes()
        ):  # memory of another library (numpy, dlpack) that appeared in the run
            self.rec.note_untraced("outside of torch", index)
        return index

    def lend(self, tensor: Tensor) -> None:
        """A forward takes the memory of one of its tensors out of torch."""
        if tensor.layout is torch.strided and not tensor.is_nested:
            index = self.at(tensor)
            if self.rec.kinds[index] not in USERS and index not in self.rec.hollow:
                self.rec.lent.lend(index, tensor)

    def protect(self, plan: Plan, args: Any, kwargs: Any) -> None:
        """Keep a copy of a user's storage before it is written for the first time."""
        targets: list[Tensor] = []
        for position, name in plan.written or UNDECLARED_WRITES[plan.name]:
            value = args[position] if position < len(args) else kwargs.get(name)
            if value is not None:
                collect(value, targets)
        for tensor in targets:
            index = self.at(tensor)
            if self.rec.kinds[index] in USERS and index not in self.backups and tensor.layout is torch.strided:
                with torch.no_grad():
                    flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())  # type: ignore[call-overload]
                    self.backups[index] = (flat, flat.clone())

    def put_back(self) -> None:
        """Give the user's storages their old contents."""
        with torch.no_grad():
            for flat, before in self.backups.values():
                flat.copy_(before)

    def whole(self, op: Any, args: Any, kwargs: Any) -> Any:
        """A composite operator as one: its parts run unrecorded."""
        tensors: list[Tensor] = []
        collect((args, kwargs), tensors)
        reads = tuple(self.at(t) for t in tensors)
        self.inside += 1
        try:
            out = op.decompose(*args, **kwargs)
        finally:
            self.inside -= 1
        outs: list[Tensor] = []
        collect(out, outs)
        writes = tuple(self.at(t, fresh=True) for t in outs)
        same = _same(tensors, reads)
        self.rec.op(self.intern(op_spec(op, args, kwargs, out, same)), reads, writes)
        return out


def _same(tensors: list[Tensor], reads: tuple[int, ...]) -> tuple[int, ...]:
    strided = all(t.layout is torch.strided and not t.is_nested for t in tensors)
    return duplicates(tensors, reads) if strided and len(set(reads)) < len(reads) else ()


def _only_moves(source: Tensor, out: Tensor) -> bool:
    return source.dtype == out.dtype and source.device != out.device
