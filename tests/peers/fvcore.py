"""fvcore, as its users run it."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "fvcore", "fvcore"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    from fvcore.nn import FlopCountAnalysis, parameter_count

    called: set[nn.Module] = set()
    hooks = [module.register_forward_pre_hook(lambda module, _: called.add(module)) for module in model.modules()]
    analysis = FlopCountAnalysis(model, inputs)
    total = analysis.total()
    for hook in hooks:
        hook.remove()
    layers = {name: flops for name, flops in analysis.by_module().items() if model.get_submodule(name) in called}
    return Printed(flops=total, params=parameter_count(model)[""], layers=layers)
