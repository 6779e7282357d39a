"""fvcore, as its users run it."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "fvcore", "fvcore"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    from fvcore.nn import FlopCountAnalysis, parameter_count

    analysis = FlopCountAnalysis(model, inputs)
    return Printed(flops=analysis.total(), params=parameter_count(model)[""])
