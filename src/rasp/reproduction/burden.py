"""convnet-burden's tables, as far as stock models of torchvision have the printed architecture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import api
from . import Line, compared, facts, published, torchvision_model

STOCK: dict[str, tuple[str, dict[str, Any]]] = {  # the printed name → torchvision's, and options of its factory
    "resnet18": ("resnet18", {}),
    "resnet34": ("resnet34", {}),
    "resnet50": ("resnet50", {}),
    "resnext-50-32x4d": ("resnext50_32x4d", {}),
    "squeezenet1-0": ("squeezenet1_0", {}),
    "squeezenet1-1": ("squeezenet1_1", {}),
    "inception-v3": ("inception_v3", {"aux_logits": False, "transform_input": False}),
    "vgg-vd-16": ("vgg16", {}),
    "vgg-vd-19": ("vgg19", {}),
    **{name: (name, {}) for name in ("densenet121", "densenet161", "densenet169", "densenet201")},
}
FILES = ("burden_models.csv", "burden_reports.csv")  # the tables, and a report that they leave out


@published(
    "convnet-burden, networks that torchvision has",
    "convnet-burden's README and reports",
    measured=("top1_err", "top5_err"),
    needs=("torchvision",),
    remark="Convention burden. Memory is in MiB, which the tables call MB. Error rates are quoted there, not computed. "
    "Of resnet50 there is a report, which the tables leave out.",
)
def networks() -> Iterator[Line]:
    for printed in (row for name in FILES for row in facts(name)):
        if printed["model"] in STOCK:
            name, options = STOCK[printed["model"]]
            shape = (1, 3, int(printed["input_h"]), int(printed["input_w"]))
            profile = api.profile(torchvision_model(name, **options), input_shape=shape, convention="burden")
            ours = {column: memory(profile.total(column)) for column in ("param_mem", "feat_mem")}
            ours["flops"] = operations(profile.total("flops"), printed["flops"])
            yield Line(printed["model"], compared(printed, ours))


def memory(value: float) -> str:
    """Whole numbers with a prefix of 1024."""
    power = 0
    while value >= 1024:
        value, power = value / 1024, power + 1
    return f"{value:.0f} {('', 'K', 'M', 'G', 'T')[power]}B"


def operations(value: float, printed: str) -> str:
    """Whole numbers with a prefix of 1000, and the spelling of FLOPs that the cell has."""
    power = 0
    while value >= 1000:
        value, power = value / 1000, power + 1
    return f"{value:.0f} {'KMGT'[power - 1] if power else ''}{printed.split()[1].lstrip('KMGT')}"
