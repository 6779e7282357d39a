"""Values of a Report as words: exact digits where there is room, short forms with a prefix where there is not."""

from __future__ import annotations

from typing import Any

from .. import units
from ..report import Heading, Row

ESTIMATED = ("MAC", "FLOP", "op")  # what a row with an operator without a rule knows only a lower bound of
SHAPES_SHOWN = 3
MARKS = {"own": "+", "uncalled": "∅", "rest": "…", "phase": "·", "remainder": "±"}
BAR = "▏▎▍▌▋▊▉█"


def exact(heading: Heading, row: Row, value: Any) -> str:
    """All digits, and shapes as Python writes them."""
    if value is None:
        return missing(heading, row)
    if heading.form == "shape":
        return units.shape(value) if _are_many(value) else str(value)
    if heading.form == "text":
        return str(value)
    if heading.form in ("share", "ratio"):
        return number(heading, value)
    if heading.form in ("time", "small"):
        return f"{value:.6g}"
    return bounded(heading, row, f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value))


def _are_many(value: Any) -> bool:
    """Whether these are more shapes than a cell can hold: a cache of keys and values has one for each layer."""
    return bool(value) and isinstance(value[0], tuple) and len(value) > SHAPES_SHOWN


def short(heading: Heading, row: Row, value: Any) -> str:
    """A number with a prefix, shapes with a cross."""
    if value is None:
        return missing(heading, row)
    if heading.form == "shape":
        return units.shape(value)
    return str(value) if heading.form == "text" else bounded(heading, row, number(heading, value))


def number(heading: Heading, value: float) -> str:
    """A number in the short form of its kind."""
    if heading.form == "bytes":
        return units.size(value)
    if heading.form == "share":
        return units.percent(value)
    if heading.form == "time":
        return units.time(value / 1e3 if heading.unit == "ms" else value)
    if heading.form == "small":
        return units.small(value, heading.unit)
    return units.ratio(value) if heading.form == "ratio" else units.count(value)


def with_unit(heading: Heading, value: float) -> str:
    """A number in its short form with its unit: '627.69 MFLOP'."""
    return units.count(value, heading.unit) if heading.form == "count" else number(heading, value)


def bounded(heading: Heading, row: Row, text: str) -> str:
    if row.partial and heading.unit in ESTIMATED:
        return f"≥{text}"
    return "shared" if row.shared and text == "0" and heading.name.startswith("param") else text


def missing(heading: Heading, row: Row) -> str:
    if heading.form in ("text", "shape"):
        return ""
    return "?" if row.partial else "–"


def mark(row: Row) -> str:
    """What stands in the first column: a call's number, or a sign of the row's kind."""
    return str(row.label) if isinstance(row.label, int) else MARKS.get(row.kind, "")


def bar(share: float | None, width: int = 8) -> str:
    """A share as a bar of eighths of a character."""
    eighths = round(min(max(share or 0, 0), 1) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (BAR[rest - 1] if rest else "")


def clipped(text: str, width: int) -> str:
    """A text that fits a width, cut in the middle: both ends of a path say something."""
    if len(text) <= width:
        return text
    left = (width - 1) // 2
    return f"{text[:left]}…{text[len(text) - (width - 1 - left) :]}"
