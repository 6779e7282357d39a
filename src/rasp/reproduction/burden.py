"""convnet-burden's tables: from the zoo, and from stock models of torchvision that have the printed architecture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import api, zoo
from ..pages._printed import memory, operations
from . import Line, compared, facts, published, reference_model, torchvision_model

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
REPORTS = "burden_reports.csv"  # reports of models that the tables leave out


@published(
    "convnet-burden, the tables",
    "convnet-burden's README",
    measured=("performance",),
    remark="Convention burden, over the models of the zoo. Memory is in MiB, which the tables call MB. Error rates are "
    "quoted there, not computed.",
)
def tables() -> Iterator[Line]:
    """Every model that the tables name; one that the zoo does not have is a line without values."""
    built = zoo.list()
    for printed in facts("burden_models.csv"):
        name = printed["model"]
        yield _line(printed, reference_model(name)) if name in built else Line(f"{name} (not in the zoo)", {})


@published(
    "convnet-burden, features at other sizes",
    "convnet-burden's reports",
    remark="Convention burden, up to the last map of features, for a batch of 128.",
)
def sweeps() -> Iterator[Line]:
    """The sizes of each report of a model of the zoo."""
    printed: dict[str, list[dict[str, str]]] = {}
    for line in facts("burden_sweeps.csv"):
        printed.setdefault(line["model"], []).append(line)
    for name in [name for name in zoo.list() if name in printed]:
        for said, row in zip(printed[name], zoo.burden_report(name), strict=True):
            ours: dict[str, Any] = {side: row[side] for side in ("input_h", "input_w", "feat_h", "feat_w", "feat_c")}
            ours |= {"feat_mem": memory(row["feat_mem"]), "flops": operations(row["flops"], said["flops"])}
            yield Line(name, compared(said, ours))


@published(
    "convnet-burden, models as torchvision has them",
    "convnet-burden's README and reports",
    needs=("torchvision",),
    remark="The same numbers from stock models of torchvision, where they have the printed architecture. Of resnet50 "
    "there is a report, which the tables leave out.",
)
def stock() -> Iterator[Line]:
    for printed in [*facts("burden_models.csv"), *facts(REPORTS)]:
        if printed["model"] in STOCK:
            name, options = STOCK[printed["model"]]
            yield _line(printed, torchvision_model(name, **options))


def _line(printed: dict[str, str], model: Any) -> Line:
    shape = (1, 3, int(printed["input_h"]), int(printed["input_w"]))
    profile = api.profile(model, input_shape=shape, convention="burden")
    ours = {column: memory(profile.total(column)) for column in ("param_mem", "feat_mem")}
    ours["flops"] = operations(profile.total("flops"), printed["flops"])
    return Line(printed["model"], compared(printed, ours))
