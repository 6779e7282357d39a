"""torch values → plain records: tensors to TensorSpecs, operator calls to OpSpecs."""

from __future__ import annotations

from typing import Any

import torch

from ..records import OpSpec, TensorSpec

DTYPE_NAMES: dict[torch.dtype, str] = {
    value: str(value).removeprefix("torch.") for value in vars(torch).values() if isinstance(value, torch.dtype)
}

STRIDED = torch.strided
_specs: dict[tuple[Any, ...], TensorSpec] = {}
known_spec = _specs.get


def tensor_spec(tensor: torch.Tensor) -> TensorSpec:
    """The TensorSpec of a tensor, interned: equal specs are one object."""
    if tensor.layout is not STRIDED:
        return _other_layout(tensor)
    try:
        return _specs.get((tensor.shape, tensor.stride(), tensor.dtype)) or spec_of(
            tensor.shape, tensor.stride(), tensor.dtype
        )
    except RuntimeError:  # a nested tensor has no one shape
        return _other_layout(tensor)


def spec_of(shape: Any, stride: Any, dtype: torch.dtype) -> TensorSpec:
    """The TensorSpec of a shape, strides and dtype, interned."""
    key = (shape, stride, dtype)
    spec = _specs.get(key)
    if spec is None:
        if len(_specs) > 100_000:
            _specs.clear()
        spec = _specs[key] = TensorSpec(tuple(int(n) for n in shape), tuple(int(s) for s in stride), DTYPE_NAMES[dtype])
    return spec


def _other_layout(tensor: torch.Tensor) -> TensorSpec:
    """Sparse, nested and opaque tensors: no strides; the number of stored elements where there is one."""
    dtype = DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype))
    if tensor.is_nested:
        return TensorSpec((tensor.size(0), tensor.numel() // max(tensor.size(0), 1)), (), dtype, nnz=tensor.numel())
    if tensor.layout is torch._mkldnn:  # type: ignore[attr-defined]
        return TensorSpec(tuple(tensor.shape), (), dtype)
    return TensorSpec(tuple(tensor.shape), (), dtype, nnz=int(tensor._nnz()) if tensor.device.type != "meta" else None)


class _Signature:
    """Names and defaults of an operator's arguments, read from its schema once."""

    __slots__ = ("attends_back", "defaults", "keyword_defaults", "mutates", "name", "overload")

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name: str = schema.name
        self.overload: str = schema.overload_name or "default"
        self.defaults = tuple(plain(a.default_value) for a in schema.arguments if not a.kwarg_only)
        self.keyword_defaults = {a.name: plain(a.default_value) for a in schema.arguments if a.kwarg_only}
        self.attends_back = self.name.startswith("aten::_scaled_dot") and self.name.endswith("_backward")
        self.mutates = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)


_signatures: dict[Any, _Signature] = {}


def op_spec(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, same: tuple[int, ...] = ()) -> OpSpec:
    """The OpSpec of one call of an ATen operator (an OpOverload) and its result."""
    signature = _signatures.get(func)
    if signature is None:
        signature = _signatures[func] = _Signature(func)
    given = tuple(plain(a) for a in args)
    named = dict(signature.keyword_defaults)
    for name, value in kwargs.items():
        named[name] = plain(value)
    if len(given) < len(signature.defaults):
        rest = list(signature.defaults[len(given) :])
        names = [a.name for a in func._schema.arguments if not a.kwarg_only][len(given) :]
        for position, name in enumerate(names):
            if name in kwargs:  # positional parameter given by keyword
                rest[position] = named.pop(name)
        given += tuple(rest)
    if signature.attends_back and (wanted := wanted_of(args)):
        named["wanted"] = wanted
    return OpSpec(signature.name, signature.overload, given, named, plain(out), same, signature.mutates)


def wanted_of(args: tuple[Any, ...]) -> tuple[bool, ...] | None:
    """Which of the gradients of query, key and value a backward of attention is for, where it is not for all three."""
    wanted = tuple(bool(t.requires_grad) for t in args[1:4])
    return wanted if any(wanted) and not all(wanted) else None


def structure(value: Any, depth: int = 8) -> Any:
    """What `plain` makes of the arguments of a module; what lies deeper than any layer takes it is left out."""
    if isinstance(value, (list, tuple)):
        return tuple(structure(v, depth - 1) for v in value) if depth else ()
    if isinstance(value, dict):
        return {str(k): structure(v, depth - 1) for k, v in value.items()} if depth else {}
    return plain(value)


def plain(value: Any) -> Any:
    """Tensors to specs, lists to tuples, torch's own kinds to their names; anything else as it is or by its repr."""
    if isinstance(value, torch.Tensor):
        return tensor_spec(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    if isinstance(value, torch.dtype):
        return DTYPE_NAMES[value]
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    if isinstance(value, complex):
        return (value.real, value.imag)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, torch.ScriptObject) and hasattr(value, "unpack"):  # the packed weights of a quantised layer
        return tuple(plain(v) for v in value.unpack())
    return type(value).__name__
