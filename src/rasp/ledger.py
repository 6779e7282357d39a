"""A run put in order: what each distinct operator computes, and the entries that everything is charged to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .entries import FORWARD, Entry, post
from .errors import RuleError
from .records import PHASES, OpSpec, TensorInfo, TensorSpec, Trace
from .rules import MODULE_RULES, Work, work_of
from .rules import load as load_rules


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

    @property
    def out(self) -> TensorSpec | None:
        return self.outputs[0] if self.outputs else None

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


class Ledger:
    """A Trace put in order: its entries in the order they finished, and the Work of each distinct operator."""

    def __init__(self, trace: Trace, given: Given | None = None) -> None:
        self.trace = trace
        self.given = given or Given()

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
        return LayerCall(info.path, info.type, info.hyper, info.training, call.inputs, call.outputs, tensors)

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
