"""rasp columns, conventions, machines, env: what there is."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from .. import __version__, addons, api

LIBRARIES = ("torch", "torchvision", "timm", "transformers", "pandas", "rich", "cyclopts")


def columns() -> None:
    """What can be asked about a model. A column that adds up has a share as well: flops%."""
    addons.load()
    twins = ("_bwd", "_opt", "_total")
    rows = []
    for column in api.columns():
        if not column.name.endswith(twins):
            also = [f"{column.name}{twin}" for twin in twins if f"{column.name}_bwd" in {c.name for c in api.columns()}]
            rows.append((column.name, column.unit, column.doc + (f" Also {', '.join(also)}." if also else "")))
    show(("column", "unit", "what it says"), rows)


def conventions() -> None:
    """The ways of counting, with their sources."""
    rows = [(item.name, item.level, str(item.year), item.title, item.source) for item in api.conventions()]
    show(("convention", "counts by", "year", "what it counts", "source"), rows)


def machines(*, sparse: Annotated[bool, Parameter(help="Peaks with 2:4 sparsity.", negative=())] = False) -> None:
    """The machines that can be predicted for, with their ceilings, without sparsity unless asked for."""
    from .. import units
    from ..devices import TYPES, calibrated, sheet

    rows = []
    for item in (*calibrated().values(), *sheet().values()):
        known = {name: item.sparse_peak(name) if sparse else item.peaks.get(name) for name in TYPES}
        peaks = ("–" if known[name] is None else units.count(known[name] or 0.0) for name in TYPES)
        memory, cache = ("–" if size is None else units.size(size) for size in (item.memory, item.cache))
        rows.append((item.name, memory, f"{item.bandwidth / 1e9:,.0f} GB/s", cache, *peaks, item.source))
    show(("machine", "memory", "bandwidth", "cache", *(f"{name} FLOP/s" for name in TYPES), "source"), rows)


def env() -> None:
    """Versions and devices, for a bug report."""
    rows = [("rasp", __version__), ("python", sys.version.split()[0]), ("platform", platform.platform())]
    for name in LIBRARIES:
        try:
            rows.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    show(("what", "version"), [*rows, *_devices()])


def _devices() -> list[tuple[str, str]]:
    """What torch can run on."""
    try:
        import torch
    except ImportError:
        return []
    found = [("threads", str(torch.get_num_threads()))]
    found += [(f"cuda:{i}", torch.cuda.get_device_name(i)) for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append(("mps", "available"))
    return found + [row for name, _ in [("cpu", ""), *found] if name != "threads" for row in _meters(name)]


def _meters(name: str) -> list[tuple[str, str]]:
    """The meters of energy that a device has here, or why one cannot be read."""
    from ..devices import get
    from ..errors import MeterError

    rows = []
    for meter in get(name).meters():
        try:
            meter.start()
            meter.stop()
            rows.append((f"energy of {name}", meter.name))
        except MeterError as error:
            rows.append((f"energy of {name}", f"not available: {error}"))
    return rows


def show(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A list on the screen; one line for each, with tabs between, where it is read by something else."""
    console = Console()
    if not console.is_terminal:
        sys.stdout.write("".join("\t".join(row) + "\n" for row in [heads, *rows]))
        return
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for at, head in enumerate(heads):
        table.add_column(head, style="cyan" if at == 0 else "", no_wrap=at == 0)
    for row in rows:
        table.add_row(*row)
    console.print(table)
