"""The loop of a sweep: give cells to an executor, keep what comes back, take up what is lost."""

from __future__ import annotations

import errno
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import FileError
from .cells import Cell, Plan, versions
from .executors import Ended, Executor
from .limits import Limits
from .outcomes import AGAIN, OK, Outcome
from .progress import Progress
from .store import Record, Store

PAUSE = 0.2  # seconds between two looks at what another driver works on
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass
class Driver:
    """Runs a plan's cells that the store does not have."""

    plan: Plan
    store: Store
    executor: Executor
    packets: Sequence[Mapping[str, Any]]
    columns: Sequence[str]
    limits: Limits
    progress: Progress
    resume: bool = True
    retry_failed: bool = False
    keep: bool = True
    ran: int = 0
    seconds: float = 0.0
    _running: dict[int, tuple[Cell, int]] = field(default_factory=dict)
    _again: deque[tuple[Cell, int]] = field(default_factory=deque)
    _elsewhere: deque[Cell] = field(default_factory=deque)
    _mine: set[str] = field(default_factory=set)
    _number: int = 0

    def run(self) -> None:
        """Until every cell is done: here, or by another driver on the same folder."""
        cells = self._missing()
        at_hand = next(cells, None)
        ended: list[Ended] = []
        while at_hand or self._again or self._running or self._elsewhere or ended:
            at_hand = self._fill(at_hand, cells)
            for number, outcome in ended:  # written while the next ones run
                self._take(*self._running.pop(number), outcome)
            ended = self.executor.ended(PAUSE) if self._running else []
            if not self._running and self._elsewhere and at_hand is None:
                self._look_elsewhere()

    def _missing(self) -> Iterator[Cell]:
        """Cells that are not done, each once."""
        for cell in self.plan.cells():
            if cell.key in self._mine:
                self.progress.total -= 1
                continue
            self._mine.add(cell.key)
            record = self.store.record(cell.key) if self.resume else None
            if record is not None and self._is_done(record):
                self.progress.skipped(record["status"])
            else:
                yield cell

    def _is_done(self, record: Record) -> bool:
        """Whether a record stands: not one that the machine had a part in, nor one without the columns asked for."""
        if record["status"] != OK:
            return not self.retry_failed and record["status"] not in AGAIN
        return self.store.answers(record, self.columns)

    def _fill(self, at_hand: Cell | None, cells: Iterator[Cell]) -> Cell | None:
        """Start cells while there is room; gives the first that found none."""
        while self._again and self.executor.has_room(self._job(*self._again[0])):
            self._start(*self._again.popleft())
        while at_hand is not None and not self._again and self.executor.has_room(self._job(at_hand, 0)):
            if self._is_claimed(at_hand):
                self._start(at_hand, 0)
            at_hand = next(cells, None)
        return at_hand

    def _is_claimed(self, cell: Cell) -> bool:
        """Take a cell for this driver, unless another has it or has just done it."""
        if not self.store.claim(cell.key):
            self._elsewhere.append(cell)
            return False
        return not self.resume or not self._is_settled(cell)

    def _is_settled(self, cell: Cell) -> bool:
        """Whether a cell that was claimed is done after all: another driver was faster."""
        before = self.store.records.get(cell.key)
        record = self.store.fresh(cell.key)
        if record is None or (record == before and not self._is_done(record)):
            return False
        self.store.release(cell.key)
        self.progress.skipped(record["status"])
        return True

    def _look_elsewhere(self) -> None:
        """What another driver has: done by now, still worked on, or given up and free to take."""
        for cell in [self._elsewhere.popleft() for _ in range(len(self._elsewhere))]:
            if not self.store.claim(cell.key):
                self._elsewhere.append(cell)
            elif not self._is_settled(cell):
                self._again.append((cell, 0))
        if self._elsewhere and not self._again:
            self.progress.waiting(len(self._elsewhere))
            time.sleep(PAUSE)

    # -- one cell --------------------------------------------------------------------------------------------------

    def _start(self, cell: Cell, tries: int) -> None:
        self._number += 1
        self._running[self._number] = (cell, tries)
        self.executor.submit({**self._job(cell, tries), "number": self._number})
        self.progress.started(self._title(cell))

    def _job(self, cell: Cell, tries: int) -> dict[str, Any]:
        threads = self.limits.threads or (None if cell.timed else 1)  # None: all cores of the machine it runs on
        return {
            "packet": self.packets[cell.model], "batch": cell.batch, "size": cell.size, "tokens": cell.tokens,
            "dtype": cell.dtype, "device": cell.device, "measures": cell.measures, "timed": cell.timed,
            "trunk": self.plan.trunk(self.plan.models[cell.model]), "options": self.plan.options,
            "columns": self.columns, "keep": self.keep, "threads": threads, "timeout": self.limits.timeout,
            "memory": self.limits.memory, "on_gpu": cell.timed and (cell.device or "cpu") != "cpu", "tries": tries,
            "versions": versions(),
        }  # fmt: skip

    def _take(self, cell: Cell, tries: int, outcome: Outcome) -> None:
        """Keep how a cell ended, or try it again where it was lost."""
        again = outcome.lost and tries < self.limits.retries
        self.progress.ended(self._title(cell), outcome, again)
        if again:
            self._again.append((cell, tries + 1))
            return
        if outcome.lost and tries:
            outcome.reason += f" ({tries + 1} tries)"
        self.ran += 1
        self.seconds += outcome.seconds
        facts = {
            "model": self.plan.models[cell.model].name, "cell": self._title(cell), "measures": list(cell.measures),
            "tries": tries + 1, "versions": versions(),
        }  # fmt: skip
        try:
            self.store.add(cell.key, outcome, facts)
        except OSError as error:
            raise self._not_kept(error) from error
        self.store.release(cell.key)

    def _title(self, cell: Cell) -> str:
        return f"{self.plan.models[cell.model].name}{cell.title}"

    def _not_kept(self, error: OSError) -> FileError:
        cause = "the disk is full" if error.errno in NO_ROOM else error.strerror or str(error)
        return FileError(
            f"A result could not be written to {self.store.folder}: {cause}. The {len(self.store.records)} cells that "
            "were finished are kept. Make room and run the same sweep again: it goes on from there."
        )
