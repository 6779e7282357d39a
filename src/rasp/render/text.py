"""text: a table or tree for the terminal; full when written to a file, fitted to the width on a screen."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap

from rich.console import Group
from rich.text import Text

from ..report import Heading, Report, Row
from . import _cells as cells
from . import format
from ._grid import GAP, Grid, Lane, fitted, padded

ROW_STYLES = {"own": "italic", "uncalled": "yellow", "total": "bold", "root": "bold", "rest": "dim"}
NAME_WIDTH, TYPE_WIDTH = 24, 12
Words = Callable[[Heading, Row, object], str]


@format("text", ".txt")
def text(report: Report) -> str:
    """The whole table or tree, every column, no colours."""
    return "".join(f"{line.plain}\n" for line in lines(report, None))


def on_console(report: Report, width: int | None) -> Group:
    """The report for a rich console of a width."""
    return Group(*lines(report, width))


def lines(report: Report, width: int | None) -> list[Text]:
    """The report as lines that fit a width (None: as wide as it takes)."""
    lanes = _tree_lanes(report) if report.layout == "tree" else _table_lanes(report, cells.exact)
    grid = Grid(lanes)
    if width is not None and grid.width > width:
        lanes = _tree_lanes(report) if report.layout == "tree" else _table_lanes(report, cells.short)
        grid = fitted(lanes, width, report.asked)
    return [*_header(report), *_body(report, grid), *_totals(report, grid.width), *_notes(report, grid, width)]


# -- lanes -------------------------------------------------------------------------------------------------------------


def _rows(report: Report) -> list[Row]:
    return list(report.all_rows()) if report.layout == "table" else report.rows


def _table_lanes(report: Report, words: Words) -> list[Lane]:
    rows = _rows(report)
    lanes = [Lane("", "", "", [cells.mark(row) for row in rows], style="dim")]
    for at, heading in enumerate(report.headings):
        lanes.append(_lane(heading, [words(heading, row, row.values[at]) for row in rows], words is cells.exact))
    return lanes


def _lane(heading: Heading, texts: list[str], is_exact: bool) -> Lane:
    left = heading.form in ("text", "shape")
    unit = heading.unit if is_exact and heading.form != "share" else ""
    lane = Lane(heading.name, heading.name, unit, texts, right=not left)
    if heading.form == "text":
        lane.least, lane.cut = (NAME_WIDTH if heading.name == "name" else TYPE_WIDTH), cells.clipped
    lane.style = "cyan" if heading.name == "type" else "dim" if heading.form == "shape" else ""
    return lane


def _tree_lanes(report: Report) -> list[Lane]:
    rows = report.rows
    names = [guide + _times(row) for guide, row in zip(_guides(rows), rows)]
    lanes = [Lane("name", "module", "", names, right=False, least=NAME_WIDTH + 6, cut=_cut)]
    for at, heading in enumerate(report.headings):
        if heading.name == "name":
            continue
        texts = [cells.short(heading, row, row.values[at]) for row in rows]
        if heading.name == "type":
            texts = ["" if row.kind == "own" or not row.level else text for row, text in zip(rows, texts)]
        lanes.append(_lane(heading, texts, is_exact=False))
        if heading.form == "share":
            bars = [cells.bar(row.values[at]) for row in rows]
            lanes.append(Lane(f"{heading.name} bar", "", "", bars, right=False, style="blue"))
    return lanes


def _times(row: Row) -> str:
    return f"{row.title} ×{row.times}" if row.times > 1 else row.title


def _guides(rows: list[Row]) -> list[str]:
    """The lines that join a tree's rows to their parents."""
    last = [True] * len(rows)
    open_levels: set[int] = set()
    for at in range(len(rows) - 1, -1, -1):
        level = rows[at].level
        last[at] = level not in open_levels
        open_levels = {other for other in open_levels if other < level} | {level}
    guides, ended = [], {0: True}
    for at, row in enumerate(rows):
        ended[row.level] = last[at]
        stem = "".join("   " if ended[level] else "│  " for level in range(1, row.level))
        guides.append("" if not row.level else stem + ("└─ " if last[at] else "├─ "))
    return guides


def _cut(text: str, width: int) -> str:
    """Cut a name, not how often it repeats."""
    if len(text) <= width:
        return text
    if "+ " in text:
        return f"{text[: width - 1]}…"
    name, sign, times = text.rpartition(" ×")
    tail = f" ×{times}" if sign else ""
    return cells.clipped(name if sign else text, width - len(tail)) + tail


# -- lines -------------------------------------------------------------------------------------------------------------


def _header(report: Report) -> list[Text]:
    facts = report.facts_line
    return [Text(report.title, style="bold"), *([Text(facts, style="dim")] if facts else []), Text("")]


def _body(report: Report, grid: Grid) -> list[Text]:
    rule = Text("─" * grid.width, style="dim")
    widths = [lane.width for lane in grid.lanes]
    lines = [_line(grid.lanes, widths, [lane.head for lane in grid.lanes], "bold")]
    if any(lane.unit for lane in grid.lanes):
        lines.append(_line(grid.lanes, widths, [lane.unit for lane in grid.lanes], "dim"))
    lines.append(rule)
    for at, row in enumerate(_rows(report)):
        if row.kind == "total":
            lines.append(rule)
        lines.append(_line(grid.lanes, widths, [lane.cells[at] for lane in grid.lanes], ROW_STYLES.get(row.kind, "")))
    return lines


def _line(lanes: list[Lane], widths: list[int], texts: list[str], style: str) -> Text:
    """One line of cells; a row with a style of its own has it all along."""
    line = Text(style=style, no_wrap=True, overflow="crop")
    for lane, width, text in zip(lanes, widths, texts):
        line.append(padded(text, width, lane.right), lane.style if not style else "")
        line.append(GAP)
    line.rstrip()
    return line


def _totals(report: Report, width: int) -> list[Text]:
    """RASP's closing lines: what the model costs in all."""
    if report.total is None or report.layout == "tree":
        return []
    lines = [Text("=" * width, style="dim", no_wrap=True, overflow="crop")]
    for heading, value in zip(report.headings, report.total.values):
        if heading.form in ("count", "bytes", "ratio", "time", "small") and value is not None:
            line = Text("Total ", no_wrap=True, overflow="ellipsis").append(heading.name, "bold")
            at_least = "≥" if report.total.partial and heading.unit in cells.ESTIMATED else ""
            lines.append(line.append(": ").append(at_least + cells.with_unit(heading, value), "bold green"))
    return lines


def _notes(report: Report, grid: Grid, width: int | None) -> list[Text]:
    notes = list(report.notes)
    hidden = [name for name in reversed(grid.hidden) if not name.endswith(" bar")]
    if hidden:
        notes.append(f"no room at a width of {width} for: {', '.join(hidden)}")
    lines = [line for note in notes for line in _wrapped(note, width)]
    return [Text(""), *(Text(line, style="dim", no_wrap=True) for line in lines)] if lines else []


def _wrapped(note: str, width: int | None) -> list[str]:
    return wrap(note, width, initial_indent="· ", subsequent_indent="  ") if width else [f"· {note}"]
