"""Energy measured: meters read before and after a model ran again and again, less what the machine takes while idle."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from torch import nn

from ..errors import InputError, MeterError
from ..meters import Meter, is_counted, shortest
from ..meters import how as how_read
from ..records import Trace
from .progress import Progress
from .timing import Settings, running

IDLE = 1.0  # seconds of the idle baseline, at least; never shorter than the shortest window of a meter
ROUNDS = 5  # windows at most, so that their spread can be told
WINDOW = 0.5  # seconds, at least, of each of several
CHUNK = 0.05  # seconds of work given to a device before it is waited for
WAKE = 0.2  # seconds of runs between the idle baseline and the first window
ON_CHANGE = 0.3  # seconds that a window may last longer to end on a change of the counter
Say = Callable[[str], None]


def energy_of(
    model: nn.Module, given: dict[str, Any], how: dict[str, Any], device: Any, trace: Trace, settings: Settings,
    seconds: float, grid_intensity: float | None,
) -> dict[str, Any]:  # fmt: skip
    """The energy of a model as it was captured in `trace`, on a device, by the meters that the device names."""
    progress = Progress(settings.progress)
    try:
        with running(model, given, how, device, trace, settings) as subject:
            on = subject.device
            found = measured_energy(subject.once, on, on.meters(), seconds, progress.say)
    finally:
        progress.close()
    more = {"device": on.name, "batch": batch_of(trace), "grid_intensity": grid_intensity}
    return {**found, **more, "environment": on.describe()}


def batch_of(trace: Trace) -> int | None:
    """The first dimension that all tensors among the inputs share; None where they share none."""
    sizes = {spec.shape[0] for _, spec in trace.inputs if spec.shape}
    return sizes.pop() if len(sizes) == 1 else None


class Runs(Protocol):
    """What a window needs of a device: its clock, to wait for it, and to let it rest."""

    def now(self) -> float: ...

    def synchronize(self) -> None: ...

    def rest(self, seconds: float) -> None: ...


class Watched:
    """One meter while it is read: its idle power, its windows, or why it told nothing."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.idle_watts: float | None = None
        self.windows: list[float] = []
        self.why: str | None = None
        self.running = False

    def start(self) -> None:
        if self.why is None:
            try:
                self.meter.start()
                self.running = True
            except (MeterError, OSError) as error:
                self.why = str(error)

    def stop(self) -> float | None:
        """What was counted; None, and the reason noted, where that cannot be told or is nothing at all."""
        if not self.running:
            return None
        self.running = False
        try:
            found = float(self.meter.stop())
        except (MeterError, OSError) as error:
            self.why = str(error)
            return None
        if not math.isfinite(found) or found < 0:
            self.why = f"{self.meter.name} told {found:g} J, which cannot be."
            return None
        return found

    def as_dict(self) -> dict[str, Any]:
        failed = self.why is not None
        return {
            "name": self.meter.name, "how": how_read(self.meter), "counted": is_counted(self.meter),
            "idle_watts": None if failed else self.idle_watts, "windows": [] if failed else self.windows,
            "why": self.why,
        }  # fmt: skip


def measured_energy(
    run: Callable[[], object], device: Runs, meters: Sequence[Meter], seconds: float, say: Say = lambda words: None
) -> dict[str, Any]:
    """What a profile keeps of a measurement of energy, as plain data: each meter's idle power and windows.

    The window is `seconds` long in all, in up to five parts; it is refused where it is too short for a meter. Before
    it the meters are read while nothing runs. Ctrl-C ends it early; what was measured until then is kept.
    """
    joules = sorted((meter for meter in meters if meter.unit == "J"), key=shortest, reverse=True)
    _check(seconds, joules)
    watched = [Watched(meter) for meter in joules]
    windows: list[list[float]] = []
    found: dict[str, Any] = {"seconds_asked": seconds, "idle_seconds": 0.0, "windows": windows, "partial": False}
    try:
        run()
        device.synchronize()
        say("idle power")
        found["idle_seconds"] = _idle(watched, device)
        if any(item.why is None for item in watched):
            _wake(run, device)
        rounds = _rounds(seconds, joules)
        for number in range(rounds if any(item.why is None for item in watched) else 0):
            say(f"energy, window {number + 1} of {rounds}")
            interrupted = _window(run, device, watched, seconds / rounds, windows)
            if interrupted is not None:
                found["partial"] = True
                break
    finally:
        for item in watched:
            with suppress(KeyboardInterrupt):
                item.stop()
    _distrust(watched, windows)
    return {**found, "meters": [item.as_dict() for item in watched]}


def _check(seconds: float, meters: Sequence[Meter]) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise InputError(f"seconds={seconds!r} is no time to measure energy in; give a positive number.")
    for meter in meters:
        if seconds < shortest(meter):
            raise InputError(
                f"seconds={seconds:g} is too short for {meter.name}: give at least {shortest(meter):g}, "
                "or its reading would be mostly chance."
            )


def _rounds(seconds: float, meters: Sequence[Meter]) -> int:
    """How many windows the time is cut into, each long enough for every meter."""
    long_enough = max([WINDOW, *map(shortest, meters)])
    return max(1, min(ROUNDS, int(seconds / long_enough + 1e-9)))


def _idle(watched: Sequence[Watched], device: Runs) -> float:
    """Power while nothing runs, of every meter; gives the seconds that it was measured for."""
    wanted = max([IDLE, *(shortest(item.meter) for item in watched if item.why is None)])
    for item in watched:
        item.start()
    if not any(item.running for item in watched):
        return 0.0
    began = device.now()
    device.rest(wanted)
    lasted = device.now() - began
    for item in reversed(watched):
        joules = item.stop()
        item.idle_watts = None if joules is None else joules / lasted if lasted > 0 else 0.0
    return lasted


def _wake(run: Callable[[], object], device: Runs) -> None:
    """Run until clocks that sank while the device was idle are up again."""
    end = device.now() + WAKE
    while device.now() < end:
        before = device.now()
        run()
        device.synchronize()
        if device.now() <= before:
            return  # a clock that stands still would never end this


def _window(
    run: Callable[[], object], device: Runs, watched: Sequence[Watched], seconds: float, windows: list[list[float]]
) -> KeyboardInterrupt | None:
    """Run for some seconds between two readings of every meter; an interruption ends it early."""
    interrupted = None
    for item in watched:
        item.start()
    began = device.now()
    passes = 0
    try:
        passes = _passes(run, device, watched, began, seconds)
    except KeyboardInterrupt as error:
        interrupted = error
    device.synchronize()
    lasted = device.now() - began
    found = [(item, item.stop()) for item in reversed(watched)]
    if interrupted is not None or not passes:
        return interrupted  # how many passes were done cannot be told, so this window is left out
    windows.append([lasted, passes])
    for item, joules in found:
        if joules is not None:
            item.windows.append(joules)
    return None


def _passes(run: Callable[[], object], device: Runs, watched: Sequence[Watched], began: float, seconds: float) -> int:
    """Passes in a window: as many at a time as the device does in a moment, then one by one to a counter's change."""
    passes, at_once = 0, 1
    while passes == 0 or device.now() - began < seconds:
        for _ in range(at_once):
            run()
        device.synchronize()
        passes += at_once
        each = (device.now() - began) / passes
        at_once = max(1, int(CHUNK / each)) if each > 0 else 1
    slow = next((item for item in watched if item.running and hasattr(item.meter, "reading")), None)
    if slow is not None:
        passes += _until_change(run, device, slow)
    return passes


def _until_change(run: Callable[[], object], device: Runs, slow: Watched) -> int:
    """Passes until the slowest counter has just changed, so that the window ends where its value was taken."""
    reading: Callable[[], Any] = slow.meter.reading  # type: ignore[attr-defined]
    passes, end = 0, device.now() + ON_CHANGE
    try:
        before = reading()
        while device.now() < end:
            run()
            device.synchronize()
            passes += 1
            if reading() != before:
                break
    except (MeterError, OSError):
        return passes  # the meter's stop() tells why
    return passes


def _distrust(watched: Sequence[Watched], windows: list[list[float]]) -> None:
    """A counter that stood still while a model ran counts nothing: that is no 0 joules."""
    for item in watched:
        if item.why is None and len(item.windows) == len(windows) and windows and not any(item.windows):
            lasted = sum(seconds for seconds, _ in windows)
            item.why = (
                f"{item.meter.name} stood still for {lasted:.1f} s in which the model ran: it counts nothing here."
            )
        elif item.why is None and not windows:
            item.why = f"{item.meter.name} was not read to the end of one window: the measurement was ended early."
