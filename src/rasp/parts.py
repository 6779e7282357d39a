"""Parts of a run that a column can be asked about: the rows of a table, and everything together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .clocked import PHASES as PHASES_TIMED
from .entries import Entry
from .ledger import Ledger
from .records import PHASES

OWN_NAMES_SHOWN = 4
BETWEEN = "(between operators)"  # kernels of what a capture does not record: autograd's sums, allocations, views


@dataclass(slots=True, eq=False)
class Part:
    """Some entries taken together. A part that cuts across entries (an operator kind) has `counts` in their place."""

    kind: str
    name: str
    type: str
    entries: list[Entry] = field(default_factory=list)
    call: int | None = None
    counts: tuple[dict[int, int], ...] | None = None
    whole: bool = False  # every entry: totals of operators and tensors need not make them
    label: int | str = ""


def operator_name(name: str) -> str:
    """'aten::_native_batch_norm_' → 'batch_norm': an operator's name as people say it."""
    short = name.rpartition("::")[2].strip("_").removeprefix("native_").removeprefix("safe_")
    return "sdpa" if short.startswith("scaled_dot_product_") else short or name


def own_type(entries: Iterable[Entry], ledger: Ledger) -> str:
    """The operators a container ran itself, dearest first: 'bmm, softmax'; those of its forward where it ran any."""
    counts = [entry.counts for entry in entries]
    first = next((phase for phase in range(len(PHASES)) if any(count[phase] for count in counts)), 0)
    cost: dict[str, int] = {}
    for spec, times in (pair for count in counts for pair in count[first].items()):
        work = ledger.works[spec]
        name = operator_name(ledger.trace.specs[spec].name)
        weight = 0 if work is None else 2 * (work.mac + work.fma) + work.add + work.mul + work.div + work.exp
        cost[name] = cost.get(name, 0) + times * weight
    names = sorted(cost, key=lambda name: -cost[name])
    more = f" +{len(names) - OWN_NAMES_SHOWN}" if len(names) > OWN_NAMES_SHOWN else ""
    return ", ".join(names[:OWN_NAMES_SHOWN]) + more


def entry_part(entry: Entry, ledger: Ledger) -> Part:
    """The row of one entry, named as RASP names it: a dot before the path."""
    info = ledger.trace.modules[entry.module]
    kind = (entry.kind == "own" and own_type([entry], ledger)) or info.type
    return Part(entry.kind, f".{info.path}", kind, [entry], entry.call, label=entry.kind)


def whole(ledger: Ledger, kind: str = "total") -> Part:
    """The model in all."""
    name = "total" if kind == "total" else "."
    call = 0 if ledger.trace.calls else None
    return Part(kind, name, ledger.trace.modules[0].type, call=call, whole=True, label=kind)


def rest_of_time(ledger: Ledger) -> list[Part]:
    """What was timed and is no call's: parts of a run outside the forward, and the remainder to the whole."""
    clocked = ledger.clocked
    if clocked is None or not clocked.series.calls:
        return []
    found = [Part("phase", f"({name})", WORDS[name], label=name) for name in PHASES_TIMED if clocked.part(name)]
    return [*found, Part("remainder", "(remainder)", WORDS["remainder"], label="remainder")]


WORDS = {
    "copy": "inputs to the device",
    "backward": "loss and backward",
    "optimiser": "zero_grad and step",
    "remainder": "between modules",
}


def root(ledger: Ledger) -> list[Part]:
    """One row: the model itself."""
    return _numbered([whole(ledger, "call")])


def tape(ledger: Ledger) -> list[Part]:
    """Every entry in the order it finished; leaf calls are numbered."""
    return _numbered([entry_part(entry, ledger) for entry in ledger.entries])


def leaves(ledger: Ledger) -> list[Part]:
    """One row per leaf module in registration order, all its calls together; one per container that did work itself."""
    grouped: dict[tuple[int, bool], list[Entry]] = {}
    for entry in ledger.entries:
        grouped.setdefault((entry.module, entry.kind == "own"), []).append(entry)
    parts = []
    for module in _children_first(ledger):
        info = ledger.trace.modules[module]
        for own in (False, True):
            if entries := grouped.get((module, own)):
                part = entry_part(entries[0], ledger)
                part.entries = entries
                parts.append(part)
        if not info.children and (module, False) not in grouped and (module, True) not in grouped:
            parts.append(Part("uncalled", f".{info.path}", info.type, label="uncalled"))
    return _numbered(parts)


def by_operator(ledger: Ledger) -> list[Part]:
    """One part per operator kind; work that a module rule stands for is a part of its own."""
    found: dict[str, Part] = {}
    for entry in ledger.entries:
        if entry.work is not None:
            name = f"{ledger.trace.modules[entry.module].type} (module rule)"
            alone = Entry(entry.kind, entry.module, entry.call, work=entry.work)
            found.setdefault(name, Part("op", name, "")).entries.append(alone)
        for phase, counts in enumerate(entry.counts):
            for spec, times in counts.items():
                name = operator_name(ledger.trace.specs[spec].name)
                part = found.setdefault(name, Part("op", name, "", counts=tuple({} for _ in PHASES)))
                if part.counts is not None:
                    part.counts[phase][spec] = part.counts[phase].get(spec, 0) + times
    if ledger.kernels is not None:
        found[BETWEEN] = Part("op", BETWEEN, "", counts=tuple({} for _ in PHASES))
    return list(found.values())


def by_type(ledger: Ledger) -> list[Part]:
    """One part per module class; containers' own work and modules that never ran apart."""
    mark = {"own": " (own work)", "uncalled": " (never called)"}
    found: dict[str, Part] = {}
    for entry in ledger.entries:
        name = ledger.trace.modules[entry.module].type + mark.get(entry.kind, "")
        found.setdefault(name, Part(entry.kind, name, "", label=entry.kind)).entries.append(entry)
    return list(found.values())


def _numbered(parts: list[Part]) -> list[Part]:
    numbered = (part for part in parts if part.kind == "call")
    for number, part in enumerate(numbered):
        part.label = number
    return parts


def _children_first(ledger: Ledger, module: int = 0) -> Iterator[int]:
    for child in ledger.trace.modules[module].children:
        yield from _children_first(ledger, child)
    yield module
