"""A run put in order: what each distinct operator computes, and the entries that everything is charged to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from . import roofline
from .clocked import Clocked
from .devices import DEFAULT_MACHINE, Machine, machine
from .energy import Energy
from .entries import FORWARD, Entry, post
from .errors import NotRecorded, RuleError
from .kernels import Kernels
from .memory.face import Memory
from .memory.plan import Settings
from .memory.readings import Readings, measured
from .records import PHASES, FunctionCall, OpSpec, Storage, TensorInfo, TensorSpec, Trace
from .roofline import Times
from .rules import MODULE_RULES, Work, bytes_read, bytes_written, work_of
from .rules import load as load_rules
from .samples import Samples


@dataclass(frozen=True, slots=True)
class LayerCall:
    """What a module rule looks at: one call of a module, with its plain attributes, shapes and parameters."""

    path: str
    type: str
    hyper: dict[str, Any]
    training: bool
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    tensors: tuple[TensorInfo, ...]
    module: int = 0
    call: int = 0
    lineage: tuple[str, ...] = ()
    args: tuple[Any, ...] = ()  # positional arguments, tensors as specs, nested as given
    kwargs: dict[str, Any] = field(default_factory=dict)
    returned: Any = None  # what came out, nested as the module returned it
    leaf: bool = True  # the module has no modules inside
    last: bool = True  # no later call of the same module

    @property
    def out(self) -> TensorSpec | None:
        return self.outputs[0] if self.outputs else None

    def is_a(self, *classes: str) -> bool:
        """Whether the module is of one of these very classes ("torch.nn.Conv2d"), as tools that keep a table ask."""
        return bool(self.lineage) and self.lineage[0] in classes

    def derives_from(self, *classes: str) -> bool:
        """Whether isinstance would say so."""
        return not set(classes).isdisjoint(self.lineage)

    @property
    def params(self) -> dict[str, TensorSpec]:
        """Parameters of the module and all below it, by their name within it."""
        skip = len(self.path) + 1 if self.path else 0
        return {t.names[0][skip:]: t.spec for t in self.tensors if t.kind == "parameter"}


@dataclass(frozen=True)
class Given:
    """Work computed by rules of the user's own when a profile was saved: used where those rules are not at hand."""

    specs: dict[int, Work] = field(default_factory=dict)
    calls: dict[int, Work] = field(default_factory=dict)


@dataclass
class Source:
    """Where a Trace comes from: how the run was made, and how to have the function level recorded afterwards."""

    info: dict[str, Any] = field(default_factory=dict)
    functions: Callable[[], list[FunctionCall] | None] = lambda: None


class Ledger:
    """A Trace put in order: its entries in the order they finished, and the Work of each distinct operator."""

    def __init__(self, trace: Trace, given: Given | None = None, source: Source | None = None) -> None:
        self.trace = trace
        self.given = given or Given()
        self.source = source or Source()

    @cached_property
    def ruled(self) -> frozenset[int]:
        """Calls for which a module rule stands for everything inside."""
        types = {module.type for module in self.trace.modules}
        if not self.given.calls and types.isdisjoint(MODULE_RULES):
            return frozenset()
        found = {i for i, call in enumerate(self.trace.calls) if self.trace.modules[call.module].type in MODULE_RULES}
        return frozenset(found.union(self.given.calls))

    @cached_property
    def works(self) -> list[Work | None]:
        """The Work of each OpSpec; None where there is no rule."""
        load_rules()
        return [self._work(index, spec) for index, spec in enumerate(self.trace.specs)]

    def _work(self, index: int, spec: OpSpec) -> Work | None:
        work = work_of(spec)
        return self.given.specs.get(index) if work is None else work

    @cached_property
    def counts(self) -> tuple[dict[int, int], ...]:
        """How often each OpSpec occurs in each phase, over the whole run."""
        every = Counter((op.phase, op.spec) for op in self.trace.ops)
        found: tuple[dict[int, int], ...] = tuple({} for _ in PHASES)
        for (phase, spec), times in every.items():
            found[phase][spec] = times
        return found

    @cached_property
    def phases(self) -> frozenset[int]:
        return frozenset(op.phase for op in self.trace.ops)

    @cached_property
    def unknown(self) -> frozenset[int]:
        """OpSpecs that no rule covers."""
        return frozenset(i for i, work in enumerate(self.works) if work is None)

    @cached_property
    def read(self) -> frozenset[int]:
        """Storages that a forward operator read."""
        return frozenset(storage for op in self.trace.ops if op.phase == FORWARD for storage in op.reads)

    @cached_property
    def born(self) -> dict[int, list[Storage]]:
        """Blocks of memory by the operator that took them."""
        found: dict[int, list[Storage]] = {}
        for storage in self.trace.storages:
            if storage.born >= 0:
                found.setdefault(storage.born, []).append(storage)
        return found

    @cached_property
    def routed(self) -> dict[int, tuple[int, int]]:
        """Storages of stacked experts: how many experts a token goes to, of how many, by the last topk over as many."""
        specs = self.trace.specs
        grouped = {i for i, spec in enumerate(specs) if spec.name.endswith("_grouped_mm")}
        topk = {i for i, spec in enumerate(specs) if spec.name == "aten::topk"}
        picked: dict[int, int] = {}
        found: dict[int, tuple[int, int]] = {}
        for op in self.trace.ops if grouped and topk else ():
            if op.spec in topk:
                chosen, k = specs[op.spec].args[:2]
                picked[chosen.shape[-1]] = k
            elif op.spec in grouped:
                experts = next((t.shape[0] for t in specs[op.spec].tensors if t.ndim == 3), 0)
                if experts in picked:
                    found |= dict.fromkeys(op.reads, (picked[experts], experts))
        return found

    @cached_property
    def entries(self) -> list[Entry]:
        return post(self)

    @cached_property
    def memory(self) -> Memory:
        """The run's memory, predicted for the target that was asked for."""
        info = self.source.info
        return Memory(self.trace, Settings(**info.get("memory", {})), info.get("measured_memory"))

    @cached_property
    def clocked(self) -> Clocked | None:
        """The times of calls as they were measured; None where nothing was timed."""
        samples = Samples.of(self.source.info.get("samples"))
        if samples is None or not samples.time.whole:
            return None
        return Clocked(self.trace, samples, {entry.call for entry in self.entries if entry.call is not None})

    @cached_property
    def readings(self) -> Readings:
        """Memory around each module call: measured where the run was, else predicted."""
        return measured(self.source.info) or self.memory.readings

    @cached_property
    def energy(self) -> Energy:
        """Energy as it was measured, or why it was not."""
        return Energy.of(self.source.info.get("measured_energy"))

    @cached_property
    def kernels(self) -> Kernels | None:
        """Kernels as they were recorded; None where they were not."""
        return Kernels.of(self.source.info.get("kernels"))

    @cached_property
    def homes_of_calls(self) -> dict[int, int]:
        """For each call the index of the entry that its own work is charged to."""
        found = {}
        for number, call in enumerate(self.trace.calls):
            entry = self.entry_of(call.module, number)
            if entry is not None:
                found[number] = entry.index
        return found

    @cached_property
    def machine(self) -> Machine:
        """The machine that rooflines are drawn for: the one asked for, with its ceilings as they were then."""
        found = self.source.info.get("machine") or DEFAULT_MACHINE
        return Machine(**found) if isinstance(found, dict) else machine(found)

    @cached_property
    def times(self) -> list[Times | None]:
        """What each OpSpec needs at least on the machine; of one without a rule, the time of its bytes."""
        return [self._times_of(spec, work) for spec, work in zip(self.trace.specs, self.works)]

    def _times_of(self, spec: OpSpec, work: Work | None) -> Times | None:
        known = Work(read=bytes_read(spec), write=bytes_written(spec)) if work is None else work
        return roofline.times(known, roofline.kind_of(spec, self.machine), self.machine)

    def times_of_module(self, call: int | None) -> Times | None:
        """The same of what a module rule stands for, in the type of what comes out."""
        if call is None:
            return None
        out = self.trace.calls[call].outputs
        kind = roofline.dtype_kind(out[0].dtype if out else "float32")
        return roofline.times(self.module_work(call), kind, self.machine)

    def starting(self, entries: Iterable[Entry]) -> float:
        """Seconds that starting the operators of these entries takes on the machine, where that was measured."""
        every = (pair for entry in entries for counts in entry.counts for pair in counts.items())
        launches = sum(times * needed.launches for spec, times in every if (needed := self.times[spec]) is not None)
        return launches * (self.machine.launch or 0.0)

    # -- modules ---------------------------------------------------------------------------------------------------

    @cached_property
    def homes(self) -> list[int]:
        """For each call the call its work is charged to: itself, or the module rule's call it runs inside."""
        homes: list[int] = []
        for index, call in enumerate(self.trace.calls):
            above = homes[call.parent] if 0 <= call.parent < index else None
            homes.append(above if above is not None and above in self.ruled else index)
        return homes

    def subtree(self, module: int) -> Iterator[int]:
        yield module
        for child in self.trace.modules[module].children:
            yield from self.subtree(child)

    def own_tensors(self, call: int) -> list[int]:
        """Tensors registered on a call's module; of all below it too where a module rule stands for them."""
        module = self.trace.calls[call].module
        if call not in self.ruled:
            return self.trace.modules[module].tensors
        return list(dict.fromkeys(t for m in self.subtree(module) for t in self.trace.modules[m].tensors))

    def layer_call(self, index: int) -> LayerCall:
        call = self.trace.calls[index]
        info = self.trace.modules[call.module]
        tensors = tuple(self.trace.tensors[t] for t in self.own_tensors(index))
        return LayerCall(
            info.path, info.type, info.hyper, info.training, call.inputs, call.outputs, tensors, call.module, index,
            info.lineage, call.inputs if call.args is None else call.args, call.kwargs or {},
            call.outputs if call.returned is None else call.returned,
            not info.children and not info.again, self.last_calls[call.module] == index,
        )  # fmt: skip

    @cached_property
    def last_calls(self) -> dict[int, int]:
        """For each module its last call."""
        return {call.module: index for index, call in enumerate(self.trace.calls)}

    def layers(self) -> Iterator[LayerCall]:
        """Every call of every module, containers too, in the order they began."""
        return iter(self._layers)

    @cached_property
    def _layers(self) -> list[LayerCall]:
        return list(map(self.layer_call, range(len(self.trace.calls))))

    def members(self, module: int) -> list[tuple[str, int]]:
        """A module's children by name, in the order they were registered, shared ones wherever they appear."""
        return self._members[module]

    @cached_property
    def _members(self) -> list[list[tuple[str, int]]]:
        modules = self.trace.modules
        found = [[(modules[child].path.rpartition(".")[2], child) for child in info.children] for info in modules]
        for info, members in zip(modules, found):
            for place, name, child in info.again:
                members.insert(place, (name, child))
        return found

    def all_tensors(self, module: int) -> list[int]:
        """Parameters and buffers of a module and of all below it, each once."""
        found: dict[int, None] = {}
        seen: set[int] = set()
        stack = [module]
        while stack:
            at = stack.pop()
            if at not in seen:
                seen.add(at)
                found.update(dict.fromkeys(self.trace.modules[at].tensors))
                stack.extend(child for _, child in reversed(self.members(at)))
        return list(found)

    @cached_property
    def functions(self) -> list[FunctionCall]:
        """Calls of torch functions as they were spelled."""
        if self.trace.functions is None:
            self.trace.functions = self.source.functions()
        if self.trace.functions is None:
            raise NotRecorded(
                "This profile has no function level: which torch functions were called was not recorded, and the model "
                "is no longer at hand. Profile it with rasp.profile(..., functions=True)."
            )
        return self.trace.functions

    def entry_of(self, module: int, call: int | None) -> Entry | None:
        """The entry that a charge for this call (or, without one, this module) belongs to: its own, or one near it."""
        if call is not None:
            call = self.homes[call]
            while call >= 0:
                if call in self._by_call:
                    return self._by_call[call]
                call = self.trace.calls[call].parent
        while module >= 0:
            if module in self._by_module:
                return self._by_module[module]
            module = self.trace.modules[module].parent
        return self.entries[-1] if self.entries else None

    @cached_property
    def _by_call(self) -> dict[int, Entry]:
        return {entry.call: entry for entry in self.entries if entry.call is not None}

    @cached_property
    def _by_module(self) -> dict[int, Entry]:
        """For each module its first entry; for a container without one, the last entry inside it."""
        found: dict[int, Entry] = {}
        for entry in self.entries:
            found.setdefault(entry.module, entry)
        for entry in self.entries:
            above = self.trace.modules[entry.module].parent
            while above >= 0 and (above not in found or found[above].module != above):
                found[above] = entry
                above = self.trace.modules[above].parent
        return found

    def module_work(self, index: int) -> Work:
        """What the module rule says about one call."""
        view = self.layer_call(index)
        rule = MODULE_RULES.get(view.type)
        if rule is None:
            return self.given.calls[index]
        work = rule(view)
        if not isinstance(work, Work):
            raise RuleError(
                f"The module rule for {view.type} returned {type(work).__name__}; it must return rasp.Work."
            )
        if work.read is None:
            own = [t.spec for t in view.tensors if t.kind == "parameter"]
            work.read = sum(t.touched_bytes for t in (*view.inputs, *own))
        if work.write is None:
            work.write = sum(t.touched_bytes for t in view.outputs)
        return work
