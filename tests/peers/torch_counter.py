"""torch, as its users run it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import Printed

CONVENTION, LIBRARY = "torch", "torch"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*inputs)
    root = type(model).__name__
    found = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items() if name != "Global"}
    # It names modules by class and place ("ResNet.layer1.0"); one called from outside its parent has another first word
    layers = {name[len(root) + 1 :]: count for name, count in found.items() if name.split(".")[0] == root}
    return Printed(flops=counter.get_total_flops(), layers=layers)
