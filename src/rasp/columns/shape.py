"""What a row is: its name, its class, what went in and what came out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..records import TensorSpec
from . import column

if TYPE_CHECKING:
    from ..parts import Part
    from ..view import View


@column("name", "name", form="text")
def name(part: Part, view: View) -> str:
    """Path of the module, after a dot; of the container, where the row is work of its own."""
    return part.name


@column("type", "type", form="text")
def type_(part: Part, view: View) -> str:
    """Class of the module; the operators, where the row is a container's own work."""
    return part.type


@column("kind", "kind", form="text")
def kind(part: Part, view: View) -> str:
    """call: a leaf module's call. own: work a container did itself. uncalled: parameters of a module that never ran."""
    return part.kind


@column("in_shape", "in", form="shape")
def in_shape(part: Part, view: View) -> Any:
    """Shape of the tensor that went in; a tuple of shapes where there were several."""
    return None if part.call is None else _shapes(view.trace.calls[part.call].inputs)


@column("out_shape", "out", form="shape")
def out_shape(part: Part, view: View) -> Any:
    """Shape of the tensor that came out; a tuple of shapes where there were several."""
    return None if part.call is None else _shapes(view.trace.calls[part.call].outputs)


@column("dtype", "dtype", form="text")
def dtype(part: Part, view: View) -> str | None:
    """Element types that came out of the module (or went in, where nothing came out)."""
    if part.call is None:
        specs: Sequence[TensorSpec] = [view.trace.tensors[t].spec for entry in part.entries for t in entry.tensors]
    else:
        call = view.trace.calls[part.call]
        specs = call.outputs or call.inputs
    return ", ".join(dict.fromkeys(spec.dtype for spec in specs)) or None


def _shapes(specs: Sequence[TensorSpec]) -> tuple[Any, ...] | None:
    if len(specs) == 1:
        return specs[0].shape
    return tuple(spec.shape for spec in specs) or None
