"""Verdicts: what a measured time is bound by, with the evidence; where it cannot be told, that is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from . import units
from .clocked import Clocked
from .spread import median

if TYPE_CHECKING:
    from .parts import Part
    from .view import View

Kind = Literal["launch-bound", "memory-bound", "compute-bound", "input-bound", "unclear"]
HALF = 0.5
HOST = 0.9  # of the time that the host needs to give out the work, from which on the device waits for it
WORKING = 0.75  # of the time that the device works, from which on launching is not what binds: see docs/kernels.md
NEAR = 0.4  # of the time, from which on the roof, or starting operators, is what binds
ABOVE = 1.1  # of the roof: the roof is not where it was said to be


@dataclass(frozen=True)
class Verdict:
    """What a model's time is bound by: `kind`, and in one sentence the `evidence`."""

    kind: Kind
    evidence: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.evidence}"


def of_model(view: View) -> Verdict | None:
    """The verdict on a whole run; None where nothing was timed."""
    clocked = view.ledger.clocked
    if clocked is None or not clocked.whole:
        return None
    if _works(view) is not None:
        return _input(clocked) or _waiting(view, clocked) or _roof(view.total, view, clocked, clocked.whole)
    return _input(clocked) or _host(clocked) or _roof(view.total, view, clocked, clocked.whole)


def of_part(part: Part, view: View, milliseconds: float | None) -> str | None:
    """One word for a row, where its time says it."""
    clocked = view.ledger.clocked
    if clocked is None or not milliseconds or part.kind in ("phase", "remainder") or part.counts is not None:
        return None
    if not part.whole and _works(view) is not None:
        works = view.value("kernel_time", part)
        if works is not None and 1e3 * works < WORKING * milliseconds:
            return "launch"
    found = of_model(view) if part.whole else _roof(part, view, clocked, milliseconds)
    return None if found is None or found.kind == "unclear" else found.kind.removesuffix("-bound")


def _input(clocked: Clocked) -> Verdict | None:
    """Copying the inputs takes more than half of the time."""
    copied, whole = clocked.part("copy"), clocked.whole or 0.0
    if copied is None or copied < HALF * whole:
        return None
    return Verdict("input-bound", f"copying the inputs to the device takes {_ms(copied)} of {_ms(whole)}")


def _works(view: View) -> float | None:
    """Milliseconds of a run in which the device works: as a CUDA graph, else with a kernel running; None: not known."""
    kernels = view.ledger.kernels
    if kernels is None or kernels.on != "device":
        return None
    return 1e3 * (kernels.busy if kernels.graph_latency is None else kernels.graph_latency)


def _waiting(view: View, clocked: Clocked) -> Verdict | None:
    """The device works less than three quarters of the time: the rest it waits for what the host launches."""
    works, whole, kernels = _works(view), clocked.whole or 0.0, view.ledger.kernels
    if works is None or kernels is None or works >= WORKING * whole:
        return None
    how = "with a kernel running" if kernels.graph_latency is None else "as a CUDA graph, without launches"
    count = sum(row["count"] for row in kernels.by_phase())
    return Verdict(
        "launch-bound",
        f"the device works {_ms(works)} of {_ms(whole)} ({works / whole:.0%}, {how}); the rest it waits for the "
        f"host to launch {count} kernels: capture a CUDA graph, torch.compile(mode='reduce-overhead'), or take larger "
        "batches",
    )


def _host(clocked: Clocked) -> Verdict | None:
    """The host is still giving out work when the device is nearly done."""
    host, whole = clocked.series.parts.get("host"), clocked.whole or 0.0
    if not host or median(host) < HOST * whole:
        return None
    return Verdict(
        "launch-bound",
        f"the host needs {_ms(median(host))} of {_ms(whole)} to give out the work; the device is done "
        f"{_ms(max(whole - median(host), 0.0))} later",
    )


def _roof(part: Part, view: View, clocked: Clocked, milliseconds: float) -> Verdict:
    """By the ceilings of the machine that the model was timed on."""
    if not clocked.samples.how.get("ceilings"):
        where = clocked.samples.device
        return Verdict(
            "unclear",
            f"the ceilings of {where} on this machine are not known: measure them once with "
            f"'rasp calibrate --device {where}', or name a machine with roof= (--roof)",
        )
    least = view.value("least_time_total", part) if part.whole else None
    least = view.value("least_time", part) if least is None else least
    if least is None:
        return Verdict("unclear", "the least time of an operator cannot be told: no rule, or no peak for its type")
    starting = 1e3 * view.ledger.starting(view.entries(part))
    share = 1e3 * least / milliseconds
    if starting > max(NEAR * milliseconds, 1e3 * least):
        words = f"starting its operators one by one takes {_ms(starting)} of {_ms(milliseconds)}"
        return Verdict("launch-bound", f"{words}; they compute {_ms(1e3 * least)} at the roof")
    if share > ABOVE:
        return Verdict(
            "unclear",
            f"it took {_ms(milliseconds)} where the machine's ceilings allow {_ms(1e3 * least)} at best: its data were "
            "in a cache, or the ceilings were measured while the machine was busy ('rasp calibrate' measures again)",
        )
    if share >= NEAR and view.value("bound", part) in ("compute", "memory"):
        kind: Kind = "compute-bound" if view.value("bound", part) == "compute" else "memory-bound"
        ceiling = "peaks of arithmetic" if kind == "compute-bound" else "bandwidth"
        return Verdict(
            kind, f"at the machine's {ceiling} it would take {_ms(1e3 * least)} of {_ms(milliseconds)}: {share:.0%}"
        )
    return Verdict(
        "unclear",
        f"at the machine's ceilings its operators would take {_ms(1e3 * least)}, starting them {_ms(starting)}, of "
        f"{_ms(milliseconds)}: neither explains it, the kernels are far from both",
    )


def _ms(milliseconds: float) -> str:
    return units.time(milliseconds / 1e3)
