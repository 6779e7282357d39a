"""What is timed: a stand-in of the user's model with data, whose doors can be opened and shut between runs.

The stand-ins are those of a capture: modules of the same classes that share the user's weights (or copies of them,
where the run writes them or another device or dtype is asked for). With its doors shut a run is exactly what the user's
own would be; open, each module's door notes when it is passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from ..capture import inputs as given
from ..capture.guard import leaves_of
from ..capture.recorder import Recorder
from ..capture.request import Request, home_of, input_home
from ..capture.running import default_loss
from ..capture.standin import StandIns, _Door
from ..capture.stepping import optimizer_of
from ..capture.values import Values
from ..devices import Device
from ..errors import CaptureError, InputError
from ..samples import milliseconds

Tensor = torch.Tensor
LEFT = -1  # in a log: a module was left


class Log:
    """What doors noted in one run: which module was entered (LEFT: one was left), and when."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.marks: list[Any] = []

    def clear(self) -> None:
        self.steps.clear()
        self.marks.clear()


class _Twins(StandIns):
    """Stand-ins with data of their own wherever a timed run writes."""

    copied = False  # parameters too

    def _for_real(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            found = super()._for_real(tensor)
            plain = tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_meta
            shared = plain and found.untyped_storage()._cdata == tensor.untyped_storage()._cdata
            return found.clone() if shared else found
        found = super()._for_real(tensor)
        return found.clone() if self.copied and found.device == tensor.device else found


class Subject:
    """A model ready to be run again and again on a device: `once` is one run, timed as a whole."""

    def __init__(
        self,
        request: Request,
        device: Device,
        *,
        copies: bool = False,
        channels_last: bool = False,
        copy_inputs: bool = False,
    ) -> None:
        self.request, self.device = request, device
        self.copy_inputs = copy_inputs
        self.place = torch.device(device.place)
        self.log = Log()
        self.doors: list[tuple[Any, Any]] = []
        self.foreign: list[tuple[Tensor, Any]] | None = None
        self.stand = _Twins(Recorder(grad=False), Values(), device=self.place, dtype=request.dtype)
        self.stand.copied = copies or request.optimizer is not None
        self._check_room()
        self._mark = quickest(device)
        self.model = self.stand.build(request.model, self._boundary, request.training)
        if self.stand.lazy:
            raise InputError("The model has lazy layers, without shapes yet: call it once before it is timed.")
        if request.training is not None and any(_trains(c) for c in self.stand.classes):
            self.model.train(request.training)
        if channels_last:
            self._channels_last()
        home = torch.device("cpu") if copy_inputs else self.place
        self.held = self._data((request.args, request.kwargs), home, channels_last)
        self.plain = _is_plain(self.held)
        self.optimizer = self._optimizer()
        self.shut()

    # -- making it -------------------------------------------------------------------------------------------------

    def _check_room(self) -> None:
        """A model that does not fit where it is to run cannot be timed there."""
        model = self.request.model
        tensors = [*model.parameters(), *model.buffers()]
        moved = sum(t.nbytes for t in tensors if t.device != self.place and t.layout is torch.strided)
        free = _free(self.place)
        if free is not None and moved > free:
            raise InputError(
                f"The model's {moved / 2**30:.1f} GiB do not fit into the {free / 2**30:.1f} GiB that are free on "
                f"{self.place}, so it cannot be timed there. Leave timing out to count it without memory."
            )

    def _boundary(self, shadow: Any, index: int) -> Callable[..., Any]:
        run, mark = shadow._call_impl, self._mark
        entered, passed = self.log.steps.append, self.log.marks.append

        def door(*args: Any, **kwargs: Any) -> Any:
            entered(index)
            passed(mark())
            try:
                return run(*args, **kwargs)
            finally:
                passed(mark())
                entered(LEFT)

        self.doors.append((shadow, door))
        return door

    def open(self) -> None:
        """From now on every module's door notes when it is passed."""
        for shadow, door in self.doors:
            if isinstance(shadow, _Door):
                shadow._boundary = door
            else:
                shadow.__dict__["_compiled_call_impl"] = door

    def shut(self) -> None:
        """No instrument: modules are called as torch calls them."""
        for shadow, _ in self.doors:
            if isinstance(shadow, _Door):
                shadow._boundary = shadow._call_impl
            else:
                shadow.__dict__.pop("_compiled_call_impl", None)

    def _channels_last(self) -> None:
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            if tensor.dim() in (4, 5):
                layout = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
                tensor.data = tensor.data.contiguous(memory_format=layout)

    def _data(self, held: Any, home: torch.device, channels_last: bool) -> Any:
        """The inputs with data, copies of the user's own, so that a forward that writes them leaves those alone."""

        def real(tensor: Tensor, name: str) -> Tensor:
            source = given.data_for(tensor, home) if given.is_made(tensor) else tensor.detach()
            if source.is_meta:
                raise InputError(f"Input {name} is on the meta device: give one with data, or input_shape=, to time.")
            dtype = self.request.dtype if self.request.dtype is not None and source.is_floating_point() else None
            made = source.to(home, dtype or source.dtype, copy=True)
            if channels_last and made.dim() in (4, 5):
                layout = torch.channels_last if made.dim() == 4 else torch.channels_last_3d
                made = made.contiguous(memory_format=layout)
            return made.requires_grad_() if tensor.requires_grad and tensor.is_leaf else made

        return given.map_tensors(held, real)

    def _optimizer(self) -> Any:
        if self.request.optimizer is None:
            return None
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        return optimizer_of(self.request.optimizer, parameters, self.stand.stand_ins)

    # -- running it ------------------------------------------------------------------------------------------------

    def once(self, model: Any = None) -> dict[str, float]:
        """One run; what it took in milliseconds, `whole` and its parts."""
        model = self.model if model is None else model
        args, kwargs = self.held if self.plain else given.map_tensors(self.held, lambda tensor, name: tensor)
        if self.request.backward:
            return self._step(model, args, kwargs)
        device = self.device
        device.synchronize()
        began = device.now()
        if self.copy_inputs:
            args, kwargs = given.map_tensors((args, kwargs), lambda tensor, name: tensor.to(self.place))
            copied = device.now()
        with torch.no_grad(), self._casting():
            out = model(*args, **kwargs)
        returned = device.now()
        device.synchronize()
        ended = device.now()
        del out
        found = {"whole": milliseconds(ended - began)}
        if self.copy_inputs:
            found["copy"] = milliseconds(copied - began)
        if device.asynchronous:
            found["host"] = milliseconds(returned - began)
        return found

    def _step(self, model: Any, args: Any, kwargs: Any) -> dict[str, float]:
        """A training step: gradients set to nothing, forward, loss and backward, the optimizer's step."""
        device, mark = self.device, self.device.mark
        if self.optimizer is None:
            self._forget_gradients()
        device.synchronize()
        began, first = device.now(), mark()
        if self.copy_inputs:
            args, kwargs = given.map_tensors((args, kwargs), lambda tensor, name: tensor.to(self.place))
        copied = mark()
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=True)
        cleared = mark()
        with torch.enable_grad():
            with self._casting():
                out = model(*args, **kwargs)
            forward = mark()
            passed = len(self.log.steps)
            loss = self._loss(out)
            if self.foreign is None:
                self._find_foreign(loss)
            loss.backward()  # type: ignore[no-untyped-call]
        del self.log.steps[passed:], self.log.marks[passed:]  # a checkpointed module is entered again in the backward
        backward = mark()
        if self.optimizer is not None:
            self.optimizer.step()
        returned, stepped = device.now(), mark()
        device.synchronize()
        ended = device.now()
        del out, loss
        seconds = device.seconds
        found = {
            "whole": milliseconds(ended - began),
            "forward": milliseconds(seconds(cleared, forward)),
            "backward": milliseconds(seconds(forward, backward)),
        }
        if self.optimizer is not None:
            found["optimiser"] = milliseconds(seconds(copied, cleared) + seconds(backward, stepped))
        if self.copy_inputs:
            found["copy"] = milliseconds(seconds(first, copied))
        if device.asynchronous:
            found["host"] = milliseconds(returned - began)
        return found

    def _casting(self) -> AbstractContextManager[Any]:
        lower = self.request.autocast
        return nullcontext() if lower is None else torch.autocast(self.place.type, dtype=lower)

    def _loss(self, out: Any) -> Tensor:
        loss = self.request.loss(out) if self.request.loss is not None else default_loss(out)
        if not isinstance(loss, Tensor) or not loss.requires_grad:
            raise InputError(
                "There is nothing to run backward: no floating output depends on a trainable parameter. "
                "Unfreeze parameters, or pass loss= (a function of the output that returns a tensor)."
            )
        return loss if loss.numel() == 1 else loss.float().mean()

    def _forget_gradients(self) -> None:
        for parameter in self.model.parameters():
            parameter.grad = None
        for leaf, _ in self.foreign or ():
            leaf.grad = None

    def _find_foreign(self, loss: Tensor) -> None:
        """Leaves that are no stand-ins (layers held by a closure): their gradients are the user's."""
        own = set(map(id, self.stand.stand_ins.values()))
        self.foreign = [(leaf, leaf.grad) for leaf in leaves_of(loss) if id(leaf) not in own]
        for leaf, _ in self.foreign:
            leaf.grad = None

    def watched(self) -> tuple[dict[str, float], list[tuple[int, float, int]]]:
        """One run with every door open: its times, and (module, milliseconds, how deep) of each call as it ended."""
        self.log.clear()
        try:
            found = self.once()
            return found, list(self._calls())
        finally:
            self.log.clear()

    def _calls(self) -> Any:
        """Calls in the order they began: (module, milliseconds, depth)."""
        seconds, marks = self.device.seconds, self.log.marks
        calls: list[Any] = []
        open_calls: list[tuple[int, int]] = []
        for step, mark in zip(self.log.steps, marks):
            if step != LEFT:
                open_calls.append((len(calls), len(calls)))
                calls.append((step, mark, len(open_calls) - 1))
            elif open_calls:
                at, _ = open_calls.pop()
                module, start, depth = calls[at]
                calls[at] = (module, milliseconds(seconds(start, mark)), depth)
        spare = getattr(self.device, "done_with", None)
        if spare is not None:
            spare(list(marks))
        return calls

    def close(self) -> None:
        """Give back what was the user's, and take the stand-ins apart."""
        for leaf, gradient in self.foreign or ():
            leaf.grad = gradient
        for _, state, _ in self.stand.pending:
            state.clear()
        self.doors.clear()
        self.optimizer = self.model = self.held = None


def check_data(model: nn.Module, device: Any) -> None:
    """A model without data cannot be timed, nor can one be timed on meta."""
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        raise InputError(
            "The model is on the meta device and holds no data, so there is nothing to time. Give it data "
            "(model.to_empty(device=...) and its weights), or leave timing out to count it."
        )
    if str(device).startswith("meta"):
        raise InputError("Nothing is computed on the meta device, so nothing can be timed there: give device='cpu'.")


def place_of(request: Request, device: Any) -> Any:
    """Where a model is timed: on the device asked for, else where it lives."""
    return device if device is not None else home_of(request.model) or input_home(request)


def quickest(device: Device) -> Callable[[], Any]:
    """The device's mark, without the layers of Python around it where it is the host's clock."""
    plain = type(device).mark is Device.mark and type(device).now is Device.now
    return time.perf_counter if plain else device.mark


def _trains(kind: Any) -> bool:
    """Whether a class has a train() of its own, which then must be asked."""
    return kind.train is not nn.Module.train or kind.eval is not nn.Module.eval


def _is_plain(held: Any) -> bool:
    """Whether inputs are tensors in plain containers: other objects (caches) may change in a run."""
    if isinstance(held, (list, tuple)) and type(held) in (list, tuple):
        return all(map(_is_plain, held))
    if type(held) is dict:
        return all(map(_is_plain, held.values()))
    return held is None or isinstance(held, (Tensor, int, float, bool, str, bytes, torch.dtype, torch.device))


def _free(place: torch.device) -> int | None:
    """Bytes that can be had on a device; None where it does not tell."""
    if place.type == "cuda":
        return int(torch.cuda.mem_get_info(place)[0])
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None


def failure(error: BaseException, request: Request, device: Device) -> CaptureError | None:
    """What a run out of memory is told as; None where the model's own error says it."""
    words = str(error).lower()
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "not enough memory" in words:
        return CaptureError(
            f"{type(request.model).__name__} with these inputs does not fit into the memory of {device.name}, so it "
            "cannot be timed there: take a smaller batch, or leave timing out to count it without memory."
        )
    return None
