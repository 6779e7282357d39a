"""The results, the layer tables and the example of thoplw's README."""

from __future__ import annotations

from collections.abc import Iterator

from .. import api
from ..compat.thoplw import LayersInfo, clever_format, layers_info
from ..compat.thoplw.formatting import ratio
from ..compat.thoplw.layers_info import written
from . import FACTS, Line, compared, facts, published, torchvision_model

README = "thoplw's README"
REMARK = "Convention thoplw: a BatchNorm has four parameters a channel. "
TABLES = {"resnet18": 224, "mobilenet_v2": 224, "inception_v3": 299}
LEFT_OUT = "..."


@published(
    "thoplw, models of torchvision",
    README,
    needs=("torchvision",),
    remark=f"{REMARK}The README's swapped headings and its swapped rows of the two Wide ResNets are put right.",
)
def models() -> Iterator[Line]:
    for printed in facts("thoplw_results.csv"):
        height, width = map(int, printed["input_hw"].split("x"))
        profile = api.profile(torchvision_model(stock_name(printed["model"])), input_shape=(1, 3, height, width))
        totals = {name: profile.total(column, "thoplw") for name, column in (("macs", "flops"), ("params", "params"))}
        ours = {name: str(clever_format(value)).strip() for name, value in totals.items()}
        yield Line(printed["model"], compared(printed, ours))


def stock_name(printed: str) -> str:
    """'mnasnet_0.5' → 'mnasnet0_5', 'squeezenet1.0' → 'squeezenet1_0': as torchvision spells them."""
    return printed.replace("mnasnet_", "mnasnet").replace(".", "_")


@published("thoplw, ResNet-18 layer by layer", README, needs=("torchvision",), remark=REMARK)
def resnet18() -> Iterator[Line]:
    return _layers("resnet18")


@published("thoplw, MobileNetV2 layer by layer", README, needs=("torchvision",), remark=REMARK)
def mobilenet_v2() -> Iterator[Line]:
    return _layers("mobilenet_v2")


@published("thoplw, Inception v3 layer by layer", README, needs=("torchvision",), remark=REMARK)
def inception_v3() -> Iterator[Line]:
    return _layers("inception_v3")


def _layers(name: str) -> Iterator[Line]:
    ours = list(_rows(_info(name, TABLES[name])))
    for printed, row in zip(facts(f"thoplw_layers_{name}.csv"), ours, strict=True):
        yield Line(printed["name"], compared(printed, row))


def _rows(info: LayersInfo) -> Iterator[dict[str, str]]:
    """The rows of a table of shares, the total last: shares of each layer, prefixes in the total."""
    total_macs, total_params = info.total()
    for name, log in info.counted:
        shares = ratio(log["macs"], total_macs).strip(), ratio(log["params"], total_params).strip()
        shapes = ", ".join(written(shape, "x") for shape in log["shapes_in"]), written(log["shape_out"], "x")
        yield _row(name, *shapes, *shares, log["description"])
    totals = (str(clever_format(value)).strip() for value in info.total())
    yield _row("Total", written(info.shape, "x"), written(info.output, "x"), *totals, info.name)


def _row(*cells: str) -> dict[str, str]:
    names = ("name", "input_shape", "output_shape", "macs", "params", "description")
    return dict(zip(names, cells, strict=True))


@published("thoplw, the example", README, needs=("torchvision",), remark=f"{REMARK}Lines that were left out stay so.")
def example() -> Iterator[Line]:
    printed = (FACTS / "thoplw_resnet18.txt").read_text(encoding="utf-8").splitlines()
    ours = _example(_info("resnet18", TABLES["resnet18"]))
    left_out = printed.index(LEFT_OUT)
    ours = [*ours[:left_out], LEFT_OUT, *ours[left_out + 1 - len(printed) :]]
    for number, (line, made) in enumerate(zip(printed, ours, strict=True), 1):
        yield Line(f"line {number}", {"text": (line, made)})


def _example(info: LayersInfo) -> list[str]:
    """What the README's script prints."""
    macs, params = info.total()
    head = ["Total MACs and params:", f"  - Macs   = {macs}", f"  - Params = {params}", ""]
    return [*head, *info.summary().splitlines()]


def _info(name: str, size: int) -> LayersInfo:
    return layers_info(api.profile(torchvision_model(name), input_shape=(1, 3, size, size)))
