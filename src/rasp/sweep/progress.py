"""What a sweep says while it runs, on stderr: a bar on a terminal, elsewhere a line for each failure and at times."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

from .outcomes import OK, Outcome

EVERY = 30.0  # seconds between two lines where there is no terminal
SHOWN = 3  # of the cells that run


class Progress:
    """Counts what runs, what is done, what failed; shows nothing unless asked to."""

    def __init__(self, total: int, show: bool | None = None) -> None:
        self.total = total
        self.shown = sys.stderr.isatty() if show is None else show
        self.running: dict[str, float] = {}
        self.statuses: Counter[str] = Counter()
        self.before = 0
        self._began = self._said = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if self.shown and sys.stderr.isatty():
            self._bar = _bar(self.total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self.shown:
            self._say(self.line())

    def skipped(self, status: str | None) -> None:
        """A cell that an earlier run or another driver did."""
        self.before += 1
        self.statuses[status or OK] += 1
        if self.before % 100 == 0:
            self._show()

    def started(self, title: str) -> None:
        self.running[title] = time.monotonic()
        self._show()

    def ended(self, title: str, outcome: Outcome, again: bool) -> None:
        self.running.pop(title, None)
        if not again:
            self.statuses[outcome.status] += 1
        if outcome.status != OK and self.shown:
            self._say(f"{title}: {outcome.status}: {outcome.reason}{', tried again' if again else ''}")
        self._show()

    def waiting(self, cells: int) -> None:
        """Another driver works on what is left."""
        self.running = {f"{cells} cells of another driver": time.monotonic()}
        self._show()
        self.running = {}

    # -- words -----------------------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        return sum(self.statuses.values())

    @property
    def failed(self) -> int:
        return self.done - self.statuses[OK]

    def left(self) -> float | None:
        """Seconds to go, as the cells of this run took them; None before the first."""
        ran = self.done - self.before
        return (time.monotonic() - self._began) / ran * max(self.total - self.done, 0) if ran else None

    def line(self) -> str:
        parts = [f"{self.done} of {self.total} cells"]
        if self.before:
            parts.append(f"{self.before} done before")
        parts += [f"{count} {status}" for status, count in sorted(self.statuses.items()) if status != OK and count]
        left = self.left()
        if left and self.done < self.total:
            parts.append(f"{clock(left)} left")
        return ", ".join(parts)

    def names(self) -> str:
        titles = list(self.running)
        more = f" and {len(titles) - SHOWN} more" if len(titles) > SHOWN else ""
        return ", ".join(titles[:SHOWN]) + more

    def _show(self) -> None:
        if self._bar is not None:
            words = {"failed": self.failed, "names": self.names(), "left": self._left()}
            self._bar.update(self._bar.task_ids[0], completed=self.done, total=self.total, **words)
        elif self.shown and time.monotonic() - self._said > EVERY:
            self._said = time.monotonic()
            self._say(self.line())

    def _left(self) -> str:
        left = self.left()
        return "" if left is None or self.done >= self.total else f"{clock(left)} left"

    def _say(self, words: str) -> None:
        if self._bar is not None:
            self._bar.console.print(words, markup=False, highlight=False)
        else:
            sys.stderr.write(f"rasp: {words}\n")
            sys.stderr.flush()


def clock(seconds: float) -> str:
    """3723 → '1:02:03', 65 → '1:05'."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _bar(total: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    parts = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("[red]{task.fields[failed]} failed"),
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.fields[names]}"),
    )
    bar = Bar(*parts, console=Console(stderr=True), transient=True)
    bar.add_task("", total=total, failed=0, names="", left="")
    return bar
