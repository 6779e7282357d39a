"""Time as it was measured, in milliseconds; nothing where nothing was timed. Least times are in roofline.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import spread
from ..clocked import Clocked
from ..samples import on_grid
from ..verdict import of_part
from . import COLUMNS, Column, column

if TYPE_CHECKING:
    from ..entries import Entry
    from ..parts import Part
    from ..view import View


NO_CALLS = ("phase", "remainder")


@column("lat", "latency", unit="ms", form="time")
def lat(part: Part, view: View) -> float | None:
    """Time of a call, all that ran inside it included; the total is that of runs without any instrument."""
    clocked = view.ledger.clocked
    if clocked is not None and part.kind == "own" and len(part.entries) == 1 and part.entries[0].call is not None:
        return clocked.total(part.entries[0].call)
    found: float | None = net_lat(part, view)
    return found


@column("net_lat", "net latency", unit="ms", form="time", additive=True)
def net_lat(part: Part, view: View) -> float | None:
    """Time of a call without that of the modules called inside it; with the remainder the rows sum to the total."""
    clocked = view.ledger.clocked
    if clocked is None or part.counts is not None:
        return None
    if part.whole:
        return clocked.whole
    if part.kind == "phase":
        return clocked.part(str(part.label))
    if part.kind == "remainder":
        return remainder(view)
    return _sum([_of_entry(entry, view, clocked) for entry in part.entries])


def remainder(view: View) -> float | None:
    """What the whole took more (or less) than all rows together."""
    clocked = view.ledger.clocked
    if clocked is None or clocked.whole is None or not clocked.series.calls:
        return None
    rows = [_of_entry(entry, view, clocked) for entry in view.ledger.entries]
    outside = [clocked.part(name) for name in ("copy", "backward", "optimiser")]
    return clocked.whole - sum(value for value in (*rows, *outside) if value is not None)


@column("lat[%]", "latency %", unit="%", form="ratio")
def lat_percent(part: Part, view: View) -> float | None:
    """Net latency in percent of the total."""
    own, whole = net_lat(part, view), net_lat(view.total, view)
    return 100 * own / whole if own is not None and whole else None


@column("FLOPS", "achieved", unit="FLOP/s")
def flop_rate(part: Part, view: View) -> int | None:
    """FLOPs for each second of net latency: of the forward; of the total with a backward, of all phases."""
    milliseconds = None if part.kind in NO_CALLS else net_lat(part, view)
    everything = view.value("flops_total", part) if part.whole and "flops_total" in COLUMNS else None
    work = view.value("flops", part) if everything is None else everything
    return round(1000 * work / milliseconds) if work is not None and milliseconds else None


@column("roof%", "of roof", form="share")
def of_roof(part: Part, view: View) -> float | None:
    """The least time its operators need on this machine, as a share of the time they took."""
    clocked = view.ledger.clocked
    if clocked is None or not clocked.samples.how.get("ceilings"):
        return None
    milliseconds = None if part.kind in NO_CALLS else net_lat(part, view)
    least = view.value("least_time_total", part) if part.whole else None
    least = view.value("least_time", part) if least is None else least
    return 1000 * least / milliseconds if least is not None and milliseconds else None


@column("verdict", "bound by", form="text")
def verdict(part: Part, view: View) -> str | None:
    """What limits it by what was measured: launch, memory, compute or input; nothing where it cannot be told."""
    return of_part(part, view, net_lat(part, view))


@column("samples", "samples")
def samples(part: Part, view: View) -> int | None:
    """Runs in which it was timed."""
    found = _runs(part, view)
    return len(found) if found else None


Statistic = Callable[[list[float]], float]
STATISTICS: dict[str, tuple[str, Statistic]] = {
    "median": ("Median over runs", spread.median),
    "mean": ("Mean over runs", spread.mean),
    "std": ("Standard deviation over runs", spread.deviation),
    "p5": ("Time that 5 % of the runs stay below", lambda runs: spread.quantile(runs, 0.05)),
    "p95": ("Time that 95 % of the runs stay below", lambda runs: spread.quantile(runs, 0.95)),
    "ci_low": ("Lower end of the 95 % confidence interval of the median", lambda runs: spread.interval(runs)[0]),
    "ci_high": ("Upper end of the 95 % confidence interval of the median", lambda runs: spread.interval(runs)[1]),
}


def _statistic(name: str, words: str, function: Statistic) -> None:
    def value(part: Part, view: View) -> float | None:
        found = _runs(part, view)
        return function(found) if found else None

    doc = f"{words}, of its net time as watched; of the total, without any instrument."
    COLUMNS.add(name, Column(name, name.replace("_", " "), doc, value, "ms", "time"))


for _name, (_words, _function) in STATISTICS.items():
    _statistic(_name, _words, _function)


def _of_entry(entry: Entry, view: View, clocked: Clocked) -> float | None:
    if entry.call is None:
        return None
    return clocked.total(entry.call) if entry.call in view.ledger.ruled else clocked.own(entry.call)


def _runs(part: Part, view: View) -> list[float]:
    """Net times of a part, one for each run."""
    clocked = view.ledger.clocked
    if clocked is None or part.counts is not None or part.kind == "remainder":
        return []
    if part.whole:
        return clocked.series.whole
    if part.kind == "phase":
        return clocked.series.parts.get(str(part.label), [])
    calls = [entry.call for entry in part.entries if entry.call is not None]
    ruled = [call for call in calls if call in view.ledger.ruled]
    if ruled and len(ruled) < len(calls):
        return []
    return clocked.runs(calls, own=not ruled)


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return on_grid(sum(known)) if known else None
