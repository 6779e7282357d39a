"""The run of a model under a dispatch mode: module doors, forward, backward, optimiser step, and the Trace of them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from inspect import isgenerator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError
from ..records import ModuleCall, Trace
from . import inputs as given
from .autocast import Autocast
from .functions import Functions
from .fused_layers import fused_layers
from .guard import gradients_kept, training_flags
from .recorder import BACKWARD, FORWARD, OPTIMISER, Recorder
from .request import Request
from .routes import Lists, routed
from .specs import structure, tensor_spec
from .standin import StandIns
from .stepping import optimizer_of, supported_here
from .values import Values

Tensor = torch.Tensor


class Run:
    """The parts a run on meta and a real one share."""

    def __init__(self, request: Request, device: torch.device | None) -> None:
        self.request = request
        self.key = f"Autograd{(device or torch.device('cpu')).type.upper()}".replace("META", "Meta")
        self.rec = Recorder(grad=request.grad)
        self.values = Values()
        self.stand = StandIns(self.rec, self.values, device=device, dtype=request.dtype)
        self.failed: int | None = None
        self.shadow: Any = None
        self.functions = Functions(self.rec) if request.functions else None
        self.outputs: list[Any] = []
        self.held: Any = None  # what lives until the end: outputs of a forward alone, the optimizer of a step

    def boundary(self, shadow: Any, index: int) -> Any:
        """The callable at a module's door: opens a module call, runs it, closes it."""
        rec = self.rec
        calls, stack, ops = rec.calls, rec.stack, rec.ops
        quick = not rec.grad
        run = shadow._call_impl
        if self.request.checkpointed and self.stand.modules[index].path in self.request.checkpointed:
            run = partial(checkpoint, run, use_reentrant=False, preserve_rng_state=False)
        if self.request.probe is not None:
            run = self.request.probe.watched(run, lambda: stack[-1])
        count = 0

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            given: tuple[Any, ...] | None = None
            named: dict[str, Any] | None = None
            if len(args) == 1 and not kwargs and args[0].__class__ is Tensor:
                inputs: tuple[Any, ...] = (tensor_spec(args[0]),)
            else:
                inputs = specs_in((args, kwargs) if kwargs else args)
                given, named = structure(args), structure(kwargs) or None
            if quick:  # what rec.enter does, in place: a model calls thousands of modules
                start, opened = len(ops), len(calls)
                record = ModuleCall(index, stack[-1] if stack else -1, count, inputs, (), start, start, given, named)
                calls.append(record)
                stack.append(opened)
                count += 1
            else:
                opened = rec.enter(index, inputs, given, named)
            try:
                out = run(*args, **kwargs)
            except BaseException:
                if self.failed is None:
                    self.failed = index
                rec.leave(opened, ())
                raise
            outputs = (tensor_spec(out),) if out.__class__ is Tensor else specs_in(out)
            if quick:
                stack.pop()
                record.outputs, record.end = outputs, len(ops)
            else:
                rec.leave(opened, outputs)
            if not (out.__class__ is Tensor or (out.__class__ is tuple and out and out[0].__class__ is Tensor)):
                calls[opened].returned = structure(out)
            return out

        return call

    def go(self, mode: Any, args: tuple[Any, ...], kwargs: dict[str, Any], training_override: bool) -> None:
        """Forward, and where asked backward and an optimiser step, all under the mode.

        A training step is `loss(model(x)).backward()`: outputs that the loss does not need die before the backward.
        """
        request = self.request
        if self.functions is not None:
            self.stand.note_extras()
        recurrent = any(issubclass(c, nn.RNNBase) for c in self.stand.classes)
        with (
            routed(mode, key=self.key, recurrent=recurrent),
            fused_layers(getattr(mode, "ways", None)),
            torch.set_grad_enabled(request.grad),
            training_flags(self.stand.scripted, request.training),
        ):
            if training_override:
                self.shadow.train(bool(request.training))
            with mode:
                listening = self.functions.listening() if self.functions else nullcontext()
                with self.casting(), listening, Lists() if request.lists else nullcontext():
                    out = self.shadow(*args, **kwargs)
                    if isgenerator(out):  # its work is done when somebody asks for what it gives
                        out = list(out)
                found = [t for _, t in given.tensors_in(out)]
                self.rec.check_outputs(found)
                self.outputs = [tensor_spec(t) for t in found]
                if request.backward:
                    del found
                    loss = self._loss(out)
                    del out
                    self.rec.turn = len(self.rec.ops)
                    self._train(loss)
                else:
                    self.held = found

    def casting(self) -> AbstractContextManager[Any]:
        """Autocast, where it was asked for: torch's own on a real device, its policy by hand on meta."""
        dtype = self.request.autocast
        if dtype is None:
            return nullcontext()
        if self.key == "AutogradMeta":
            return Autocast(dtype)
        return torch.autocast(self.key.removeprefix("Autograd").lower(), dtype=dtype)

    def _loss(self, out: Any) -> Tensor:
        """The number to run backward from; its operators are part of the backward phase."""
        self.rec.phase = BACKWARD
        self.rec.stack.append(0)
        loss = self.request.loss(out) if self.request.loss is not None else default_loss(out)
        if self.request.loss is not None and not (isinstance(loss, Tensor) and loss.requires_grad):
            what = "a tensor that depends on no parameter" if isinstance(loss, Tensor) else type(loss).__name__
            raise InputError(
                f"loss= returned {what}, from which nothing can be run backward. "
                "Return a tensor computed from the output, with some parameter trainable: loss=lambda out: out.mean()."
            )
        if loss is None:
            raise InputError(
                "There is nothing to run backward: no floating output depends on a trainable parameter. "
                "Unfreeze parameters, or pass loss= (a function of the output that returns a tensor)."
            )
        return loss if loss.numel() == 1 else loss.float().mean()

    def _train(self, loss: Tensor) -> None:
        rec, request = self.rec, self.request
        with gradients_kept(loss, set(map(id, self.stand.stand_ins.values()))):
            loss.backward()  # type: ignore[no-untyped-call]
        places = {
            self.stand.stand_ins[k]: info.storage for k, info in self.stand.infos.items() if info.kind == "parameter"
        }
        for parameter, place in places.items():
            if parameter.grad is not None and parameter.grad.layout is torch.strided:
                rec.becomes(parameter.grad, "gradient", place)
        if request.optimizer is not None:
            self._step([p for p in places if p.requires_grad], places)

    def _step(self, parameters: list[Tensor], places: dict[Tensor, int]) -> None:
        self.rec.phase = OPTIMISER
        request = self.request
        with supported_here(as_on_cuda=request.ways is not None):
            optimizer = optimizer_of(request.optimizer, parameters, self.stand.stand_ins)
            optimizer.step()
        self.held = optimizer
        for parameter, state in getattr(optimizer, "state", {}).items():
            place = places.get(parameter) if isinstance(parameter, Tensor) else None
            for _, tensor in given.tensors_in(state):
                self.rec.becomes(tensor, "optimiser state", place)

    def trace(self, inputs: list[tuple[str, Any]], notes: list[str]) -> Trace:
        """The finished record; the shadows are taken apart so that nothing keeps them alive."""
        self._kinds()
        specs, ops, storages = self.rec.finished()
        self.dismantle()
        untraced = [
            {"op": op, "module": self.stand.modules[self.rec.calls[call].module].path, "call": call, "bytes": n}
            for (call, op), n in self.rec.untraced.items()
        ]
        return Trace(
            specs, ops, self.rec.calls, self.stand.modules, self.stand.tensors, storages, inputs,
            self.outputs, notes, untraced,
            None if self.functions is None else self.functions.found, self.rec.turn, self.rec.returned,
            self.rec.serves,
        )  # fmt: skip

    def dismantle(self) -> None:
        """Break the cycles between shadows and their doors, so that they go at once, not at a later collection."""
        for _, state, _ in self.stand.pending:
            state.clear()
        self.shadow = self.held = None
        del self.stand.boundary

    def _kinds(self) -> None:
        """What was born after the forward and is neither gradient nor state is temporary."""
        rec = self.rec
        after = next((i for i, op in enumerate(rec.ops) if op[2] != FORWARD), len(rec.ops))
        for index, (kind, born) in enumerate(zip(rec.kinds, rec.born)):
            if kind == "activation" and born >= after and after < len(rec.ops):
                rec.kinds[index] = "temporary"


def specs_in(value: Any) -> tuple[Any, ...]:
    """Specs of the tensors in a module call's arguments or results."""
    if value.__class__ is Tensor:
        return (tensor_spec(value),)
    if value.__class__ is tuple and len(value) == 1 and value[0].__class__ is Tensor:
        return (tensor_spec(value[0]),)
    return tuple(tensor_spec(t) for _, t in given.tensors_in(value, 32))


def default_loss(out: Any) -> Any:
    """The mean of every floating output, in float32, added up; the state a model keeps for later (a cache) is no
    output.
    """
    parts = [
        t.float().mean()
        for _, t in given.tensors_in(out, objects=False)
        if t.requires_grad and (t.is_floating_point() or t.is_complex())
    ]
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
