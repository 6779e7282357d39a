"""Memory measured on a CUDA device: around each module call, and the most of a whole run without any instrument."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..capture import capture
from ..capture.inputs import arguments, data_for, is_made, map_tensors
from ..capture.request import device_of, home_of
from ..capture.running import default_loss
from ..capture.standin import unwrapped
from ..capture.stepping import optimizer_called, optimizer_of

Tensor = torch.Tensor


def cuda_of(model: nn.Module, device: Any) -> torch.device | None:
    """The CUDA device that a run would be on: the one asked for, else the model's own; None where it is another."""
    where = device_of(device) if device is not None else home_of(model) if isinstance(model, nn.Module) else None
    return where if where is not None and where.type == "cuda" else None


def measured_memory(
    model: nn.Module, device: torch.device, given: dict[str, Any], how: dict[str, Any]
) -> dict[str, Any]:
    """What a profile keeps of a measurement: readings of each module call, and the most of a whole run."""
    inner = unwrapped(model)
    args, kwargs = arguments(inner, given["inputs"], given["input_shape"], given["kwargs"], given["dtypes"])
    training = {"eval": False, "train": True, "as-is": None}[how["mode"] or ("train" if how["backward"] else "eval")]
    step = {"backward": how["backward"], "optimizer": how["optimizer"], "loss": how["loss"]}
    peaks = whole(inner, args, kwargs, device, training=training, **step)
    probe = Probe(device)
    capture(model, **given, **{**how, "optimizer": None, "backward": False}, device=device, probe=probe)
    name = f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    calls = {str(number): list(reading) for number, reading in sorted(probe.readings.items())}
    return {"device": name, "base": probe.base, "calls": calls, "whole": peaks}


class Probe:
    """Asks the allocator at the door of every module: `readings[call]` is (before, after, the most in between)."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.readings: dict[int, tuple[int, int, int]] = {}
        self.most: list[int] = []
        self.base = 0

    def watched(self, run: Callable[..., Any], opened: Callable[[], int]) -> Callable[..., Any]:
        """A module's forward, with a reading before and after; `opened` tells the number of its call."""

        def call(*args: Any, **kwargs: Any) -> Any:
            before = self._turn()
            if not self.most:
                self.base = before
            self.most.append(before)
            number = opened()
            try:
                return run(*args, **kwargs)
            finally:
                after = self._turn()
                most = self.most.pop()
                self.readings[number] = (before, after, most)
                if self.most:
                    self.most[-1] = max(self.most[-1], most)

        return call

    def _turn(self) -> int:
        """Allocated now; the most since the last turn goes to the module that is open, and a new maximum begins."""
        if self.most:
            self.most[-1] = max(self.most[-1], torch.cuda.max_memory_allocated(self.device))
        torch.cuda.reset_peak_memory_stats(self.device)
        return torch.cuda.memory_allocated(self.device)


def whole(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    device: torch.device,
    *,
    training: bool | None,
    backward: bool,
    optimizer: Any = None,
    loss: Callable[[Any], Tensor] | None = None,
) -> dict[str, int]:
    """The most allocated in a run of a copy of the model: `base` before it, `peak_first`, and `peak` of the second.

    A step before them warms up the libraries, whose workspaces then are part of the base.
    """
    twin = copy.deepcopy(model).to(device)
    if training is not None:
        twin.train(training)
    for parameter in twin.parameters():
        parameter.grad = None
    given = map_tensors((args, kwargs), lambda tensor, name: _data(tensor, device))

    def step(stepper: Any) -> None:
        twin.zero_grad(set_to_none=True)
        if not backward:
            with torch.no_grad():
                twin(*given[0], **given[1])
            return
        _loss(twin(*given[0], **given[1]), loss).backward()
        if stepper is not None:
            stepper.step()

    optimizer = optimizer_called(optimizer) if isinstance(optimizer, str) else optimizer
    twins: dict[int, Tensor] = dict(zip(map(id, model.parameters()), twin.parameters()))

    def made() -> Any:
        trained: list[Tensor] = [p for p in twin.parameters() if p.requires_grad]
        return None if optimizer is None else optimizer_of(optimizer, trained, twins)

    step(made())
    twin.zero_grad(set_to_none=True)
    gc.collect()
    torch.cuda.synchronize(device)
    found = {"base": torch.cuda.memory_allocated(device)}
    stepper = made()
    for name in ("peak_first", "peak"):
        torch.cuda.reset_peak_memory_stats(device)
        step(stepper)
        torch.cuda.synchronize(device)
        found[name] = torch.cuda.max_memory_allocated(device)
    return found


def _data(tensor: Tensor, device: torch.device) -> Tensor:
    return data_for(tensor, device) if is_made(tensor) else tensor.to(device)


def _loss(out: Any, loss: Callable[[Any], Tensor] | None) -> Any:
    found = loss(out) if loss is not None else default_loss(out)
    return found if found.numel() == 1 else found.float().mean()
