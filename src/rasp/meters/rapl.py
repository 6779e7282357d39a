"""Energy of processors by RAPL, read from Linux' powercap: package, memory, and the whole platform where it tells.

Each zone has `energy_uj`, microjoules that start again at 0 past `max_energy_range_uj`; the hardware renews it about
every millisecond (Intel SDM, volume 3, "Package RAPL Domain"; kernel documentation, power/powercap). Cores and graphics
are parts of their package and are not read; memory is not. Since CVE-2020-8694 the file is often for root alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ..errors import MeterError
from . import Absent, Meter, advanced

ROOT = Path("/sys/class/powercap")
NAME = "RAPL"
SHORTEST = 0.1  # seconds, a hundred times that in which the hardware renews it
HIGHEST = 1000.0  # W that one zone stays below: a longer window than range / HIGHEST may have wrapped more than once
MICRO = 1e-6
NO_FOLDER = (
    "There is no RAPL here: {root} does not exist. Virtual machines and processors other than Intel's and AMD's have "
    "none; on others load the kernel module intel_rapl_msr."
)
NO_ZONE = "There is no RAPL zone below {root}: load the kernel module intel_rapl_msr, or measure on the host."
FORBIDDEN = (
    "RAPL's {path} may not be read by this user: have an administrator run 'chmod a+r {path}', or run rasp as root."
)


class Zone:
    """One zone of RAPL: 'package-0', 'dram-0' or 'psys'."""

    unit = "J"
    how = "counter"
    shortest = SHORTEST

    def __init__(self, path: Path, name: str, *, counted: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.name, self.counted, self.clock = path, f"{NAME} {name}", counted, clock
        self.before: int | None = None
        self.began = 0.0
        self.range = 0

    def start(self) -> None:
        self.range = self._number("max_energy_range_uj")
        self.before, self.began = self._number("energy_uj"), self.clock()

    def stop(self) -> float:
        if self.before is None:
            raise MeterError(f"{self.name} was stopped before it was started.")
        now, before, self.before = self._number("energy_uj"), self.before, None
        longest = self.range * MICRO / HIGHEST
        if self.range and self.clock() - self.began > longest:
            raise MeterError(
                f"{self.name} starts again at 0 after {self.range * MICRO:,.0f} J, and may have done so more than once "
                f"in {self.clock() - self.began:.0f} s: measure for less than {longest:.0f} s."
            )
        return advanced(before, now, self.range or None) * MICRO

    def _number(self, name: str) -> int:
        path = self.path / name
        try:
            return int(path.read_text(encoding="ascii"))
        except PermissionError as error:
            raise MeterError(FORBIDDEN.format(path=path)) from error
        except (OSError, ValueError) as error:
            raise MeterError(f"RAPL's {path} could not be read: {error}.") from error


def meters(root: Path = ROOT) -> list[Meter]:
    """The zones that do not hold each other; where there are none, one that says why."""
    if not root.is_dir():
        return [Absent(NAME, "J", NO_FOLDER.format(root=root))]
    zones = dict(_zones(root))
    packages = any(name.startswith("package") for name in zones)
    found: list[Meter] = [Zone(path, name, counted=name != "psys" or not packages) for name, path in zones.items()]
    return found or [Absent(NAME, "J", NO_ZONE.format(root=root))]


def _zones(root: Path) -> list[tuple[str, Path]]:
    """Names and folders; the same zone also stands below intel-rapl-mmio, which is left out where it does."""
    found: dict[str, Path] = {}
    for path in sorted(root.glob("*rapl*:*"), key=lambda path: ("mmio" in path.name, path.name)):
        name = _name(path)
        if name == "dram":
            name = f"dram-{path.name.split(':')[1]}"
        if name.startswith(("package", "dram", "psys")):
            found.setdefault(name, path)
    return sorted(found.items())


def _name(path: Path) -> str:
    try:
        return (path / "name").read_text(encoding="ascii").strip()
    except OSError:
        return ""
