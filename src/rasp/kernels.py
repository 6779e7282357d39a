"""Kernels of a run: how long each ran, for which module call and operator, in which phase; how long the device idled.

Recorded by torch.profiler in a few runs of their own, so times here are no latency: the whole is measured without it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from . import units

GRID = float(1 << 40)  # of a second: sums of times on it are exact
SHOWN = 20


class Row(NamedTuple):
    """One kernel of one operator of one call in one phase: how often in a pass, seconds, and idle seconds before it."""

    call: int | None
    phase: str
    op: str
    kernel: str
    times: float
    seconds: float
    gap: float


class Pass(NamedTuple):
    """Seconds of one pass: on the host, from the first kernel to the last, and with a kernel running."""

    whole: float
    span: float
    busy: float


@dataclass(frozen=True)
class Kernels:
    """What ran on the device in a pass; on a CPU, operators of the host in their place."""

    device: str = ""
    on: str = "device"  # or "host"
    rows: list[Row] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    host: dict[tuple[int | None, str], float] = field(default_factory=dict)  # host seconds by call and phase
    graph: list[float] = field(default_factory=list)  # seconds of replays of a CUDA graph
    why_no_graph: str | None = None
    waited: float | None = None  # seconds from a kernel's launch on the host to its start: the median

    @classmethod
    def of(cls, kept: dict[str, Any] | None) -> Kernels | None:
        """From what a profile keeps; None where nothing was recorded."""
        if not kept:
            return None
        known = (Row(*row) for row in kept["rows"])
        rows = [row._replace(seconds=on_grid(row.seconds), gap=on_grid(row.gap)) for row in known]
        passes = [Pass(*item) for item in kept["passes"]]
        host = {(call, phase): float(took) for call, phase, took in kept["host"]}
        graph = [float(value) for value in kept.get("graph", ())]
        return cls(
            str(kept["device"]),
            str(kept["on"]),
            rows,
            passes,
            host,
            graph,
            kept.get("why_no_graph"),
            kept.get("waited"),
        )

    @property
    def total(self) -> float:
        """Seconds of all kernels of a pass, together."""
        return on_grid(sum(row.seconds for row in self.rows))

    @property
    def busy(self) -> float:
        """Seconds of a pass in which a kernel ran: the median over passes."""
        return statistics.median(one.busy for one in self.passes)

    @property
    def span(self) -> float:
        """Seconds from the first kernel of a pass to the end of the last: the median over passes."""
        return statistics.median(one.span for one in self.passes)

    @property
    def idle(self) -> float:
        """Seconds between the first and the last kernel of a pass in which the device waited."""
        return statistics.median(one.span - one.busy for one in self.passes)

    @property
    def graph_latency(self) -> float | None:
        """Seconds of a replay as a CUDA graph, without what launching costs: the median; else see `why_no_graph`."""
        return statistics.median(self.graph) if self.graph else None

    @property
    def outside(self) -> float:
        """Seconds of kernels that no module call launched, but for the optimiser's: copies of inputs, the loss."""
        return on_grid(sum(row.seconds for row in self.rows if row.call is None and row.phase != "optimiser"))

    def seconds(self, call: int, phases: tuple[str, ...]) -> float:
        """Seconds of kernels of a call's own operators."""
        return on_grid(sum(row.seconds for row in self._of_call.get(call, ()) if row.phase in phases))

    def count(self, call: int, phases: tuple[str, ...]) -> int:
        """How many kernels a call's own operators launch."""
        return round(sum(row.times for row in self._of_call.get(call, ()) if row.phase in phases))

    def gap(self, call: int, phases: tuple[str, ...]) -> float:
        """Seconds in which the device waited for a kernel of this call."""
        return on_grid(sum(row.gap for row in self._of_call.get(call, ()) if row.phase in phases))

    def hosted(self, call: int, phases: tuple[str, ...]) -> float:
        """Seconds in which the host ran a call, without the calls inside it."""
        return on_grid(sum(self.host.get((call, phase), 0.0) for phase in phases))

    @property
    def _of_call(self) -> dict[int, list[Row]]:
        known: dict[int, list[Row]] | None = self.__dict__.get("_by_call")
        if known is None:
            known = {}
            for row in self.rows:
                if row.call is not None:
                    known.setdefault(row.call, []).append(row)
            self.__dict__["_by_call"] = known
        return known

    def of_operators(self, chosen: Callable[[str], bool]) -> Kernels:
        """The kernels of modules' operators with certain names, as if all were of one call, 0."""
        rows = [row._replace(call=0) for row in self.rows if row.call is not None and chosen(row.op)]
        return replace(self, rows=rows, host={})

    def by_op(self) -> list[dict[str, Any]]:
        """Seconds, kernels and share of each operator, dearest first."""
        return self._grouped("op", lambda row: row.op or "(no operator)")

    def by_kernel(self) -> list[dict[str, Any]]:
        """Seconds, kernels and share of each kernel by name, dearest first."""
        return self._grouped("kernel", lambda row: row.kernel)

    def by_phase(self) -> list[dict[str, Any]]:
        """Seconds, kernels and share of forward, backward, recompute, optimiser, and what is outside of these."""
        return self._grouped("phase", lambda row: row.phase)

    def _grouped(self, name: str, key: Callable[[Row], str]) -> list[dict[str, Any]]:
        found: dict[str, list[float]] = {}
        for row in self.rows:
            group = found.setdefault(key(row), [0.0, 0.0, 0.0])
            for at, value in enumerate((row.times, row.seconds, row.gap)):
                group[at] += value
        whole = sum(seconds for _, seconds, _ in found.values())
        rows = [
            {
                name: group,
                "count": round(count),
                "seconds": on_grid(seconds),
                "gap": gap,
                "share": seconds / (whole or 1.0),
            }
            for group, (count, seconds, gap) in found.items()
        ]
        return sorted(rows, key=lambda row: -row["seconds"])

    @property
    def notes(self) -> list[str]:
        """What a reader of these times should know."""
        if self.on == "host":
            return [
                f"kernel_time on {self.device} is the host's time of operators under torch.profiler, which slows them: "
                "there are no kernels of a device to be timed"
            ]
        found = [
            f"kernels run {units.time(self.busy)} of the {units.time(self.span)} from the first to the last; the rest "
            "the device waits for the host (under torch.profiler, which slows the host)"
        ]
        if self.waited is not None:
            found.append(f"a kernel starts {units.time(self.waited)} after its launch (median): short where none queue")
        if self.outside:
            found.append(f"{units.time(self.outside)} of kernels belong to no module: copies of inputs, the loss")
        if self.graph_latency is not None:
            found.append(f"as a CUDA graph a pass takes {units.time(self.graph_latency)}")
        elif self.why_no_graph:
            found.append(f"no latency as a CUDA graph: {self.why_no_graph}")
        return found

    def __str__(self) -> str:
        lines = [
            f"{units.time(row['seconds']):>10} {units.percent(row['share']):>7} {row['count']:>6}  {row['op']}"
            for row in self.by_op()[:SHOWN]
        ]
        return "\n".join([*lines, *self.notes])


def on_grid(value: float) -> float:
    return round(value * GRID) / GRID
