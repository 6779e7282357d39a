"""Cells on the machines that Ray joins: a task for each cell, which forks it from a warm parent of its own machine.

A task that is lost with its machine is run again elsewhere by Ray; a cell that dies, hangs or takes too much memory is
seen by the parent beside it, as it is on one machine, and comes back as its outcome.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from .executors import Ended, Job, Processes, libraries
from .outcomes import CRASHED, Outcome, shortened
from .processes import WarmParent, outcome

START = "ray"  # a Ray of this machine alone, ended with the sweep
PROBE = 2.0  # seconds to reach a port
AHEAD = 2  # tasks given to Ray for each CPU it has
TIMING = "timing"  # the resource that a machine may be started with, of which a timed cell holds one
LOST = 3  # times that a cell is run elsewhere when its machine goes


class Cluster:
    """Runs cells on Ray: `on` is 'ray' (started here), 'auto', 'host:port' or 'ray://host:port'."""

    def __init__(self, on: str, workers: int | None, words: Sequence[str], resources: Mapping[str, Any]) -> None:
        self.ray = _ray()
        self._words = list(words)
        self._resources = dict(resources)
        self._asking: Processes | None = None
        self._pending: dict[Any, Job] = {}
        self._packets: dict[int, Any] = {}
        self._started = _connect(self.ray, on, workers)
        self._workers = workers
        self._lane = self.ray.remote(max_retries=LOST)(lane)

    def ask(self, question: str, packets: Sequence[Any]) -> list[Any]:
        """Models are described on this machine."""
        if self._asking is None:
            self._asking = Processes(1, self._words)
        return self._asking.ask(question, packets)

    def has_room(self, job: Mapping[str, Any]) -> bool:
        cpus = self._workers or max(int(self.ray.cluster_resources().get("CPU", 1)), 1)
        return len(self._pending) < AHEAD * cpus

    def submit(self, job: Job) -> None:
        needs = self._needs(job)
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
        if ready:  # and what has come in meanwhile
            ready, _ = self.ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)
        return [(self._pending.pop(reference)["number"], self._outcome(reference)) for reference in ready]

    def close(self) -> None:
        """End what runs; a Ray that was started here ends too, one that was found stays."""
        if self._asking is not None:
            self._asking.close()
        for reference in self._pending:
            with contextlib.suppress(Exception):
                self.ray.cancel(reference, force=True)
        self._pending.clear()
        if self._started:
            self.ray.shutdown()

    def _outcome(self, reference: Any) -> Outcome:
        """What a task returned; a task that Ray gave up is a cell that crashed."""
        try:
            found: Outcome = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return Outcome(CRASHED, shortened(f"Ray lost it: {type(error).__name__}: {error}"), lost=True)
        return found

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
        elif self.ray.cluster_resources().get(TIMING):
            needs["resources"] = {TIMING: 1}
        else:
            needs["num_cpus"] = _smallest_machine(self.ray)
        needs |= self._resources
        self._check(needs)
        return needs

    def _check(self, needs: Mapping[str, Any]) -> None:
        """Ray waits for ever for what no machine has; say so instead."""
        has = self.ray.cluster_resources()
        asked = {"GPU": needs.get("num_gpus", 0), **needs.get("resources", {})}
        if "accelerator_type" in needs:
            asked[f"accelerator_type:{needs['accelerator_type']}"] = 0.001
        for name, amount in asked.items():
            if amount > has.get(name, 0):
                raise InputError(
                    f"A timed cell asks for {name} {amount:g}, and the cluster has {has.get(name, 0):g}. It has: "
                    f"{', '.join(f'{key} {value:g}' for key, value in sorted(has.items()) if ':' not in key)}."
                )


_parent: WarmParent | None = None  # of this worker, kept from task to task


def lane(job: Job, packet: Mapping[str, Any], words: Sequence[str], paths: Sequence[str]) -> Outcome:
    """One cell, in a process of its own on the machine that Ray chose. Runs in a worker of Ray's."""
    global _parent
    sys.path.extend(path for path in paths if path not in sys.path and os.path.isdir(path))
    if _parent is None:
        _parent = WarmParent(libraries(words))
    device = (job["device"] or "").partition("@")[0] or None
    here = {**job, "device": device, "packet": dict(packet)}
    number = _parent.submit("cell", here)
    while True:
        for ended, told in _parent.ended(None):
            if ended == number:
                found = outcome(told, here)
                found.values.pop("modules", None)
                return found


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
    address = on.removeprefix("ray://")
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit() and int(port) < 1 << 16):
        raise InputError(
            f"on={on!r} is not known. Use 'processes', 'here', 'ray' (started here), 'auto', 'host:port' or 'ray://host:port'."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), PROBE).close()
    except OSError as error:
        raise InputError(f"on={on!r}: nothing answers there ({error.strerror or error}). {ADVICE}") from error


def _smallest_machine(ray: Any) -> int:
    """CPUs of the smallest machine that has any."""
    counts = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    return min((count for count in counts if count), default=1)


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise InputError("Ray is not installed: pip install 'torch-rasp[ray]', or leave on= out.") from error
