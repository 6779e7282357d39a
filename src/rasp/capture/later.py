"""The function level of a run that did not record it, recorded when it is asked for and the model is still there."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..records import FunctionCall, Trace
from . import inputs as given
from .run import capture

SMALL = 1  # elements of a floating tensor whose value a forward may ask for


def spelled_later(
    trace: Trace, model: nn.Module, inputs: Any, input_shape: Any, kwargs: Any, asked: dict[str, Any]
) -> Callable[[], list[FunctionCall] | None]:
    """A way to record the functions of this run: the same run again, on inputs of the same kind without their data."""
    if trace.functions is not None:
        return lambda: trace.functions
    ref = weakref.ref(model)
    bare, named = given.map_tensors(inputs, light), given.map_tensors(kwargs, light)

    def record() -> list[FunctionCall] | None:
        alive = ref()
        if alive is None:
            return None
        again, _ = capture(alive, bare, input_shape=input_shape, kwargs=named, functions=True, **asked)
        same = [(call.module, call.inputs) for call in again.calls] == [(c.module, c.inputs) for c in trace.calls]
        if not same:
            return None
        for module, described in zip(trace.modules, again.modules):
            module.extra = described.extra
        return again.functions

    return record


def light(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The tensor itself where its values may matter (ids, masks, scalars), else a stand-in of its shape."""
    nested = tensor.layout is not torch.strided or tensor.is_nested
    if nested or not tensor.is_floating_point() or tensor.numel() <= SMALL:
        return tensor
    return given.likeness(tensor)
