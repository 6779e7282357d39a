"""How each ATen operator is to be run on meta: read off its schema once."""

from __future__ import annotations

from typing import Any

import torch

META = torch.device("meta")
Tensor = torch.Tensor
Parameter = torch.nn.Parameter
shut = torch._C._set_throw_on_mutable_data_ptr  # type: ignore[attr-defined]  # asked for its memory, a stand-in raises

# Views whose schemas do not say so, and in-place view operators. They share storage, so they are run, never remembered.
UNDECLARED_VIEWS = {
    "aten::_unsafe_view", "aten::lift", "aten::_reshape_alias", "aten::unsafe_split", "aten::unsafe_split_with_sizes",
    "aten::unsafe_chunk", "aten::contiguous", "aten::reshape", "aten::_conj", "aten::_neg_view", "aten::resolve_conj",
    "aten::resolve_neg", "aten::expand_as", "aten::view_as", "aten::flatten", "aten::_to_copy_view", "aten::positive",
}  # fmt: skip
EMPTY = {
    "aten::empty",
    "aten::empty_strided",
    "aten::empty_like",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::empty_permuted",
}
FREE = {
    "aten::_has_compatible_shallow_copy_type",
    "aten::_assert_async",
    "aten::_assert_tensor_metadata",
    "aten::record_stream",
}


class Plan:
    """One operator: `kind` names its handler; the rest are the facts handlers ask."""

    __slots__ = (
        "hollow",
        "is_view",
        "kind",
        "name",
        "number",
        "random",
        "returns_first",
        "single",
        "unchecked",
        "work",
        "written",
    )

    def __init__(self, func: Any) -> None:
        self.number = len(PLANS)
        schema = getattr(func, "_schema", None)
        if schema is None:  # a higher-order operator
            self.name, self.kind, self.single = f"higher_order::{func.name()}", "higher_order", False
            self.is_view = False
            self.random = self.hollow = self.returns_first = self.unchecked = False
            self.work = True
            self.written: tuple[tuple[int, Any], ...] = ()
            return
        self.name = schema.name
        tags = func.tags
        self.random = torch.Tag.nondeterministic_seeded in tags
        self.hollow = self.name in EMPTY
        self.work = not self.hollow and self.name not in FREE
        self.single = len(schema.returns) == 1 and str(schema.returns[0].type) == "Tensor"
        self.unchecked = False
        written = [(i, a) for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
        self.written = tuple((i, a.name) for i, a in written)
        self.returns_first = bool(schema.returns) and bool(written)
        self.kind = special_kind(func) or self._kind(schema, tags, written)
        self.is_view = self.kind == "view"

    def _kind(self, schema: Any, tags: Any, written: list[Any]) -> str:
        if (
            self.name in UNDECLARED_VIEWS
            or torch.Tag.inplace_view in tags
            or self.name.startswith(("profiler::", "prim::"))
        ):
            return "view"
        if written:
            lists = any("[]" in str(a.type) for _, a in written)
            fresh = any(r.alias_info is None for r in schema.returns)
            if not fresh and (lists or self.name.startswith(("aten::_fused_", "aten::_foreach_"))):
                return "lists"
            first = written[0][1]
            if len(written) == 1 and written[0][0] == 0 and not first.kwarg_only and schema.returns and not fresh:
                return "inplace"
            return "call"
        if any(r.alias_info is not None for r in schema.returns):
            return "view"
        if any(a.name == "device" for a in schema.arguments):
            return "factory"
        return "compute"


PLANS: dict[int, Plan] = {}
_keep: list[Any] = []


def plan_of(func: Any) -> Plan:
    plan = PLANS.get(id(func))
    if plan is None:
        plan = Plan(func)
        PLANS[id(func)] = plan
        _keep.append(func)  # so that the id stays its own
    return plan


def special_kind(func: Any) -> str | None:
    """The handler made for this very operator, if there is one."""
    from .special import KINDS

    return KINDS.get(func._schema.name)


def scan(args: Any, tensors: list[Tensor], parts: list[Any]) -> None:
    """Collect the tensors of an argument list, and the parts of a memo key: specs of tensors, type and value of the
    rest.
    """
    for a in args:
        c = a.__class__
        if c is Tensor or c is Parameter:
            tensors.append(a)
            parts += (a.shape, a.stride(), a.dtype)
        elif a is None:
            parts.append(None)
        elif c is list or c is tuple or c is torch.Size:
            parts.append(len(a))
            for item in a:
                if item.__class__ is int:
                    parts.append(item)
                else:
                    scan((item,), tensors, parts)
        elif isinstance(a, Tensor):
            tensors.append(a)
            parts += (a.shape, a.stride(), a.dtype)
        elif isinstance(a, (list, tuple)):
            parts.append(len(a))
            scan(a, tensors, parts)
        elif isinstance(a, torch.Generator):
            parts.append("generator")
        else:
            parts += (c, a)


def collect(value: Any, tensors: list[Tensor]) -> None:
    """The tensors of a nest of arguments, in order."""
    if isinstance(value, Tensor):
        tensors.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            collect(item, tensors)
    elif isinstance(value, dict):
        for item in value.values():
            collect(item, tensors)


def duplicates(tensors: list[Tensor], reads: tuple[int, ...]) -> tuple[int, ...]:
    """Positions of tensors that are the very same view as an earlier one."""
    seen: set[tuple[Any, ...]] = set()
    same = []
    for position, (tensor, index) in enumerate(zip(tensors, reads)):
        view = (index, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
        if view in seen:
            same.append(position)
        seen.add(view)
    return tuple(same)
