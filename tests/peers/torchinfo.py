"""torchinfo, as its users run it."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "torchinfo", "torchinfo"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    import torchinfo

    found = torchinfo.summary(model, input_data=inputs, verbose=0)
    return Printed(flops=found.total_mult_adds, params=found.total_params)
