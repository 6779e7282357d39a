"""Cells in processes on this machine, and the client of the warm parent that forks them."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ..errors import CaptureError, InputError
from . import outcomes
from .outcomes import CRASHED, MEMORY, TIMEOUT, Outcome

STARTS = 3  # of a warm parent that dies before it has answered once
PATIENCE = 120.0  # seconds that the warm parent may take to import torch and describe a model


class WarmParent:
    """Starts the warm parent, sends it cells, tells how they ended. A parent that dies is started again."""

    def __init__(self, preload: Iterable[str] = (), width: int = 1) -> None:
        if not hasattr(os, "fork"):
            raise InputError("This system cannot fork processes: sweep with on='here', or on a Ray address.")
        self.folder = tempfile.mkdtemp(prefix="rasp-sweep-")
        self.preload = list(preload)
        self.width = width  # cells at a time; more may wait in the parent, so that none has to for the driver
        self.running: dict[int, dict[str, Any]] = {}
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._files: dict[int, tuple[bytes, str]] = {}  # with the bytes, whose id would else be given to others
        self._deaths = 0  # since the last answer

    def start(self) -> None:
        """Start the process; it imports while the driver goes on."""
        ours, theirs = socket.socketpair()
        paths = [os.getcwd() if path == "" else path for path in sys.path]
        with theirs:
            code = (
                f"import sys; sys.path[:] = {paths!r}; from rasp.sweep.warm import main; "
                f"main({theirs.fileno()}, {self.folder!r}, {self.width})"
            )
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=_environment(),
            )  # fmt: skip
        self._connection = Connection(ours.detach())
        if self.preload:
            self._send(("import", self.preload))

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def also(self, modules: Iterable[str]) -> None:
        """Have more modules imported before the next cell."""
        new = [name for name in modules if name not in self.preload]
        self.preload += new
        if new and self._connection is not None:
            self._send(("import", new))

    def submit(self, kind: str, job: Mapping[str, Any]) -> int:
        """Start a cell (or a 'description'); gives the number by which its end is told."""
        if self._connection is None:
            self.start()
        number = next(self._numbers)
        result = os.path.join(self.folder, str(number))
        self.running[number] = {**job, "number": number, "result": result, "packet": self._spooled(job.get("packet"))}
        self._send((kind, self.running[number]))
        return number

    def ended(self, timeout: float | None) -> list[tuple[int, dict[str, Any]]]:
        """Cells that ended, each with its exit code, why it was ended, and where its result lies."""
        if self._connection is None or not wait([self._connection], timeout):
            return []
        found = []
        try:
            while self._connection.poll():
                told = self._connection.recv()
                self._deaths = 0
                job = self.running.pop(told["number"], None)
                if job is not None:
                    found.append((told["number"], {**told, "result": job["result"]}))
        except (EOFError, OSError):
            return [*found, *self._died()]
        return found

    def _died(self) -> list[tuple[int, dict[str, Any]]]:
        """The parent itself is gone: so are its cells."""
        code = self._end_process()
        self._deaths += 1
        if self._deaths >= STARTS:
            raise CaptureError(f"The process that cells are forked from {died(code)} each time it is started.")
        words = {"code": code, "why": "parent", "said": "", "kernel": False}
        lost = [(number, {**words, "result": job["result"]}) for number, job in self.running.items()]
        self.running.clear()
        os.makedirs(self.folder, exist_ok=True)  # it may have taken it along
        self._files.clear()
        return lost

    def close(self) -> None:
        """End the parent and its cells."""
        self._end_process()
        self.running.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end_process(self) -> int:
        if self._connection is not None:
            self._connection.close()  # the parent reads the end of it, and ends its cells and itself
            self._connection = None
        if self._process is None:
            return 0
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        code, self._process = self._process.returncode, None
        return code

    def _send(self, message: Any) -> None:
        assert self._connection is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a dead parent is met in `ended`
            self._connection.send(message)

    def _spooled(self, packet: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """A pickled model goes into a file once, not over the wire for each cell."""
        if packet is None or "pickled" not in packet:
            return None if packet is None else dict(packet)
        content = packet["pickled"]
        if id(content) not in self._files:
            path = os.path.join(self.folder, f"model-{len(self._files)}")
            Path(path).write_bytes(content)
            self._files[id(content)] = content, path
        return {**{k: v for k, v in packet.items() if k != "pickled"}, "file": self._files[id(content)][1]}

    # -- questions -------------------------------------------------------------------------------------------------

    def ask(self, question: str, packets: Sequence[Any]) -> list[Any]:
        """Expand or describe models in a process; where that process dies, each in its own, so that one is blamed."""
        found = self._answer(question, packets)
        if found is not None:
            return found
        if len(packets) == 1:
            return [{"error": "the process that was to build it died", "refused": False}]
        return [answer for packet in packets for answer in self.ask(question, [packet])]

    def _answer(self, question: str, packets: Sequence[Any]) -> list[Any] | None:
        sent = [self._spooled(packet) if isinstance(packet, Mapping) else packet for packet in packets]
        number = self.submit("description", {"ask": question, "packets": sent, "timeout": PATIENCE})
        deadline = time.monotonic() + 2 * PATIENCE
        while time.monotonic() < deadline:
            for ended, told in self.ended(1.0):
                if ended == number:
                    return _read_json(told["result"]) if told["code"] == 0 else None
        raise CaptureError("The process that describes models does not answer.")


def _read_json(path: str) -> Any:
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    os.unlink(path)
    return found


def _environment() -> dict[str, str]:
    return {**os.environ, "TOKENIZERS_PARALLELISM": "false"}


def outcome(told: Mapping[str, Any], job: Mapping[str, Any]) -> Outcome:
    """How a cell ended, from its result and its exit."""
    found = _outcome(told, job)
    found.where = socket.gethostname()
    found.seconds = told.get("seconds", 0.0)
    for path in (told["result"], f"{told['result']}.err"):
        with contextlib.suppress(OSError):
            os.unlink(path)
    return found


def _outcome(told: Mapping[str, Any], job: Mapping[str, Any]) -> Outcome:
    said = _last_line(told["said"])
    if told["code"] == 0:
        try:
            return outcomes.read(told["result"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            return Outcome(CRASHED, f"its process left no result: {error}", lost=True)
    if told["why"] == "timeout":
        return Outcome(TIMEOUT, f"took longer than timeout={job['timeout']:g} s")
    if told["why"] == "memory":
        return Outcome(MEMORY, f"took more than memory={outcomes.size(job['memory'])}")
    if told["kernel"]:
        return Outcome(MEMORY, "the kernel ended its process for lack of memory", lost=True)
    if outcomes.NO_MEMORY.search(told["said"]):
        return Outcome(MEMORY, f"memory={outcomes.size(job['memory'])} did not suffice: {said}")
    if told["why"] == "parent":
        return Outcome(CRASHED, "the parent of its process died", lost=True)
    return Outcome(CRASHED, f"its process {died(told['code'])}{f': {said}' if said else ''}", lost=True)


def died(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    return outcomes.shortened((fatal or lines or [""])[0 if fatal else -1])
