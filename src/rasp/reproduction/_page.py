"""The page and the summary of a reproduction."""

from __future__ import annotations

from collections.abc import Sequence

from ..report import Heading, Report, Row
from . import Line, Result


def summary(results: Sequence[Result]) -> Report:
    """A line for each table: how many printed values, how many the same."""
    headings = [
        Heading("table", "table", "", "text", "The published table"),
        Heading("lines", "lines", "", "count", "Rows of the table", additive=True),
        Heading("values", "values", "", "count", "Printed values compared", additive=True),
        Heading("same", "same", "", "count", "Values that print the same", additive=True),
        Heading("left_out", "left out", "", "text", "Columns that are measurements, or why the table was not computed"),
    ]
    rows = [Row("table", "", _summed(result)) for result in results]
    totals = [sum(row.values[at] for row in rows) for at in (1, 2, 3)]
    return Report("Reproduction", headings, rows, Row("total", "", ["total", *totals, ""]))


def _summed(result: Result) -> list[object]:
    left_out = (
        f"not computed: {result.missing} is not installed" if result.missing else ", ".join(result.table.measured)
    )
    return [result.table.name, len(result.lines), result.values, result.same, left_out]


def page(results: Sequence[Result], made_with: str) -> str:
    """Every printed value beside ours, as Markdown."""
    values, same = sum(r.values for r in results), sum(r.same for r in results)
    parts = [
        "# Published numbers, computed again",
        f"Written by `make reproduce` ({made_with}). **{same:,} of {values:,} printed values are the same.**",
        "The older tools that rasp takes the place of published these tables. Each value is computed anew from a model "
        "with random weights and compared as it was printed: a column of what was printed, beside it ours, and at the "
        "end of each line whether all of it is the same. Measurements (latencies, durations, error rates) are named, "
        "not counted.",
        _overview(results),
        *[_table(result) for result in results],
    ]
    return "\n\n".join(parts) + "\n"


def _overview(results: Sequence[Result]) -> str:
    lines = ["| table | lines | values | same | left out |", "| --- | ---: | ---: | ---: | --- |"]
    for result in results:
        name, rows, values, same, left_out = _summed(result)
        lines.append(f"| [{name}](#{_anchor(result.table.name)}) | {rows} | {values} | {same} | {left_out} |")
    return "\n".join(lines)


def _anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _table(result: Result) -> str:
    table = result.table
    head = f"## {table.name}\n\nPrinted in {table.source}. {result.same} of {result.values} values are the same."
    remark = f"\n\n{table.remark}" if table.remark else ""
    if result.missing:
        return f"{head}{remark}\n\nNot computed here: {result.missing} is not installed."
    columns = list(dict.fromkeys(column for line in result.lines for column in line.cells))
    heads = " | ".join(f"{_cell(column)} | ours" for column in columns)
    lines = [f"| | {heads} | same |", f"| --- |{' ---: |' * (2 * len(columns))} --- |"]
    lines += [_line(line, columns) for line in result.lines]
    return "\n\n".join(
        [head + remark, f"<details><summary>{len(result.lines)} lines</summary>", "\n".join(lines), "</details>"]
    )


def _line(line: Line, columns: Sequence[str]) -> str:
    cells = (_cell(text) for column in columns for text in line.cells.get(column, ("", "")))
    same = "not computed" if not line.cells else f"**no: {_cell(', '.join(line.wrong))}**" if line.wrong else "yes"
    return f"| {_cell(line.name)} | {' | '.join(cells)} | {same} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_") or " "
