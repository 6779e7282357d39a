"""Numbers with prefixes, and tables as text, csv or Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

UNITS = (" ", "K", "M", "G", "T", "P")
DIGITS = re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d+)?")


def clever_format(values: Any, fmt: str = "%6.2f") -> Any:
    """'118.01 M': a number, or each of a list, with the prefix that leaves it below 1000 as it is printed."""
    if isinstance(values, (list, tuple)):
        return [clever_format(value, fmt) for value in values]
    value, unit = values, 0
    while unit < len(UNITS) - 1 and (abs(value) >= 1000 or _printed(value, fmt) >= 1000):
        value, unit = value / 1000, unit + 1
    return f"{fmt % value} {UNITS[unit]}"


def _printed(value: float, fmt: str) -> float:
    """The number that a reader sees: 999.999 with two decimals is 1000."""
    digits = DIGITS.search(fmt % value)
    return abs(float(digits.group())) if digits else abs(value)


def ratio(value: float, total: float) -> str:
    """A share of the total; of nothing, none."""
    return f"{100 * value / total if total else 0:5.2f} %"


def table(columns: Sequence[Sequence[str]], sides: str, kind: str) -> str:
    """Columns of cells, the first and last of each the heading and the total; `sides` l, r or c, one for each."""
    if kind == "csv":
        return _csv(columns)
    rows = list(zip(*(_justified(column, side) for column, side in zip(columns, sides, strict=True))))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    bars = ["-" * len(cell) for cell in rows[0]]
    if kind == "md":
        return "\n".join([lines[0], "|:" + ":|:".join(bars) + ":|", *lines[1:]])
    rule = "+-" + "-+-".join(bars) + "-+"
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _justified(cells: Sequence[str], side: str) -> list[str]:
    width = max(map(len, cells))
    put = {"l": str.ljust, "r": str.rjust, "c": str.center}[side]
    return [put(cell, width) for cell in cells]


def _csv(columns: Sequence[Sequence[str]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([cell.strip() for cell in row] for row in zip(*columns))
    return file.getvalue().removesuffix("\n")
