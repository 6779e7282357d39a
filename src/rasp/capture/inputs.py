"""What the user gave as inputs → the arguments of the forward: tensors, shapes, nests, by position or by name."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from ..errors import InputError

Tensor = torch.Tensor
SHORT_DTYPES = {
    "half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32",
    "bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64", "f16": "float16", "f32": "float32",
}  # fmt: skip
SHAPES_HINT = "a shape like (1, 3, 224, 224), a list of shapes, or {'name': shape}; it includes the batch"


def arguments(
    model: nn.Module,
    inputs: Any,
    input_shape: Any,
    kwargs: Mapping[str, Any] | None,
    dtypes: Any,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments for the forward, as the user's own tensors or as tensors made on meta."""
    if inputs is not None and input_shape is not None:
        raise InputError(
            "Both inputs and input_shape were given. Give inputs (tensors) or input_shape (their shapes), not both."
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InputError(f"kwargs must be a dict of keyword arguments, not {type(kwargs).__name__}.")
    named = dict(kwargs or {})
    if input_shape is not None:
        args, more = _from_shapes(model, input_shape, dtypes)
    else:
        if dtypes is not None:
            raise InputError("dtypes goes with input_shape; tensors given as inputs have dtypes of their own.")
        args, more = _from_values(model, inputs)
    twice = sorted(set(named) & set(more))
    if twice:
        raise InputError(f"{', '.join(twice)} given twice: in kwargs and in the inputs.")
    named.update(more)
    _check_signature(model, args, named)
    return args, named


def _parameters(model: nn.Module) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return []


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _from_values(model: nn.Module, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A tensor (or any single value) is the only argument; a tuple or list is spread if the forward takes several."""
    if inputs is None:
        return (), {}
    parameters = _parameters(model)
    if isinstance(inputs, Mapping):
        names = {p.name for p in parameters}
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        if all(isinstance(k, str) for k in inputs) and (
            not parameters or set(inputs) <= names or (open_ended and len(inputs))
        ):
            return (), dict(inputs)
        return (inputs,), {}
    if isinstance(inputs, (tuple, list)) and not hasattr(inputs, "_fields"):
        many = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
        places = [p for p in parameters if p.kind in POSITIONAL]
        needed = [p for p in places if p.default is inspect.Parameter.empty]
        if isinstance(inputs, list) and len(needed) == 1 and not many:
            return (inputs,), {}
        if many or not parameters or len(inputs) <= len(places):
            return tuple(inputs), {}
        if len(places) == 1:
            return (inputs,), {}
        return tuple(inputs), {}
    return (inputs,), {}


def _check_signature(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Say which input is missing or too many before the model is run."""
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        takes = ", ".join(_spelled(p) for p in signature.parameters.values())
        given = f"{len(args)} positional" + (f" and {', '.join(sorted(kwargs))}" if kwargs else "")
        raise InputError(
            f"The inputs do not fit {type(model).__name__}.forward({takes}): {error}. Given: {given}. "
            "Pass inputs= (a tensor, a tuple of arguments, or a dict of keyword arguments) "
            f"or input_shape= ({SHAPES_HINT})."
        ) from error


def _spelled(parameter: inspect.Parameter) -> str:
    """A parameter as a person reads a signature: its name, starred or optional."""
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    return stars + parameter.name + ("" if parameter.default is inspect.Parameter.empty else "=…")


# -- from shapes ------------------------------------------------------------------------------------------------------


def _from_shapes(model: nn.Module, shapes: Any, dtypes: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    several = isinstance(shapes, Mapping) or (isinstance(shapes, Sequence) and not _is_shape(shapes))
    count = len(shapes) if several else 1
    if isinstance(dtypes, Mapping):
        unknown = [k for k in dtypes if not isinstance(shapes, Mapping) or k not in shapes]
        if unknown:
            raise InputError(f"dtypes names {unknown[0]!r}, which input_shape does not: use the same names in both.")
    elif isinstance(dtypes, (list, tuple)) and len(dtypes) > count:
        raise InputError(f"{len(dtypes)} dtypes were given for {count} shapes: give one for each, or None.")
    if isinstance(shapes, Mapping):
        made = {str(k): _made(model, s, _dtype_for(dtypes, i, k), str(k)) for i, (k, s) in enumerate(shapes.items())}
        return (), made
    if _is_shape(shapes):
        return (_made(model, shapes, _dtype_for(dtypes, 0, None), _name(model, 0)),), {}
    if isinstance(shapes, (tuple, list)) and shapes and all(_is_shape(s) for s in shapes):
        return tuple(_made(model, s, _dtype_for(dtypes, i, None), _name(model, i)) for i, s in enumerate(shapes)), {}
    raise InputError(f"input_shape={shapes!r} is not understood: give {SHAPES_HINT}.")


def _is_shape(value: Any) -> bool:
    """Whole numbers, be they Python's or numpy's."""
    return isinstance(value, (tuple, list)) and all(isinstance(n, Integral) and not isinstance(n, bool) for n in value)


def _name(model: nn.Module, position: int) -> str | None:
    places = [p for p in _parameters(model) if p.kind in POSITIONAL]
    return places[position].name if position < len(places) else None


def _dtype_for(dtypes: Any, position: int, name: Any) -> torch.dtype | None:
    if dtypes is None:
        return None
    if isinstance(dtypes, Mapping):
        return as_dtype(dtypes[name]) if name in dtypes else None
    if isinstance(dtypes, (list, tuple)):
        return as_dtype(dtypes[position]) if position < len(dtypes) and dtypes[position] is not None else None
    return as_dtype(dtypes)


def as_dtype(value: Any) -> torch.dtype:
    """A torch dtype from itself or its name."""
    if isinstance(value, torch.dtype):
        return value
    text = str(value).removeprefix("torch.")
    found = getattr(torch, SHORT_DTYPES.get(text, text), None)
    if not isinstance(found, torch.dtype):
        raise InputError(
            f"{value!r} is not a dtype. Known ones are float32, float16, bfloat16, float64, int64, int32, bool …"
        )
    return found


def is_of_ids(name: str) -> bool:
    """Whether an argument of this name takes whole numbers: ids or a mask."""
    return name.endswith(("ids", "_mask", "labels", "tokens", "idx")) or name == "mask"


def _default_dtype(model: nn.Module, name: str | None) -> torch.dtype:
    """Integers for ids and masks (told by the argument's name), else the model's own floating dtype."""
    if name is not None and is_of_ids(name):
        return torch.int64
    for parameter in model.parameters():
        if nn.parameter.is_lazy(parameter):
            continue
        if parameter.is_floating_point() and parameter.element_size() > 1:
            return parameter.dtype
    return torch.get_default_dtype()


def _made(model: nn.Module, shape: Sequence[int], dtype: torch.dtype | None, name: str | None) -> Tensor:
    """A tensor of the shape on meta, marked as one whose data are ours to choose."""
    bad = [n for n in shape if n < 0]
    if bad:
        raise InputError(f"The shape {tuple(shape)} has the negative size {bad[0]}: give {SHAPES_HINT}.")
    made = torch.empty(tuple(shape), dtype=dtype or _default_dtype(model, name), device="meta")
    made._rasp_fill = 1 if name is not None and "mask" in name else 0  # type: ignore[attr-defined]
    return made


def likeness(tensor: Tensor) -> Tensor:
    """A made tensor of the same shape, strides and dtype."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    made._rasp_fill = 0  # type: ignore[attr-defined]
    return made


def is_made(tensor: Tensor) -> bool:
    return hasattr(tensor, "_rasp_fill")


def fill_of(tensor: Any) -> int:
    """The value that ids or a mask given as a shape are filled with."""
    return int(tensor._rasp_fill)


def data_for(tensor: Tensor, device: torch.device) -> Tensor:
    """Data for an input that was given as a shape: uniform random numbers, 0 for ids, 1 for masks."""
    if tensor.is_floating_point():
        generator = torch.Generator().manual_seed(0)
        return torch.rand(tensor.shape, generator=generator, dtype=torch.float32).to(device=device, dtype=tensor.dtype)
    if tensor.is_complex():
        return torch.zeros(tensor.shape, dtype=tensor.dtype, device=device)
    return torch.full(tensor.shape, fill_of(tensor), dtype=tensor.dtype, device=device)


# -- nests ------------------------------------------------------------------------------------------------------------


def map_tensors(
    value: Any, change: Callable[[Tensor, str], Any], name: str = "", seen: dict[int, Any] | None = None
) -> Any:
    """A copy of a nest (containers, dataclasses, plain objects such as caches) with every tensor changed."""
    seen = {} if seen is None else seen
    if isinstance(value, Tensor):
        return change(value, name)
    if value is None or isinstance(
        value, (int, float, str, bytes, complex, type, torch.dtype, torch.device, nn.Module)
    ):
        return value
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, (list, tuple)):
        items = [] if isinstance(value, tuple) else copy.copy(value)
        if isinstance(value, list):  # noted before it is filled: it may hold itself
            seen[id(value)] = items
            items.clear()
        for i, v in enumerate(value):
            steps = isinstance(value, PackedSequence) and i == 1  # sizes of steps, which must stay on the CPU
            items.append(v if steps else map_tensors(v, change, f"{name}.{i}" if name else str(i), seen))
        if isinstance(value, list):
            return items
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if type(value) in (dict, OrderedDict):
        twin = seen[id(value)] = type(value)()
        for k, v in value.items():
            twin[k] = map_tensors(v, change, f"{name}.{k}" if name else str(k), seen)
        return twin
    return _map_object(value, change, name, seen)


def _map_object(value: Any, change: Callable[[Tensor, str], Any], name: str, seen: dict[int, Any]) -> Any:
    """Objects with attributes (dataclasses, ModelOutput, caches): a shallow copy whose tensors are changed all the way
    down.
    """
    held = _attributes(value)
    if callable(value) or (held is None and not isinstance(value, Mapping)):
        return value
    try:
        twin = copy.copy(value)
    except (TypeError, NotImplementedError):
        return value
    seen[id(value)] = twin
    if isinstance(value, Mapping) and hasattr(twin, "__setitem__"):
        for key, item in list(value.items()):
            twin[key] = map_tensors(item, change, f"{name}.{key}" if name else str(key), seen)
    for key, item in list((held or {}).items()):
        if isinstance(value, Mapping) and key in value:
            continue
        changed = map_tensors(item, change, f"{name}.{key}" if name else key, seen)
        if changed is not item:
            object.__setattr__(twin, key, changed)
    return twin


def _attributes(value: Any) -> dict[str, Any] | None:
    """What an object holds; of those with slots only a dataclass tells."""
    if hasattr(value, "__dict__"):
        return vars(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if hasattr(value, f.name)}
    return None


def tensors_in(value: Any, limit: int = 256, *, objects: bool = True) -> list[tuple[str, Tensor]]:
    """Every tensor of a nest with its path; `objects` looks inside caches and the like as well."""
    found: list[tuple[str, Tensor]] = []
    _collect(value, "", 0, found, limit, objects)
    return found


def _collect(item: Any, name: str, depth: int, found: list[tuple[str, Tensor]], limit: int, objects: bool) -> None:
    """No closure does this: one that calls itself is a cycle, which would keep the tensors it found alive."""
    if isinstance(item, Tensor):
        if len(found) < limit:
            found.append((name, item))
        return
    if depth > 6 or item is None or isinstance(item, (int, float, str, bytes, nn.Module)):
        return
    if isinstance(item, Mapping):
        inside: Any = item.items()
    elif isinstance(item, (list, tuple)):
        inside = enumerate(item)
    elif dataclasses.is_dataclass(item) or (objects and not callable(item)):
        inside = (_attributes(item) or {}).items()
    else:
        return
    for key, inner in inside:
        _collect(inner, f"{name}.{key}" if name else str(key), depth + 1, found, limit, objects)
