"""The sheet: what is known of machines, as data: one row of sheet.csv each.

`memory_mib` is what the driver gives to programs (the total that nvidia-smi or rocm-smi prints), not the size on the
box: the driver and error correction keep some; it is left open where it depends on what is plugged in. Peaks are in
TFLOP/s without sparsity: `vector` is that of ordinary fp32 arithmetic, the others those of matrix products with inputs
of that type, fp32 accumulation where that is the slower; `sparse` is what 2:4 sparsity multiplies them by. To add a
machine, add a row. Machines that `rasp calibrate` measured stand beside them, in a file of the person's own.
"""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import FileError, InputError, UnknownName

SHEET = Path(__file__).with_name("sheet.csv")
TYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")
SPARSE = ("tf32", "bf16", "fp16", "fp8", "int8")  # types of products that 2:4 sparsity is built for
DEFAULT_MACHINE = "h200"
TERA, GIGA = 1e12, 1e9


@dataclass(frozen=True)
class Machine:
    """A machine: bytes of memory that programs see (None: depends), the generation of its kernels, and its ceilings.

    `peaks` (matrix products, by type of their inputs) and `vector` are operations a second, `bandwidth` bytes a second,
    `cache` bytes, `launch` seconds that starting one operator takes; None is unknown.
    """

    name: str
    memory: int | None
    generation: str
    bandwidth: float = 0.0
    cache: int | None = None
    vector: float = 0.0
    peaks: dict[str, float] = field(default_factory=dict)
    sparse: float = 1.0
    launch: float | None = None
    how: str = "published"  # or "measured"
    source: str = ""
    host: str = ""  # where it was measured

    def sparse_peak(self, kind: str) -> float | None:
        """Operations a second with 2:4 sparsity, zeros counted: of the types whose products have it."""
        dense = self.peaks.get(kind)
        return dense * self.sparse if dense is not None and self.sparse > 1 and kind in SPARSE else None


@cache
def sheet() -> dict[str, Machine]:
    """Every published machine by name."""
    with SHEET.open(newline="", encoding="utf-8") as file:
        return {row["name"]: _of_row(row) for row in csv.DictReader(file)}


def machine(name: str) -> Machine:
    """A machine of the sheet ('h200'), or this one ('cpu', 'cuda:0') as `rasp calibrate` measured it."""
    kept = calibrated()
    spelled = name.strip().lower()
    spelled = f"{spelled}:0" if spelled == "cuda" else spelled
    if spelled in sheet():
        return sheet()[spelled]
    if spelled in kept:
        return kept[spelled]
    if spelled.partition(":")[0] in ("cpu", "cuda", "mps", "xpu"):
        raise InputError(
            f"The ceilings of {name!r} on this machine are not known yet: measure them once with "
            f"'rasp calibrate --device {spelled}', or name a machine of 'rasp machines'."
        )
    raise UnknownName("machine", name, [*sheet(), *kept])


def machine_here(device: str, gpu: str | None = None) -> str | None:
    """The name of the ceilings of a device that is here: as calibrated, else the published ones of a GPU so called."""
    if device in calibrated():
        return device
    words = set(re.findall(r"[a-z0-9]+", (gpu or "").lower()))
    found = [name for name in sheet() if words and set(re.findall(r"[a-z0-9]+", name)) <= words]
    return max(found, key=len, default=None)


def as_kept(name: str) -> str | dict[str, Any]:
    """A machine as a profile keeps it: a published one by name, a measured one with all that was measured."""
    if not isinstance(name, str):
        raise InputError(f"roof={name!r} is not the name of a machine; 'rasp machines' lists them.")
    found = machine(name)
    return found.name if found.how == "published" else asdict(found)


def calibrated() -> dict[str, Machine]:
    """What was measured on this host, by device."""
    path = kept_at()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        machines = [Machine(**item) for item in found]
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError) as error:
        raise FileError(
            f"{path} is not what 'rasp calibrate' writes ({error}); delete it and calibrate again."
        ) from error
    return {item.name: item for item in machines if item.host == _host()}


def keep(measured: Machine) -> Path:
    """Keep what was measured, in place of what was known of that device on this host."""
    path = kept_at()
    others = []
    if path.exists():
        others = [item for item in json.loads(path.read_text(encoding="utf-8")) if not _same(item, measured)]
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps([*others, asdict(measured)], indent=1), encoding="utf-8")
    beside.replace(path)
    return path


def kept_at() -> Path:
    """The file of calibrated machines: $RASP_HOME/machines.json, else below the person's configuration."""
    home = os.environ.get("RASP_HOME")
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return (Path(home) if home else Path(config) / "rasp") / "machines.json"


def _same(item: dict[str, Any], measured: Machine) -> bool:
    return item.get("name") == measured.name and item.get("host") == measured.host


def _host() -> str:
    import platform

    return platform.node()


def _of_row(row: dict[str, str]) -> Machine:
    peaks = {name: float(row[name]) * TERA for name in TYPES if row[name]}
    return Machine(
        row["name"], int(row["memory_mib"]) << 20 if row["memory_mib"] else None, row["generation"],
        float(row["bandwidth_gbs"]) * GIGA, int(float(row["cache_mib"]) * (1 << 20)) if row["cache_mib"] else None,
        float(row["vector"]) * TERA, peaks, float(row["sparse"]), source=row["source"],
    )  # fmt: skip
