"""fvcore, as its users run it."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "fvcore", "fvcore"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    from fvcore.nn import FlopCountAnalysis, parameter_count

    analysis = FlopCountAnalysis(model, inputs)
    total = analysis.total()
    layers = {name: flops for name, flops in analysis.by_module().items() if _callable(model.get_submodule(name))}
    return Printed(flops=total, params=parameter_count(model)[""], layers=layers)


def _callable(module: nn.Module) -> bool:
    """Lists of modules are no rows of their own."""
    return type(module).forward is not nn.Module.forward
