"""Energy of AMD's and Intel's graphics cards, from the files of their Linux drivers.

`energy1_input` counts microjoules (xe, i915), `power1_average` or `power1_input` tells microwatts (amdgpu); see the
kernel's documentation, gpu/amdgpu/thermal and ABI/testing/sysfs-driver-intel-xe-hwmon. Written after these documents
and tested on trees of files: on such a card it has not been run.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..errors import MeterError
from . import Absent, Meter, advanced
from .sampled import Sampled

ROOT = Path("/sys/class/drm")
NAME = "graphics card"
SHORTEST = 5.0  # seconds; how often the files are renewed is not documented
MICRO = 1e-6


class Counter:
    """Microjoules of one card."""

    unit = "J"
    how = "counter"
    shortest = SHORTEST
    counted = True

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.before: int | None = None

    def start(self) -> None:
        self.before = self.reading()

    def stop(self) -> float:
        if self.before is None:
            raise MeterError(f"{self.name} was stopped before it was started.")
        now, before, self.before = self.reading(), self.before, None
        return advanced(before, now) * MICRO

    def reading(self) -> int:
        """The counter as it stands."""
        return _number(self.path)


def meters(driver: str, index: int = 0, root: Path = ROOT) -> list[Meter]:
    """The meter of the card with this number among those of a driver ('amdgpu', 'xe', 'i915')."""
    cards = [card for card in sorted(root.glob("card*")) if card.name[4:].isdigit() and _driver(card) == driver]
    if index >= len(cards):
        why = f"There is no card {index} of the driver {driver} below {root}: its energy cannot be read."
        return [Absent(NAME, "J", why)]
    name = f"{driver} {cards[index].name}"
    for folder in sorted((cards[index] / "device" / "hwmon").glob("hwmon*")):
        if (folder / "energy1_input").exists():
            return [Counter(folder / "energy1_input", name)]
        for power in ("power1_average", "power1_input"):
            if (folder / power).exists():
                return [Sampled(f"{name} {power}", partial(_watts, folder / power), shortest=SHORTEST)]
    return [Absent(NAME, "J", f"{name} tells neither energy nor power: its driver writes no energy1_input.")]


def _driver(card: Path) -> str:
    return (card / "device" / "driver").resolve().name


def _watts(path: Path) -> float:
    return _number(path) * MICRO


def _number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise MeterError(f"{path} could not be read: {error}.") from error
