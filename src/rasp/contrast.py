"""Two models timed in turns: whether they differ as wholes, and in which modules, beyond what noise could be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from . import units
from .records import Trace
from .samples import Series
from .spread import Difference, Latency, interval, median, paired

Key = tuple[str, int]
SURE = 3.3  # standard errors for the whole: an error of 1 in 1000
SURER = 4.2  # for a module, of which there are hundreds
LEAST = 0.01  # of the whole; what is smaller is not claimed
FEWEST = 12  # pairs


@dataclass(frozen=True)
class Changed:
    """A module whose own time differs: milliseconds in both, and the difference with its interval."""

    path: str
    type: str
    number: int  # which call of it
    a: float
    b: float
    difference: float
    low: float
    high: float
    share: float  # the difference as a share of the first model's whole time

    def __str__(self) -> str:
        more = f", call {self.number + 1}" if self.number else ""
        return (
            f"{self.path or 'the model itself'} ({self.type}{more}): {_ms(self.a)} and {_ms(self.b)}, "
            f"{self.share:+.1%} of the whole"
        )


@dataclass(frozen=True)
class Contrast:
    """Two models' times taken in turns. `different`: they are, as wholes or in a module; `modules`: the largest first.

    `whole` is the difference of the wholes by pairs of neighbouring runs without any instrument; `a` and `b` are their
    latencies. What only one of them has is part of the module around it.
    """

    a: Latency
    b: Latency
    whole: Difference
    modules: list[Changed] = field(default_factory=list)
    names: tuple[str, str] = ("a", "b")
    remarks: list[str] = field(default_factory=list)
    partial: bool = False

    @property
    def different(self) -> bool:
        return bool(self.whole) or bool(self.modules)

    def __bool__(self) -> bool:
        return self.different

    def __str__(self) -> str:
        first, second = self.names
        lines = [f"{first}: {self.a}", f"{second}: {self.b}"]
        lines.append(f"{second} against {first}: {self.whole}")
        lines += [f"  {changed}" for changed in self.modules]
        if not self.modules:
            lines.append("  no module differs by more than noise could")
        return "\n".join([*lines, *(f"· {remark}" for remark in self.remarks)])

    def __repr__(self) -> str:
        return f"<Contrast: {'different' if self.different else 'not told apart'}; {self.whole}>"


def keyed(trace: Trace) -> dict[Key, int]:
    """Calls by the module's path and the number of its call."""
    return {(trace.modules[call.module].path, call.number): index for index, call in enumerate(trace.calls)}


def own_times(trace: Trace, series: Series, shared: set[Key]) -> dict[Key, list[float | None]]:
    """What each shared call took in each run, without the shared calls right inside it."""
    keys = {index: key for key, index in keyed(trace).items() if key in shared and index in series.calls}
    inside: dict[int, list[int]] = {}
    for index in keys:
        inside.setdefault(trace.calls[index].parent, []).append(index)
    found = {}
    for index, key in keys.items():
        columns = [series.calls[child] for child in inside.get(index, ())]
        found[key] = [
            None if value is None else value - sum(column[run] or 0.0 for column in columns)
            for run, value in enumerate(series.calls[index])
        ]
    return found


def contrast(
    traces: tuple[Trace, Trace],
    series: tuple[Series, Series],
    names: tuple[str, str] = ("a", "b"),
    remarks: Sequence[str] = (),
    partial: bool = False,
) -> Contrast:
    """What pairs of runs say: run i of the first stands next to run i of the second in time."""
    first, second = series
    whole = paired(first.whole, second.whole, SURE, LEAST)
    a, b = (Latency(tuple(one.whole), len(one.warmup)) for one in series)
    shared = set(keyed(traces[0])) & set(keyed(traces[1]))
    owns = [own_times(trace, one, shared) for trace, one in zip(traces, series)]
    total = median(first.watched) if first.watched else a.median
    found = [_changed(key, owns[0][key], owns[1][key], traces[1], total) for key in owns[0] if key in owns[1]]
    changed = sorted((item for item in found if item is not None), key=lambda item: -abs(item.difference))
    return Contrast(a, b, whole, changed, names, list(remarks), partial)


def _changed(
    key: Key, a: Sequence[float | None], b: Sequence[float | None], trace: Trace, total: float
) -> Changed | None:
    pairs = [(one, two) for one, two in zip(a, b) if one is not None and two is not None]
    if len(pairs) < FEWEST or not total:
        return None
    differences = [two - one for one, two in pairs]
    low, high = interval(differences, SURER)
    centre = median(differences)
    if low <= 0 <= high or abs(centre) < LEAST * total:
        return None
    info = trace.modules[trace.calls[keyed(trace)[key]].module]
    ones, twos = (median([pair[side] for pair in pairs]) for side in (0, 1))
    return Changed(*key[:1], info.type, key[1], ones, twos, centre, low, high, centre / total)


def _ms(milliseconds: float) -> str:
    return units.time(milliseconds / 1e3)
