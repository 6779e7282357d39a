"""deepspeed, as its users run it: get_model_profile leaves gradients on, as does a step of training."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "deepspeed", "deepspeed"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    """The totals, and of each module without modules inside what it accumulated in all its calls."""
    from deepspeed.profiling.flops_profiler import FlopsProfiler

    profiler = FlopsProfiler(model)
    profiler.start_profile()
    try:
        model(*inputs)
        leaves = {name: module for name, module in model.named_modules() if not list(module.children())}
        return Printed(
            flops=profiler.get_total_flops(),
            macc=profiler.get_total_macs(),
            params=profiler.get_total_params(),
            layers={name: module.__flops__ for name, module in leaves.items()},
        )
    finally:
        profiler.end_profile()
