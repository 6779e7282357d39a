"""Costs that the user's own functions give: they are called in a real forward, with the real layers and tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ...capture.guard import untouched
from ...errors import InputError

CustomOp = Callable[[nn.Module, tuple[Any, ...], Any], "int | None"]


def answers(model: nn.Module, tensor: Any, custom_ops: Mapping[type[nn.Module], CustomOp]) -> dict[str, int | None]:
    """What each custom operation says of the last call of each module of exactly its class, by the module's name."""
    found: dict[str, int | None] = {}

    def listen(name: str, function: CustomOp) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def hook(layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            found[name] = _number(function(layer, inputs, output), type(layer))

        return hook

    wanted = {name: module for name, module in model.named_modules() if type(module) in custom_ops}
    with untouched(), _evaluating(model), torch.no_grad():
        handles = [m.register_forward_hook(listen(name, custom_ops[type(m)])) for name, m in wanted.items()]
        try:
            model(*_where_it_lives(model, tensor))
        finally:
            for handle in handles:
                handle.remove()
    return found


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, with every module's own flag put back after."""
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, flag in flags:
            module.training = flag


def _where_it_lives(model: nn.Module, tensor: Any) -> tuple[Any, ...]:
    """The input on the device of the model's first parameter or buffer."""
    home = next((t.device for tensors in (model.parameters(), model.buffers()) for t in tensors), None)
    given = tuple(tensor) if isinstance(tensor, (tuple, list)) else (tensor,)
    return tuple(x.to(home) if isinstance(x, torch.Tensor) else x for x in given)


def _number(value: Any, kind: type) -> int | None:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if value is None or isinstance(value, (int, float)):
        return int(value) if isinstance(value, float) and value.is_integer() else value  # type: ignore[return-value]
    raise InputError(f"The custom operation of {kind.__name__} gave {value!r}: it must give a number, or None.")
