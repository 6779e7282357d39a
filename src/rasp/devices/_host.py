"""The host of every device: what it is, how busy others keep it, and what its kernel holds back."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BUSY = 0.15  # of one core that others take, from which on it is said
HELD_BACK = 0.01  # of the time that the kernel withheld the processor
CLOCK_CHANGE = 0.05
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def description() -> dict[str, Any]:
    """Versions, processor, cores and threads, as plain data."""
    from .. import __version__

    torch = sys.modules.get("torch")
    found: dict[str, Any] = {
        "host": platform.node(),
        "system": platform.platform(),
        "processor": processor(),
        "cores": cores(),
        "python": platform.python_version(),
        "rasp": __version__,
    }
    if torch is not None:
        found |= {
            "torch": str(torch.__version__),
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
        }
    governor = _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return found if governor is None else {**found, "governor": governor}


def processor() -> str:
    """The processor's name, as the system tells it."""
    lines = (_text("/proc/cpuinfo") or "").splitlines()
    found = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return found or platform.processor() or platform.machine()


def cores() -> int:
    """Processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def state() -> dict[str, float]:
    """Seconds of processor time that all took, this process and its children took, and that were held back."""
    own = os.times()
    found = {"own_seconds": own.user + own.system + own.children_user + own.children_system}
    ticks = (_text("/proc/stat") or "").partition("\n")[0].split()[1:]
    if len(ticks) >= 8:
        user, nice, system, _idle, _wait, irq, soft, steal = (int(word) / TICKS for word in ticks[:8])
        found |= {"busy_seconds": user + nice + system + irq + soft, "steal_seconds": steal}
    withheld = _field("/sys/fs/cgroup/cpu.stat", "throttled_usec")
    if withheld is not None:
        found["withheld_seconds"] = withheld / 1e6
    clock = _clock()
    return found if clock is None else {**found, "clock_mhz": clock}


def remarks(before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> list[str]:
    """What two states tell of the time between them, a sentence each."""
    if seconds <= 0:
        return []
    grown = {name: after[name] - before[name] for name in before if name in after}
    found = []
    others = (grown["busy_seconds"] - grown["own_seconds"]) / seconds if "busy_seconds" in grown else 0.0
    if others > BUSY:
        found.append(f"other load: other programs kept {others:.1f} of {os.cpu_count()} cores busy meanwhile")
    if grown.get("steal_seconds", 0.0) / seconds > HELD_BACK:
        found.append(f"other load: the hypervisor took {grown['steal_seconds'] / seconds:.0%} of a core meanwhile")
    if grown.get("withheld_seconds", 0.0) / seconds > HELD_BACK:
        share = grown["withheld_seconds"] / seconds
        found.append(f"throttled: this container's limit of processor time held it back {share:.0%} of the time")
    if before.get("clock_mhz") and after.get("clock_mhz"):
        change = after["clock_mhz"] / before["clock_mhz"] - 1
        if abs(change) > CLOCK_CHANGE:
            found.append(
                f"clock change: the processor went from {before['clock_mhz']:.0f} to {after['clock_mhz']:.0f} MHz"
            )
    return found


def _clock() -> float | None:
    """The mean clock of the cores in MHz; None where the system tells none that changes."""
    text = [_text(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq") for core in range(os.cpu_count() or 0)]
    clocks = [int(word) / 1000 for word in text if word and word.isdecimal()]
    return sum(clocks) / len(clocks) if clocks else None


def _field(path: str, name: str) -> float | None:
    lines = (_text(path) or "").splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), None)


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
