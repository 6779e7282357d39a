"""deepspeed, as its users run it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import Printed

CONVENTION, LIBRARY = "deepspeed", "deepspeed"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    from deepspeed.profiling.flops_profiler import FlopsProfiler

    profiler = FlopsProfiler(model)
    profiler.start_profile()
    try:
        with torch.no_grad():
            model(*inputs)
        return Printed(
            flops=profiler.get_total_flops(),
            macc=profiler.get_total_macs(),
            params=profiler.get_total_params(),
        )
    finally:
        profiler.end_profile()
