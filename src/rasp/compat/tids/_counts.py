"""What the forwards that were watched count, module by module: of each kind of inputs once, times how often."""

from __future__ import annotations

from functools import cached_property

from torch import nn

from ...styles._modules import Costs, charged
from ._watch import CONVENTION, Watch


class Counts:
    """Counted when first asked; it is a run on shapes alone, so asking costs little."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    @cached_property
    def own(self) -> dict[int, Costs]:
        """By the id of a module, what it counts by itself."""
        found: dict[int, Costs] = {}
        for run, profile in self.watch.counted():
            ledger = profile.view(CONVENTION).ledger
            for index, costs in charged(ledger).items():
                module = run.module.get_submodule(ledger.trace.modules[index].path)
                sums = found.setdefault(id(module), Costs())
                sums.flops += run.times * costs.flops
                sums.macs += run.times * costs.macs
        return found

    def of(self, module: nn.Module) -> Costs:
        """With all inside it, each module once."""
        found = [self.own[id(inner)] for inner in module.modules() if id(inner) in self.own]
        return Costs(sum(costs.flops for costs in found), sum(costs.macs for costs in found))
