"""Profile: the tree that TIDSProfiler returns and prints."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch import nn

from ...conventions._torchinfo import Sized
from ...styles import tids
from ...styles._modules import Module, Shape, seconds_of, share
from ._counts import Counts
from ._watch import Watch

PRECISION = 3


class Profile:
    """A module of the tree, with those it holds in `children`; str() of it is TIDSProfiler's tree.

    `fwd_latency` is in milliseconds, over all its calls; shapes are those of the first call, None where there was none.
    `macs` and `fwd_flops` are of the module with all inside it; `…_pctg` are percentages of the tree's root.
    """

    def __init__(self, module: Module, shapes: tuple[Sized | None, Sized | None], depth: int, root: Profile | None):
        self._module, self._root = module, root or self
        self.name, self.type, self.depth = module.name, module.type, depth
        self.num_params = module.params
        self.input_shape, self.output_shape = module.given, module.made
        self.input_elem_bytes, self.output_elem_bytes = (None if at is None else at.itemsize for at in shapes)
        self.fwd_latency = round(1000 * (module.seconds or 0), PRECISION)
        self.children: list[Profile] = []

    @property
    def macs(self) -> int:
        return self._module.macs

    @property
    def fwd_flops(self) -> int:
        return self._module.flops

    @property
    def fwd_latency_pctg(self) -> float:
        return self._percentage(self._module.seconds or 0, self._root._module.seconds or 0)

    @property
    def num_params_pctg(self) -> float:
        return self._percentage(self.num_params, self._root.num_params)

    @property
    def macs_pctg(self) -> float:
        return self._percentage(self.macs, self._root.macs)

    @property
    def fwd_flops_pctg(self) -> float:
        return self._percentage(self.fwd_flops, self._root.fwd_flops)

    @staticmethod
    def _percentage(part: float, whole: float) -> float:
        return round(100 * share(part, whole), PRECISION)

    def __iter__(self) -> Iterator[Profile]:
        """This module and all below it, in the order of the lines."""
        yield self
        for child in self.children:
            yield from child

    def __str__(self) -> str:
        whole = self._root._module.seconds
        return "".join(f"{tids.STEP * each.depth}{tids.line(each._module, whole)}\n" for each in self)

    def __repr__(self) -> str:
        return f"<{self.name} {self.type}: {self.fwd_latency}ms, {len(self.children)} children>"


def described(module: nn.Module, watch: Watch, counts: Counts, name: str, above: tuple[int, ...] = ()) -> Module:
    """A module as it was watched, and those it holds."""
    seen, inside = watch.of(module), (*above, id(module))
    params = sum(parameter.numel() for parameter in module.parameters())
    found = Module(name, str(id(module)), type(module).__name__, params, partial(counts.of, module))
    found.given, found.made = _shape(seen.given), _shape(seen.made)
    found.extra = module.extra_repr()
    held = [(key, child) for key, child in module._modules.items() if child is not None and id(child) not in inside]
    found.children = [described(child, watch, counts, key, inside) for key, child in held]
    found.seconds = seconds_of(seen.seconds, found)
    return found


def grown(module: Module, watch: Watch, depth: int, root: Profile | None = None) -> Profile:
    """The tree over what was described."""
    seen = watch.seen.get(int(module.path))
    node = Profile(module, (seen.given, seen.made) if seen else (None, None), depth, root)
    node.children = [grown(child, watch, depth + 1, node._root) for child in module.members]
    return node


def _shape(seen: Sized | None) -> Shape:
    return None if seen is None else list(seen.shape)
