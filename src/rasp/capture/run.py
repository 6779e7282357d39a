"""One run of a model, from its inputs to its Trace: on shapes alone where that is enough, else for real."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import CaptureError, InputError
from ..records import Trace
from . import inputs as given
from .failure import Stopped, lost_in_a_list, model_error, reason_to_run_for_real
from .guard import untouched
from .plans import META
from .propagate import Propagation
from .realrun import RealRun
from .request import Probe, Request, check_devices, device_of, home_of, input_home, make_request
from .routes import Ways
from .running import Run
from .specs import tensor_spec
from .values import DependsOnData

Tensor = torch.Tensor


def capture(
    model: nn.Module,
    inputs: Any = None,
    *,
    input_shape: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    dtypes: Any = None,
    mode: str | None = None,
    device: Any = None,
    backward: bool = False,
    optimizer: Any = None,
    loss: Callable[[Any], Tensor] | None = None,
    dtype: Any = None,
    autocast: Any = None,
    memo: bool = True,
    functions: bool = False,
    ways: Ways | None = None,
    checkpointed: frozenset[str] = frozenset(),
    probe: Probe | None = None,
) -> tuple[Trace, dict[str, Any]]:
    """Run `model` once and return what happened, with a plain description of how it was run.

    `ways` (a routes.Ways) are those of a device that memory is asked for: kernels that keep other things there.
    Modules in `checkpointed` (paths) run as under torch.utils.checkpoint, as a what-if. A `probe` reads a meter at the
    door of every module of a run for real.
    """
    request = make_request(
        model,
        inputs,
        input_shape,
        kwargs,
        dtypes,
        mode,
        backward,
        optimizer,
        loss,
        dtype,
        autocast,
        memo,
        functions,
        ways,
        checkpointed,
        probe,
    )
    where = device_of(device)
    check_devices(request, where)
    reason: dict[str, Any] | None = None
    outer = _disable_current_modes() if torch._C._len_torch_dispatch_stack() else nullcontext()
    with torch.inference_mode(mode=False), outer, untouched():
        if where is None or where == META:
            try:
                trace = _on_meta(request)
            except Stopped as stopped:
                reason = reason_to_run_for_real(stopped, request, where)
            else:
                _check_found(request, trace)
                return trace, _described(request, trace, "meta", "meta", None)
        target = where if where is not None and where != META else home_of(request.model) if request.scatters else None
        try:
            trace, ran_on = _for_real(request, target)
        except Stopped as stopped:
            raise model_error(stopped, request) from stopped.error
    _check_found(request, trace)
    return trace, _described(request, trace, "real", ran_on, reason)


def _check_found(request: Request, trace: Trace) -> None:
    """A module of the user's own that holds nothing and ran nothing is a mistake, not a model of cost 0."""
    own = not type(request.model).__module__.startswith("torch.nn.")
    if own and len(trace.modules) == 1 and not trace.tensors and not trace.ops and not trace.untraced:
        raise InputError(
            f"{type(request.model).__name__} has no layers and no parameters, and its forward ran no operator: "
            "there is nothing to count."
        )


def _on_meta(request: Request) -> Trace:
    """The run on shapes alone."""
    run = Run(request, META)
    mode = Propagation(run.rec, run.values, memo=request.memo, ways=request.ways)
    try:
        keep = request.memo and not request.grad and request.dtype is None and not request.functions
        run.shadow = run.stand.build(request.model, run.boundary, request.training, keep=keep)
        mode.originals = run.stand.originals
        noted: list[tuple[str, Any]] = []

        def stand_in(tensor: Tensor, name: str) -> Tensor:
            made = run.stand.stand_ins.get(id(tensor))
            if made is None:
                made = run.stand._stand_in(tensor)
                index = run.rec.before(made, "input")
                if given.is_made(tensor):
                    if not tensor.is_floating_point():
                        run.values.note(
                            _filled,
                            (tuple(tensor.shape), tensor.dtype, given.fill_of(tensor)),
                            {},
                            (),
                            made,
                            (index,),
                            (),
                        )  # type: ignore[attr-defined]
                elif tensor.device.type != "meta" and (not tensor.is_floating_point() or tensor.dim() == 0):
                    run.values.know(index, tensor.detach())
            noted.append((name, tensor_spec(made)))
            return made

        args = given.map_tensors(request.args, stand_in)
        kwargs = given.map_tensors(request.kwargs, stand_in)
        if run.stand.lazy:
            return _on_meta(_materialised(request, run, mode, args, kwargs))
        run.go(mode, args, kwargs, _overrides_train(run))
    except Stopped:  # of a second run
        raise
    except (Exception, DependsOnData) as error:
        if not request.lists and lost_in_a_list(error, mode.unseen):
            return _on_meta(replace(request, lists=True))
        raise Stopped(error, path_of_failure(run), run.rec.phase) from error
    finally:
        run.rec.closed = True
    if mode.adopted:
        places = sorted({run.stand.modules[int(i)].path or "the model itself" for i in mode.adopted if i})
        request.notes.append(f"Tensors from outside the model were met in {', '.join(places[:5])}: taken as constants.")
    request.notes.extend([*_assumptions(run), *mode.notes])
    run.stand.finished(request.model)
    return run.trace(noted, request.notes)


def _assumptions(run: Run) -> list[str]:
    """One sentence for each thing that was assumed and that a branch of the model rested on."""
    places: dict[str, list[str]] = {}
    for what, where in sorted(run.values.assumptions):
        places.setdefault(what, []).append(
            run.stand.modules[int(where)].path or "the model itself" if where else "the model itself"
        )
    return [
        f"{what} (in {', '.join(found[:3])}{f' and {len(found) - 3} more' if len(found) > 3 else ''})."
        for what, found in places.items()
    ]


def _filled(shape: tuple[int, ...], dtype: torch.dtype, value: int) -> Tensor:
    return torch.full(shape, value, dtype=dtype, device="cpu")


def _materialised(request: Request, run: Run, mode: Any, args: Any, kwargs: Any) -> Request:
    """Lazy modules find their shapes in a first, unrecorded run of the stand-ins; those are then captured."""
    run.go(mode, args, kwargs, _overrides_train(run))
    for _, state, _ in run.stand.pending:
        state.pop("_compiled_call_impl", None)
    if any(nn.parameter.is_lazy(p) for p in run.shadow.parameters()):
        raise CaptureError("A lazy module is never called by the forward, so its parameters have no shape.")
    return replace(request, model=run.shadow)


def _for_real(request: Request, device: torch.device | None) -> tuple[Trace, str]:
    """The run with data: on the device asked for, else where the model lives."""
    home = device or home_of(request.model) or input_home(request)
    run = Run(request, device)
    run.key = f"Autograd{home.type.upper()}"
    mode = RealRun(run.rec)
    try:
        run.shadow = run.stand.build(request.model, run.boundary, request.training)
        noted: list[tuple[str, Any]] = []

        def real(tensor: Tensor, name: str) -> Tensor:
            made = run.stand.stand_ins.get(id(tensor))
            if made is None:
                source = given.data_for(tensor, home) if given.is_made(tensor) else tensor
                made = run.stand._stand_in(source)
                run.stand.stand_ins[id(tensor)] = made
                run.rec.before(made, "input")
            noted.append((name, tensor_spec(made)))
            return made

        args = given.map_tensors(request.args, real)
        kwargs = given.map_tensors(request.kwargs, real)
        if run.stand.lazy:
            return _for_real(_materialised(request, run, mode, args, kwargs), device)
        run.go(mode, args, kwargs, _overrides_train(run))
    except Stopped:  # of the run of a lazy model's copy
        raise
    except Exception as error:
        raise Stopped(error, path_of_failure(run), run.rec.phase) from error
    finally:
        run.rec.closed = True
        mode.put_back()
    return run.trace(noted, request.notes), str(home)


def _overrides_train(run: Run) -> bool:
    """Whether a module has a train() of its own (frozen statistics, say), which then must be asked."""
    if run.request.training is None:
        return False
    return any(c.train is not nn.Module.train or c.eval is not nn.Module.eval for c in run.stand.classes)


def path_of_failure(run: Run) -> str | None:
    return (
        run.stand.modules[run.failed].path if run.failed is not None and run.failed < len(run.stand.modules) else None
    )


def _described(request: Request, trace: Trace, how: str, device: str, reason: dict[str, Any] | None) -> dict[str, Any]:
    from .. import __version__

    return {
        "model": type(request.model).__name__,
        "capture_mode": how,
        "capture_reason": reason,
        "mode": {True: "train", False: "eval", None: "as-is"}[request.training],
        "device": device,
        "home": str(home_of(request.model) or "cpu"),
        "grad": request.grad,
        "dtype": str(request.dtype).removeprefix("torch.") if request.dtype else None,
        "autocast": str(request.autocast).removeprefix("torch.") if request.autocast else None,
        "inputs": [{"name": n, "shape": list(s.shape), "dtype": s.dtype} for n, s in trace.inputs],
        "environment": {"torch": torch.__version__, "python": platform.python_version(), "rasp": __version__},
    }
