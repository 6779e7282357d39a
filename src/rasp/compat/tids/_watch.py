"""What a model does while its user runs it: how long each module takes, and what it is given and returns.

Hooks are all that is left on the model meanwhile. They stand next to the forward, so that what other hooks do is not
part of the time. Counting needs no part in it: inputs are noted without their data, and counted when asked.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn

from ... import api
from ...capture.inputs import map_tensors
from ...capture.later import light
from ...capture.specs import structure
from ...conventions._torchinfo import Sized, sized
from ...profile import Profile
from ...records import TensorSpec, leaves
from .._clock import clock

CONVENTION = "deepspeed"


@dataclass
class Seen:
    """What is known of a module: seconds in all calls, and what the first was given and returned."""

    calls: int = 0
    seconds: float = 0.0
    given: Sized | None = None
    made: Sized | None = None


@dataclass
class Run:
    """A forward from outside, on inputs of this kind, and how often there was one."""

    module: nn.Module
    args: Any
    kwargs: Any
    training: tuple[bool, ...]
    times: int = 0


@dataclass
class _Open:
    """A call under way, with the frame of Python it runs in: one that is gone was interrupted."""

    module: nn.Module
    frame: FrameType
    run: tuple[Any, Run] | None = None  # of a call from outside, with the key of its kind
    started: float = 0.0


class _Thread(threading.local):
    """The calls under way, and the clock of the outermost: each thread's own."""

    def __init__(self) -> None:
        self.open: list[_Open] = []
        self.now: Callable[[], float] = time.perf_counter


class Watch:
    """Watches the modules of a model, but for those of a type to be ignored, until `stop`."""

    def __init__(self, model: nn.Module, ignored: Collection[type] = ()) -> None:
        watched = [module for module in model.modules() if type(module) not in ignored]
        self.seen = {id(module): Seen() for module in watched}
        self.runs: dict[Any, Run] = {}
        self._thread = _Thread()
        self._handles: list[Any] = []
        try:
            for module in watched:
                self._handles += [
                    module.register_forward_pre_hook(self._before, with_kwargs=True),
                    module.register_forward_hook(self._after, with_kwargs=True, prepend=True, always_call=True),
                ]
        except BaseException:
            self.stop()
            raise

    def __reduce__(self) -> Any:
        """In a copy of the model, one that watches nothing."""
        return Watch, (nn.Module(),)

    def of(self, module: nn.Module) -> Seen:
        return self.seen.get(id(module)) or Seen()

    def stop(self) -> None:
        """Take the hooks off; what was seen stays."""
        while self._handles:
            self._handles.pop().remove()
        self._thread = _Thread()

    def reset(self) -> None:
        """Forget what was seen."""
        self.seen, self.runs = {key: Seen() for key in self.seen}, {}

    def counted(self) -> list[tuple[Run, Profile]]:
        """Each kind of forward, counted."""
        return [(run, _count(run)) for run in self.runs.values()]

    # -- hooks -----------------------------------------------------------------------------------------------------

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen = self.seen.get(id(module))
        if seen is None:  # a twin of the module: a replica, or the stand-in it is counted with
            return
        mine, frame = self._thread, sys._getframe(1)
        while mine.open and not _leads_here(mine.open[-1].frame, frame):
            mine.open.pop()
        call = _Open(module, frame)
        if not mine.open:
            mine.now = clock(module)
            call.run = _noted(module, args, kwargs)
        if seen.given is None:
            seen.given = _sized(args)
        mine.open.append(call)
        call.started = mine.now()

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        mine, seen = self._thread, self.seen.get(id(module))
        if seen is None or not mine.open or mine.open[-1].module is not module:
            return
        now, call = mine.now(), mine.open.pop()
        if _failed(call):
            return
        seen.seconds += now - call.started
        seen.calls += 1
        if seen.made is None:
            seen.made = _sized(output)
        if call.run is not None:
            self.runs.setdefault(*call.run).times += 1


def _noted(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Run]:
    """The inputs as they are now, less their data; equal keys for what counts the same."""
    training = tuple(inner.training for inner in module.modules())
    specs: list[TensorSpec] = []

    def note(tensor: torch.Tensor, name: str) -> torch.Tensor:
        specs.extend(leaves(structure(tensor)))
        return light(tensor, name)

    given, named = map_tensors(args, note), map_tensors(kwargs, note)
    kind = (id(module), repr(structure(args)), repr(structure(kwargs)), tuple(specs), training)
    return kind, Run(module, given, named, training)


def _leads_here(frame: FrameType, here: FrameType | None) -> bool:
    """Whether a frame is among those that led here."""
    while here is not None and here is not frame:
        here = here.f_back
    return here is not None


def _failed(call: _Open) -> bool:
    """Whether this hook hears of an exception that ended the call."""
    error = sys.exc_info()[1]
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_frame is not call.frame:
        trace = trace.tb_next
    return trace is not None


def _sized(value: Any) -> Sized:
    """Of the first tensor, of a dict at the top the last."""
    found = structure(dict(value) if hasattr(value, "items") else value)
    return sized(found, tuple(leaves(found)))


def _count(run: Run) -> Profile:
    with _flags(run.module, run.training):
        return api.profile(run.module, run.args or None, kwargs=run.kwargs or None, mode="as-is", convention=CONVENTION)


@contextmanager
def _flags(module: nn.Module, training: tuple[bool, ...]) -> Iterator[None]:
    """The modes that the modules were in when they ran."""
    before = [(inner, inner.training) for inner in module.modules()]
    try:
        if len(before) == len(training):
            for (inner, _), flag in zip(before, training):
                inner.training = flag
        yield
    finally:
        for inner, flag in before:
            inner.training = flag
