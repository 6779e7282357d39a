"""How a cell ended, and the file in which its process leaves that."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from .. import units

OK, FAILED, MEMORY, TIMEOUT, CRASHED = "ok", "failed", "out of memory", "timeout", "crashed"
STATUSES = (OK, FAILED, MEMORY, TIMEOUT, CRASHED)
AGAIN = (MEMORY, TIMEOUT, CRASHED)  # what the machine had a part in: tried again when a sweep is taken up again
NO_MEMORY = re.compile(r"can't allocate memory|out of memory|bad_alloc|cannot allocate memory|not enough memory", re.I)
LETTERS = 300  # of a reason


@dataclass
class Outcome:
    """How a cell ended. `lost`: it may have been by no fault of its own, so that it is tried again."""

    status: str
    reason: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    profile: str | None = None  # the text of its file
    lost: bool = False
    where: str = ""


def shortened(words: str, letters: int = LETTERS) -> str:
    """Words in one line, cut where they are long."""
    line = " ".join(words.split())
    return line if len(line) <= letters else f"{line[: letters - 2]} …"


def size(nbytes: int | None) -> str:
    return units.size(nbytes).replace(" ", "") if nbytes else "none"


def write(outcome: Outcome, path: str) -> None:
    """Leave an outcome in a file: one line, then the profile as it is saved."""
    head = {name: getattr(outcome, name) for name in ("status", "reason", "values", "seconds")}
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({**head, "kept": outcome.profile is not None}, default=str) + "\n")
        file.write(outcome.profile or "")


def read(path: str) -> Outcome:
    """An outcome that was left in a file."""
    with open(path, encoding="utf-8") as file:
        head = json.loads(file.readline())
        kept = head.pop("kept")
        return Outcome(**head, profile=file.read() if kept else None)
