"""Kernels: runs under torch.profiler, each module call a range of its own, brought to calls and operators.

On a device without kernels of its own (a CPU) operators stand for themselves, with the time of the host. What is read
of torch is `prof.profiler.kineto_results.events()`: names, clocks in nanoseconds, threads, and the numbers by which a
kernel points to its launch (correlation_id) and to the operator it was launched under (linked_correlation_id).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd import DeviceType, _profiler_enabled  # type: ignore[attr-defined]
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity

from ..errors import FileError, InputError, MeterError
from ..kernels import Row
from ..parts import operator_name
from ..records import PHASES, Trace
from .attribution import Attributed, Event, Home, Kind, attribute
from .graphs import graph_latency
from .progress import Progress
from .subject import Subject
from .timing import Matching, Settings, running

CALL, PASS = "rasp: module ", "rasp: pass"
PASSES, WARM = 3, 2
SECOND = 1e-9
LAUNCHES = ("cudaLaunch", "cuLaunch", "hipLaunch", "hipExtLaunch", "cudaMemcpy", "cudaMemset", "hipMemcpy", "hipMemset")
DRIVER = re.compile(r"(cuda|cu|hip)[A-Z]")  # calls of a driver: cudaStreamSynchronize, cuLaunchKernel
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "")  # kinds of device events that are work; "": not told
NO_EVENTS = (
    "torch.profiler recorded no pass: another profiler may be at work in this process. Stop it, or run without kernels."
)
BUSY = "torch.profiler is already recording in this process, and records once at a time: end it, or leave kernels out."
Say = Callable[[str], None]


class Annotated(Subject):
    """A subject whose doors tell torch's profiler which module is called."""

    def _boundary(self, shadow: Any, index: int) -> Callable[..., Any]:
        run, name = shadow._call_impl, f"{CALL}{index}"

        def door(*args: Any, **kwargs: Any) -> Any:
            with record_function(name):
                return run(*args, **kwargs)

        self.doors.append((shadow, door))
        return door


def measured_kernels(
    subject: Annotated, trace: Trace, *, keep_trace: str | Path | None = None, say: Say = lambda words: None
) -> dict[str, Any]:
    """What a profile keeps of a few runs under the profiler; `keep_trace` is where torch's own trace is written."""
    activities = [ProfilerActivity.CPU]
    if subject.place.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    elif subject.place.type == "xpu":
        activities.append(ProfilerActivity.XPU)
    subject.open()
    try:
        say("kernels")
        for _ in range(WARM):
            subject.once()
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(PASSES):
                with record_function(PASS):
                    subject.once()
    finally:
        subject.shut()
    if keep_trace is not None:
        _written(profiler, Path(keep_trace))
    events = list(events_of(profiler))
    passes = attribute(events)
    if not passes:
        raise MeterError(NO_EVENTS)
    on_device = any(event.kind == "kernel" for event in events)
    found = kept(passes, calls_of(events, trace, Matching(trace, subject)), named(trace))
    return {**found, "device": subject.device.name, "on": "device" if on_device else "host"}


def kernels_of(
    model: nn.Module, given: dict[str, Any], how: dict[str, Any], device: Any, trace: Trace, settings: Settings,
    keep_trace: str | Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The kernels of a model as it was captured in `trace`, on a device, and its latency as a CUDA graph."""
    if keep_trace is not None and not Path(keep_trace).absolute().parent.is_dir():
        raise FileError(f"keep_trace={str(keep_trace)!r} names a file in a folder that does not exist: make it first.")
    if _profiler_enabled():
        raise InputError(BUSY)
    progress = Progress(settings.progress)
    try:
        with running(model, given, how, device, trace, settings, Annotated) as subject:
            found = measured_kernels(subject, trace, keep_trace=keep_trace, say=progress.say)
            progress.say("latency as a CUDA graph")
            return {**found, **graph_latency(subject)}
    finally:
        progress.close()


def _written(profiler: Any, path: Path) -> None:
    try:
        profiler.export_chrome_trace(str(path))
    except (OSError, RuntimeError) as error:
        raise FileError(f"The trace could not be written to {path}: {error}.") from error
    if not path.exists():
        raise FileError(f"The trace could not be written to {path}; torch.profiler says why on stderr.")


def events_of(profiler: Any) -> Iterator[Event]:
    """Torch's events as plain records: those that say where work belongs, and the work."""
    calls = 0
    for event in sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        name, start, end = event.name(), event.start_ns(), event.end_ns()
        if event.device_type() != DeviceType.CPU:
            if _is_work(event):
                stream = event.device_resource_id()
                link = event.linked_correlation_id()
                yield Event("kernel", name, start, end, stream, event.correlation_id(), link)
        elif name.startswith(LAUNCHES):
            yield Event("launch", name, start, end, 0, event.correlation_id(), event.linked_correlation_id())
        elif event.linked_correlation_id() == 0 and _is_of_torch(event):
            kind: Kind = "call" if name.startswith(CALL) else "pass" if name == PASS else "op"
            yield Event(
                kind, name, start, end, event.start_thread_id(), event.correlation_id(), 0, _sequence(event),
                event.fwd_thread_id(), calls if kind == "call" else -1,
            )  # fmt: skip
            calls += kind == "call"


def _is_work(event: Any) -> bool:
    """Whether something on the device is a kernel, a copy or a fill: no mark of a range, and no waiting."""
    if _told(event, "is_user_annotation", default=False) or event.name().startswith((CALL, PASS)):
        return False
    return _told(event, "activity_type", default="") in ON_DEVICE


def _is_of_torch(event: Any) -> bool:
    """Whether something on the host is an operator or a range: no call of the driver, nothing of the profiler's own."""
    kind = _told(event, "activity_type", default="")
    if kind:
        return kind in ("cpu_op", "user_annotation")
    return DRIVER.match(event.name()) is None and not _told(event, "is_hidden_event", default=False)


def _told(event: Any, name: str, *, default: Any) -> Any:
    """What an event says of itself, where this version of torch lets it."""
    ask = getattr(event, name, None)
    return default if ask is None else ask()


def _sequence(event: Any) -> int:
    """The number of a node of the backward; torch writes 'none' as -1, or as the largest there is."""
    found = event.sequence_nr()
    return int(found) if 0 <= found < 1 << 62 else -1


def calls_of(events: Iterable[Event], trace: Trace, matching: Matching) -> dict[int, int]:
    """Which call of the trace each range is; what a backward runs again is the call that it ran first."""
    found: dict[int, int] = {}
    for calls in _passes(events):
        first: list[tuple[int, int, int]] = []
        again: list[tuple[int, int]] = []
        for event, depth, anew in calls:
            module = int(event.name.removeprefix(CALL))
            if anew:
                again.append((event.call, module))
            else:
                first.append((event.call, module, depth))
        places = matching.places([(module, depth) for _, module, depth in first])
        found.update({number: place for (number, _, _), place in zip(first, places) if place >= 0})
        waiting: dict[int, list[int]] = {}
        for number, module, _ in first:
            waiting.setdefault(module, []).append(found.get(number, -1))
        for number, module in again:
            place = waiting[module].pop() if waiting.get(module) else -1
            if place >= 0:
                found[number] = place
    return found


def _passes(events: Iterable[Event]) -> Iterator[list[tuple[Event, int, bool]]]:
    """Of each pass its calls in the order they began: how deep in others, and whether a backward made it."""
    every = sorted((e for e in events if e.kind in ("call", "pass")), key=lambda e: (e.start, e.kind == "call"))
    passes = [event for event in every if event.kind == "pass"]
    for one in passes:
        calls = [e for e in every if e.kind == "call" and one.start <= e.start < one.end]
        found: list[tuple[Event, int, bool]] = []
        open_calls: list[Event] = []
        done = False
        for event in calls:
            while open_calls and open_calls[-1].end <= event.start:
                done = len(open_calls) == 1 or done  # the outermost returned: what follows is the backward's
                open_calls.pop()
            anew = done or event.thread != one.thread
            found.append((event, len(open_calls), anew))
            open_calls.append(event)
        yield found


def named(trace: Trace) -> Callable[[Home], str]:
    """What the capture calls the operator of a home: of those around each other, the innermost that it has there."""
    known: dict[tuple[int, str], set[str]] = {}
    for op in trace.ops:
        known.setdefault((op.owner, PHASES[op.phase]), set()).add(operator_name(trace.specs[op.spec].name))

    def name(home: Home) -> str:
        phase = "forward" if home.phase == "recompute" else home.phase
        there = known.get((-1 if home.call is None else home.call, phase), set())
        return next((one for one in (home.op, *home.within) if operator_name(one) in there), home.op)

    return name


def kept(passes: list[Attributed], calls: dict[int, int], name: Callable[[Home], str]) -> dict[str, Any]:
    """The work of all passes as rows, each an average over passes, and times of each pass."""
    rows: dict[tuple[int | None, str, str, str], list[float]] = {}
    host: dict[tuple[int | None, str], float] = {}
    share = 1 / len(passes)
    waited = [piece.waited for one in passes for piece in one.pieces if piece.waited is not None]
    for one in passes:
        for piece in one.pieces:
            home = _placed(piece.home, calls)
            row = rows.setdefault((home.call, home.phase, name(home), piece.name), [0.0, 0.0, 0.0])
            row[0] += share
            row[1] += piece.took * SECOND * share
            row[2] += piece.gap * SECOND * share
        for (call, phase), took in one.host.items():
            home = _placed(Home(call, phase), calls)
            host[home.call, home.phase] = host.get((home.call, home.phase), 0.0) + took * SECOND * share
    return {
        "rows": [list(Row(*key, *values)) for key, values in rows.items()],
        "host": [[*key, took] for key, took in host.items()],
        "waited": statistics.median(waited) * SECOND if waited else None,
        "passes": [[one.whole * SECOND, one.span * SECOND, one.busy * SECOND] for one in passes],
    }


def _placed(home: Home, calls: dict[int, int]) -> Home:
    return home if home.call is None else home._replace(call=calls.get(home.call))
