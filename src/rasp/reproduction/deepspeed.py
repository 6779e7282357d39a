"""DeepSpeed's report of ResNet-18 as TIDS's README prints it: totals, dearest classes, and every module."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from .. import api
from ..compat.tids import _report
from ..profile import Profile
from ..styles._modules import modules
from . import FACTS, Line, published, torchvision_model
from ._rounding import as_far_as, slack

README = "TIDS's README (DeepSpeed 0.8.0)"
BATCH = (16, 3, 224, 224)
COSTS = re.compile(
    r"(?P<params>[\d.]+(?: \w)?), (?P<params_share>[\d.]+%) Params, "
    r"(?P<MACs>[\d.]+ \w+), (?P<MACs_share>[\d.]+%) MACs, "
    r"(?P<latency>[\d.]+ \w+), (?P<latency_share>[\d.]+%) latency, (?P<FLOPS>[\d.]+ \w+)"
)
OPENED = re.compile(r"(?:\((?P<name>\w+)\): )?(?P<type>\w+)\(")
RATE = re.compile(r"[\d.]+ \w?FLOPS")
UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6, "TFLOPS": 1e12, "GFLOPS": 1e9, "MFLOPS": 1e6, "KFLOPS": 1e3, "FLOPS": 1}
DECIMALS = 2
DETAIL = "Detailed Profile"
REMARK = (
    "Latencies are given as they were printed; FLOPS and shares of them are computed from them, and the same where "
    "they are as far as the digits of a latency tell."
)


class Module(NamedTuple):
    """One module of the detailed profile: where it is, and what is printed of it."""

    path: str
    type: str
    costs: dict[str, str]

    @property
    def slack(self) -> float:
        return slack(self.costs["latency"].split()[0], DECIMALS)


@published(
    "DeepSpeed, ResNet-18 totals and dearest classes",
    README,
    measured=("fwd latency",),
    needs=("torchvision",),
    remark=f"The report of rasp.compat.tids; its lines of latencies are left out. {REMARK}",
)
def totals() -> Iterator[Line]:
    tree = modules(_profile(), latencies())
    printed = [line for line in _text() if line and not line.startswith(("-", "Profile Summary"))]
    for line, made in zip(printed, [*_report.summary(tree), *_report.aggregated(tree)], strict=False):
        said, own = RATE.search(line), RATE.search(made)
        if said and own:
            made = made.replace(own[0], _told(said[0], own[0], _printed()[0].slack))
        if not line.strip().startswith(("fwd latency:", "fwd latency -")):
            yield Line(line.partition(":")[0].partition(" -")[0].strip(), {"printed": (line.rstrip(), made.rstrip())})


@published(
    "DeepSpeed, ResNet-18 module by module",
    README,
    measured=("latency",),
    needs=("torchvision",),
    remark=f"Style repr, convention deepspeed, a batch of 16. {REMARK} What a layer says of itself is torch's.",
)
def every_module() -> Iterator[Line]:
    ours = parsed(_profile().text("repr", latencies=latencies()).splitlines())
    whole = _printed()[0].slack
    for printed, made in zip(_printed(), ours, strict=True):
        costs = {name: (text, made.costs[name]) for name, text in printed.costs.items() if name != "latency"}
        costs["FLOPS"] = costs["FLOPS"][0], _told(*costs["FLOPS"], printed.slack)
        costs["latency_share"] = costs["latency_share"][0], _told(*costs["latency_share"], printed.slack + whole)
        named = {"module": (printed.path, made.path), "type": (printed.type, made.type)}
        yield Line(printed.path or "the model", {**named, **costs})


def _told(printed: str, ours: str, of_inputs: float) -> str:
    """What was printed, where ours is the same number but for what the latencies were rounded by."""
    unit = _unit(printed)
    one, other = _number(printed), _number(ours) * _unit(ours) / unit
    return printed if as_far_as(one, other, of_inputs, DECIMALS) else ours


def _number(text: str) -> float:
    return float(text.split()[0].rstrip("%"))


def _unit(text: str) -> float:
    return UNITS.get(text.partition(" ")[2], 1)


# -- what was printed --------------------------------------------------------------------------------------------------


def parsed(lines: Sequence[str]) -> Iterator[Module]:
    """The modules of a detailed profile, in its order; brackets tell what is inside what."""
    above: list[tuple[str, str]] = []  # the modules open here: name and type
    for line in map(str.strip, lines):
        opened, costs = OPENED.match(line), COSTS.search(line)
        if line == ")":
            above.pop()
        elif opened:
            above.append((opened["name"] or "", opened["type"]))
        if costs:
            yield Module(".".join(name for name, _ in above[1:]), above[-1][1], costs.groupdict())
        if opened and costs:
            above.pop()


@cache
def _text() -> list[str]:
    """What comes before the detail."""
    return _whole().partition(DETAIL)[0].splitlines()


@cache
def _printed() -> list[Module]:
    return list(parsed(_whole().partition(DETAIL)[2].splitlines()))


def _whole() -> str:
    return (FACTS / "deepspeed_resnet18.txt").read_text(encoding="utf-8")


def latencies() -> dict[str, float]:
    """Seconds by path."""
    said = ((module.path, module.costs["latency"]) for module in _printed())
    return {path: _number(text) * _unit(text) for path, text in said}


@cache
def _profile() -> Profile:
    return api.profile(torchvision_model("resnet18"), input_shape=BATCH, functions=True)
