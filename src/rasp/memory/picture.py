"""A run's memory as text: what is there over time, drawn with blocks, and who holds it at the peak."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .. import units
from .plan import BACKWARD, OPTIMISER

if TYPE_CHECKING:
    from .face import Memory

EIGHTHS = " ▁▂▃▄▅▆▇█"
MARGIN, HEIGHT, BAR = 11, 8, 20
PLAIN = ("parameters", "buffers", "inputs", "saved for backward", "gradients", "optimiser state")  # why says it too


def told(memory: Memory, width: int = 80, owners: int = 8) -> str:
    """The whole page: sums, the run over time, kinds and owners at the peak."""
    width = max(width, 40)
    parts = [_sums(memory), _chart(memory, width), _kinds(memory), _owners(memory, width, owners)]
    return "\n\n".join("\n".join(line.rstrip() for line in part) for part in parts if part)


def _sums(memory: Memory) -> list[str]:
    low, high = memory.range
    spread = "" if low == high else f"  ({units.size(low)} to {units.size(high)} by what is not known of its kernels)"
    rows = [("before the run", memory.base, ""), ("peak", memory.peak, spread)]
    if any(op.phase == OPTIMISER for op in memory.trace.ops):
        rows.append(("in the first step", memory.peak_first, ""))
    if memory.settings.allocator == "cuda":
        rows.append(("reserved", memory.reserved, _room(memory)))
    lines = [f"memory predicted for {memory.target.name}"]
    lines += [f"  {name:<18}{units.size(nbytes):>11}{more}" for name, nbytes, more in rows]
    if memory.measured:
        lines.append(f"measured on {memory.measured['device']}")
        for name, key in (("before the run", "base"), ("peak", "peak"), ("in the first step", "peak_first")):
            lines.append(f"  {name:<18}{units.size(memory.measured[key]):>11}")
    return lines


def _room(memory: Memory) -> str:
    """Whether the target has room for it."""
    usable = memory.target.usable
    fits = memory.reserved <= usable or (memory.peak <= usable and memory.needed <= usable)
    return f"  {'fits' if fits else 'does not fit'} into {units.size(usable)}"


# -- over time ---------------------------------------------------------------------------------------------------------


def _chart(memory: Memory, width: int) -> list[str]:
    """Bytes allocated while each operator runs, the base shaded, the peak and the phases marked below."""
    values = memory.plan.steady.most
    if not values or not memory.peak:
        return []
    across = width - MARGIN - 1
    columns = resampled(values, across)
    rows = drawn(columns, memory.base, memory.peak, HEIGHT)
    labels = [units.size(memory.peak), *[""] * (HEIGHT - 2), ""]
    lines = [f"{label:>{MARGIN - 1}} │{row}" for label, row in zip(labels, rows)]
    lines.append(f"{'0 B':>{MARGIN - 1}} └{_phases(memory, across)}")
    lines.append(_marker(memory, across, columns.index(max(columns))))
    return lines


def resampled(values: Sequence[int], width: int) -> list[int]:
    """As many values as there are columns: the most of those that fall into each."""
    starts = [i * len(values) // width for i in range(width + 1)]
    return [max(values[start : max(end, start + 1)]) for start, end in pairwise(starts)]


def drawn(values: Sequence[int], base: int, top: int, height: int) -> list[str]:
    """Columns of eighths of a character from the bottom up, what is always there in a lighter shade."""
    rows = []
    for row in reversed(range(height)):
        cells = []
        for value in values:
            filled = min(max(round(8 * height * value / top) - 8 * row, 0), 8)
            ground = round(8 * height * base / top) - 8 * row >= 8
            cells.append("░" if ground and filled == 8 else EIGHTHS[filled])
        rows.append("".join(cells))
    return rows


def _phases(memory: Memory, across: int) -> str:
    """The axis, with the name of each phase where it begins."""
    ops, line = memory.trace.ops, ["─"] * across
    for name, start in (
        ("forward", 0),
        ("backward", next((n for n, op in enumerate(ops) if op.phase == BACKWARD), None)),
        ("optimiser", next((n for n, op in enumerate(ops) if op.phase == OPTIMISER), None)),
    ):
        if start is not None:
            at = start * across // len(ops)
            words = f"{name} "[: across - at]
            line[at : at + len(words)] = words
    return "".join(line)


def _marker(memory: Memory, across: int, column: int) -> str:
    """Where the peak is: an arrow under it, and its operator in words."""
    at = memory.plan.steady.at
    words = f"peak: {memory.owners.operator(at).partition('::')[2]} in {memory.owners.place(at)}"
    words = words if len(words) <= across - 2 else f"{words[: across - 3]}…"
    pad = " " * (MARGIN + 1)
    if column + 2 + len(words) <= across:
        return f"{pad}{' ' * column}▲ {words}"
    return f"{pad}{words.rjust(column - 1)} ▲" if len(words) < column else f"{pad}{' ' * column}▲\n{pad}{words}"


# -- at the peak -------------------------------------------------------------------------------------------------------


def _kinds(memory: Memory) -> list[str]:
    """What the peak is made of, the largest first."""
    lines = ["at the peak"]
    for kind, nbytes in sorted(memory.by_kind().items(), key=lambda item: -item[1]):
        if nbytes:
            share = nbytes / memory.peak
            bar = "█" * round(BAR * share) or "▏"
            lines.append(f"  {kind:<18}{units.size(nbytes):>11} {units.percent(share):>7}  {bar}")
    return lines


def gathered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that differ in nothing but the numbers of their modules as one, with how many they are."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        module, why = _without_numbers(row["module"]), _without_numbers(row["why"])
        key = (module, row["op"], row["shape"], row["kind"], why)
        if key not in found:
            found[key] = {**row, "times": 0, "bytes": 0, "one": row}
        found[key]["times"] += 1
        found[key]["bytes"] += row["bytes"]
        if found[key]["one"]["module"] != row["module"]:
            found[key] |= {"module": module, "why": why}
    return sorted(found.values(), key=lambda row: -row["bytes"])


def _without_numbers(path: str) -> str:
    """'saved for the backward of h.3.mlp' → 'saved for the backward of h.*.mlp'."""
    return re.sub(r"(?<=\.)\d+(?=\.|\b)|(?<![\w.×])\d+(?=\.\w)", "*", path)


def _owners(memory: Memory, width: int, owners: int) -> list[str]:
    """Who holds the most, equal ones of repeated blocks together."""
    groups = gathered(memory.at_peak(None))
    lines = ["held by"]
    for row in groups[:owners]:
        times = f" ×{row['times']}" if row["times"] > 1 else ""
        shape = f" {units.shape(row['shape'])}" if row["shape"] else ""
        made = (row["op"] or "").partition("::")[2]
        lines.append(f"{units.size(row['bytes']):>12}{times}  {row['module'] or '(model)'}{shape} {made}".rstrip())
        said = row["why"] if row["kind"] in PLAIN else f"{row['kind']}: {row['why']}"
        lines.append(f"{'':14}{said}")
    rest = groups[owners:]
    if rest:
        count = sum(row["times"] for row in rest)
        lines.append(f"{units.size(sum(row['bytes'] for row in rest)):>12}  {count} more")
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]
