"""thoplw, as its users run it."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "thoplw-2024", "thoplw"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    import thoplw

    (tensor,) = inputs
    macs, params, found = thoplw.profile(model, tensor, verbose=False)
    layers = {name: log["macs"] for name, log in found.info if log["macs"] is not None}
    return Printed(flops=macs, params=params, layers=layers)
