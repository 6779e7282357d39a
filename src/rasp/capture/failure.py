"""When a run does not come to its end: whose error it is, where it happened, and whether a real run may help."""

from __future__ import annotations

import traceback
from typing import Any

import torch

from ..errors import CaptureError, ModelError, RaspError
from . import inputs as given
from .plans import META
from .recorder import BACKWARD, FORWARD, OPTIMISER
from .request import Request
from .specs import tensor_spec
from .values import DependsOnData

LIBRARY = ("/torch/", "/rasp/capture/")
IMAGE = 3  # dimensions of one image without its batch
TOO_FEW = ("got 3D input", "got 2D input", "dimension", "batch", "shapes cannot be multiplied")  # what torch then says


class Stopped(Exception):
    """A run did not come to its end."""

    def __init__(self, error: BaseException, path: str | None, phase: int = FORWARD, unseen: bool = False) -> None:
        super().__init__(str(error))
        self.error, self.path, self.phase = error, path, phase
        self.unseen = unseen  # tensors were met that no operator made


def lost_in_a_list(error: BaseException, unseen: bool) -> bool:
    """Whether the value that was missing may have been lost in a list of indices (which torch makes a tensor of that no
    operator shows, `unseen`) or in one of numbers.
    """
    return (unseen and isinstance(error, DependsOnData)) or "item() cannot be called on meta" in str(error)


def raised_by_model(error: BaseException) -> bool:
    """Whether the model itself raised (a `raise` or `assert` in its own code): a run with data would raise again."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, (DependsOnData, NotImplementedError)) or "meta" in str(error).lower():
        return False
    last = frames[-1]
    return not any(s in last.filename for s in LIBRARY) and (last.line or "").lstrip().startswith(("raise", "assert"))


def line_of(error: BaseException) -> str | None:
    """The user's own line nearest to where an error came from."""
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if not any(s in f.filename.replace("\\", "/") for s in LIBRARY)
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def reason_to_run_for_real(stopped: Stopped, request: Request, where: torch.device | None) -> dict[str, Any]:
    """Whether a real run may answer what shapes alone could not; the reason it is needed."""
    error, path = stopped.error, stopped.path
    if isinstance(error, RaspError):
        raise error
    if raised_by_model(error):
        raise model_error(stopped, request) from error
    needs_data = isinstance(error, DependsOnData)
    why = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
    reason = {
        "why": why,
        "op": error.op if isinstance(error, DependsOnData) else None,
        "module": path,
        "where": line_of(error),
    }
    on_meta = any(t.device.type == "meta" for t in [*request.model.parameters(), *request.model.buffers()])
    fed_meta = any(
        t.device.type == "meta" and not given.is_made(t) for _, t in given.tensors_in((request.args, request.kwargs))
    )
    if where == META or on_meta or fed_meta:
        if not needs_data and not isinstance(error, NotImplementedError):
            raise model_error(stopped, request) from error
        raise CaptureError(
            f"{type(request.model).__name__} cannot be run on shapes alone: {reason['why']} "
            f"(module {path or 'root'!r}, {reason['where']}). "
            "A real run would answer it, but "
            + (
                "device='meta' was asked for."
                if where == META
                else "the model or its inputs are on the meta device and hold no data."
            )
        ) from error
    return reason


def model_error(stopped: Stopped, request: Request) -> RaspError:
    error = stopped.error
    if isinstance(error, RaspError):
        return error
    who = {BACKWARD: "The loss or its backward", OPTIMISER: "The optimizer"}.get(
        stopped.phase, type(request.model).__name__
    )
    place = f" in module {stopped.path!r}" if stopped.path else ""
    fed = ", ".join(
        f"{n.split('.', 1)[-1]} {tensor_spec(t).shape} {str(t.dtype).removeprefix('torch.')}"
        for n, t in given.tensors_in((request.args, request.kwargs))[:4]
    )
    first = str(error).strip().splitlines()[0] if str(error).strip() else "(no message)"
    return ModelError(
        f"{who} raised {type(error).__name__}{place}: {first} [inputs: {fed or 'none'}]. {_cure(first, request)}"
    )


def _cure(first: str, request: Request) -> str:
    """What a person may do: inputs that were made from shapes are the usual cause."""
    made = [tensor for _, tensor in given.tensors_in((request.args, request.kwargs)) if given.is_made(tensor)]
    if made and "Long, Int" in first:
        return "input_shape makes numbers with a fraction: for ids give dtypes='int64', or ids as inputs."
    if any(tensor.dim() <= IMAGE for tensor in made) and any(words in first for words in TOO_FEW):
        shape = tuple(next(tensor for tensor in made if tensor.dim() <= IMAGE).shape)
        return f"input_shape includes the batch: did you mean {(1, *shape)}?"
    return "If the model runs outside of rasp, check that the inputs are the same."
