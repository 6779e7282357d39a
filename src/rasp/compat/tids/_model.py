"""get_model_profile: run a model, print DeepSpeed's report of it, and return its totals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from ...errors import InputError
from .profiler import TIDSProfiler

MODES = ("forward", "generate")


def get_model_profile(
    model: nn.Module,
    input_shape: Sequence[int] | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    print_profile: bool = True,
    detailed: bool = True,
    module_depth: int = -1,
    top_modules: int = 1,
    warm_up: int = 1,
    as_string: bool = True,
    output_file: str | Path | None = None,
    ignore_modules: Iterable[type] | None = None,
    mode: str = "forward",
) -> tuple[Any, Any, Any]:
    """Flops, MACs and parameters of one forward, in evaluation mode, after `warm_up` that are not timed."""
    if mode not in MODES:
        raise InputError(f"mode is 'forward' or 'generate'; got {mode!r}.")
    profiler = TIDSProfiler(model)
    given, named = tuple(args), dict(kwargs or {})
    if input_shape is not None:
        given = (_ones(model, input_shape), *given)
    if not given and not named:
        raise InputError("Give input_shape=(batch, …), or the inputs themselves as args=[…] or kwargs={…}.")
    run: Callable[..., Any] = model if mode == "forward" else _generate(model)
    flags = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            for _ in range(warm_up):
                run(*given, **named)
            profiler.start_profile(ignore_modules)
            run(*given, **named)
        profiler.stop_profile()
        found = tuple(ask(as_string) for ask in _totals(profiler))
        if print_profile:
            profiler.print_model_profile(warm_up, module_depth, top_modules, detailed, output_file)
    finally:
        profiler.end_profile()
        for module, flag in flags:
            module.training = flag
    return found[0], found[1], found[2]


def _generate(model: nn.Module) -> Callable[..., Any]:
    """What language models of transformers have beside their forward."""
    if not callable(getattr(model, "generate", None)):
        raise InputError(f"{type(model).__name__} has no generate(); leave mode out.")
    return cast(Callable[..., Any], model.generate)


def _totals(profiler: TIDSProfiler) -> tuple[Any, ...]:
    return profiler.get_total_flops, profiler.get_total_macs, profiler.get_total_params


def _ones(model: nn.Module, shape: Sequence[int]) -> torch.Tensor:
    """Ones, of the dtype and on the device of the model's first parameter of floats."""
    if not isinstance(shape, (tuple, list)) or not shape:
        raise InputError(f"input_shape is a tuple of sizes with the batch first; got {shape!r}.")
    first = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    return torch.ones(tuple(shape), dtype=first.dtype, device=first.device)
