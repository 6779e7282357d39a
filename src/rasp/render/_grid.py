"""Columns of cells laid out in lines and fitted to a width: names cut, columns left out, never a wrapped line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len

GAP = "  "
KEPT_LONGEST = (
    "name",
    "flops",
    "params",
    "net_lat",
    "lat[%]",
    "flops%",
    "out_shape",
    "type",
    "macs",
    "mem_rw",
    "flops_bwd",
    "in_shape",
)


@dataclass(slots=True)
class Lane:
    """One column of a grid: its heading, its cells, how they are aligned, the rich style of each."""

    name: str
    head: str
    unit: str
    cells: list[str]
    right: bool = True
    style: str = ""
    least: int | None = None  # cells may be cut to this width
    cut: Callable[[str, int], str] | None = None

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.head, self.unit, *self.cells)), default=0)


@dataclass(slots=True)
class Grid:
    """Lanes that fit, and the names of those that did not."""

    lanes: list[Lane]
    hidden: list[str] = field(default_factory=list)

    @property
    def width(self) -> int:
        return sum(lane.width for lane in self.lanes) + len(GAP) * (len(self.lanes) - 1)


def fitted(lanes: list[Lane], width: int, asked: Sequence[str] = ()) -> Grid:
    """Leave out the least wanted columns until the rest fits with its names cut, then cut no more than is needed.

    Columns that were asked for by name are the last to go.
    """
    grid = Grid(list(lanes))
    while _least(grid.lanes) > width:
        optional = [lane for lane in grid.lanes if lane.name and lane.name != "name"]
        if not optional:
            break
        last = max(optional, key=lambda lane: _rank(lane.name, grid.lanes, asked))
        grid.lanes.remove(last)
        grid.hidden.append(last.name)
    for lane in sorted(grid.lanes, key=lambda lane: -lane.width):
        excess = grid.width - width
        if excess > 0 and lane.cut is not None and lane.least is not None and lane.width > lane.least:
            target = max(lane.least, lane.width - excess)
            lane.cells = [lane.cut(cell, target) for cell in lane.cells]
    return grid


def _least(lanes: list[Lane]) -> int:
    """The width of lanes whose cells are cut as far as they may be."""
    widths = (lane.width if lane.least is None else min(lane.width, lane.least) for lane in lanes)
    return sum(widths) + len(GAP) * (len(lanes) - 1)


def _rank(name: str, lanes: list[Lane], asked: Sequence[str]) -> tuple[int, int]:
    at = next(i for i, lane in enumerate(lanes) if lane.name == name)
    if name in asked:
        return -1, at
    return (KEPT_LONGEST.index(name) if name in KEPT_LONGEST else len(KEPT_LONGEST), at)


def padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
