"""A model module by module, in the order of registration: what the layouts of DeepSpeed and TIDSProfiler show.

Counts are those of convention `deepspeed`, of a module with all inside it, a module that is held twice once. A module
that is held by several is shown by each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ..conventions._torchinfo import sized
from ..conventions.deepspeed import calls
from ..errors import InputError, UnknownName
from ..ledger import Ledger

if TYPE_CHECKING:
    from ..profile import Profile

Shape = list[int] | None  # None: the module was not called


@dataclass
class Costs:
    """What a module with all inside it counts."""

    flops: int = 0
    macs: int = 0


@dataclass(eq=False)
class Module:
    """A module where it is held. `seconds` is None where no time is known; of one that was not called, 0."""

    name: str
    path: str
    type: str
    params: int
    costs: Callable[[], Costs]
    seconds: float | None = None
    given: Shape = None
    made: Shape = None
    extra: str = ""
    children: list[Module] = field(default_factory=list)

    @property
    def flops(self) -> int:
        return self.costs().flops

    @property
    def macs(self) -> int:
        return self.costs().macs

    @property
    def members(self) -> list[Module]:
        """The modules held, one that is held under two names once."""
        return list({child.path: child for child in reversed(self.children)}.values())[::-1]

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Module]]:
        """This module and all below it, each with its depth."""
        yield depth, self
        for child in self.members:
            yield from child.walk(depth + 1)


def modules(profile: Profile, latencies: Mapping[str, float] | None = None) -> Module:
    """The tree of a profile; `latencies` are seconds by path ("" for the model), where they are known."""
    ledger = profile.view("deepspeed").ledger
    own = charged(ledger)
    known = None if latencies is None else _checked(latencies, ledger)
    return _Growth(ledger, own, known).module(0, "model")


def charged(ledger: Ledger) -> dict[int, Costs]:
    """What each module counts by itself, in all its calls."""
    found: dict[int, Costs] = {}
    for module, _, _, cost in calls(ledger):
        costs = found.setdefault(module, Costs())
        costs.flops += cost.flops
        costs.macs += cost.macs
    return found


def _checked(latencies: Mapping[str, float], ledger: Ledger) -> Mapping[str, float]:
    paths = [module.path for module in ledger.trace.modules]
    for path, seconds in latencies.items():
        if path not in paths:
            raise UnknownName("module", path, paths)
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds < 0:
            raise InputError(f"A latency is a number of seconds, 0 or more; {path!r} has {seconds!r}.")
    return latencies


class _Growth:
    """Makes the tree of a Ledger's modules."""

    def __init__(self, ledger: Ledger, own: dict[int, Costs], latencies: Mapping[str, float] | None) -> None:
        self.ledger, self.own, self.latencies = ledger, own, latencies
        self.first = {layer.module: layer for layer in reversed(list(ledger.layers()))}

    def module(self, index: int, name: str, above: tuple[int, ...] = ()) -> Module:
        info, layer = self.ledger.trace.modules[index], self.first.get(index)
        made = Module(name, info.path, info.type, self._params(index), partial(self._costs, index))
        inside = (*above, index)
        members = [(key, child) for key, child in self.ledger.members(index) if child not in inside]
        made.children = [self.module(child, key, inside) for key, child in members]
        made.extra = info.extra or ""
        if layer is not None:
            made.given, made.made = (
                list(sized(*seen).shape) for seen in ((layer.args, layer.inputs), (layer.returned, layer.outputs))
            )
        if self.latencies is not None:
            made.seconds = seconds_of(self.latencies.get(info.path), made)
        return made

    def _params(self, index: int) -> int:
        tensors = (self.ledger.trace.tensors[tensor] for tensor in self.ledger.all_tensors(index))
        return sum(tensor.spec.numel for tensor in tensors if tensor.kind == "parameter")

    def _costs(self, index: int) -> Costs:
        found, seen, stack = Costs(), set[int](), [index]
        while stack:
            at = stack.pop()
            if at not in seen:
                seen.add(at)
                own = self.own.get(at, Costs())
                found.flops, found.macs = found.flops + own.flops, found.macs + own.macs
                stack += [child for _, child in self.ledger.members(at)]
        return found


def seconds_of(measured: float | None, module: Module) -> float:
    """What was measured; of a module that is not called itself (a list of layers), what those it holds take."""
    return measured if measured else sum(child.seconds or 0 for child in module.members)


def share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


Latencies = Mapping[str, float]
