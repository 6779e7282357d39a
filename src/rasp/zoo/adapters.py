"""Words that name a model → the model: 'resnet', 'torchvision:resnet50', 'timm:…', 'hf:config.json', 'pkg.mod:factory'.

A Source knows how to build its model and, where the origin says so, which inputs it takes. Models of known origin are
built on the meta device (no memory, no initialisation); a factory of the user's own is called as it is.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from ..errors import InputError, ModelError, RaspError, UnknownName
from . import REFERENCES, Reference, get
from . import load as load_zoo
from ._transformers import default_inputs

GRAMMAR = (
    "a built-in name (rasp zoo), torchvision:NAME, timm:NAME, hf:CONFIG.json, package.module:factory, file.py:factory "
    "or a saved profile.json"
)


@dataclass(frozen=True)
class Source:
    """Where a model comes from. `given(batch)` are inputs to use when none are named, as keywords of rasp.profile."""

    title: str
    build: Callable[..., nn.Module]
    given: Callable[[int], dict[str, Any]] | None = None
    virtual: bool = False  # may be built on the meta device
    as_list: bool = False  # takes a list of images, as detectors do
    family: str = ""  # models of one family are joined in pictures

    def taking(self, shapes: dict[str, Any]) -> dict[str, Any]:
        """Inputs of these shapes, as keywords of rasp.profile: for a detector a list of images."""
        if not self.as_list:
            return shapes
        given = shapes["input_shape"]
        images = [given] if isinstance(given, tuple) else [*given]
        return {"inputs": [torch.rand(shape[-3:]) for shape in images]}

    def model(self, *, virtual: bool, **kwargs: Any) -> nn.Module:
        """Build the model, on meta where it lets itself be; whatever it raises becomes a ModelError."""
        try:
            if virtual and self.virtual:
                with torch.device("meta"):
                    made = self.build(**kwargs)
            else:
                made = self.build(**kwargs)
        except RaspError:
            raise
        except Exception as error:
            if virtual and self.virtual:
                return self.model(virtual=False, **kwargs)
            raise ModelError(f"{self.title} could not be built: {type(error).__name__}: {error}") from error
        if not isinstance(made, nn.Module):
            raise InputError(f"{self.title} gave a {type(made).__name__}; it must give a torch.nn.Module.")
        return made


def source(name: str) -> Source:
    """The Source a model's name speaks of."""
    origin, colon, rest = name.partition(":")
    if colon and origin in ORIGINS:
        return ORIGINS[origin](rest)
    if colon:
        file, _, factory = name.rpartition(":")
        return _factory(name, file, factory)
    load_zoo()
    if name in REFERENCES:
        reference = get(name)
        given = partial(_usual, reference)
        return Source(name, reference.build, given, virtual=True, family=reference.family)
    known = UnknownName("built-in model", name, REFERENCES)
    raise InputError(f"{known} A model is {GRAMMAR}.") from None


def _usual(reference: Reference, batch: int) -> dict[str, Any]:
    return {"inputs": reference.inputs(batch)}


# -- torchvision -------------------------------------------------------------------------------------------------------


SIZES: dict[str, tuple[int, ...]] = {
    "segmentation": (3, 520, 520),
    "detection": (3, 480, 640),
    "optical_flow": (3, 520, 960),
}


def _torchvision(name: str) -> Source:
    models = _library("torchvision.models", "torchvision")
    if name not in models.list_models():
        raise UnknownName("torchvision model", name, models.list_models())
    family = models.get_model_builder(name).__module__.removeprefix("torchvision.models.").partition(".")[0]
    shape = _clip(name) if family == "video" else SIZES.get(family) or _crop(models, name)
    extra: dict[str, Any] = {"weights_backbone": None} if family in ("segmentation", "detection") else {}
    if name in ("googlenet", "inception_v3"):
        extra["init_weights"] = False

    def build(**kwargs: Any) -> nn.Module:
        made: nn.Module = models.get_model(name, weights=None, **{**extra, **kwargs})
        return made

    def given(batch: int) -> dict[str, Any]:
        if family == "detection":
            return {"inputs": [torch.rand(shape) for _ in range(batch)]}
        one = (batch, *shape)
        return {"input_shape": [one, one] if family == "optical_flow" else one}

    boxes = family == "detection"
    return Source(f"torchvision:{name}", build, given, virtual=not boxes, as_list=boxes, family=family)


def _crop(models: Any, name: str) -> tuple[int, ...]:
    """Channels, height and width of a classifier's image: the smallest crop that its published weights were made for.

    Weights fine-tuned on larger images need a model built for those.
    """
    presets = (weights.transforms for weights in models.get_model_weights(name))
    crops = [preset.keywords.get("crop_size", 224) for preset in presets if hasattr(preset, "keywords")]
    side = min(crops, default=224)
    return 3, side, side


def _clip(name: str) -> tuple[int, ...]:
    """Channels, frames, height and width of a video model's clip."""
    return (3, 16, 112, 112) if name.startswith(("r3d", "mc3", "r2plus1d")) else (3, 16, 224, 224)


# -- timm --------------------------------------------------------------------------------------------------------------


def _timm(name: str) -> Source:
    timm = _library("timm", "timm")
    if not timm.is_model(name):
        raise UnknownName("timm model", name, timm.list_models())

    def build(**kwargs: Any) -> nn.Module:
        made: nn.Module = timm.create_model(name, pretrained=False, **kwargs)
        return made

    def given(batch: int) -> dict[str, Any]:
        config = timm.get_pretrained_cfg(name)
        return {"input_shape": (batch, *(config.input_size if config is not None else (3, 224, 224)))}

    return Source(
        f"timm:{name}", build, given, virtual=True, family=timm.model_entrypoint(name).__module__.rpartition(".")[2]
    )


# -- transformers ------------------------------------------------------------------------------------------------------


def _hugging_face(path: str) -> Source:
    """A model from a local config.json (or a folder with one), with random weights: nothing is downloaded."""
    transformers = _library("transformers", "transformers")
    if not Path(path).exists():
        raise InputError(f"There is no file or folder {path}. hf: takes a local config.json; nothing is downloaded.")
    try:
        config = transformers.AutoConfig.from_pretrained(path)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not a configuration that transformers reads: {error}") from error
    named = [getattr(transformers, word, None) for word in getattr(config, "architectures", None) or ()]

    def build(**kwargs: Any) -> nn.Module:
        for key, value in kwargs.items():
            setattr(config, key, value)
        made: nn.Module = named[0](config) if named and named[0] else transformers.AutoModel.from_config(config)
        return made

    def given(batch: int) -> dict[str, Any]:
        return default_inputs(config, _class(transformers, config, named), batch)

    family = str(getattr(config, "model_type", ""))
    return Source(f"hf:{path}", build, given, virtual=True, family=family)


def _class(transformers: Any, config: Any, named: list[Any]) -> Any:
    """The class that a configuration's model is built from."""
    if named and named[0]:
        return named[0]
    try:
        return transformers.AutoModel._model_mapping[type(config)]
    except KeyError:
        raise InputError(f"transformers has no model for a configuration of type {type(config).__name__}.") from None


# -- factories of the user's own ---------------------------------------------------------------------------------------


def _factory(name: str, place: str, attribute: str) -> Source:
    """An importable or filed factory, class or ready model."""
    module = _from_file(place) if place.endswith(".py") else _from_package(place)
    found: Any = module
    for word in attribute.split("."):
        if not hasattr(found, word):
            known = [key for key in vars(module) if not key.startswith("_")]
            raise UnknownName(f"model in {place}", attribute, known)
        found = getattr(found, word)
    if isinstance(found, nn.Module):
        return Source(name, lambda: found)
    if not callable(found):
        raise InputError(f"{name} is a {type(found).__name__}; it must be a function or class that gives a model.")
    return Source(name, found)


def _from_package(place: str) -> ModuleType:
    with _importing(place, Path.cwd()):
        return importlib.import_module(place)


def _from_file(place: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        raise InputError(f"There is no file {place}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{place} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    with _importing(place, path.resolve().parent):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _importing(place: str, folder: Path) -> Iterator[None]:
    """Modules beside the model's own can be imported; what an import raises becomes a ModelError."""
    sys.path.insert(0, str(folder))
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModelError(f"{place} could not be imported: there is no module {error.name!r}.") from error
    except Exception as error:
        raise ModelError(f"{place} could not be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(folder))


def _library(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ModelError(
            f"{package} is not installed, so its models cannot be built: pip install {package}."
        ) from error


ORIGINS: Mapping[str, Callable[[str], Source]] = {"torchvision": _torchvision, "timm": _timm, "hf": _hugging_face}
