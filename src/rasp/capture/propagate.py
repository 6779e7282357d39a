"""Run a model on shapes alone: every operator on meta stand-ins, each distinct one computed once.

The memo maps an operator with the shapes, strides and dtypes of its tensors and the types and values of its other
arguments to the specs of its outputs. It holds operators, never a whole trace. Views run for real, so aliasing is
exact; an operator whose outputs turn out to share storage with its inputs is marked and called every time.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..records import OpSpec
from .blueprint import forget_all
from .plans import META, PLANS, Plan, duplicates, plan_of, scan, shut
from .recorder import FORWARD, Recorder
from .routes import recurrent_outputs
from .shapes import SHAPES
from .specs import op_spec
from .values import DependsOnData, Values

Tensor = torch.Tensor
empty_strided = torch.empty_strided
default_dtype = torch.get_default_dtype

Made = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, int]  # shape, stride, dtype, bytes of one output

COMPILER = "torch._dynamo"
SMALL = 4096  # a float constant up to this many elements keeps its value


class Entry:
    """What is remembered of one distinct operator: its record and the specs of its fresh outputs."""

    __slots__ = ("again", "index", "made", "run", "single", "spec", "wrap")

    def __init__(
        self,
        spec: OpSpec | None,
        made: list[Made | Any],
        *,
        single: bool = False,
        wrap: type | None = None,
        again: bool = False,
    ) -> None:
        self.spec, self.made, self.single, self.wrap, self.again = spec, made, single, wrap, again
        self.run = self.index = -1


def _computed(func: Any, args: Any, kwargs: Any) -> Any:
    """An operator's own result. Where it is the first to load torch's compiler, that leaves frames behind which hold
    the tensors of all callers: they go now, so that storages die when they would.
    """
    loaded = COMPILER in sys.modules
    out = func(*args, **kwargs)
    if not loaded and COMPILER in sys.modules:
        gc.collect()
    return out


MEMO: dict[tuple[Any, ...], Entry] = {}
MEMO_LIMIT = 200_000
_runs = 0


def clear_memo() -> None:
    """Forget every operator's result and every model's stand-ins (they are found again when needed)."""
    MEMO.clear()
    forget_all()


class Propagation(TorchDispatchMode):
    """The dispatch mode of a capture on meta."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the default wraps every call in a dynamo guard and imports it: 0.7 s once, 0.35 us per operator

    def __init__(self, recorder: Recorder, values: Values, *, memo: bool = True, ways: Any = None) -> None:
        super().__init__()
        global _runs
        _runs += 1
        self.run = _runs
        self.rec = recorder
        self.values = values
        self.memo = MEMO if memo else {}
        self.use_memo = memo
        self.originals: dict[int, tuple[Tensor, Any]] = {}  # address of a user's storage -> stand-in covering it
        self.adopted: set[str] = set()
        self.ways = ways  # of the device that memory is asked for: a routes.Ways
        self.notes: list[str] = []
        self.unseen = False  # whether a tensor on meta was met that no operator made

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plan = PLANS.get(id(func)) or plan_of(func)
        if plan.is_view:
            return func(*args, **kwargs) if kwargs else func(*args)
        return _HANDLERS[plan.kind](self, plan, func, args, kwargs or {})

    # -- the three ways an operator runs ------------------------------------------------------------------------

    def view(self, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
        """Views share storage and do no work: run as they are, nothing to note."""
        return func(*args, **kwargs)

    def compute(self, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator with fresh outputs: from the memo, else by its shape rule, else by its meta kernel.

        This is the hot path (a few microseconds an operator), hence written flat.
        """
        rec = self.rec
        tensors: list[Tensor] = []
        parts: list[Any] = [plan.number, default_dtype()]
        scan(args, tensors, parts)
        if kwargs:
            for name, value in kwargs.items():
                parts.append(name)
                scan((value,), tensors, parts)
        find = rec.by_address.get
        reads: tuple[int, ...] = tuple([find(t.untyped_storage()._cdata) for t in tensors])  # type: ignore[misc]
        if None in reads:
            return self.compute(plan, func, *self.adopt(args, kwargs))
        same: tuple[int, ...] = ()
        if len(reads) > 1 and len(set(reads)) < len(reads):
            same = duplicates(tensors, reads)
            if same:
                parts.append(same)
        key = tuple(parts)
        entry = self.memo.get(key)
        if entry is None:
            entry = self.miss(plan, func, args, kwargs, key, same)
        if entry.again:
            return self.call(plan, func, args, kwargs)
        if entry.single:
            shape, stride, dtype, nbytes = entry.made[0]
            out: Any = empty_strided(shape, stride, dtype=dtype, device=META)
            shut(out)
            writes: tuple[int, ...] = (rec.birth(out, nbytes),)
        else:
            out, writes = self.make(entry)
        if rec.phase or entry.spec is None:
            self.note(entry, reads, writes)
        else:
            if entry.run != self.run:
                entry.run = self.run
                entry.index = rec.spec_index.setdefault(entry.spec, len(rec.spec_index))
            rec.ops.append((entry.index, rec.stack[-1] if rec.stack else 0, 0, reads, writes))
        slots = self.values.slots
        for index in reads:
            if index not in slots:
                return out
        if not plan.random and writes:
            self.values.note(func, args, kwargs, reads, out, writes, ())
        return out

    def inplace(self, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator that writes its first argument and returns it."""
        rec = self.rec
        tensors: list[Tensor] = []
        parts: list[Any] = [plan.number, default_dtype()]
        scan(args, tensors, parts)
        for name, value in kwargs.items():
            parts.append(name)
            scan((value,), tensors, parts)
        found = []
        for t in tensors:
            index = rec.by_address.get(t.untyped_storage()._cdata)
            if index is None:
                args, kwargs = self.adopt(args, kwargs)
                return self.inplace(plan, func, args, kwargs)
            found.append(index)
        reads = tuple(found)
        same = duplicates(tensors, reads) if len(set(found)) < len(found) else ()
        parts.append(same)
        key = tuple(parts)
        entry = self.memo.get(key)
        if entry is None:
            if not plan.unchecked:
                rule = SHAPES.get(plan.name)
                if rule is None or rule(args, kwargs) is None:
                    func(*args, **kwargs)
            entry = Entry(op_spec(func, args, kwargs, args[0], same), [])
            self.remember(key, entry)
        self.note(entry, reads, reads[:1])
        slots = self.values.slots
        if reads[0] in slots:
            if plan.random or any(i not in slots for i in reads):
                self.values.forget(reads[0])
            else:
                self.values.note(func, args, kwargs, reads, None, (), reads[:1])
        return args[0]

    def call(self, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the meta kernel and note what it made: out= variants, undeclared aliases, anything unusual."""
        args, kwargs = self.adopt(args, kwargs)
        tensors: list[Tensor] = []
        scan((args, tuple(kwargs.values())), tensors, [])
        reads = tuple(self.rec.before(t, "constant") for t in tensors)
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and out.device != META:
            return self.constant(out)  # computed from plain numbers alone: torch.div(512, 4)
        outs: list[Tensor] = []
        scan((out,), outs, [])
        writes = []
        for position, name in plan.written:
            scan((args[position] if position < len(args) else kwargs.get(name),), outs, [])
        for t in outs:
            index = self.rec.by_address.get(t.untyped_storage()._cdata)
            writes.append(self.rec.birth(t, t.untyped_storage().nbytes()) if index is None else index)
        for index in writes:
            self.values.forget(index)
        if plan.work:
            self.rec.op(op_spec(func, args, kwargs, out), reads, tuple(dict.fromkeys(writes)))
        return out

    def lists(self, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
        """In-place operators over lists of tensors (_foreach_add_, _fused_adamw_): nothing to compute on meta, much to
        note.
        """
        args, kwargs = self.adopt(args, kwargs)
        tensors: list[Tensor] = []
        scan((args, tuple(kwargs.values())), tensors, [])
        reads = tuple(self.rec.before(t, "constant") for t in tensors)
        targets: list[Tensor] = []
        for position, name in plan.written:
            value = args[position] if position < len(args) else kwargs.get(name, ())
            scan((value,), targets, [])
        writes = tuple(self.rec.before(t, "constant") for t in targets)
        self.rec.op(op_spec(func, args, kwargs, tuple(targets)), reads, writes)
        slots = self.values.slots
        if all(i in slots for i in reads):
            self.values.note(func, args, kwargs, reads, None, (), writes)
        else:
            for index in writes:
                self.values.forget(index)
        return args[0] if plan.returns_first else None

    def whole(self, op: Any, args: Any, kwargs: Any) -> Any:
        """A recurrent network as one operator: outputs by shape."""
        args, kwargs = self.adopt_all_but_sizes(op, args, kwargs)
        tensors: list[Tensor] = []
        scan((args, tuple(kwargs.values())), tensors, [])
        reads = tuple(self.rec.before(t, "constant") for t in tensors)
        out = recurrent_outputs(op, args)
        writes = tuple(self.rec.birth(t, t.untyped_storage().nbytes()) for t in out)
        same = duplicates(tensors, reads) if len(set(reads)) < len(reads) else ()
        self.rec.op(self.intern(op_spec(op, args, kwargs, out, same)), reads, writes)
        return out

    def adopt_all_but_sizes(self, op: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Batch sizes of a packed sequence stay on the CPU, where every implementation reads them."""
        if op._schema.overload_name != "data":
            return self.adopt(args, kwargs)
        first, rest = self.adopt((args[0], *args[2:]), kwargs)
        return (first[0], args[1], *first[1:]), rest

    def intern(self, spec: OpSpec) -> OpSpec:
        """One object for equal specs."""
        key = ("whole", repr((spec.name, spec.overload, spec.args, spec.kwargs, spec.out, spec.same)))
        entry = self.memo.get(key)
        if entry is None:
            entry = Entry(spec, [])
            self.remember(key, entry)
        return entry.spec or spec

    # -- helpers of the above -----------------------------------------------------------------------------------

    def note(self, entry: Entry, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        if entry.spec is None:
            return
        rec = self.rec
        if rec.phase != FORWARD:
            rec.op(entry.spec, reads, writes)
            return
        if entry.run != self.run:
            entry.run = self.run
            entry.index = rec.spec_index.setdefault(entry.spec, len(rec.spec_index))
        rec.ops.append((entry.index, rec.stack[-1] if rec.stack else 0, FORWARD, reads, writes))

    def make(self, entry: Entry) -> tuple[Any, tuple[int, ...]]:
        outs: list[Any] = []
        writes = []
        for item in entry.made:
            if item.__class__ is tuple and len(item) == 4:
                shape, stride, dtype, nbytes = item
                out = empty_strided(shape, stride, dtype=dtype, device=META)
                shut(out)
                if nbytes:  # what holds nothing (saved statistics in evaluation) is found when it is used
                    writes.append(self.rec.birth(out, nbytes))
                outs.append(out)
            else:
                outs.append(item)
        if entry.wrap is None:
            return (outs[0] if outs else None), tuple(writes)
        return entry.wrap(outs), tuple(writes)

    def miss(self, plan: Plan, func: Any, args: Any, kwargs: Any, key: tuple[Any, ...], same: tuple[int, ...]) -> Entry:
        """Find the output specs of an operator not seen before."""
        rule = SHAPES.get(plan.name)
        specs = rule(args, kwargs) if rule is not None else None
        if specs is None:
            out = _computed(func, args, kwargs)
            again = _shares_storage(out, args, kwargs)
        else:
            dummies = [empty_strided(s[0], s[1], dtype=s[2], device=META) if s.__class__ is tuple else s for s in specs]
            out = dummies[0] if plan.single else tuple(dummies)
            again = False
        entry = _entry(plan, func, args, kwargs, out, same, again)
        self.remember(key, entry)
        return entry

    def remember(self, key: tuple[Any, ...], entry: Entry) -> None:
        if len(self.memo) >= MEMO_LIMIT:
            self.memo.clear()
        if self.use_memo:
            self.memo[key] = entry

    def adopt(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Replace tensors that live elsewhere (globals, closures, torch.tensor([...])) by stand-ins."""
        return tuple(self._adopt(a) for a in args), {k: self._adopt(v) for k, v in kwargs.items()}

    def _adopt(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.stand_in(value)
        if isinstance(value, (list, tuple)):
            return [self._adopt(v) for v in value]
        return value

    def stand_in(self, tensor: Tensor) -> Tensor:
        """The meta tensor that stands for a tensor made outside of the run; one storage has one stand-in."""
        if tensor.device == META:
            known = len(self.rec.sizes)
            self.unseen |= self.rec.before(tensor, "constant") >= known
            return tensor
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            raise DependsOnData(
                "layout", [tuple(tensor.shape)], f"has a {tensor.layout} tensor, which has no meta form"
            ) from None
        held = self.originals.get(storage._cdata)
        if held is None:
            span = storage.nbytes() // tensor.element_size()
            base = empty_strided((span,), (1,), dtype=tensor.dtype, device=META)
            shut(base)
            index = self.rec.birth(base, storage.nbytes(), "constant")
            self.rec.born[index] = -1
            if not tensor.dtype.is_floating_point or span <= SMALL:
                self.values.know(index, tensor)
            held = self.originals[storage._cdata] = (base, storage)
            self.adopted.add(self.where())
        base = held[0]
        if base.dtype != tensor.dtype:
            base = base.view(tensor.dtype)
        return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def where(self) -> str:
        return str(self.rec.calls[self.rec.stack[-1]].module) if self.rec.stack else ""

    def real(self, tensor: Tensor, op: str) -> Tensor:
        """A known tensor's real value, on the CPU."""
        if tensor.device != META:
            return tensor
        index = self.rec.by_address.get(tensor.untyped_storage()._cdata, -1)
        self.unseen |= index < 0
        return self.values.real(index, tensor, op)

    def constant(self, real: Tensor) -> Tensor:
        """A fresh stand-in whose value is known."""
        out = empty_strided(real.shape, real.stride(), dtype=real.dtype, device=META)
        shut(out)
        index = self.rec.birth(out, real.untyped_storage().nbytes())
        self.values.know(index, real)
        return out


def _shares_storage(out: Any, args: Any, kwargs: Any) -> bool:
    """Whether a kernel's output aliases an input or another output, or is a window of a larger storage."""
    outs: list[Tensor] = []
    scan((out,), outs, [])
    ins: list[Tensor] = []
    scan((args, tuple(kwargs.values())), ins, [])
    taken = {t.untyped_storage()._cdata for t in ins}
    for t in outs:
        storage = t.untyped_storage()
        if storage._cdata in taken or t.storage_offset() or t.device != META:
            return True
        taken.add(storage._cdata)
    return False


def _entry(plan: Plan, func: Any, args: Any, kwargs: Any, out: Any, same: tuple[int, ...], again: bool) -> Entry:
    spec = op_spec(func, args, kwargs, out, same) if plan.work else None
    if isinstance(out, Tensor):
        return Entry(spec, [_made(out)], single=True, again=again)
    if isinstance(out, (tuple, list)):
        nested = any(isinstance(o, (tuple, list)) for o in out)
        made = [_made(o) if isinstance(o, Tensor) else o for o in out]
        return Entry(spec, made, wrap=type(out), again=again or nested)
    return Entry(spec, [out], again=again)


def _made(tensor: Tensor) -> Made:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.untyped_storage().nbytes()


from . import special  # noqa: E402  (handlers of single operators; they are written against Propagation)

Handler = Callable[[Propagation, Plan, Any, Any, Any], Any]

_HANDLERS: dict[str, Handler] = {
    "view": Propagation.view,
    "compute": Propagation.compute,
    "inplace": Propagation.inplace,
    "call": Propagation.call,
    "lists": Propagation.lists,
    **special.HANDLERS,
}

__all__ = ["DependsOnData", "Propagation", "clear_memo"]
