"""DNN analyzer's layout: a table with rules around it, numbers aligned at their points, and five lines of totals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MEBI, MEGA = 1024**2, 1000**2
NUMBERS = {  # its title → ours, and what one of its units holds; None: a whole number
    "parameters": ("parameters", None),
    "mem read (MB)": ("mem_read", MEBI),
    "mem write (MB)": ("mem_write", MEBI),
    "storage (MB)": ("storage", MEBI),
    "inference (MB)": ("inference", MEBI),
    "MACs (Mega)": ("macs", MEGA),
}
TITLES = ("module name", *NUMBERS, "duration[%]")
ROOM = 2  # more than the title needs


def rows(data: Sequence[Mapping[str, Any]]) -> str:
    """The table; nothing where nothing ran."""
    if not data:
        return ""
    columns = [_left([row["name"] for row in data], TITLES[0])]
    for title, (name, unit) in NUMBERS.items():
        columns.append(_at_point([_number(row[name], unit) for row in data], title))
    columns.append(_left([_percent(row["duration"]) for row in data], TITLES[-1]))
    rule = "+".join("-" * (len(column[0]) + 2) for column in columns)
    lines = [f"| {' | '.join(cells)} |" for cells in zip(*columns)]
    return "\n".join([f"+{rule}+", lines[0], f"|{rule}|", *lines[1:], f"+{rule}+"])


def _number(value: float, unit: int | None) -> str:
    """Three decimals, six digits at most."""
    return str(value) if unit is None else f"{round(value / unit, 3):g}"


def _percent(share: float | None) -> str:
    return "not run" if share is None else f"{round(100 * share, 2)} %"


def _left(cells: Sequence[str], title: str) -> list[str]:
    width = max(len(title) + ROOM, *map(len, cells))
    return [cell.ljust(width) for cell in (title, *cells)]


def _at_point(cells: Sequence[str], title: str) -> list[str]:
    after = [len(cell) - len(re.split("[.e]", cell)[0]) for cell in cells]  # the point, or the e of a power of ten
    padded = [cell + " " * (max(after) - digits) for cell, digits in zip(cells, after)]
    width = max(len(title) + ROOM, *map(len, padded))
    return [cell.rjust(width) for cell in (title, *padded)]


def totals(sums: Mapping[str, Any]) -> Iterator[str]:
    """Five lines, each with the prefix that fits."""
    yield f"Total Storage:  {_scaled(sums['storage'], 1024, 'B')}"
    yield f"Total Parameters:  {sums['parameters']}"
    yield f"Total inference memory:  {_scaled(sums['inference'], 1024, 'B')}"
    yield f"Total number of Macs:  {_scaled(sums['macs'], 1000, 'MAC')}"
    yield f"Total Memory Read + Write:  {_scaled(sums['mem_read_write'], 1024, 'B')}"


def _scaled(value: float, base: int, unit: str) -> str:
    """Two decimals; no space where there is no prefix."""
    for power, prefix in ((4, "T"), (3, "G"), (2, "M"), (1, "K")):
        if value >= base**power:
            return f"{round(value / base**power, 2)} {prefix}{unit}"
    return f"{round(value, 2)}{unit}"
