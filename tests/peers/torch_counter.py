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
    return Printed(flops=counter.get_total_flops())
