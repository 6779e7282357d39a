"""TIDSProfiler's tree of ResNet-18 as its README prints it, line for line; latencies are taken as printed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .. import api
from . import FACTS, Line, published, torchvision_model
from ._rounding import as_far_as, slack

BATCH = (16, 3, 224, 224)
DECIMALS = 3
PRINTED = re.compile(r"(?P<step>\t*)\((?P<name>\w+)\): .*?, (?P<milliseconds>[\d.]+)ms, (?P<percent>[\d.]+)% latency")


@published(
    "TIDSProfiler, ResNet-18 line by line",
    "TIDS's README",
    measured=("latency",),
    needs=("torchvision",),
    remark="Style tids, a batch of 16. Latencies are given as they were printed; their shares are computed from them, "
    "and the same where they are as far as the digits of a latency tell.",
)
def lines() -> Iterator[Line]:
    printed = (FACTS / "tids_resnet18.txt").read_text(encoding="utf-8").splitlines()
    given = latencies(printed)
    profile = api.profile(torchvision_model("resnet18"), input_shape=BATCH, functions=True)
    ours = profile.text("tids", latencies={path: ms / 1000 for path, ms in given.items()}).splitlines()
    for number, (line, made, path) in enumerate(zip(printed, ours, given, strict=True), 1):
        of_inputs = slack(str(given[path]), DECIMALS) + slack(str(given[""]), DECIMALS)
        yield Line(f"line {number}", {"printed": (line.strip(), _with_share_of(line, made, of_inputs).strip())})


def latencies(printed: list[str]) -> dict[str, float]:
    """Milliseconds by path, as the lines say."""
    found: dict[str, float] = {}
    above: list[str] = []
    for said in filter(None, map(PRINTED.match, printed)):
        depth = len(said["step"])
        above[max(depth - 1, 0) :] = [said["name"]] if depth else []
        found[".".join(above)] = float(said["milliseconds"])
    return found


def _with_share_of(line: str, made: str, of_inputs: float) -> str:
    """Our line, with the printed share where ours is the same number but for what the latencies were rounded by."""
    said, own = PRINTED.match(line), PRINTED.match(made)
    if said and own and as_far_as(float(said["percent"]), float(own["percent"]), of_inputs, DECIMALS):
        return made.replace(f"{own['percent']}% latency", f"{said['percent']}% latency")
    return made
