"""One run of a model, from its inputs to its Trace: on shapes alone where that is enough, else for real."""

from __future__ import annotations

import itertools
import platform
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..errors import CaptureError, InputError, ModelError, RaspError
from ..records import ModuleCall, Trace
from . import inputs as given
from .autocast import Autocast, ambient
from .guard import training_flags, untouched
from .plans import META
from .propagate import Propagation
from .realrun import RealRun
from .recorder import BACKWARD, FORWARD, OPTIMISER, Recorder
from .routes import routed
from .specs import tensor_spec
from .standin import StandIns, unwrapped
from .values import DependsOnData, Values

Tensor = torch.Tensor
LIBRARY = ("/torch/", "/rasp/capture/")
MODES = ("eval", "train", "as-is")


@dataclass
class Request:
    """What is to be run and how; the same for a run on shapes and a real one."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    training: bool | None
    backward: bool = False
    optimizer: Any = None
    loss: Callable[[Any], Tensor] | None = None
    dtype: torch.dtype | None = None
    autocast: torch.dtype | None = None
    memo: bool = True
    notes: list[str] = field(default_factory=list)

    @property
    def grad(self) -> bool:
        return self.backward


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
) -> tuple[Trace, dict[str, Any]]:
    """Run `model` once and return what happened, with a plain description of how it was run."""
    request = _request(
        model, inputs, input_shape, kwargs, dtypes, mode, backward, optimizer, loss, dtype, autocast, memo
    )
    where = _device(device)
    _check_devices(request, where)
    reason: dict[str, Any] | None = None
    with torch.inference_mode(False), untouched():
        if where is None or where == META:
            try:
                trace = _on_meta(request)
            except _Stopped as stopped:
                reason = _fall_back(stopped, request, where)
            else:
                return trace, _described(request, trace, "meta", "meta", None)
        target = where if where is not None and where != META else None
        try:
            trace, ran_on = _for_real(request, target)
        except _Stopped as stopped:
            raise _model_error(stopped, request) from stopped.error
    return trace, _described(request, trace, "real", ran_on, reason)


def _request(
    model: Any, inputs: Any, input_shape: Any, kwargs: Any, dtypes: Any, mode: Any, backward: Any, optimizer: Any, loss: Any,
    dtype: Any, autocast: Any, memo: bool,
) -> Request:  # fmt: skip
    """Check what was given and bring it into one form."""
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise InputError(f"{model.__name__} is a class; give an instance: {model.__name__}(...).")
    if not isinstance(model, nn.Module):
        raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
    mode = mode or ("train" if backward else "eval")
    if mode not in MODES:
        raise InputError(f"mode={mode!r} is not known. Use 'eval', 'train' or 'as-is' (keep the model's own flags).")
    if optimizer is not None and not backward:
        raise InputError("optimizer= needs backward=True: a step uses the gradients of a backward.")
    training = {"eval": False, "train": True, "as-is": None}[mode]
    inner = unwrapped(model)
    args, named = given.arguments(inner, inputs, input_shape, kwargs, dtypes)
    cast = ambient() if autocast is None else None if autocast is False else given.as_dtype("bfloat16" if autocast is True else autocast)
    return Request(
        inner, args, named, training, bool(backward), optimizer, loss,
        None if dtype is None else given.as_dtype(dtype), cast, memo,
    )  # fmt: skip


def _device(device: Any) -> torch.device | None:
    if device is None:
        return None
    try:
        where = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device={device!r} is not a device. Use 'meta', 'cpu', 'cuda', 'cuda:0' or a torch.device.") from error
    if where.type == "cuda" and not torch.cuda.is_available():
        raise InputError("device='cuda' was asked for, but torch sees no CUDA device here. Leave device out to count without one.")
    if where.type == "mps" and not torch.backends.mps.is_available():
        raise InputError("device='mps' was asked for, but torch sees no MPS device here. Leave device out to count without one.")
    return where


def _check_devices(request: Request, where: torch.device | None) -> None:
    """Inputs on another device than the model's would fail in the user's own call: say so."""
    if where is not None:
        return
    home = _home(request.model)
    for name, tensor in given.tensors_in((request.args, request.kwargs)):
        if home is None:
            return
        if given.is_made(tensor) or tensor.device == home or home.type == "meta":
            continue
        if tensor.device.type == "cpu" and tensor.dim() == 0:
            continue
        label = name.split(".", 1)[-1]
        raise InputError(
            f"Input {label} is on {tensor.device}, the model is on {home}. Move it (.to('{home}')), "
            f"or give input_shape={tuple(tensor.shape)} to profile without data."
        )


def _home(model: nn.Module) -> torch.device | None:
    """The device of the first parameter or buffer."""
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        return tensor.device
    return None


# -- the run ----------------------------------------------------------------------------------------------------------


class _Stopped(Exception):
    """A run did not come to its end."""

    def __init__(self, error: BaseException, path: str | None) -> None:
        super().__init__(str(error))
        self.error, self.path = error, path


class _Run:
    """The parts a run on meta and a real one share."""

    def __init__(self, request: Request, device: torch.device | None) -> None:
        self.request = request
        self.key = f"Autograd{(device or torch.device('cpu')).type.upper()}".replace("META", "Meta")
        self.rec = Recorder(grad=request.grad)
        self.values = Values()
        self.stand = StandIns(self.rec, self.values, device=device, dtype=request.dtype)
        self.failed: int | None = None

    def boundary(self, shadow: Any, index: int) -> Any:
        """The callable at a module's door: opens a module call, runs it, closes it."""
        rec = self.rec
        calls, stack, ops = rec.calls, rec.stack, rec.ops
        quick = not rec.grad
        run = shadow._call_impl
        count = 0

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if len(args) == 1 and not kwargs and args[0].__class__ is Tensor:
                inputs: tuple[Any, ...] = (tensor_spec(args[0]),)
            else:
                inputs = _specs((args, kwargs) if kwargs else args)
            if quick:  # what rec.enter does, in place: a model calls thousands of modules
                start, opened = len(ops), len(calls)
                record = ModuleCall(index, stack[-1] if stack else -1, count, inputs, (), start, start)
                calls.append(record)
                stack.append(opened)
                count += 1
            else:
                opened = rec.enter(index, inputs)
            try:
                out = run(*args, **kwargs)
            except BaseException:
                if self.failed is None:
                    self.failed = index
                rec.leave(opened, ())
                raise
            outputs = (tensor_spec(out),) if out.__class__ is Tensor else _specs(out)
            if quick:
                stack.pop()
                record.outputs, record.end = outputs, len(ops)
            else:
                rec.leave(opened, outputs)
            return out

        return call

    def go(self, mode: Any, args: tuple[Any, ...], kwargs: dict[str, Any], training_override: bool) -> Any:
        """Forward, and where asked backward and an optimiser step, all under the mode."""
        request = self.request
        recurrent = any(issubclass(c, nn.RNNBase) for c in self.stand.classes)
        with routed(mode, key=self.key, recurrent=recurrent), torch.set_grad_enabled(request.grad), training_flags(self.stand.scripted, request.training):
            if training_override:
                self.shadow.train(bool(request.training))
            with mode:
                with self.casting():
                    out = self.shadow(*args, **kwargs)
                if request.backward:
                    self._train(out)
        return out

    def casting(self) -> AbstractContextManager[Any]:
        """Autocast, where it was asked for: torch's own on a real device, its policy by hand on meta."""
        dtype = self.request.autocast
        if dtype is None:
            return nullcontext()
        if self.key == "AutogradMeta":
            return Autocast(dtype)
        return torch.autocast(self.key.removeprefix("Autograd").lower(), dtype=dtype)

    def _train(self, out: Any) -> None:
        rec, request = self.rec, self.request
        rec.phase = BACKWARD
        rec.stack.append(0)
        loss = request.loss(out) if request.loss is not None else _default_loss(out)
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            raise InputError(
                "There is nothing to run backward: no floating output depends on a trainable parameter. "
                "Unfreeze parameters, or pass loss= (a function of the output that returns a tensor)."
            )
        if loss.numel() != 1:
            loss = loss.float().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        parameters = [self.stand.stand_ins[k] for k, i in self.stand.infos.items() if i.kind == "parameter"]
        for parameter in parameters:
            if parameter.grad is not None and parameter.grad.layout is torch.strided:
                index = rec.by_address.get(parameter.grad.untyped_storage()._cdata)
                if index is not None:
                    rec.kinds[index] = "gradient"
        if request.optimizer is not None:
            self._step([p for p in parameters if p.requires_grad])

    def _step(self, parameters: list[Tensor]) -> None:
        self.rec.phase = OPTIMISER
        make = self.request.optimizer
        if isinstance(make, torch.optim.Optimizer):
            make = _factory_like(make, self.stand.stand_ins)
        optimizer = make(parameters)
        if not hasattr(optimizer, "step"):
            raise InputError(f"optimizer= must give an object with step(), e.g. torch.optim.AdamW; got {type(optimizer).__name__}.")
        optimizer.step()
        for state in getattr(optimizer, "state", {}).values():
            for _, tensor in given.tensors_in(state):
                index = self.rec.by_address.get(tensor.untyped_storage()._cdata)
                if index is not None:
                    self.rec.kinds[index] = "optimiser state"

    def trace(self, inputs: list[tuple[str, Any]], out: Any, notes: list[str]) -> Trace:
        """The finished record; the shadows are taken apart so that nothing keeps them alive."""
        self._kinds()
        self.rec.check_outputs(t for _, t in given.tensors_in(out))
        specs, ops, storages = self.rec.finished()
        self.dismantle()
        untraced = [
            {"op": op, "module": self.stand.modules[self.rec.calls[call].module].path, "call": call, "bytes": n}
            for (call, op), n in self.rec.untraced.items()
        ]
        return Trace(
            specs, ops, self.rec.calls, self.stand.modules, self.stand.tensors, storages, inputs,
            [tensor_spec(t) for _, t in given.tensors_in(out)], notes, untraced,
        )  # fmt: skip

    def dismantle(self) -> None:
        """Break the cycles between shadows and their doors, so that they go at once and not at some later collection."""
        for _, state, _ in self.stand.pending:
            state.clear()
        self.stand.boundary = self.shadow = None

    def _kinds(self) -> None:
        """What was born after the forward and is neither gradient nor state is temporary."""
        rec = self.rec
        after = next((i for i, op in enumerate(rec.ops) if op[2] != FORWARD), len(rec.ops))
        for index, (kind, born) in enumerate(zip(rec.kinds, rec.born)):
            if kind == "activation" and born >= after and after < len(rec.ops):
                rec.kinds[index] = "temporary"


def _on_meta(request: Request) -> Trace:
    """The run on shapes alone."""
    run = _Run(request, META)
    mode = Propagation(run.rec, run.values, memo=request.memo)
    try:
        keep = request.memo and not request.grad and request.dtype is None
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
                        run.values.note(_filled, (tuple(tensor.shape), tensor.dtype, tensor._rasp_fill), {}, (), made, (index,), ())  # type: ignore[attr-defined]
                elif tensor.device.type != "meta" and (not tensor.is_floating_point() or tensor.dim() == 0):
                    run.values.know(index, tensor.detach())
            noted.append((name, tensor_spec(made)))
            return made

        args = given.map_tensors(request.args, stand_in)
        kwargs = given.map_tensors(request.kwargs, stand_in)
        if run.stand.lazy:
            return _materialised(request, run, mode, args, kwargs)
        out = run.go(mode, args, kwargs, _overrides_train(run))
    except (Exception, DependsOnData) as error:
        raise _Stopped(error, _path(run)) from error
    finally:
        run.rec.closed = True
    if mode.adopted:
        places = sorted({run.stand.modules[int(i)].path or "the model itself" for i in mode.adopted if i})
        request.notes.append(f"Tensors from outside the model were met in {', '.join(places[:5])}: taken as constants.")
    request.notes.extend(_assumptions(run))
    run.stand.finished(request.model)
    return run.trace(noted, out, request.notes)


def _assumptions(run: _Run) -> list[str]:
    """One sentence for each thing that was assumed and that a branch of the model rested on."""
    places: dict[str, list[str]] = {}
    for what, where in sorted(run.values.assumptions):
        places.setdefault(what, []).append(run.stand.modules[int(where)].path or "the model itself" if where else "the model itself")
    return [
        f"{what} (in {', '.join(found[:3])}{f' and {len(found) - 3} more' if len(found) > 3 else ''})." for what, found in places.items()
    ]


def _filled(shape: tuple[int, ...], dtype: torch.dtype, value: int) -> Tensor:
    return torch.full(shape, value, dtype=dtype)


def _materialised(request: Request, run: _Run, mode: Propagation, args: Any, kwargs: Any) -> Trace:
    """Lazy modules find their shapes in a first, unrecorded run of the stand-ins; those are then captured."""
    run.go(mode, args, kwargs, _overrides_train(run))
    for _, state, _ in run.stand.pending:
        state.pop("_compiled_call_impl", None)
    if any(nn.parameter.is_lazy(p) for p in run.shadow.parameters()):
        request.notes.append("Some lazy modules were never called: their parameters are not known.")
        raise CaptureError("A lazy module is never called by the forward, so its parameters have no shape.")
    twin = Request(
        run.shadow, request.args, request.kwargs, request.training, request.backward, request.optimizer, request.loss,
        request.dtype, request.autocast, request.memo, request.notes,
    )  # fmt: skip
    return _on_meta(twin)


def _for_real(request: Request, device: torch.device | None) -> tuple[Trace, str]:
    """The run with data: on the device asked for, else where the model lives."""
    home = device or _home(request.model) or _input_home(request)
    run = _Run(request, device)
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
            raise CaptureError("A model with lazy modules cannot be run for real before its shapes are known: call it once first.")
        out = run.go(mode, args, kwargs, _overrides_train(run))
    except Exception as error:
        raise _Stopped(error, _path(run)) from error
    finally:
        run.rec.closed = True
        mode.put_back()
    return run.trace(noted, out, request.notes), str(home)


def _input_home(request: Request) -> torch.device:
    for _, tensor in given.tensors_in((request.args, request.kwargs)):
        if not given.is_made(tensor):
            return tensor.device
    return torch.device("cpu")


def _overrides_train(run: _Run) -> bool:
    """Whether a module has a train() of its own (frozen statistics, say), which then must be asked."""
    if run.request.training is None:
        return False
    return any(c.train is not nn.Module.train or c.eval is not nn.Module.eval for c in run.stand.classes)


def _factory_like(optimizer: torch.optim.Optimizer, stand_ins: dict[int, Tensor]) -> Callable[[list[Tensor]], Any]:
    """The user's own optimizer again, on the stand-ins, with the same groups and options."""
    groups = [
        {**{k: v for k, v in g.items() if k != "params"}, "params": [stand_ins[id(p)] for p in g["params"] if id(p) in stand_ins]}
        for g in optimizer.param_groups
    ]
    return lambda _: type(optimizer)(groups)  # type: ignore[call-arg,arg-type]


def _default_loss(out: Any) -> Any:
    """The mean of every floating output, in float32, added up; the state a model keeps for later (a cache) is no output."""
    parts = [t.float().mean() for _, t in given.tensors_in(out, objects=False) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _specs(value: Any) -> tuple[Any, ...]:
    """Specs of the tensors in a module call's arguments or results."""
    if value.__class__ is Tensor:
        return (tensor_spec(value),)
    if value.__class__ is tuple and len(value) == 1 and value[0].__class__ is Tensor:
        return (tensor_spec(value[0]),)
    return tuple(tensor_spec(t) for _, t in given.tensors_in(value, 32))


# -- what went wrong, and how it was run --------------------------------------------------------------------------------


def _path(run: _Run) -> str | None:
    return run.stand.modules[run.failed].path if run.failed is not None and run.failed < len(run.stand.modules) else None


def _line(error: BaseException) -> str | None:
    """The user's own line nearest to where an error came from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not any(s in f.filename.replace("\\", "/") for s in LIBRARY)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def _raised_by_model(error: BaseException) -> bool:
    """Whether the model itself raised (a `raise` or `assert` in its own code): a run with data would raise again."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or isinstance(error, (DependsOnData, NotImplementedError)) or "meta" in str(error).lower():
        return False
    last = frames[-1]
    return not any(s in last.filename for s in LIBRARY) and (last.line or "").lstrip().startswith(("raise", "assert"))


def _fall_back(stopped: _Stopped, request: Request, where: torch.device | None) -> dict[str, Any]:
    """Whether a real run may answer what shapes alone could not; the reason it is needed."""
    error, path = stopped.error, stopped.path
    if isinstance(error, RaspError):
        raise error
    if _raised_by_model(error):
        raise _model_error(stopped, request) from error
    needs_data = isinstance(error, DependsOnData)
    why = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
    reason = {
        "why": why,
        "op": error.op if isinstance(error, DependsOnData) else None,
        "module": path,
        "where": _line(error),
    }
    on_meta = any(t.device.type == "meta" for t in [*request.model.parameters(), *request.model.buffers()])
    fed_meta = any(t.device.type == "meta" and not given.is_made(t) for _, t in given.tensors_in((request.args, request.kwargs)))
    if where == META or on_meta or fed_meta:
        if not needs_data and not isinstance(error, NotImplementedError):
            raise _model_error(stopped, request) from error
        raise CaptureError(
            f"{type(request.model).__name__} cannot be run on shapes alone: {reason['why']} (module {path or 'root'!r}, {reason['where']}). "
            "A real run would answer it, but "
            + ("device='meta' was asked for." if where == META else "the model or its inputs are on the meta device and hold no data.")
        ) from error
    return reason


def _model_error(stopped: _Stopped, request: Request) -> RaspError:
    error = stopped.error
    if isinstance(error, RaspError):
        return error
    place = f" in module {stopped.path!r}" if stopped.path else ""
    fed = ", ".join(f"{n.split('.', 1)[-1]} {tuple(t.shape)} {str(t.dtype).removeprefix('torch.')}" for n, t in given.tensors_in((request.args, request.kwargs))[:4])
    first = str(error).strip().splitlines()[0] if str(error).strip() else "(no message)"
    return ModelError(
        f"{type(request.model).__name__} raised {type(error).__name__}{place}: {first} "
        f"[inputs: {fed or 'none'}]. If the model runs outside of rasp, check that the inputs are the same."
    )


def _described(request: Request, trace: Trace, how: str, device: str, reason: dict[str, Any] | None) -> dict[str, Any]:
    from .. import __version__

    return {
        "model": type(request.model).__name__,
        "capture_mode": how,
        "capture_reason": reason,
        "mode": {True: "train", False: "eval", None: "as-is"}[request.training],
        "device": device,
        "grad": request.grad,
        "dtype": str(request.dtype).removeprefix("torch.") if request.dtype else None,
        "autocast": str(request.autocast).removeprefix("torch.") if request.autocast else None,
        "inputs": [{"name": n, "shape": list(s.shape), "dtype": s.dtype} for n, s in trace.inputs],
        "environment": {"torch": torch.__version__, "python": platform.python_version(), "rasp": __version__},
    }
