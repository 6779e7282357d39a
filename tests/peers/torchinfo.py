"""torchinfo, as its users run it."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "torchinfo", "torchinfo"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    import torchinfo

    found = torchinfo.summary(model, input_data=inputs, verbose=0)
    paths = {id(module): path for path, module in model.named_modules()}
    layers: dict[str, int | float] = {}
    for row in found.summary_list:
        if row.is_leaf_layer:
            layers[paths[row.layer_id]] = layers.get(paths[row.layer_id], 0) + row.macs
    return Printed(flops=found.total_mult_adds, params=found.total_params, layers=layers)
