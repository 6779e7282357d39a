"""The two tables of RASP's README."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .. import api
from ..addons import energy
from . import Line, compared, facts, published, reference_model, torchvision_model

README = "RASP's README"
COUNTED = ("name", "type", "in_shape", "out_shape", "params", "flops", "mem_r", "mem_w", "mem_rw", "macc")
ALLOCATED = ("net_dev_mem", "dev_mem_alloc", "dev_max_mem_alloc")
IMAGE = (1, 3, 224, 224)
FIRST_STEM = ("mnasnet0_5", "mnasnet0_75", "mnasnet1_3")  # printed with the stem MNASNet had in torchvision 0.4


@published("RASP, MobileNetV2 layer by layer", README, remark="Convention rasp.")
def layers() -> Iterator[Line]:
    profile = api.profile(reference_model("mobilenet_v2"), input_shape=IMAGE)
    ours = [row for row in profile.rows(columns=COUNTED) if row["kind"] == "call"]
    for printed, row in zip(facts("rasp_mobilenet_v2.csv"), ours, strict=True):
        shapes = {name: ast.literal_eval(printed[name]) for name in ("in_shape", "out_shape")}
        yield Line(printed["name"], compared({**printed, **{k: str(v) for k, v in shapes.items()}}, _plain(row)))


@published(
    "RASP, MobileNetV2, memory of a GPU layer by layer",
    README,
    remark="Convention rasp-head. What RASP read from a GPU's allocator, predicted here without a GPU.",
)
def memory() -> Iterator[Line]:
    profile = api.profile(reference_model("mobilenet_v2"), input_shape=IMAGE, memory=True)
    ours = [row for row in profile.rows(columns=ALLOCATED, convention="rasp-head") if row["kind"] == "call"]
    for printed, row in zip(facts("rasp_mobilenet_v2.csv"), ours, strict=True):
        yield Line(printed["name"], compared(printed, {name: row[name] for name in ALLOCATED}))


def _plain(row: dict[str, object]) -> dict[str, object]:
    return {name: row[name] for name in COUNTED}


@published(
    "RASP, models of torchvision",
    README,
    measured=("Latency (ms)", "FLOPS"),
    needs=("torchvision",),
    remark="Convention rasp-2020, energy by the addon. Three MNASNets have the first stem of torchvision, as printed.",
)
def models() -> Iterator[Line]:
    energy.register()
    for printed in facts("rasp_torchvision.csv"):
        name = printed["Model"]
        model = reference_model(f"{name}_v1") if name in FIRST_STEM else torchvision_model(name)
        profile = api.profile(model, input_shape=IMAGE)
        ours = {title: rounded(profile.total(column, "rasp-2020")) for title, column in COLUMNS.items()}
        yield Line(name, compared(printed, ours))


COLUMNS = {"Params": "params", "FLOPs": "flops", "Energy (pJ)": "energy"}


def rounded(value: float) -> str:
    """RASP's short form: a prefix of 1000, two decimals at most, no space."""
    for power, prefix in enumerate("TGMK"):
        scale = 1000 ** (4 - power)
        if value // scale > 0:
            return f"{round(value / scale, 2)}{prefix}"
    return f"{round(value, 2)}"
