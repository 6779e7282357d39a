"""Why two conventions differ on the same run: every place where they do, both numbers, and the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .entries import FORWARD, Entry
from .errors import InputError
from .parts import entry_part, operator_name
from .report import Heading, Report, Row
from .rules import Work
from .view import View

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from .columns import Form

REASONS_SHOWN = 3  # in one sentence
NOTHING = "not counted"
WORDS = {
    "mac": "multiply-accumulate", "dot": "dot product", "bias": "bias addition", "fma": "multiply-add",
    "add": "addition", "mul": "multiplication", "div": "division", "cmp": "comparison", "sqrt": "root",
    "exp": "exponential", "log": "logarithm", "trig": "sine or cosine", "pow": "power",
}  # fmt: skip


class Share(NamedTuple):
    """What a convention counts in one entry for one kind of operator, function or layer."""

    kind: str
    amount: int | float
    why: str


@dataclass(frozen=True)
class Explanation:
    """`lines` of {where, op, a, b, difference, why} that add up to `difference`: the total of `a` less that of `b`."""

    a: str
    b: str
    column: str
    totals: tuple[int | float, int | float]
    lines: list[dict[str, Any]]
    title: str = ""
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def difference(self) -> int | float:
        differences: list[int | float] = [line["difference"] for line in self.lines]
        return sum(differences)

    def report(self) -> Report:
        """The lines as a table, for every format."""
        forms: tuple[tuple[str, str, Form], ...] = (
            ("where", "where", "text"),
            ("op", "op", "text"),
            (self.a, self.a, "count"),
            (self.b if self.b != self.a else f"{self.b} ", self.b, "count"),
            ("difference", "difference", "count"),
            ("why", "why", "text"),
        )
        headings = [Heading(name, title, "", form, "", additive=form == "count") for name, title, form in forms]
        rows = [Row("difference", "", list(line.values())) for line in self.lines]
        total = Row("total", "", ["total", "", *self.totals, self.difference, ""])
        note = f"{self.column} of {self.title} by {self.a} and by {self.b}: the lines add up to the difference"
        return Report(f"{self.title}: {self.a} and {self.b}", headings, rows, total, dict(self.facts), [note])

    def gathered(self) -> Explanation:
        """Lines of one kind and reason as one, the largest first; `where` tells the first place and how many more."""
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for line in self.lines:
            groups.setdefault((line["op"], line["why"]), []).append(line)
        joined = sorted(map(_join, groups.values()), key=lambda line: -abs(line["difference"]))
        return replace(self, lines=joined)

    def numbered(self) -> Report:
        """The lines as a table with each reason said once, below it."""
        whole = self.report()
        reasons = list(dict.fromkeys(line["why"] for line in self.lines))
        rows = [replace(row, values=[*row.values[:-1], f"[{reasons.index(row.values[-1]) + 1}]"]) for row in whole.rows]
        notes = [f"[{number + 1}] {reason}" for number, reason in enumerate(reasons)]
        return replace(whole, rows=rows, notes=[*whole.notes, *notes])

    def __str__(self) -> str:
        return str(self.gathered().numbered())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.gathered().numbered()


def explain(
    one: View, other: View, column: str, title: str = "", facts: Mapping[str, str] | None = None
) -> Explanation:
    """Compare a column of one run under two conventions, place by place."""
    names = (one.convention.name, other.convention.name)
    totals = tuple(view.value(column, view.total) for view in (one, other))
    for name, total in zip(names, totals):
        if not isinstance(total, (int, float)):
            raise InputError(f"Convention {name!r} has no {column}: there is nothing to compare.")
    parted = _by_operator(one, column) and _by_operator(other, column)
    found: dict[tuple[str, str], tuple[list[Share], list[Share]]] = {}
    for side, view in enumerate((one, other)):
        for entry, shares in _shares(view, column).items():
            for share in shares:
                place = _place(view, entry), share.kind if parted else _type(view, entry)
                found.setdefault(place, ([], []))[side].append(share)
    lines = [_line(place, pair, names) for place, pair in found.items()]
    lines = sorted((line for line in lines if line["difference"]), key=lambda line: -abs(line["difference"]))
    return Explanation(*names, column, totals, lines, title, dict(facts or {}))


def _join(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Several lines of one kind and reason as one."""
    first, more = lines[0], len(lines) - 1
    sums = {name: sum(line[name] for line in lines) for name in ("a", "b", "difference")}
    return {**first, "where": f"{first['where']} and {more} more" if more else first["where"], **sums}


def _line(place: tuple[str, str], pair: tuple[list[Share], list[Share]], names: tuple[str, str]) -> dict[str, Any]:
    a, b = (sum(share.amount for share in shares) for shares in pair)
    why = "; ".join(f"{name}: {_reasons(shares)}" for name, shares in zip(names, pair))
    return {"where": place[0], "op": place[1], "a": a, "b": b, "difference": a - b, "why": why}


def _reasons(shares: list[Share]) -> str:
    """Why a side counts what it counts, dearest first; a kind is named where there are several."""
    amounts: dict[tuple[str, str], int | float] = {}
    for share in shares:
        amounts[share.kind, share.why] = amounts.get((share.kind, share.why), 0) + share.amount
    ordered = sorted((key for key, amount in amounts.items() if amount), key=lambda key: -abs(amounts[key]))
    if not ordered:
        reasons = list(dict.fromkeys(share.why for share in shares if share.why))
        return reasons[0] if reasons else NOTHING
    kinds = {kind for kind, _ in ordered}
    words = [f"{kind}: {why}" if len(kinds) > 1 else why or kind for kind, why in ordered[:REASONS_SHOWN]]
    more = f" and {len(ordered) - REASONS_SHOWN} more kinds" if len(ordered) > REASONS_SHOWN else ""
    return ", ".join(dict.fromkeys(words)) + more


# -- what each entry is made of ----------------------------------------------------------------------------------------


def _by_operator(view: View, column: str) -> bool:
    """Whether the convention counts this column operator by operator."""
    return column in view.convention.weights and column not in view.convention.charges


def _shares(view: View, column: str) -> dict[Entry, list[Share]]:
    if column in view.convention.charges:
        charged = view.charges(column)
        return {entry: [Share(c.kind, c.amount, c.why) for c in charges] for entry, charges in charged.items()}
    if column in view.convention.weights:
        return {entry: _operator_shares(view, entry, view.convention.weights[column]) for entry in view.ledger.entries}
    parts = ((entry, entry_part(entry, view.ledger)) for entry in view.ledger.entries)
    doc = view.asked(column).column.doc.rstrip(".")
    return {entry: [Share(part.type, view.value(column, part) or 0, doc)] for entry, part in parts}


def _operator_shares(view: View, entry: Entry, weights: Mapping[str, int]) -> list[Share]:
    shares = []
    for spec, times in entry.counts[FORWARD].items():
        work = view.ledger.works[spec]
        name = operator_name(view.trace.specs[spec].name)
        if work is not None:
            why = view.convention.why.get(name) or weighing(work, weights)
            shares.append(Share(name, times * _weighed(work, weights), why))
    if entry.work is not None:
        kind = view.trace.modules[entry.module].type
        shares.append(Share(kind, _weighed(entry.work, weights), f"module rule: {weighing(entry.work, weights)}"))
    return shares


def _weighed(work: Work, weights: Mapping[str, int]) -> int:
    return sum(weight * int(getattr(work, primitive)) for primitive, weight in weights.items())


def weighing(work: Work, weights: Mapping[str, int]) -> str:
    """'2 per multiply-accumulate, −1 per dot product': what a convention makes of the primitives of one operator."""
    found = [(weights.get(p, 0), WORDS.get(p, p)) for p in WORDS | {"tanh": "", "erf": ""} if getattr(work, p)]
    words = [f"{str(weight).replace('-', '−')} per {word}" for weight, word in found if weight]
    return ", ".join(words) or NOTHING


def _place(view: View, entry: Entry) -> str:
    return f".{view.trace.modules[entry.module].path}"


def _type(view: View, entry: Entry) -> str:
    """The class of a layer; a container's own work by its operators."""
    return entry_part(entry, view.ledger).type
