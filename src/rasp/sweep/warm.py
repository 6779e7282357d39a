"""The warm parent: a process that has imported everything once and forks a fresh process for each cell.

It speaks with one driver over one connection. When the driver goes, it ends, and with it every cell; when a cell dies,
hangs or takes too much memory, the driver is told and the other cells go on.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import resource
import shutil
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

TICK = 0.1  # seconds between two looks at memory
TAIL = 1 << 15  # bytes of a dead cell's last words: a crash lists every module
NO_ROOM = 74  # exit code of a cell that could not write its result
PR_SET_PDEATHSIG = 1
Request = tuple[str, dict[str, Any]]  # what is to be done, and the job


@dataclass
class Child:
    """A forked cell. `sentinel` ends when the cell does."""

    number: int
    pid: int
    sentinel: int
    began: float
    deadline: float
    limit: int  # bytes of resident memory, 0 for none
    killings: int  # by the kernel, when it began
    said: str  # file of its standard error
    why: str = ""


def main(handle: int, folder: str, width: int) -> None:
    """Serve a driver until it goes away, `width` cells at a time; the folder of their results goes with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.filterwarnings("ignore")
    connection = Connection(handle)
    import torch  # noqa: F401 - no operator runs here: a pool of threads would not survive the fork

    from . import cell, description  # noqa: F401

    children: dict[int, Child] = {}
    waiting: deque[Request] = deque()
    with contextlib.suppress(EOFError, OSError):
        while True:
            _serve(connection, children, waiting, width)
    for child in children.values():
        _kill(child)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # nothing to flush, and torch takes its time to leave


def _serve(connection: Connection, children: dict[int, Child], waiting: deque[Request], width: int) -> None:
    sentinels = [child.sentinel for child in children.values()]
    ready = wait([connection, *sentinels], _pause(children))
    while connection.poll():
        request = connection.recv()
        if request[0] == "import":
            _preload(request[1])
        else:
            waiting.append(request)
    _look(children)
    for number in list(children):
        found = _ended(children[number], children[number].sentinel in ready)
        if found is not None:
            os.close(children.pop(number).sentinel)
            connection.send(found)
    while waiting and len(children) < width:
        request = waiting.popleft()
        children[request[1]["number"]] = _fork(connection, request)


def _pause(children: dict[int, Child]) -> float | None:
    if not children:
        return None
    now = time.monotonic()
    left = min(child.deadline for child in children.values()) - now
    return max(min(left, TICK if any(child.limit for child in children.values()) else 1.0), 0.0)


def _preload(names: list[str]) -> None:
    """Import modules, so that no cell has to: those a cell was seen to import, or a library."""
    for name in names:
        if name not in sys.modules:
            with contextlib.suppress(Exception):  # what cannot be imported is told by the cell that needs it
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


# -- children ----------------------------------------------------------------------------------------------------------


def _fork(connection: Connection, request: Request) -> Child:
    kind, job = request
    began = time.monotonic()
    reading, writing = os.pipe()
    said = f"{job['result']}.err"
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            connection.close()
            os.close(reading)
            _alone(parent, said, job)
            code = _work(kind, job)
        except BaseException:  # noqa: BLE001 - told to the driver as the cell's last words
            import traceback

            with contextlib.suppress(OSError):
                traceback.print_exc()
        finally:
            with contextlib.suppress(OSError):
                sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    deadline = began + job["timeout"] if job.get("timeout") else float("inf")
    memory = job.get("memory") or 0
    limit = memory + _resident(parent) if memory else 0
    return Child(job["number"], pid, reading, began, deadline, limit, _killings(), said)


def _alone(parent: int, said: str, job: Mapping[str, Any]) -> None:
    """A session of its own that ends with its parent, is the first to go when memory runs out, and prints to a file."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    if os.getppid() != parent:
        os._exit(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    with contextlib.suppress(OSError):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    faulthandler.enable()
    if job.get("memory") and not job.get("on_gpu"):
        most = job["memory"] + _data(os.getpid())
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _work(kind: str, job: Mapping[str, Any]) -> int:
    os.environ.update({"RASP_SWEEP_CELL": "1", **job.get("environment", {})})
    work: Callable[[Mapping[str, Any]], None] = _cell if kind == "cell" else _description
    try:
        work(job)
    except OSError as error:
        if error.filename is not None and error.filename != job["result"]:
            raise
        sys.stderr.write(f"the result could not be written to {os.path.dirname(job['result'])}: {error.strerror}\n")
        return NO_ROOM
    return 0


def _cell(job: Mapping[str, Any]) -> None:
    from . import cell, outcomes

    known = set(sys.modules) if job.get("learn") else set()
    outcome = cell.measure(_loaded(job))
    if job.get("learn"):
        outcome.values["modules"] = [name for name in sys.modules if name not in known]
    outcomes.write(outcome, job["result"])


def _description(job: Mapping[str, Any]) -> None:
    import json

    found = answers(job["ask"], job["packets"])
    with open(job["result"], "w", encoding="utf-8") as file:
        json.dump(found, file)


def answers(question: str, packets: Sequence[Any]) -> list[Any]:
    """The names that words stand for ('expand'), what is wrong with dtypes and devices ('check'), what models are."""
    from . import description

    if question == "check":
        return [description.refused(words) for words in packets]
    if question == "expand":
        return [_answered(description.expanded, words) for words in packets]
    return [description.describe(_loaded({"packet": packet})["packet"]) for packet in packets]


def _answered(function: Callable[[str], Any], words: str) -> Any:
    from ..errors import InputError, RaspError

    try:
        return function(words)
    except RaspError as error:
        return {"error": str(error), "refused": isinstance(error, InputError)}


def _loaded(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job whose pickled model, kept in a file for all cells, is read."""
    packet = dict(job["packet"])
    if "file" in packet:
        with open(packet.pop("file"), "rb") as file:
            packet["pickled"] = file.read()
    return {**job, "packet": packet}


# -- watching ----------------------------------------------------------------------------------------------------------


def _look(children: dict[int, Child]) -> None:
    """End cells that are past their time or hold too much memory."""
    now = time.monotonic()
    for child in children.values():
        if not child.why and now >= child.deadline:
            child.why = "timeout"
            _kill(child)
        elif not child.why and child.limit and _resident(child.pid) > child.limit:
            child.why = "memory"
            _kill(child)


def _ended(child: Child, closed: bool) -> dict[str, Any] | None:
    """How a cell ended, if it has. One whose pipe is closed is waited for."""
    try:
        pid, status = os.waitpid(child.pid, 0 if closed else os.WNOHANG)
    except ChildProcessError:
        pid, status = child.pid, 0
    if pid == 0:
        return None
    _kill(child)  # what it started and left behind
    code = os.waitstatus_to_exitcode(status)
    return {
        "number": child.number, "code": code, "why": child.why, "said": _tail(child.said),
        "seconds": time.monotonic() - child.began,
        "kernel": code == -signal.SIGKILL and _killings() > child.killings,
    }  # fmt: skip


def _kill(child: Child) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(child.pid, signal.SIGKILL)


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(os.path.getsize(path) - TAIL, 0))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _resident(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where this cannot be read."""
    return _statm(pid, 1)


def _data(pid: int) -> int:
    return _statm(pid, 5)


def _statm(pid: int, field: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[field]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


def _killings() -> int:
    """How many processes the kernel has ended for lack of memory."""
    with contextlib.suppress(OSError, ValueError), open("/proc/vmstat") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
