"""One cell, measured: build the model, make its inputs, profile it, read the columns. Runs in a process of its own."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from .. import api
from ..errors import CaptureError, InputError, RaspError
from ..profile import Profile
from ..zoo import adapters
from . import measures
from .description import takes_floats
from .executors import cores
from .outcomes import FAILED, MEMORY, NO_MEMORY, OK, Outcome, shortened
from .outcomes import size as size_of
from .subjects import unpickled
from .trunk import AUTO, Trunk, own_trunk


def measure(job: Mapping[str, Any]) -> Outcome:
    """Profile one cell; whatever the model raises is the reason in its row."""
    began = time.perf_counter()
    try:
        torch.set_num_threads(job["threads"] or cores(None))
        measures.switch_on(job["columns"])
        profile = _profile(job)
        values = {name: profile.total(name) for name in job["columns"]}
        text = profile.dumps() if job["keep"] else None
        outcome = Outcome(OK, _unmeasured(job, profile), values=values, profile=text)
    except (MemoryError, RuntimeError, RaspError) as error:
        outcome = Outcome(FAILED, reason(error))
        if _is_memory(error):
            outcome = Outcome(MEMORY, f"memory={size_of(job['memory'])} did not suffice: {outcome.reason}")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a model may raise anything; it is told in its row
        outcome = Outcome(FAILED, reason(error))
    outcome.seconds = time.perf_counter() - began
    return outcome


def _unmeasured(job: Mapping[str, Any], profile: Profile) -> str:
    """Why there is no energy, where it was asked for and no meter told any."""
    is_missing = "energy" in job["measures"] and not profile.energy.available
    return shortened(f"no energy: {profile.energy.reason or 'no meter'}") if is_missing else ""


def reason(error: BaseException) -> str:
    """An error in one line."""
    words = " ".join(str(error).split())
    named = words if isinstance(error, RaspError) and words else f"{type(error).__name__}: {words}".rstrip(": ")
    return shortened(named)


def _is_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or NO_MEMORY.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _profile(job: Mapping[str, Any]) -> Profile:
    """Without memory for weights where the model lets itself be built so, else for real."""
    virtual = not job["timed"]
    try:
        return _profiled(job, virtual)
    except CaptureError:
        if not virtual or job["packet"].get("words") is None:
            raise
    return _profiled(job, virtual=False)


def _profiled(job: Mapping[str, Any], virtual: bool) -> Profile:
    model, taken = _built(job["packet"], job, virtual)
    how: dict[str, Any] = dict(job["options"])
    if not job["timed"]:
        how = {name: value for name, value in how.items() if name not in measures.MEASURING}
    for name in job["measures"]:
        how.update(measures.MEASURES[name].options)
    if measures.need_functions(job["columns"]):
        how["functions"] = True
    if job["timed"]:
        how["device"] = job["device"] or "cpu"
    if job["dtype"] is not None:
        how["dtype"] = job["dtype"]
    if job["trunk"] == AUTO:
        model = own_trunk(model, job["packet"].get("words"))
    if job["trunk"] in (None, AUTO):
        return api.profile(model, **taken, **how)
    trunk = Trunk(model, job["trunk"])
    found = api.profile(trunk, **taken, **how)
    if trunk.drop(found):
        found = api.profile(trunk, **taken, **how)
    found.info["model"] = f"{type(model).__name__} up to {job['trunk']}"
    return found


# -- model and inputs --------------------------------------------------------------------------------------------------


def _built(packet: Mapping[str, Any], job: Mapping[str, Any], virtual: bool) -> tuple[nn.Module, dict[str, Any]]:
    if packet.get("words") is not None:
        source = adapters.source(packet["words"])
    else:
        thing = unpickled(packet) if "pickled" in packet else packet["thing"]
        if job["trunk"] is not None and "thing" in packet and isinstance(thing, nn.Module):
            thing = copy.deepcopy(thing)  # the user's own, which a trunk would be cut from
        source = adapters.Source(packet["name"], (lambda: thing) if isinstance(thing, nn.Module) else thing)
    taken = inputs(source, packet["given"], job["batch"], job["size"], job["tokens"], virtual)
    return source.model(virtual=virtual), taken


def inputs(
    source: adapters.Source, given: Mapping[str, Any], batch: int, size: tuple[int, int] | None, tokens: int | None,
    virtual: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """What the model is called with, as keywords of rasp.profile: its own inputs at another batch, size or length."""
    if given:
        shapes = _reshaped({**given, "input_shape": _with_batch(given["input_shape"], batch)}, size, tokens)
        return source.taking(shapes)
    if source.given is not None:
        return _reshaped(_given(source, batch, virtual), size, tokens)
    if tokens is not None:
        return {"input_shape": (batch, tokens), "dtypes": "int64"}
    if size is not None:
        return {"input_shape": (batch, 3, *size)}
    raise InputError(
        f"{source.title} does not tell its inputs: give their shape, as in input_shape=(1, 3, 224, 224), "
        "or on the command line -i 1,3,224,224."
    )


def _given(source: adapters.Source, batch: int, virtual: bool) -> dict[str, Any]:
    """The inputs that a model comes with; as shapes alone where that says it all, since large batches are large."""
    assert source.given is not None
    if virtual and source.virtual:
        with torch.device("meta"):
            taken = source.given(batch)
        found = taken.get("inputs")
        if isinstance(found, torch.Tensor):
            found = (found,)
        if isinstance(found, tuple) and all(isinstance(one, torch.Tensor) for one in found):
            return {"input_shape": [tuple(one.shape) for one in found], "dtypes": [one.dtype for one in found]}
        if found is None:
            return taken
    return source.given(batch)


def _with_batch(shape: Any, batch: int) -> Any:
    if isinstance(shape, Mapping):
        return {name: (batch, *one[1:]) for name, one in shape.items()}
    if shape and isinstance(shape[0], (tuple, list)):
        return [(batch, *one[1:]) for one in shape]
    return (batch, *shape[1:])


def _reshaped(taken: dict[str, Any], size: tuple[int, int] | None, tokens: int | None) -> dict[str, Any]:
    """Inputs with every image of another size, every row of tokens of another length."""
    if "inputs" in taken:
        sides = _first_image(taken["inputs"])
        return {**taken, "inputs": _each_tensor(taken["inputs"], lambda one: _tensor(one, sides, size, tokens))}
    shapes, dtypes = taken["input_shape"], taken.get("dtypes")
    if isinstance(shapes, Mapping):
        kinds = dtypes if isinstance(dtypes, Mapping) else {}
        new: Any = {
            name: _shape(tuple(one), takes_floats(kinds.get(name), name), size, tokens) for name, one in shapes.items()
        }
    elif shapes and isinstance(shapes[0], (tuple, list)):
        of = list(dtypes) if isinstance(dtypes, (tuple, list)) else [dtypes] * len(shapes)
        new = [_shape(tuple(one), takes_floats(kind), size, tokens) for one, kind in zip(shapes, of)]
    else:
        new = _shape(tuple(shapes), takes_floats(dtypes), size, tokens)
    return {**taken, "input_shape": new}


def _shape(shape: tuple[int, ...], floats: bool, size: tuple[int, int] | None, tokens: int | None) -> tuple[int, ...]:
    if floats and size is not None and len(shape) >= 3:
        return (*shape[:-2], *size)
    return (*shape[:-1], tokens) if not floats and tokens is not None and len(shape) == 2 else shape


def _first_image(value: Any) -> tuple[int, ...] | None:
    """Height and width of the first image: tensors of the same sides follow it."""
    found: list[torch.Tensor] = []
    _each_tensor(value, found.append)
    return next((tuple(one.shape[-2:]) for one in found if one.is_floating_point() and one.dim() > 2), None)


def _tensor(one: torch.Tensor, sides: Any, size: tuple[int, int] | None, tokens: int | None) -> torch.Tensor:
    floats = one.is_floating_point()
    if floats and tuple(one.shape[-2:]) != sides:
        return one
    shape = _shape(tuple(one.shape), floats, size, tokens)
    if shape == tuple(one.shape):
        return one
    if floats:
        return torch.rand(shape, dtype=one.dtype, device=one.device)
    return one[..., torch.arange(shape[-1], device=one.device) % one.shape[-1]]


def _each_tensor(value: Any, change: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _each_tensor(item, change) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_each_tensor(item, change) for item in value)
    return value
