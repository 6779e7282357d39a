"""A Report: headings, rows of raw values, a total and notes. All that a renderer sees."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .columns import Form
from .errors import UnknownName
from .parts import Part
from .tree import Node
from .view import View

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Layout = Literal["table", "tree"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A column as it stands in a report."""

    name: str
    title: str
    unit: str
    form: Form
    doc: str
    additive: bool = False


@dataclass(slots=True)
class Row:
    """One line of raw values. `level` and `times` (folded repeats) shape a tree; `title` is the name shown there."""

    kind: str
    label: int | str
    values: list[Any]
    level: int = 0
    times: int = 1
    title: str = ""
    shared: bool = False  # a parameter of this module was charged to an earlier row
    partial: bool = False  # an operator in here has no rule: counts are lower bounds


@dataclass
class Report:
    """What a person asked to see, in raw numbers."""

    title: str
    headings: list[Heading]
    rows: list[Row]
    total: Row | None = None
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    layout: Layout = "table"
    asked: tuple[str, ...] = ()  # columns that the person named: the last to go where there is no room

    @property
    def columns(self) -> list[str]:
        return [heading.name for heading in self.headings]

    @property
    def facts_line(self) -> str:
        """The facts in one line of words."""
        plain = ("mode", "phases")
        return " · ".join(value if name in plain else f"{name} {value}" for name, value in self.facts.items())

    def dicts(self) -> list[dict[str, Any]]:
        """Every row, the total last, as a dict with its kind."""
        return [
            {**dict(zip(self.columns, row.values)), "kind": row.kind, "shared": row.shared} for row in self.all_rows()
        ]

    def all_rows(self) -> Iterator[Row]:
        yield from self.rows
        if self.total is not None:
            yield self.total

    def value(self, row: Row, column: str) -> Any:
        return row.values[self.columns.index(column)]

    def sorted(self, column: str | None, top: int | None = None) -> Report:
        """Rows from the largest value of a column down; those past `top` become one row, so that nothing is lost."""
        return ordered(self, column, top)

    def render(self, format: str = "text") -> str | bytes:
        """The report in one of the formats of rasp/render."""
        return _rendering().render(self, format)  # type: ignore[no-any-return]

    def save(self, path: str | Path, format: str | None = None) -> Path:
        """Write the report to a file, in the format of its suffix."""
        return _rendering().save(self, path, format)  # type: ignore[no-any-return]

    def to_pandas(self) -> Any:
        """The report as a pandas DataFrame, the total as its last row."""
        return _rendering().to_frame(self)

    def __str__(self) -> str:
        return str(self.render("text")).rstrip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _rendering().on_console(self, options.max_width)

    def _repr_html_(self) -> str:
        return str(self.render("notebook"))


def _rendering() -> Any:
    """The folder of formats; it stands above this module, so it is looked up by name when first needed."""
    return importlib.import_module(f"{__package__}.render")


# -- making one --------------------------------------------------------------------------------------------------------


def headings(view: View, columns: Sequence[str]) -> list[Heading]:
    """Headings of the columns asked for, in order; shares and other conventions say so in their title."""
    found = []
    for spelling in dict.fromkeys(columns):
        asked = view.asked(spelling)
        column = asked.column
        title = view.under(asked.convention).convention.words.get(column.name, column.title)
        title = title if asked.convention is None else f"{title} @{asked.convention}"
        if asked.share:
            found.append(
                Heading(spelling, f"{title} %", "%", "share", f"Share of the total: {column.doc}", additive=True)
            )
        else:
            found.append(Heading(spelling, title, column.unit, column.form, column.doc, column.additive))
    return found


def row(view: View, part: Part, columns: Sequence[str]) -> Row:
    """One part as a row of raw values."""
    values = [view.value(name, part) for name in dict.fromkeys(columns)]
    shared = bool(part.kind == "call" and not part.whole and any(entry.shared for entry in part.entries))
    return Row(part.kind, part.label, values, shared=shared, partial=view.is_partial(part))


def table(view: View, parts: Iterable[Part], columns: Sequence[str], title: str) -> Report:
    """A table of parts with the model's total."""
    rows = [row(view, part, columns) for part in parts]
    return Report(title, headings(view, columns), rows, row(view, view.total, columns))


def tree(view: View, root: Node, columns: Sequence[str], title: str, depth: int | None = None) -> Report:
    """A tree of modules; every line sums what ran inside, folded repeats together."""
    rows = []
    above: list[Node] = []
    for level, node in root.walk(depth):
        del above[level:]
        parent = above[-1] if above else None
        line = row(view, node, columns)
        times = node.times // parent.times if parent else 1
        rows.append(replace(line, level=level, times=times, title=_short_name(node, parent)))
        above.append(node)
    return Report(title, headings(view, columns), rows, row(view, view.total, columns), layout="tree")


def _short_name(node: Node, parent: Node | None) -> str:
    """A node's name below its parent; own work is shown by its operators."""
    if node.kind == "own":
        return f"+ {node.type}"
    if parent is None:
        return node.type
    inside = parent.name if parent.name.endswith(".") else f"{parent.name}."
    return node.name.removeprefix(inside) if node.name.startswith(inside) else node.name


def ordered(report: Report, sort: str | None = None, top: int | None = None) -> Report:
    """Rows from the largest value of a column down; those past `top` become one row, so that nothing is lost."""
    rows = list(report.rows)
    if sort is not None and sort not in report.columns:
        raise UnknownName("shown column", sort, report.columns)
    if sort is not None:
        at = report.columns.index(sort)
        rows.sort(key=lambda line: _size(line.values[at]), reverse=True)
    if top is not None and len(rows) > top + 1:
        rows = [*rows[:top], _rest(report, rows[top:])]
    return replace(report, rows=rows)


def _size(value: Any) -> tuple[int, Any]:
    return (0, 0) if value is None else (1, value) if isinstance(value, (int, float)) else (0, 0)


def _rest(report: Report, rows: list[Row]) -> Row:
    values: list[Any] = []
    for at, heading in enumerate(report.headings):
        known = [line.values[at] for line in rows if line.values[at] is not None]
        values.append(sum(known) if heading.additive and known else None)
    if "name" in report.columns:
        values[report.columns.index("name")] = f"{len(rows)} more rows"
    return Row("rest", "", values, partial=any(line.partial for line in rows))
