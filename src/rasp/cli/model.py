"""The MODEL of a command: a saved profile, or a model that is built and profiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from .. import api
from ..errors import CaptureError, InputError
from ..profile import Profile
from . import say, words

if TYPE_CHECKING:
    from ..zoo.adapters import Source

T = TypeVar("T")
MEASURED = ("timing", "energy", "kernels", "keep_trace")  # options that run the model for real


def profiled(
    name: str, factory: dict[str, Any], given: list[str] | None, batch: int | None, how: dict[str, Any]
) -> Profile:
    """Load a saved profile, or build a model and profile it: without memory where its origin allows, else for real."""
    if name.endswith(".json") and not name.startswith("hf:"):
        if any(map(how.get, MEASURED)):
            raise InputError(
                f"{name} is a saved profile: what was measured in it is shown without --timing, --energy and their kin."
            )
        if batch is not None or given:
            raise InputError(f"{name} is a saved profile, of the inputs it was made with: leave --batch and -i out.")
        found = api.load(name)
        return found.on(how["roof"]) if how.get("roof") else found
    origin, taken = origin_of(name, given, batch)
    return run(origin, taken, factory, how, api.profile)


def origin_of(name: str, given: list[str] | None, batch: int | None) -> tuple[Source, dict[str, Any]]:
    """Where a model comes from, and the inputs that it is to take."""
    from ..zoo.adapters import source

    if batch is not None and batch < 1:
        raise InputError(f"--batch {batch} is no batch: give 1 or more.")
    origin = source(name)
    if given:
        taken = origin.taking(words.inputs(given, batch))
    elif origin.given is not None:
        taken = origin.given(batch or 1)
        say(f"no -i given: {origin.title} takes {_shapes(taken)}")
    else:
        raise InputError(f"{name} does not tell its inputs: give their shapes with -i, as in -i 1,3,224,224.")
    return origin, taken


def run(
    origin: Source, taken: dict[str, Any], factory: dict[str, Any], how: dict[str, Any], action: Callable[..., T]
) -> T:
    """An action on the model, built without memory where its origin allows, else for real."""
    virtual = origin.virtual and how.get("device") is None and not any(map(how.get, MEASURED))
    try:
        return action(origin.model(virtual=virtual, **factory), **taken, **how)
    except CaptureError:
        if not virtual:
            raise
    return action(origin.model(virtual=False, **factory), **taken, **how)


def _shapes(taken: dict[str, Any]) -> str:
    """Inputs in words."""
    shapes = taken.get("input_shape")
    if shapes is None:
        return ", ".join(str(tuple(tensor.shape)) for tensor in taken["inputs"])
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items()) if isinstance(shapes, dict) else str(shapes)
