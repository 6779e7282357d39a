"""The stand-ins of a model, kept for the next capture of the same object and used again where nothing has changed.

Building stand-ins is a third of a warm capture. A blueprint keeps what can be kept (shadow objects, meta tensors,
names, records) and nothing of the user's: modules are known by weak reference, tensors by identity, shape, strides,
dtype and address. Every module is compared before reuse; one difference anywhere and the stand-ins are built anew.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..records import ModuleInfo

if TYPE_CHECKING:
    from .standin import StandIns

Tensor = torch.Tensor
set_attribute = object.__setattr__


class _Node:
    """One module of a blueprint: what it looked like, and its shadow."""

    __slots__ = (
        "buffers", "children", "facts", "held", "index", "info", "kind",
        "lists", "names", "ref", "shadow", "size", "values",
    )  # fmt: skip

    def __init__(
        self,
        module: nn.Module,
        shadow: Any,
        state: dict[str, Any],
        index: int,
        info: ModuleInfo,
        own: tuple[str, ...] | None,
        facts: list[Any],
    ) -> None:
        original = module.__dict__
        self.ref = weakref.ref(module)
        self.kind, self.shadow, self.index, self.info = type(module), shadow, index, info
        self.size = len(original)
        self.held = dict(state["_parameters"])
        self.buffers = dict(state["_buffers"])
        self.children = dict(state["_modules"])
        self.names = own  # attributes that are plain values; None: some must be mapped each time
        self.values = (
            None if own is None else [v.copy() if type(v) is list else v for v in map(original.__getitem__, own)]
        )
        self.lists = [n for n in own or () if type(original[n]) is list]
        self.facts = facts

    def same(self, module: nn.Module, original: dict[str, Any]) -> bool:
        if type(module) is not self.kind or len(original) != self.size or module.training is not self.info.training:
            return False
        if self.names is not None:
            try:
                if [original[n] for n in self.names] != self.values:
                    return False
            except KeyError:
                return False
        return _facts(original) == self.facts


def _facts(original: dict[str, Any]) -> list[Any]:
    """Names and identities of a module's children and tensors, and what each tensor looks like."""
    facts: list[Any] = [*original["_modules"], *map(id, original["_modules"].values())] if original["_modules"] else []
    for tensors in (original["_parameters"], original["_buffers"]):
        for name, tensor in tensors.items():
            look(name, tensor, facts)
    return facts


def look(name: str, tensor: Tensor | None, facts: list[Any]) -> None:
    """Add what a tensor looks like; a lazy or sparse one, without a storage, looks different each time."""
    if tensor is None:
        facts.append(name)
        return
    try:
        address = tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError, ValueError):
        facts.append(object())
        return
    facts += (name, id(tensor), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, address)


class Blueprint:
    """All nodes of a model, and the state of a StandIns right after its build."""

    def __init__(self, stand: StandIns, plain: list[tuple[str, ...] | None]) -> None:
        self.nodes = [
            _Node(module, shadow, state, stand.indices[id(module)], info, own, facts)
            for module, (shadow, state, info), own, facts in zip(
                stand.keep, stand.pending, plain, stand.facts, strict=True
            )
        ]
        rec = stand.rec
        self.modules, self.tensors, self.classes = list(stand.modules), list(stand.tensors), set(stand.classes)
        self.sizes, self.kinds, self.addresses = list(rec.sizes), list(rec.kinds), dict(rec.by_address)
        self.shadows, self.stand_ins = dict(stand.shadows), dict(stand.stand_ins)
        self.originals = {address: (base, None) for address, (base, _) in stand.originals.items()}
        self.looks = [(stand.stand_ins[key], info.spec) for key, info in stand.infos.items()]

    def renew(self, root: nn.Module, stand: StandIns) -> Any:
        """Set the shadows up again for a StandIns that was just made; None when the model is not what it was."""
        ready = []
        for node in self.nodes:
            module = node.ref()
            if module is None:
                return None
            original = module.__dict__
            if not node.same(module, original):
                return None
            ready.append(original)
        rec = stand.rec
        rec.sizes, rec.kinds = self.sizes.copy(), self.kinds.copy()
        rec.born, rec.died = [-1] * len(self.sizes), [None] * len(self.sizes)
        rec.by_address = self.addresses.copy()
        stand.modules, stand.tensors, stand.classes = self.modules.copy(), self.tensors.copy(), self.classes
        stand.shadows, stand.stand_ins, stand.originals = self.shadows, self.stand_ins.copy(), self.originals.copy()
        for node, original in zip(self.nodes, ready):
            self._set_up(node, original, stand)
        return self.nodes[-1].shadow

    def _set_up(self, node: _Node, original: dict[str, Any], stand: StandIns) -> None:
        state = original.copy()
        set_attribute(node.shadow, "__dict__", state)
        if stand.training is not None:
            state["training"] = stand.training
        state["_parameters"], state["_buffers"] = node.held.copy(), node.buffers.copy()
        state["_modules"] = node.children.copy()
        for name, tensor in original["_buffers"].items():
            if tensor is not None:
                stand._know(tensor, stand.rec.by_address[node.buffers[name].untyped_storage()._cdata])
        for name in node.lists:
            state[name] = original[name].copy()
        stand.part_hooks(state)
        state["_compiled_call_impl"] = stand.boundary(node.shadow, node.index)
        info = node.info
        if node.names is None:
            info = stand.modules[node.index] = replace(info, hyper={})
            stand.mapped.append((node.shadow, state, info))
        stand.pending.append((node.shadow, state, info))

    def intact(self) -> bool:
        """Whether no forward changed a stand-in behind our back (`p.data = …`, a gradient)."""
        return all(stand_in.shape == spec.shape and stand_in.grad is None for stand_in, spec in self.looks)


_kept: dict[int, tuple[weakref.ref[Any], Blueprint]] = {}


def take(model: nn.Module) -> Blueprint | None:
    """The blueprint of a model, taken out so that no other capture uses it at the same time."""
    ref, blueprint = _kept.pop(id(model), (None, None))
    return blueprint if ref is not None and ref() is model else None


def put(model: nn.Module, blueprint: Blueprint) -> None:
    key = id(model)
    _kept[key] = (weakref.ref(model, lambda _: _kept.pop(key, None)), blueprint)


def forget_all() -> None:
    _kept.clear()
