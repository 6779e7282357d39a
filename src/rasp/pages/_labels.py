"""Where labels stand beside points so that none lies on another, on a point, or outside the picture."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, hypot, inf, pi, sin
from typing import NamedTuple, TypeVar

RADIUS = 4.0  # of a point, with a little air
PAD = 1.0  # air around a label
DISTANCES = (5.0, 9.0, 15.0, 23.0, 33.0, 46.0, 62.0, 82.0, 106.0, 134.0)
ANGLES = 24
NEAR = 7.0  # labels farther off get a line to their point
Spot = tuple[float, float]


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def within(self, other: Box) -> bool:
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.top <= self.top
            and self.bottom <= other.bottom
        )

    def nearest(self, spot: Spot) -> Spot:
        """The place of the box that is closest to a point."""
        return min(max(spot[0], self.left), self.right), min(max(spot[1], self.top), self.bottom)


Thing = TypeVar("Thing", Box, tuple[Spot, Spot])


def around(spot: Spot) -> Box:
    """What a point covers."""
    return Box(spot[0] - RADIUS, spot[1] - RADIUS, spot[0] + RADIUS, spot[1] + RADIUS)


def placed(
    spots: Sequence[Spot], sizes: Sequence[Spot], frame: Box, lines: Sequence[tuple[Spot, Spot]] = ()
) -> list[Box | None]:
    """A box for the label of each point, as near as there is room; None where there is none.

    The labels of points in a crowd choose first. Boxes on a line are taken only where no other is near.
    """
    taken = [around(spot) for spot in spots]
    found: list[Box | None] = [None] * len(spots)
    strokes = list(lines)  # of families, then twice those from labels to their points: they count double
    for at in sorted(range(len(spots)), key=lambda index: (-_crowd(spots, index), index)):
        options = [box for box in _options(spots[at], sizes[at]) if box.within(frame)]
        near = _near(options, taken)
        free = [box for box in options if not any(box.meets(other) for other in near)]
        if free:
            best = _best(free, spots, at, _near(options, strokes), near)
            found[at] = best
            taken.append(Box(best.left - PAD, best.top - PAD, best.right + PAD, best.bottom + PAD))
            if far(best, spots[at]):
                strokes += [(spots[at], best.nearest(spots[at]))] * 2
    return found


def _best(
    free: Sequence[Box], spots: Sequence[Spot], at: int, lines: Sequence[tuple[Spot, Spot]], taken: Sequence[Box]
) -> Box:
    """The box of the least cost, the first of equals. Boxes too far off to win are not looked at further."""
    spot = spots[at]
    ranked = sorted((_reach(box, spot), index) for index, box in enumerate(free))
    best = inf, 0
    for least, index in ranked:
        if least > best[0]:
            break
        box = free[index]
        best = min(best, (least + _crowded(box, spot, lines, taken) + _strange(box, spots, at), index))
    return free[best[1]]


def _near(options: Sequence[Box], things: Sequence[Thing]) -> list[Thing]:
    """Boxes or lines that any of the options, or a line to it, could meet."""
    if not options:
        return []
    reach = Box(
        min(box.left for box in options) - RADIUS,
        min(box.top for box in options) - RADIUS,
        max(box.right for box in options) + RADIUS,
        max(box.bottom for box in options) + RADIUS,
    )
    return [thing for thing in things if reach.meets(thing if isinstance(thing, Box) else _around_line(*thing))]


def _around_line(a: Spot, b: Spot) -> Box:
    """The box of which a line is the diagonal, a hair larger so that a level line has one."""
    return Box(min(a[0], b[0]) - 0.1, min(a[1], b[1]) - 0.1, max(a[0], b[0]) + 0.1, max(a[1], b[1]) + 0.1)


def far(box: Box, spot: Spot) -> bool:
    """Whether a label is so far from its point that a line has to join them."""
    return _away(box, spot) > NEAR


def _crowd(spots: Sequence[Spot], at: int) -> float:
    """How many points are near one, nearer ones more."""
    x, y = spots[at]
    return sum(1 / (20 + hypot(a - x, b - y)) for a, b in spots)


def _options(spot: Spot, size: Spot) -> list[Box]:
    """Boxes around a point: right of it first, then in circles."""
    made = []
    for distance in DISTANCES:
        for step in range(ANGLES):
            angle = 2 * pi * step / ANGLES
            across, down = cos(angle), sin(angle)
            # the box touches the circle where it looks at the point
            x = spot[0] + distance * across + size[0] * (across - 1) / 2
            y = spot[1] + distance * down + size[1] * (down - 1) / 2
            made.append(Box(x, y, x + size[0], y + size[1]))
    return made


def _reach(box: Box, spot: Spot) -> float:
    """Distance from a point, less where the label stands right of it."""
    beside = 0.0 if box.left >= spot[0] else 1.5 if box.right <= spot[0] else 2.5
    return _away(box, spot) + beside


def _crowded(box: Box, spot: Spot, lines: Sequence[tuple[Spot, Spot]], taken: Sequence[Box]) -> float:
    """What it costs that the label lies on lines, and its own line on labels, points and other lines."""
    crossed = float(sum(_crosses(box, a, b) for a, b in lines))
    if far(box, spot):
        near, point = box.nearest(spot), around(spot)
        own = _around_line(spot, near)
        over = sum(own.meets(other) and _crosses(other, spot, near) for other in taken if other != point)
        crossed += 2 * over + sum(_cut(spot, near, a, b) for a, b in lines) * 0.7
    return 14 * crossed


def _strange(box: Box, spots: Sequence[Spot], at: int) -> float:
    """For every other point that a label stands as near to as to its own."""
    away = _away(box, spots[at])
    return 30.0 * sum(_away(box, spot) < min(away + 3, 14) for other, spot in enumerate(spots) if other != at)


def _away(box: Box, spot: Spot) -> float:
    near = box.nearest(spot)
    return hypot(near[0] - spot[0], near[1] - spot[1])


def _crosses(box: Box, a: Spot, b: Spot) -> bool:
    """Whether a line passes through a box (Liang and Barsky)."""
    low, high = 0.0, 1.0
    sides = (box.left, box.right), (box.top, box.bottom)
    for start, end, (least, most) in zip(a, b, sides):
        delta = end - start
        if delta == 0:
            if not least < start < most:
                return False
            continue
        one, other = (least - start) / delta, (most - start) / delta
        low, high = max(low, min(one, other)), min(high, max(one, other))
    return low < high


def _cut(a: Spot, b: Spot, c: Spot, d: Spot) -> bool:
    """Whether two lines cross."""

    def side(p: Spot, q: Spot, r: Spot) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
