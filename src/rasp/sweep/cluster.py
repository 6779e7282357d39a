"""Cells on the machines that Ray joins: a task for each cell, which forks it from a warm parent of its own machine.

A task that is lost with its machine is given to another; a cell that dies, hangs or takes too much memory is seen by
the parent beside it, as it is on one machine, and comes back as its outcome.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from .cells import versions
from .executors import Ended, Job, Processes, libraries
from .outcomes import CRASHED, MEMORY, Outcome, shortened
from .processes import WarmParent, outcome

START = "ray"  # a Ray of this machine alone, ended with the sweep
PROBE = 2.0  # seconds to reach a port
ANSWER = 30.0  # seconds in which a Ray says that it is one
AHEAD = 2  # tasks given to Ray for each CPU it has
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")  # what Ray gives a task may differ from the task before
TIMING = "timing"  # the resource that a machine may be started with, of which a timed cell holds one
LOST = 3  # times that a cell is run elsewhere when its machine goes
LOOK = 2.0  # seconds between two looks at what machines there are
ALONE = 60.0  # seconds that a cell waits for a machine to come back that could run it


class Cluster:
    """Runs cells on Ray: `on` is 'ray' (started here), 'auto', 'host:port' or 'ray://host:port'."""

    def __init__(self, on: str, workers: int | None, words: Sequence[str], resources: Mapping[str, Any]) -> None:
        if on not in (START, "auto"):
            _address(on)
        self.ray = _ray()
        self._words = list(words)
        self._resources = dict(resources)
        self._asking: Processes | None = None
        self._pending: dict[Any, Job] = {}
        self._lost: Counter[int] = Counter()  # by number of the job
        self._has: dict[str, float] = {}
        self._looked = self._alone = -ALONE
        self._packets: dict[int, Any] = {}
        self._is_under_way = False
        self._started = _connect(self.ray, on, workers)
        self._workers = workers
        self._lane = self.ray.remote(max_retries=0)(
            lane
        )  # Ray itself would repeat one that fills the memory without end

    def ask(self, question: str, packets: Sequence[Any]) -> list[Any]:
        """Models are described on this machine."""
        if self._asking is None:
            self._asking = Processes(1, self._words)
        return self._asking.ask(question, packets)

    def has_room(self, job: Mapping[str, Any]) -> bool:
        cpus = self._workers or max(int(self._resources_now().get("CPU", 1)), 1)
        return len(self._pending) < AHEAD * cpus

    def submit(self, job: Job) -> None:
        needs = self._needs(job)
        self._check(needs)
        packet = job["packet"]
        if id(packet) not in self._packets:
            self._packets[id(packet)] = self.ray.put(packet)
        sent = {name: value for name, value in job.items() if name != "packet"}
        reference = self._lane.options(**needs).remote(sent, self._packets[id(packet)], self._words, _paths())
        self._pending[reference] = job

    def ended(self, timeout: float) -> list[Ended]:
        if not self._pending:
            return []
        ready, _ = self.ray.wait(list(self._pending), num_returns=1, timeout=timeout)
        if not ready:
            return self._given_up()
        ready, _ = self.ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)  # what came meanwhile
        found = []
        for reference in ready:
            job = self._pending.pop(reference)
            self._is_under_way = True
            outcome = self._outcome(reference)
            if outcome is None and self._lost[job["number"]] < LOST:
                self._lost[job["number"]] += 1
                self.submit(job)
            else:
                found.append((job["number"], outcome or Outcome(CRASHED, f"lost with its machine {LOST + 1} times")))
        return found

    def _outcome(self, reference: Any) -> Outcome | None:
        """What a task returned; None where it was lost with its process or its machine."""
        errors = self.ray.exceptions
        try:
            found: Outcome = self.ray.get(reference)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.LocalRayletDiedError, errors.ObjectLostError):
            return None
        except errors.OutOfMemoryError as error:
            return Outcome(MEMORY, shortened(f"Ray ended it for lack of memory on its machine: {error}"), lost=True)
        except errors.RayError as error:
            return Outcome(CRASHED, shortened(f"Ray could not run it: {type(error).__name__}: {error}"), lost=True)
        return found

    def _given_up(self) -> list[Ended]:
        """Cells that wait for a machine which is gone: Ray would wait for ever."""
        has = self._resources_now()
        alone = {key: gone for key, job in self._pending.items() if (gone := self._missing(self._needs(job), has))}
        if not alone:
            self._alone = time.monotonic()
        if not alone or time.monotonic() - self._alone < ALONE:
            return []
        for reference in alone:
            with contextlib.suppress(Exception):  # it may have ended, or its machine be gone: then nothing runs
                self.ray.cancel(reference, force=True)
        reason = "no machine is left that could run it: the cluster lacks {}".format
        return [
            (self._pending.pop(reference)["number"], Outcome(CRASHED, reason(gone)))
            for reference, gone in alone.items()
        ]

    def _resources_now(self) -> dict[str, float]:
        if time.monotonic() - self._looked > LOOK:
            self._has = dict(self.ray.cluster_resources())
            self._looked = time.monotonic()
        return self._has

    def close(self) -> None:
        """End what runs; a Ray that was started here ends too, one that was found stays."""
        if self._asking is not None:
            self._asking.close()
        for reference in self._pending:
            with contextlib.suppress(Exception):  # it may have ended, or its machine be gone: then nothing runs
                self.ray.cancel(reference, force=True)
        self._pending.clear()
        if self._started:
            self.ray.shutdown()

    # -- resources -------------------------------------------------------------------------------------------------

    def _needs(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """One CPU for a static cell; for a timed one its GPU, or a machine's share of timing, or all of its CPUs."""
        if not job["timed"]:
            return {"num_cpus": 1}
        device, _, kind = (job["device"] or "cpu").partition("@")
        needs: dict[str, Any] = {"num_cpus": 1}
        if device.startswith("cuda"):
            needs["num_gpus"] = 1
            if kind:
                needs["accelerator_type"] = kind
        elif self._resources_now().get(TIMING):
            needs["resources"] = {TIMING: 1}
        else:
            needs["num_cpus"] = _smallest_machine(self.ray)
        needs |= self._resources
        return needs

    def _check(self, needs: Mapping[str, Any]) -> None:
        """Refuse a sweep whose first cells ask for what the cluster does not have."""
        missing = self._missing(needs, self._resources_now())
        if missing and not self._is_under_way:
            has = ", ".join(f"{key} {value:g}" for key, value in sorted(self._has.items()) if ":" not in key)
            raise InputError(f"A cell asks for {missing}, which the cluster does not have. It has: {has}.")

    def _missing(self, needs: Mapping[str, Any], has: Mapping[str, float]) -> str:
        """What a cell asks for and the cluster does not have: Ray waits for ever for that."""
        asked = {"CPU": needs["num_cpus"], "GPU": needs.get("num_gpus", 0), **needs.get("resources", {})}
        if "accelerator_type" in needs:
            asked[f"accelerator_type:{needs['accelerator_type']}"] = 0.001
        return ", ".join(f"{name} {amount:g}" for name, amount in asked.items() if amount > has.get(name, 0))


_parent: WarmParent | None = None  # of this worker, kept from task to task


def lane(job: Job, packet: Mapping[str, Any], words: Sequence[str], paths: Sequence[str]) -> Outcome:
    """One cell, in a process of its own on the machine that Ray chose. Runs in a worker of Ray's."""
    global _parent
    sys.path.extend(path for path in paths if path not in sys.path and os.path.isdir(path))
    if _parent is None:
        _parent = WarmParent(libraries(words))
    device = (job["device"] or "").partition("@")[0] or None
    if job["versions"] != versions():
        return Outcome(
            CRASHED, f"{socket.gethostname()} has {_listed(versions())}, the driver {_listed(job['versions'])}"
        )
    visible = {name: os.environ[name] for name in VISIBLE if name in os.environ}
    job = {**job, "device": device, "packet": dict(packet), "environment": visible}
    number = _parent.submit("cell", job)
    while True:
        for ended, told in _parent.ended(None):
            if ended == number:
                found = outcome(told, job)
                found.values.pop("modules", None)
                return found


def _listed(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items())


def _paths() -> list[str]:
    return [os.getcwd() if path == "" else path for path in sys.path]


# -- joining -----------------------------------------------------------------------------------------------------------


def _connect(ray: Any, on: str, workers: int | None) -> bool:
    """Join the Ray at an address, or start one here; whether this driver has to end it."""
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "configure_logging": False}
    if on == START:
        ray.init(num_cpus=workers, include_dashboard=False, **quiet)
        return True
    _probe(on)
    try:
        ray.init(address=on, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"on={on!r}: no Ray could be joined there: {shortened(str(error))} {ADVICE}") from error
    return True


ADVICE = "Start one with `ray start --head`, or leave on= out to use this machine."


def _probe(on: str) -> None:
    """Whether anything listens at an address: Ray itself would try for minutes, and then end the process."""
    if on == "auto":
        return
    try:
        socket.create_connection(_address(on), PROBE).close()
    except OSError as error:
        raise InputError(f"on={on!r}: nothing answers there ({error.strerror or error}). {ADVICE}") from error
    if not on.startswith("ray://"):  # such an address gives up by itself
        _check_health(on)


def _address(on: str) -> tuple[str, int]:
    """Host and port of 'host:port' or 'ray://host:port'."""
    host, colon, port = on.removeprefix("ray://").rpartition(":")
    if not (colon and host and port.isdigit() and int(port) < 1 << 16):
        raise InputError(
            f"on={on!r} is not known. Use 'processes', 'here', 'ray' (started here), 'auto', 'host:port' or "
            "'ray://host:port'."
        )
    return host.strip("[]"), int(port)


def _check_health(on: str) -> None:
    """Whether it is a Ray that listens there, asked by another process: Ray would end this one when it is not."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--skip-version-check", "--address", on]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER, check=False)
    except subprocess.TimeoutExpired as error:
        words = f"something listens there, but it did not answer as Ray does within {ANSWER:g} s."
        raise InputError(f"on={on!r}: {words} {ADVICE}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it is not healthy"]
        raise InputError(f"on={on!r}: no Ray that lets itself be joined: {shortened(lines[-1])} {ADVICE}")


def _smallest_machine(ray: Any) -> int:
    """CPUs of the smallest machine that has any."""
    counts = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    return min((count for count in counts if count), default=1)


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise InputError("Ray is not installed: pip install 'torch-rasp[ray]', or leave on= out.") from error
