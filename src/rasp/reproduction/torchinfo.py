"""torchinfo's summary of ResNet-18 as TIDS's README prints it, line for line, and the totals below it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from .. import api
from ..profile import Profile
from . import FACTS, Line, published, torchvision_model

README = "TIDS's README (torchinfo 1.7.2)"
BATCH = (16, 3, 224, 224)
REMARK = "Style summary, convention torchinfo, a batch of 16. MB are 10⁶ bytes."
MEGA, GIGA = 10**6, 10**9
TOTALS = {  # as printed → our column, and how many of its units make one of the printed ones
    "Total mult-adds (G)": ("flops", GIGA),
    "Input size (MB)": ("input_mem", MEGA),
    "Forward/backward pass size (MB)": ("feat_mem", MEGA),
    "Params size (MB)": ("param_mem", MEGA),
    "Estimated Total Size (MB)": ("total_mem", MEGA),
}


@cache
def printed() -> list[str]:
    return (FACTS / "torchinfo_resnet18.txt").read_text(encoding="utf-8").splitlines()


@published("torchinfo, ResNet-18 line by line", README, needs=("torchvision",), remark=REMARK)
def lines() -> Iterator[Line]:
    ours = _profile().text("summary").splitlines()
    for number, text in enumerate(printed()):
        yield Line(f"line {number + 1}", {"printed": (text, ours[number] if number < len(ours) else "")})
    for number, text in enumerate(ours[len(printed()) :], len(printed()) + 1):
        yield Line(f"line {number}", {"printed": ("", text)})


@published("torchinfo, ResNet-18 totals", README, needs=("torchvision",), remark=REMARK)
def totals() -> Iterator[Line]:
    profile = _profile()
    values = dict(line.split(": ") for line in printed() if ": " in line)
    for title, (column, unit) in TOTALS.items():
        yield Line(title, {"printed": (values[title], f"{profile.total(column, 'torchinfo') / unit:.2f}")})


def _profile() -> Profile:
    return api.profile(torchvision_model("resnet18"), input_shape=BATCH)
