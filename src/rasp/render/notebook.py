"""notebook: a small HTML table without scripts, for the output cell of a notebook."""

from __future__ import annotations

from html import escape

from ..report import Report, Row
from . import _cells as cells
from . import format

STYLE = "font-variant-numeric:tabular-nums;border-collapse:collapse;white-space:nowrap"


@format("notebook")
def notebook(report: Report) -> str:
    """An HTML fragment: title, facts, table, notes."""
    facts = report.facts_line
    tree = report.layout == "tree"
    headings = [h for h in report.headings if not (tree and h.name == "name")]
    heads = ["module" if tree else "", *(h.name for h in headings)]
    body = "".join(_row(report, row, tree) for row in (report.rows if tree else report.all_rows()))
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    cells_of_head = "".join(f"<th style='text-align:left'>{escape(head)}</th>" for head in heads)
    return (
        f"<div><b>{escape(report.title)}</b><br><small>{escape(facts)}</small>"
        f"<table style='{STYLE}'><thead><tr>{cells_of_head}</tr></thead><tbody>{body}</tbody></table>"
        f"<small><ul>{notes}</ul></small></div>"
    )


def _row(report: Report, row: Row, tree: bool) -> str:
    times = f" ×{row.times}" if row.times > 1 else ""
    first = f"<td style='text-align:left;padding-left:{1.2 * row.level}em'>{escape(row.title)}{times}</td>"
    texts = [first if tree else f"<td>{escape(cells.mark(row))}</td>"]
    for heading, value in zip(report.headings, row.values):
        if not (tree and heading.name == "name"):
            side = "left" if heading.form in ("text", "shape") else "right"
            texts.append(f"<td style='text-align:{side}'>{escape(cells.short(heading, row, value))}</td>")
    weight = " style='font-weight:bold'" if row.kind == "total" else ""
    return f"<tr{weight}>{''.join(texts)}</tr>"
