"""ptflops, as its users run it."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "ptflops", "ptflops"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    from ptflops import get_model_complexity_info

    named = dict(zip(_names(model), inputs))
    macs, params = get_model_complexity_info(
        model, (1,), input_constructor=lambda _: named if len(inputs) > 1 else inputs[0], as_strings=False,
        print_per_layer_stat=False, backend="pytorch", verbose=False,
    )  # fmt: skip
    if macs is None:
        raise RuntimeError("it gives None")
    return Printed(flops=macs, params=params)


def _names(model: nn.Module) -> list[str]:
    return list(inspect.signature(model.forward).parameters)
