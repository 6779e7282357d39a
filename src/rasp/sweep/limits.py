"""What a cell may take: seconds, memory, threads, and how often it is tried again."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..memory.targets import UNITS

ROOM = 0.9  # of the machine's memory that a cell may take where nothing is said


@dataclass(frozen=True)
class Limits:
    """What a cell may take, and how often one that was lost is tried again."""

    timeout: float | None = None
    memory: int | None = None
    retries: int = 2
    threads: int | None = None


def limits(timeout: Any, memory: Any, retries: Any, threads: Any) -> Limits:
    """The limits as given, checked; memory is nine tenths of the machine's where nothing is said."""
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise InputError(f"timeout={timeout!r} is not a number of seconds above 0. Leave it out for no limit.")
    if threads is not None:
        _at_least(threads, "threads", 1)
    room = nbytes(memory) if memory is not None else int(machine_memory() * ROOM) or None
    return Limits(timeout, room, _at_least(retries, "retries", 0), threads)


def nbytes(given: Any) -> int:
    """4294967296, '4GiB', '500MB' → bytes."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?b?)\s*", str(given).lower())
    number = 0 if found is None or isinstance(given, bool) else int(float(found[1]) * UNITS.get(found[2] or "b", 1))
    if number < 1:
        raise InputError(f"memory={given!r} is no size: write '4GiB', '500MB' or a number of bytes.")
    return number


def machine_memory() -> int:
    """Bytes of memory of this machine, or of the container's share of it; 0 where that is not known."""
    found = []
    with contextlib.suppress(ValueError, OSError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            word = Path(place).read_text().strip()
        except OSError:
            continue
        if word.isdigit():
            found.append(int(word))
    return min(found, default=0)


def _at_least(given: Any, option: str, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise InputError(f"{option}={given!r} is not a whole number of at least {least}.")
    return given
