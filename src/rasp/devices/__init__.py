"""Devices: what is known of machines, as data: one row of sheet.csv each.

`memory_mib` is what the driver gives to programs (the total that nvidia-smi or rocm-smi prints), not the size on the
box: the driver and error correction keep some. To add a machine, add a row.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

SHEET = Path(__file__).with_name("sheet.csv")


class Machine(NamedTuple):
    """A machine of the sheet: bytes of memory that programs see, and the generation of its kernels."""

    name: str
    memory: int
    generation: str


@cache
def sheet() -> dict[str, Machine]:
    """Every machine by name."""
    with SHEET.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {row["name"]: Machine(row["name"], int(row["memory_mib"]) << 20, row["generation"]) for row in rows}
