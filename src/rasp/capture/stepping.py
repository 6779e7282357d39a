"""The optimizer of a training step, on the stand-ins of the parameters."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from ..errors import InputError, UnknownName

Tensor = torch.Tensor
FUSED, FOREACH = "_get_fused_kernels_supported_devices", "_get_foreach_kernels_supported_devices"
CAPTURABLE = "_get_capturable_supported_devices"


def optimizer_called(name: str) -> type[torch.optim.Optimizer]:
    """The class of torch.optim that a word names: 'adamw' → AdamW."""
    found = {
        kind.__name__.lower(): kind
        for kind in vars(torch.optim).values()
        if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
    }
    if name.lower() not in found:
        raise UnknownName("optimizer", name, found)
    return found[name.lower()]


def optimizer_of(given: Any, parameters: list[Tensor], stand_ins: dict[int, Tensor]) -> Any:
    """What `optimizer=` names (a class, a function of the parameters, or the user's own optimizer), on stand-ins."""
    made = _again(given, stand_ins) if isinstance(given, torch.optim.Optimizer) else given(parameters)
    if not hasattr(made, "step"):
        raise InputError(
            f"optimizer= must give an object with step(), e.g. torch.optim.AdamW; got {type(made).__name__}."
        )
    needed = [p.name for p in inspect.signature(made.step).parameters.values() if p.default is p.empty and p.kind < 2]
    if needed:
        raise InputError(
            f"{type(made).__name__}.step() needs {', '.join(needed)}: it runs the model several times within one step. "
            "Profile with backward=True and without optimizer=, and multiply by the number of evaluations."
        )
    return made


def _again(optimizer: torch.optim.Optimizer, stand_ins: dict[int, Tensor]) -> torch.optim.Optimizer:
    """The user's own optimizer again, with the same groups and options."""
    groups = [
        {
            **{k: v for k, v in g.items() if k != "params"},
            "params": [stand_ins[id(p)] for p in g["params"] if id(p) in stand_ins],
        }
        for g in optimizer.param_groups
    ]
    return type(optimizer)(groups)  # type: ignore[call-arg,arg-type]


@contextmanager
def supported_here(*, as_on_cuda: bool) -> Iterator[None]:
    """Fused optimizers refuse parameters on meta, where there is nothing to compute: let them through. As on CUDA, an
    optimizer that steps all parameters at once (foreach) there, where nothing else was asked for, does so here.
    """
    every = ["meta", "cpu"] if as_on_cuda else []
    more = {FUSED: ["meta"], FOREACH: every, CAPTURABLE: every}
    rooms = [room for name, room in sys.modules.items() if name.startswith("torch.optim.")]
    known = [(room, name, getattr(room, name)) for room in rooms for name in more if hasattr(room, name)]
    for room, name, ask in known:
        setattr(room, name, partial(_with_more, ask, more[name]))
    try:
        yield
    finally:
        for room, name, ask in known:
            setattr(room, name, ask)


def _with_more(ask: Any, more: list[str], *args: Any, **kwargs: Any) -> list[str]:
    return [*ask(*args, **kwargs), *more]
