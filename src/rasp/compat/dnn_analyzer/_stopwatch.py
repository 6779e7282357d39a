"""How long each call of a layer takes: wall time in one forward on the model's own device, after one to warm up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ...capture.guard import training_flags, untouched
from ...capture.standin import unwrapped
from .._clock import clock


class NotRun(Exception):
    """Why a model could not be run for real."""


def shares(model: nn.Module, shape: tuple[int, ...], paths: Sequence[str]) -> list[float]:
    """Each call's part of all durations; `paths` are the modules called, in the order the calls ended."""
    model = unwrapped(model)
    tensors = list(chain(model.parameters(), model.buffers()))
    if any(map(is_lazy, tensors)):
        raise NotRun("the model has lazy layers, which a forward would initialise")
    if any(tensor.is_meta for tensor in tensors):
        raise NotRun("the model is on the meta device, without values")
    device = tensors[0].device if tensors else torch.device("cpu")
    floats = (tensor.dtype for tensor in tensors if tensor.is_floating_point())
    inputs = torch.rand(shape, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
    inputs = inputs.to(device, next(floats, torch.float32))
    found = _timed(model, inputs, set(paths), clock(model))
    if [path for path, _ in found] != list(paths):
        raise NotRun("its layers ran in another order, or others ran, than when they were counted")
    whole = sum(seconds for _, seconds in found)
    return [seconds / whole if whole else 1 / len(found) for _, seconds in found]


def _timed(
    model: nn.Module, inputs: torch.Tensor, paths: set[str], clock: Callable[[], float]
) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    with untouched(), training_flags([model], False), _buffers_kept(model), torch.no_grad():  # noqa: FBT003
        try:
            model(inputs)
            with ExitStack() as hooks:
                for path, module in model.named_modules():
                    if path in paths:
                        for handle in _watched(module, path, clock, found):
                            hooks.callback(handle.remove)
                model(inputs)
        except Exception as error:
            raise NotRun(f"run for real, the model raised {type(error).__name__}: {error}") from error
    return found


def _watched(module: nn.Module, path: str, clock: Callable[[], float], found: list[tuple[str, float]]) -> Iterator[Any]:
    """Hooks next to the forward: what other hooks do is not part of the time."""
    started: list[float] = []

    def before(*_: Any) -> None:
        started.append(clock())

    def after(*_: Any) -> None:
        found.append((path, clock() - started.pop()))

    yield module.register_forward_pre_hook(before)
    yield module.register_forward_hook(after, prepend=True)


@contextmanager
def _buffers_kept(model: nn.Module) -> Iterator[None]:
    """Put back what a forward writes into buffers, and the buffers it replaces."""
    kept = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        for module, name, buffer, before in kept:
            module._buffers[name] = buffer
            if not torch.equal(buffer, before):
                buffer.copy_(before)
