"""A run's memory: its storages handed out and given back in order, by an allocator, with what kernels take besides.

In training the second step is what lasts: the optimiser's state is there before it begins, and the allocator has the
segments of the first. Its gradients are freed at its start (zero_grad), unless they are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..records import PHASES, Trace
from . import allocators
from .workspaces import Estimate, Workspaces

FORWARD, BACKWARD, RECOMPUTE, OPTIMISER = range(len(PHASES))
LASTING = ("parameter", "buffer", "input", "constant")


@dataclass(frozen=True)
class Settings:
    """What memory is asked for: on which machine, by which allocator, in which kind of step."""

    target: str | int = "h200"
    allocator: str = "cuda"
    allocator_settings: str = ""
    keep_gradients: bool = False  # zero_grad(set_to_none=False), or gradients added up over several backwards


@dataclass
class Pass:
    """One pass through the operators: bytes handed out after each, and the most while each ran."""

    after: list[int] = field(default_factory=list)
    most: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)  # what died since the operator before is given back
    charged: dict[int, int] = field(default_factory=dict)  # storage → bytes it counted for
    beside: list[int] = field(default_factory=list)  # bytes a kernel took for itself while it ran

    @cached_property
    def peak(self) -> int:
        return max(self.most, default=0)

    @cached_property
    def at(self) -> int:
        """The operator at which the most was handed out."""
        return self.most.index(self.peak) if self.most else -1


class Plan:
    """The memory of a Trace: `base` before it, `first` and `steady` passes, `reserved` in all."""

    def __init__(
        self, trace: Trace, settings: Settings, workspaces: Workspaces, bound: str = "likely", limit: int | None = None
    ) -> None:
        self.trace, self.settings, self.bound = trace, settings, bound
        self.allocator = allocators.get(settings.allocator, settings.allocator_settings)
        self.allocator.limit = limit
        self.handles: list[Any] = [None] * len(trace.storages)
        self.births: dict[int, list[int]] = {}
        self.deaths: dict[int, list[int]] = {}
        for index, storage in enumerate(trace.storages):
            if storage.born >= 0:
                self.births.setdefault(storage.born, []).append(index)
                if storage.died is not None:
                    self.deaths.setdefault(storage.died, []).append(index)
        self.estimates: list[Estimate | None] = [workspaces.of(spec) for spec in trace.specs]
        for index in self._there_before():
            self.handles[index] = self.allocator.take(trace.storages[index].nbytes)
        self.base = self.allocator.allocated
        self.first = self._pass(frozenset())
        kept = ("optimiser state", "gradient") if settings.keep_gradients else ("optimiser state",)
        self.lasting = frozenset(index for index, storage in enumerate(trace.storages) if storage.kind in kept)
        self._between()
        self.steady = self._pass(self.lasting)
        self.reserved = self.allocator.most_reserved

    def _there_before(self) -> list[int]:
        """Storages that were there before the run, in the order they were made: parameters, buffers, then inputs."""
        order = dict.fromkeys(tensor.storage for tensor in self.trace.tensors)
        order.update(dict.fromkeys(i for i, storage in enumerate(self.trace.storages) if storage.born < 0))
        return list(order)

    def _between(self) -> None:
        """Between two steps everything goes but what was there before, the optimiser's state and gradients kept."""
        for index, storage in enumerate(self.trace.storages):
            if storage.born >= 0 and index not in self.lasting and self.handles[index] is not None:
                self._free(index)

    def _pass(self, skipped: frozenset[int]) -> Pass:
        """One pass; storages in `skipped` are there already."""
        found = Pass()
        allocator, storages = self.allocator, self.trace.storages
        births, deaths, estimates = self.births, self.deaths, self.estimates
        found.charged.update((i, allocator.charged(h)) for i, h in enumerate(self.handles) if h is not None)
        for number, op in enumerate(self.trace.ops):
            for index in deaths.get(number, ()):
                if index not in skipped and self.handles[index] is not None:
                    self._free(index)
            found.before.append(allocator.allocated)
            allocator.restart_most()
            estimate = estimates[op.spec]
            transients = [] if estimate is None else estimate.bounded(self.bound)
            beside = 0
            for position, index in enumerate(births.get(number, ())):
                while transients and transients[0].after <= position:
                    beside = max(beside, self._transient(transients.pop(0).nbytes))
                if index in skipped:
                    if storages[index].kind == "gradient":  # the new one is there until it is added to the old
                        beside = max(beside, self._transient(storages[index].nbytes))
                    continue
                handle = self.handles[index] = allocator.take(storages[index].nbytes)
                found.charged[index] = allocator.charged(handle)
                if storages[index].died == number:  # made and gone between two operators
                    self._free(index)
            for transient in transients:
                beside = max(beside, self._transient(transient.nbytes))
            found.beside.append(beside)
            found.most.append(allocator.most)
            found.after.append(allocator.allocated)
        for index in deaths.get(len(self.trace.ops), ()):
            if index not in skipped and self.handles[index] is not None:
                self._free(index)
        return found

    def _transient(self, nbytes: int) -> int:
        """Take and give back what a kernel needs while it runs."""
        handle = self.allocator.take(nbytes)
        charged = self.allocator.charged(handle)
        self.allocator.give_back(handle)
        return charged

    def _free(self, index: int) -> None:
        self.allocator.give_back(self.handles[index])
        self.handles[index] = None
