"""md: a Markdown table for an issue, a README or a job summary."""

from __future__ import annotations

from ..report import Report, Row
from . import _cells as cells
from . import format


@format("md", ".md")
def md(report: Report) -> str:
    """A Markdown table with exact numbers, the facts above it and the notes below."""
    tree = report.layout == "tree"
    headings = [h for h in report.headings if not (tree and h.name == "name")]
    first = "module" if tree else "index"
    names = [f"{h.name} ({h.unit})" if h.unit and h.form != "share" else h.name for h in headings]
    left = [h.form in ("text", "shape") for h in headings]
    lines = [f"**{_escaped(report.title)}**", ""]
    if report.facts:
        lines += [report.facts_line, ""]
    lines += [_cells([first, *names]), _cells([":--" if tree else "--:", *(":--" if flag else "--:" for flag in left)])]
    for row in report.rows if tree else report.all_rows():
        values = [v for h, v in zip(report.headings, row.values) if not (tree and h.name == "name")]
        texts = [cells.exact(h, row, v) for h, v in zip(headings, values)]
        lines.append(_cells([_indented(row) if tree else cells.mark(row), *map(_escaped, texts)]))
    return "\n".join([*lines, "", *(f"- {_escaped(note)}" for note in report.notes)]).rstrip() + "\n"


def _indented(row: Row) -> str:
    times = f" ×{row.times}" if row.times > 1 else ""
    return "&nbsp;&nbsp;" * row.level + _escaped(row.title) + times


def _cells(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _escaped(text: str) -> str:
    for sign in "\\`*_|<":
        text = text.replace(sign, f"\\{sign}")
    return text
