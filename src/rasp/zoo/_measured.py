"""Models run on shapes alone, for the published pages: their layers, their totals, and their cost at other sizes."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from ..capture import capture
from ..conventions import get as convention
from ..errors import InputError, RaspError
from ..pages import Layer, Point, Subject
from ..profile import Profile
from . import HALVES, Reference
from ._published import PUBLISHED
from ._sizes import CONVENTION, scaled_size, sweep

UP_TO_FEATURES = "the network up to its last map of features, whose size is given"
SWEEPS, RESULTS = "burden_sweeps.csv", "thoplw_results.csv"
# The first layer with parameters → inputs that it takes: shape without batch, and whether they are indices.
GUESSED: dict[str, Callable[[Any], tuple[tuple[int, ...], bool]]] = {
    "Conv1d": lambda layer: ((layer.in_channels, 1024), False),
    "Conv2d": lambda layer: ((layer.in_channels, 224, 224), False),
    "Conv3d": lambda layer: ((layer.in_channels, 16, 112, 112), False),
    "Linear": lambda layer: ((layer.in_features,), False),
    "Embedding": lambda layer: ((128,), True),
}
THOPLW_FAMILIES = (  # how the seed's picture joins the models, by how their names start
    ("alexnet", "AlexNet"), ("vgg", "VGG"), ("resnet", "ResNet"), ("wide_resnet", "WideResNet"), ("resnext", "ResNeXt"),
    ("densenet", "DenseNet"), ("googlenet", "Inception"), ("inception", "Inception"), ("squeezenet", "SqueezeNet"),
    ("mobilenet_v2", "MobileNet V2"), ("mobilenet_v3", "MobileNet V3"), ("shufflenet", "ShuffleNet"),
    ("mnasnet", "MNASNet"),
)  # fmt: skip


@cache
def told(name: str) -> list[dict[str, str]]:
    """The rows of a model's published report."""
    with (PUBLISHED / SWEEPS).open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["model"] == name]


def layers(profile: Profile) -> list[Layer]:
    """The layers as convention burden holds a network, in the order they run; parameters where they are first met."""
    ledger = profile.view(CONVENTION).ledger
    charges, modules = convention(CONVENTION).charges, profile.trace.modules
    held = {charge.module: charge.amount for charge in charges["param_mem"](ledger) if charge.amount}
    names = {charge.module: modules[charge.module].path for charge in charges["param_mem"](ledger)}
    found = []
    for work, memory in zip(charges["flops"](ledger), charges["feat_mem"](ledger), strict=True):
        name = names.get(work.module, "")
        found.append(Layer(name, work.kind, held.pop(work.module, 0), memory.amount, work.amount))
    left = (Layer(names[module], f"{modules[module].type}, not run", size, 0, 0) for module, size in held.items())
    return [*found, *left]


def subject(profile: Profile, name: str, family: str, task: str, shape: str, **more: Any) -> Subject:
    """A run's numbers as the pages take them."""
    totals = {column: profile.total(column, CONVENTION) for column in ("param_mem", "feat_mem")}
    return Subject(
        name=name,
        family=family,
        task=task,
        input=shape,
        params=profile.total("params"),
        macs=profile.total("macs"),
        flops=profile.total("flops"),
        fused=profile.total("flops", CONVENTION),
        layers=layers(profile),
        **totals,
        **more,
    )


def of_reference(item: Reference) -> Subject:
    """A model of the zoo, with what was published of it."""
    with torch.device("meta"):
        model = item.build()
    inputs = item.inputs()
    profile = Profile(*capture(model, inputs, functions=True))
    burden = item.convention == CONVENTION
    image = isinstance(inputs[0], torch.Tensor) and inputs[0].dim() == 4
    return subject(
        profile,
        item.name,
        item.family,
        item.task,
        " × ".join(str(side) for side in item.size),
        sweep=sweep(item, 1) if image else (),
        swept=UP_TO_FEATURES if item.trunk is not None else "the whole model",
        printed=item.published if burden else {},
        told=told(item.name),
        errors=item.errors,
        citation=item.citation,
        source=item.source,
    )


# -- models of the user's own ------------------------------------------------------------------------------------------


def of_words(words: str, shape: Sequence[int] | None = None) -> Subject:
    """Any model that words can name, at the inputs it tells, or that are given, or that its first layer takes."""
    from .adapters import source

    origin = source(words)
    model = origin.model(virtual=True)
    taken = _taken(origin, model, shape)
    profile = Profile(*capture(model, **taken, functions=True))
    shown = [spec.shape for _, spec in profile.trace.inputs]
    return subject(
        profile,
        words,
        origin.family or words.rpartition(":")[2],
        "",
        "; ".join("×".join(str(n) for n in one) for one in shown),
        sweep=list(_resized(model, taken)) if profile.capture_mode == "meta" else (),
        swept="the whole model",
    )


def _taken(origin: Any, model: nn.Module, shape: Sequence[int] | None) -> dict[str, Any]:
    """The inputs of a run, as keywords of capture."""
    if shape is not None:
        return dict(origin.taking({"input_shape": tuple(shape)}))
    if origin.given is not None:
        return dict(origin.given(1))
    first = next((m for m in model.modules() if list(m.parameters(recurse=False))), None)
    guess = GUESSED.get(type(first).__name__)
    if guess is None:
        raise InputError(f"{origin.title} does not tell its inputs: give their shape with -i, as in -i 1,3,224,224.")
    one, indices = guess(first)
    return {"input_shape": (1, *one), "dtypes": torch.int64 if indices else None}


def _resized(model: nn.Module, taken: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The whole model's cost for one image of other sizes, or why it takes none of that size."""
    shape = taken.get("input_shape")
    if not isinstance(shape, tuple) or len(shape) != 4:
        return
    for scale in HALVES:
        height, width = scaled_size(shape[2:], scale)
        row: dict[str, Any] = {"input_h": height, "input_w": width}
        try:
            profile = Profile(*capture(model, input_shape=(*shape[:2], height, width), functions=True))
        except RaspError as error:
            yield {**row, "reason": str(error).partition("\n")[0].partition(" [inputs: ")[0]}
            continue
        row |= {name: profile.total(name, CONVENTION) for name in ("feat_mem", "flops")}
        yield row


# -- thoplw's results --------------------------------------------------------------------------------------------------


def results() -> Iterator[Point]:
    """The 33 models of thoplw's README under its convention, beside what it printed."""
    from .adapters import source

    with (PUBLISHED / RESULTS).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        name = row["model"]
        model = source(f"torchvision:{name.replace('mnasnet_', 'mnasnet').replace('.', '_')}").model(virtual=True)
        height, width = map(int, row["input_hw"].split("x"))
        profile = Profile(*capture(model, input_shape=(1, 3, height, width)))
        family = next(family for start, family in THOPLW_FAMILIES if name.startswith(start))
        macs, params = (profile.total(column, "thoplw") for column in ("flops", "params"))
        yield Point(name, family, macs, params, not name.endswith("_bn"), (row["macs"], row["params"]))


def points(subjects: Sequence[Subject]) -> list[Point]:
    """Subjects as points of a scatter, by what stands after the colon where that tells them apart."""
    short = [s.name.rpartition(":")[2] for s in subjects]
    names = [name if short.count(name) == 1 else s.name for name, s in zip(short, subjects)]
    return [Point(name, s.family, float(s.macs), float(s.params)) for name, s in zip(names, subjects) if s.macs]


def gathered(
    names: Sequence[str], one: Callable[[str], Subject], said: Callable[[str], Any]
) -> tuple[list[Subject], dict[str, str]]:
    """The subjects of all names, and of those that failed the reason."""
    found, failed = [], {}
    for name in dict.fromkeys(names):
        said(name)
        try:
            found.append(one(name))
        except RaspError as error:
            failed[name] = str(error)
    return found, failed
