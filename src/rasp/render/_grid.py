"""Columns of cells laid out in lines and fitted to a width: names cut, columns left out, never a wrapped line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rich.cells import cell_len

GAP = "  "
KEPT_LONGEST = ("name", "flops", "params", "flops%", "out_shape", "type", "macs", "mem_rw", "flops_bwd", "in_shape")


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


def fitted(lanes: list[Lane], width: int | None) -> Grid:
    """Cut long names, then leave out the least wanted columns, until a grid fits a width."""
    grid = Grid(list(lanes))
    while width is not None and grid.width > width:
        if any(_shrink(lane, grid.width - width) for lane in grid.lanes):
            continue
        optional = [lane for lane in grid.lanes if lane.name and lane.name != "name"]
        if not optional:
            break
        least = max(optional, key=lambda lane: _rank(lane.name, grid.lanes))
        grid.lanes.remove(least)
        grid.hidden.append(least.name)
    return grid


def _shrink(lane: Lane, excess: int) -> bool:
    """Cut a lane's cells towards its least width; False when there is nothing left to cut."""
    if lane.cut is None or lane.least is None or lane.width <= lane.least:
        return False
    target = max(lane.least, lane.width - excess)
    lane.cells = [lane.cut(cell, target) for cell in lane.cells]
    return True


def _rank(name: str, lanes: list[Lane]) -> tuple[int, int]:
    at = next(i for i, lane in enumerate(lanes) if lane.name == name)
    return (KEPT_LONGEST.index(name) if name in KEPT_LONGEST else len(KEPT_LONGEST), at)


def padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
