"""MACs against parameters, both logarithmic: a colour for each family, its models joined, every point named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import log10

from . import Point
from ._labels import Box, Spot, far, placed
from ._scales import counted, grid, limits
from ._svg import drawing, element, number, text, width

WIDE, HIGH = 1000.0, 660.0
LEFT, TOP, BELOW, LEGEND = 62.0, 40.0, 48.0, 150.0
SIZE = 10  # of a label's letters
LINE = 11.0  # height of its box
# Bright and dark in turn, so that neighbours differ twice; all of them stand out on white and on black.
COLOURS = (
    "#2f81f7", "#d4432f", "#2da44e", "#a371f7", "#bf8700", "#d6409f", "#0f9d9d", "#8a6d5b", "#e8702a", "#5b8c2a",
    "#6e7fd1", "#b5495b", "#3fb0d8", "#9a9a2a", "#7d8590", "#c76bd6",
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """Everything in its place: points, label boxes (None: no room), axes."""

    spots: list[Spot]
    labels: list[Box | None]
    frame: Box
    across: tuple[float, float]
    up: tuple[float, float]


def layout(points: Sequence[Point]) -> Layout:
    across = limits(min(p.macs for p in points), max(p.macs for p in points))
    up = limits(min(p.params for p in points), max(p.params for p in points))
    frame = Box(LEFT, TOP, WIDE - LEGEND, HIGH - BELOW)
    spots = [_spot(point, across, up, frame) for point in points]
    sizes = [(width(point.name, SIZE), LINE) for point in points]
    lines = [pair for joined in families(points).values() for pair in _pairs([spots[at] for at in joined])]
    return Layout(spots, placed(spots, sizes, frame, lines), frame, across, up)


def _spot(point: Point, across: tuple[float, float], up: tuple[float, float], frame: Box) -> Spot:
    x = frame.left + _share(point.macs, across) * (frame.right - frame.left)
    return x, frame.bottom - _share(point.params, up) * (frame.bottom - frame.top)


def _share(value: float, ends: tuple[float, float]) -> float:
    """How far along a logarithmic axis a value is, from 0 to 1."""
    return log10(value / ends[0]) / log10(ends[1] / ends[0])


def families(points: Sequence[Point]) -> dict[str, list[int]]:
    """Points of each family, by their MACs."""
    found: dict[str, list[int]] = {}
    for at, point in enumerate(points):
        found.setdefault(point.family or point.name, []).append(at)
    return {
        name: sorted(members, key=lambda at: (points[at].macs, points[at].params)) for name, members in found.items()
    }


def _pairs(spots: Sequence[Spot]) -> list[tuple[Spot, Spot]]:
    return list(pairwise(spots))


def drawn(points: Sequence[Point], title: str) -> str:
    """The picture; of models that cost nothing there is no point on a logarithmic axis."""
    points = [point for point in points if point.macs > 0 and point.params > 0]
    if not points:
        return drawing(WIDE, 60.0, title, [text("No model here has both MACs and parameters.", 16.0, 34.0)])
    plan = layout(points)
    parts = [text(title, LEFT, 22.0, 13, font_weight="bold"), *_axes(plan)]
    groups = families(points)
    for number_, (name, members) in enumerate(groups.items()):
        parts.append(_family([points[at] for at in members], [plan.spots[at] for at in members], colour(number_)))
        parts += _legend(name, number_, len(groups), colour(number_))
    parts += [_label(point.name, spot, box) for point, spot, box in zip(points, plan.spots, plan.labels) if box]
    missing = sum(box is None for box in plan.labels)
    if missing:
        words = f"{missing} more points have no room for a name; hover over them."
        parts.append(text(words, WIDE - LEGEND, 22.0, 10, text_anchor="end", class_="faint"))
    return drawing(WIDE, HIGH, title, parts)


def colour(number_: int) -> str:
    return COLOURS[number_ % len(COLOURS)]


def _axes(plan: Layout) -> list[str]:
    """Grid lines at 1 to 9 of every power of ten, names at some of them, the axes' titles."""
    frame = plan.frame
    wide, high = frame.right - frame.left, frame.bottom - frame.top
    paths: dict[bool, str] = {False: "", True: ""}
    names = []
    for value, named in grid(*plan.across):
        x = frame.left + _share(value, plan.across) * wide
        paths[named] += f"M{number(x)} {number(frame.bottom)}v{number(-high)}"
        if named:
            names.append(text(counted(value), x, frame.bottom + 16, 10, text_anchor="middle", class_="faint"))
    for value, named in grid(*plan.up):
        y = frame.bottom - _share(value, plan.up) * high
        paths[named] += f"M{number(frame.left)} {number(y)}h{number(wide)}"
        if named:
            names.append(text(counted(value), frame.left - 7, y + 3.5, 10, text_anchor="end", class_="faint"))
    lines = [element("path", d=paths[named], class_="grid", stroke_opacity=None if named else 0.4) for named in paths]
    middle = frame.top + high / 2
    turned = f"rotate(-90 14 {number(middle)})"
    across = text("MACs", frame.left + wide / 2, frame.bottom + 36, 11, text_anchor="middle")
    return [*lines, *names, across, text("parameters", 14.0, middle, 11, text_anchor="middle", transform=turned)]


def _family(points: Sequence[Point], spots: Sequence[Spot], tone: str) -> str:
    """A family's line and its points, which tell their numbers when pointed at."""
    line = "".join(f"{'ML'[at > 0]}{number(x)} {number(y)}" for at, (x, y) in enumerate(spots))
    made = [element("path", d=line, fill="none", stroke_opacity=0.55)] if len(spots) > 1 else []
    for point, (x, y) in zip(points, spots):
        words = f"{point.name}: {point.macs / 1e9:.4g} GMACs, {point.params / 1e6:.4g} M parameters"
        made.append(element("circle", f"<title>{escape(words)}</title>", cx=float(x), cy=float(y), r=3.2, fill=tone))
    return element("g", "".join(made), stroke=tone, stroke_width=1.2)


def _legend(name: str, at: int, count: int, tone: str) -> list[str]:
    """A family's name beside the picture, as many as there is room for."""
    step = min(18.0, (HIGH - TOP - BELOW) / count)
    if step < 9 and at * 9 > HIGH - TOP - BELOW:
        return []
    x, y = WIDE - LEGEND + 16, TOP + 8 + at * max(step, 9.0)
    dot = element("circle", cx=float(x), cy=float(y - 3.5), r=4, fill=tone)
    while width(name, SIZE) > LEGEND - 34:
        name = name[:-2] + "…"
    return [dot, text(name, x + 10, y, SIZE)]


def _label(name: str, spot: Spot, box: Box) -> str:
    """A name in its box, and a line to its point where it is far; the letters are fitted to the box in any font."""
    made = ""
    if far(box, spot):
        x, y = box.nearest(spot)
        d = f"M{number(spot[0])} {number(spot[1])}L{number(x)} {number(y)}"
        made = element("path", d=d, style="stroke:var(--faint)", stroke_width=0.5)
    fitted = {"textLength": number(box.right - box.left), "lengthAdjust": "spacingAndGlyphs"}
    return made + text(name, box.left, box.bottom - 2.5, SIZE, **fitted)
