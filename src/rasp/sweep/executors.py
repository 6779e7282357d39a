"""Where cells run: in this process, in processes of this machine, or (cluster.py) on machines that Ray joins."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..errors import InputError
from .outcomes import Outcome
from .processes import WarmParent, outcome

LIBRARIES = {"torchvision": "torchvision", "timm": "timm", "hf": "transformers"}
AHEAD = 2  # static cells that wait in the warm parent, so that no core waits for the driver
Job = dict[str, Any]
Ended = tuple[int, Outcome]


class Executor(Protocol):
    """Runs jobs; a job's `number` names it in what comes back."""

    def ask(self, question: str, packets: Sequence[Any]) -> list[Any]:
        """Expand or describe models."""

    def has_room(self, job: Mapping[str, Any]) -> bool:
        """Whether this job can start now."""

    def submit(self, job: Job) -> None: ...

    def ended(self, timeout: float) -> list[Ended]:
        """Jobs that ended, at the latest after `timeout` seconds."""

    def close(self) -> None:
        """End everything that runs."""


class Here:
    """In this process: nothing to start, nothing to send, and no shelter from a crash."""

    def __init__(self) -> None:
        self.waiting: list[Job] = []

    def ask(self, question: str, packets: Sequence[Any]) -> list[Any]:
        from . import warm

        return warm.answers(question, packets)

    def has_room(self, job: Mapping[str, Any]) -> bool:
        return not self.waiting

    def submit(self, job: Job) -> None:
        self.waiting.append(job)

    def ended(self, timeout: float) -> list[Ended]:
        import torch

        from .cell import measure

        threads = torch.get_num_threads()
        jobs, self.waiting = self.waiting, []
        try:
            return [(job["number"], measure(job)) for job in jobs]
        finally:
            torch.set_num_threads(threads)

    def close(self) -> None:
        self.waiting = []


class Processes:
    """A process for each cell, forked from one that is warm: static ones on all cores, timed ones alone."""

    def __init__(self, workers: int, words: Sequence[str] = ()) -> None:
        self.workers = workers
        self.parent = WarmParent(libraries(words), workers)
        self.parent.start()
        self.jobs: dict[int, Job] = {}
        self._learnt = 0

    def ask(self, question: str, packets: Sequence[Any]) -> list[Any]:
        return self.parent.ask(question, packets)

    def has_room(self, job: Mapping[str, Any]) -> bool:
        return may_start(job, list(self.jobs.values()), self.workers)

    def submit(self, job: Job) -> None:
        sent = {**job, "learn": self._learnt == 0 and not job["timed"]}
        self._learnt += sent["learn"]
        self.jobs[self.parent.submit("cell", sent)] = job

    def ended(self, timeout: float) -> list[Ended]:
        found = []
        for number, told in self.parent.ended(timeout):
            job = self.jobs.pop(number)
            how = outcome(told, job)
            self.parent.also(how.values.pop("modules", ()))
            found.append((job["number"], how))
        return found

    def close(self) -> None:
        self.parent.close()


def may_start(job: Mapping[str, Any], running: Sequence[Mapping[str, Any]], workers: int) -> bool:
    """Static cells fill the cores, a few wait; a timed one waits for its device, on the CPU for the whole machine."""
    if not job["timed"]:
        return len(running) < workers + AHEAD and not any(other["timed"] for other in running)
    if any(not other["timed"] for other in running):
        return False
    device = job["device"] or "cpu"
    busy = {other["device"] or "cpu" for other in running}
    return not busy if device == "cpu" else device not in busy and "cpu" not in busy


def libraries(words: Sequence[str]) -> list[str]:
    """Modules worth importing once: what the models are named after."""
    origins = {word.partition(":")[0] for word in words if ":" in word}
    found = [LIBRARIES[origin] for origin in sorted(origins & set(LIBRARIES))]
    return ["rasp.zoo", *(name for name in found if importlib.util.find_spec(name) is not None)]


def cores(workers: Any) -> int:
    """How many cells run at a time: as asked, else one for each core that this process may use."""
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers={workers!r} is not a whole number of at least 1.")
    return workers
