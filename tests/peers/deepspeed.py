"""deepspeed, as its users run it: get_model_profile leaves gradients on, as does a step of training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from . import Printed

CONVENTION, LIBRARY = "deepspeed", "deepspeed"


@contextmanager
def profiled(model: nn.Module) -> Iterator[Any]:
    """The profiler while it listens; methods of Tensor that it leaves behind go with it."""
    from deepspeed.profiling.flops_profiler import FlopsProfiler

    before = set(vars(torch.Tensor))
    profiler = FlopsProfiler(model)
    try:
        profiler.start_profile()
        yield profiler
    finally:
        profiler.end_profile()
        for name in set(vars(torch.Tensor)) - before:
            delattr(torch.Tensor, name)


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    """The totals, and of each module without modules inside what it accumulated in all its calls."""
    with profiled(model) as profiler:
        model(*inputs)
        leaves = {name: module for name, module in model.named_modules() if not list(module.children())}
        return Printed(
            flops=profiler.get_total_flops(),
            macc=profiler.get_total_macs(),
            params=profiler.get_total_params(),
            layers={name: module.__flops__ for name, module in leaves.items()},
        )
