"""ptflops, as its users run it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any
from unittest import mock

from torch import nn

from . import Printed

CONVENTION, LIBRARY = "ptflops", "ptflops"


def run(model: nn.Module, inputs: tuple[Any, ...]) -> Printed:
    from ptflops import get_model_complexity_info

    named = dict(zip(_names(model), inputs))
    with _watched(model) as layers:
        macs, params = get_model_complexity_info(
            model, (1,), input_constructor=lambda _: named if len(inputs) > 1 else inputs[0], as_strings=False,
            print_per_layer_stat=False, backend="pytorch", verbose=False,
        )  # fmt: skip
    if macs is None:
        raise RuntimeError("it gives None")
    whole = all(value == int(value) for value in layers.values())  # a part of an operation is nobody's
    return Printed(flops=macs, params=params, layers=layers if whole else {})


def _names(model: nn.Module) -> list[str]:
    return list(inspect.signature(model.forward).parameters)


@contextlib.contextmanager
def _watched(model: nn.Module) -> Iterator[dict[str, float]]:
    """Each layer's own sum as the tool adds it up, and the functions it counts while the layer runs.

    Layers below one that has a formula are not added, and functions are kept in one list without their layers: the
    layer that runs is told here, where the tool notes them. Layers that several modules hold are left out.
    """
    from ptflops import pytorch_engine

    paths = {module: path for path, module in model.named_modules()}
    running, functions, layers = [model], dict.fromkeys(model.modules(), 0), {}
    noted, averaged = pytorch_engine.torch_function_wrapper.__call__, pytorch_engine.compute_average_flops_cost

    def call(wrapper: Any, *args: Any, **kwargs: Any) -> Any:
        before = len(wrapper.collector)
        out = noted(wrapper, *args, **kwargs)
        functions[running[-1]] += wrapper.collector[before]
        return out

    def average(root: nn.Module) -> Any:
        found = averaged(root)
        several = {m for m in paths if sum(m is child for at in paths for child in at.children()) > 1}
        for module, path in paths.items():
            supported = pytorch_engine.is_supported_instance(module)
            if supported and not list(module.children()) and not several.intersection(_line(model, path)):
                below = any(pytorch_engine.is_supported_instance(m) for m in _line(model, path)[:-1])
                own = 0 if below else module.__flops__ / root.__batch_counter__
                layers[path] = own + functions[module]
        return found

    def leave(*_: Any) -> None:
        running.pop()

    hooks = [m.register_forward_pre_hook(lambda m, _: running.append(m)) for m in paths]
    hooks += [m.register_forward_hook(leave, prepend=True) for m in paths]
    with (
        mock.patch.object(pytorch_engine.torch_function_wrapper, "__call__", call),
        mock.patch.object(pytorch_engine, "compute_average_flops_cost", average),
    ):
        try:
            yield layers
        finally:
            for hook in hooks:
                hook.remove()


def _line(model: nn.Module, path: str) -> list[nn.Module]:
    """The modules from the model down to one of its layers."""
    names = path.split(".") if path else []
    return [model.get_submodule(".".join(names[:depth])) for depth in range(len(names) + 1)]
