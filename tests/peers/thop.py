"""thop, as its users run it."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "thop", "thop"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    import thop

    macs, params = thop.profile(model, inputs, verbose=False)
    return Printed(flops=macs, params=params)
