"""thop, as its users run it."""

from __future__ import annotations

from typing import Any

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "thop", "thop"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    import thop

    macs, params, below = thop.profile(model, inputs, verbose=False, ret_layer_info=True)
    return Printed(flops=macs, params=params, layers=dict(_layers(model, below)))


def _layers(model: nn.Module, below: dict[str, Any]) -> list[tuple[str, float]]:
    """By path; only where no module has two parents, under each of which it would be told of."""
    names = [name for name, _ in model.named_modules(remove_duplicate=False)]
    if len(names) != len(list(model.modules())):
        return []
    return list(_walk(below, ""))


def _walk(below: dict[str, Any], prefix: str) -> Any:
    for name, (macs, _, deeper) in below.items():
        if not deeper:  # containers sum what is below, also those that are never called themselves
            yield prefix + name, macs
        yield from _walk(deeper, f"{prefix}{name}.")
