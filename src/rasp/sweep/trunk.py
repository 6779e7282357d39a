"""A model up to one of its layers: what comes after is neither run nor counted."""

from __future__ import annotations

from typing import Any

from torch import nn

from .. import zoo
from ..errors import InputError, UnknownName
from ..profile import Profile

AUTO = "auto"  # in place of a layer: the trunk that a built-in model has in the reports of convnet-burden


def own_trunk(model: nn.Module, words: str | None) -> nn.Module:
    """The part of a built-in model that its reference names as its trunk."""
    trunk = zoo.get(words).trunk if words is not None and words in zoo.REFERENCES else None
    if trunk is None:
        title = words or type(model).__name__
        raise InputError(f"{title} has no trunk of its own: name the layer up to which it is run.")
    return trunk(model)


class _Reached(BaseException):
    """The layer's output, on its way out of the model."""

    def __init__(self, output: Any) -> None:
        self.output = output


class Trunk(nn.Module):
    """Runs a model until the last of a layer's modules has answered; its output is that layer's."""

    def __init__(self, model: nn.Module, layer: str) -> None:
        super().__init__()
        self.model = model
        self.layer = layer
        _find(model, layer).register_forward_hook(_reach)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        try:
            self.model(*args, **kwargs)
        except _Reached as reached:
            return reached.output
        raise InputError(f"The layer {self.layer!r} was never called, so there is no trunk up to it.")

    def drop(self, profile: Profile) -> bool:
        """Take away the layers that did not run, so that their parameters do not count; whether there were any."""
        unused = [row["name"].strip(".") for row in profile.rows(columns=["name"]) if row["kind"] == "uncalled"]
        for path in unused:
            parent, _, name = path.rpartition(".")
            place = self.get_submodule(parent)
            if name in place._modules:
                place._modules[name] = nn.Identity()
        return bool(unused)


def _reach(module: nn.Module, args: Any, output: Any) -> None:
    raise _Reached(output)


def _find(model: nn.Module, layer: str) -> nn.Module:
    known = dict(model.named_modules())
    if layer not in known or not layer:
        raise UnknownName("layer", layer, [name for name in known if name])
    found: nn.Module = known[layer]
    return found
