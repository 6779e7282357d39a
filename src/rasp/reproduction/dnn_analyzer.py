"""The example and the benchmark table of DNN analyzer's README."""

from __future__ import annotations

from collections.abc import Iterator

from .. import api
from ..profile import Profile
from . import Line, compared, facts, published, reference_model, torchvision_model

README = "DNN analyzer's README"
CONVENTION = "dnn-analyzer"
IMAGE = (1, 3, 224, 224)
MIB, MILLION, GIGA = 2**20, 10**6, 10**9
LAYER = {  # the printed column → our column, and how many of its units make one of the printed ones
    "parameters": ("params", 1),
    "mem read (MB)": ("mem_r", MIB),
    "mem write (MB)": ("mem_w", MIB),
    "storage (MB)": ("storage", MIB),
    "inference (MB)": ("inference_mem", MIB),
    "MACs (Mega)": ("flops", MILLION),
}
TOTAL = {
    "Total Storage": ("storage", MIB, "MB"),
    "Total Parameters": ("params", 1, ""),
    "Total inference memory": ("inference_mem", MIB, "MB"),
    "Total number of Macs": ("flops", MILLION, "MMAC"),
    "Total Memory Read + Write": ("mem_rw", MIB, "MB"),
}
MODEL = {
    "Params(M)": ("params", MILLION),
    "Storage(MB)": ("storage", MIB),
    "inference memory(MB)": ("inference_mem", MIB),
    "Memory Read+Write": ("mem_rw", MIB),
    "MACs(G)": ("flops", GIGA),
}
LAYOUT_OF_2021 = ("mobilenet_v3_small", "mobilenet_v3_large")


@published("DNN analyzer, MobileNetV2 layer by layer", README, measured=("duration[%]",))
def layers() -> Iterator[Line]:
    profile = _mobilenet_v2()
    columns = ["type", *(column for column, _ in LAYER.values())]
    rows = [row for row in profile.rows(columns=columns, convention=CONVENTION) if row["kind"] == "call"]
    for printed in facts("dnn_analyzer_mobilenet_v2.csv"):
        row = rows[int(printed["row_index"])]
        ours = {title: _trimmed(row[column] / unit) for title, (column, unit) in LAYER.items()}
        yield Line(f"row {printed['row_index']}", compared(printed, {"module name": row["type"], **ours}))


@published("DNN analyzer, MobileNetV2 totals", README)
def totals() -> Iterator[Line]:
    profile = _mobilenet_v2()
    for printed in facts("dnn_analyzer_totals.csv"):
        column, unit, word = TOTAL[printed["total"]]
        value = profile.total(column, CONVENTION)
        ours = f"{value / unit:.2f} {word}" if word else str(value)
        yield Line(printed["total"], compared(printed, {"printed": ours}))


@published(
    "DNN analyzer, models of torchvision",
    README,
    needs=("torchvision",),
    remark="The MobileNetV3s have the layout that torchvision gave them until mid-2021, as printed.",
)
def models() -> Iterator[Line]:
    for printed in facts("dnn_analyzer_benchmarks.csv"):
        name = printed["Model"]
        model = reference_model(f"{name}_2021") if name in LAYOUT_OF_2021 else torchvision_model(name)
        profile = api.profile(model, input_shape=IMAGE)
        ours = {
            title: _as_printed(profile.total(column, CONVENTION) / unit, printed[title])
            for title, (column, unit) in MODEL.items()
        }
        yield Line(name, compared(printed, ours))


def _mobilenet_v2() -> Profile:
    return api.profile(reference_model("mobilenet_v2"), input_shape=IMAGE)


def _trimmed(value: float) -> str:
    """Three decimals at most, as Python rounds."""
    return f"{round(value, 3):g}" if value < 1e5 else str(int(value))


def _as_printed(value: float, printed: str) -> str:
    """With as many decimals as were printed: they differ from cell to cell."""
    return f"{value:.{len(printed.partition('.')[2])}f}"
