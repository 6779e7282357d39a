"""Time: whole runs without any instrument, and runs with every module's door open, in turns.

A round is a block of bare runs and a block of watched ones, the order changing from round to round, so that drift and
other load fall on both. Runs go on until the interval of the bare runs' median is as narrow as asked, or the time is
over; a count that was asked for is kept exactly.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

from .. import devices
from ..capture.guard import process_kept
from ..capture.request import Request, make_request
from ..config import CFG
from ..devices import Device
from ..errors import InputError, ModelError, RaspError
from ..records import Trace
from ..samples import Samples, Series, milliseconds
from ..spread import Latency, interval, median
from .progress import Progress
from .subject import LEFT, Subject, check_data, failure, place_of, quickest

SECONDS = 3.0  # of time for runs, where no count was asked for
PRECISION = 0.01
BLOCK = 0.04  # seconds of runs in a row
LONGEST_BLOCK = 25
FEWEST, MOST = 10, 1000
FEW = 5  # where each run takes long
WARM = 3
STEADY = 0.1
NOISY = 0.05
CALLS = 2000  # to find out what watching costs


@dataclass(frozen=True)
class Settings:
    """How long and how to measure; None: as long as it takes."""

    batches: int | None = None
    warmup: int | None = None
    seconds: float = SECONDS
    precision: float = PRECISION
    modules: bool = True
    channels_last: bool = False
    copy_inputs: bool = False
    compiled: Any = False
    progress: bool | None = None

    @classmethod
    def of(
        cls, batches: Any = None, warmup: Any = None, seconds: Any = None, precision: Any = None, **more: Any
    ) -> Any:
        """Checked; counts that rasp.CFG.profile was given are kept as if they were asked for here."""
        for name, value, least in (("batches", batches, 1), ("warmup", warmup, 0)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InputError(f"{name} is a whole number, {least} or more; got {value!r}.")
        for name, value in (("seconds", seconds), ("precision", precision)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0):
                raise InputError(f"{name} is a number above 0; got {value!r}.")
        if batches is None and seconds is None and precision is None and CFG.profile.given("num_batches"):
            batches = CFG.profile.num_batches
            if batches < 1:
                raise InputError("rasp.CFG.profile.num_batches is 0: nothing would be timed. Set it to 1 or more.")
        if warmup is None and CFG.profile.given("warmup_batches"):
            warmup = CFG.profile.warmup_batches
        return cls(batches, warmup, float(seconds or SECONDS), float(precision or PRECISION), **more)


def timed(
    model: nn.Module, given: dict[str, Any], how: dict[str, Any], device: Any, trace: Trace, settings: Settings
) -> Samples:
    """Time a model as it was captured in `trace`, on a device (None: where it lives)."""
    with running(model, given, how, device, trace, settings) as subject:
        return _Session(subject, trace, settings).samples()


@contextmanager
def running(
    model: nn.Module, given: dict[str, Any], how: dict[str, Any], device: Any, trace: Trace, settings: Settings,
    made: type[Subject] = Subject,
) -> Iterator[Any]:  # fmt: skip
    """A stand-in of the model, ready to be run on a device; afterwards the process is as it was."""
    with torch.inference_mode(mode=False), outside_modes(), process_kept():
        request = request_of(model, given, how)
        check_data(request.model, device)
        on = devices.usable(place_of(request, device))
        with subject_of(request, on, trace, settings, made) as subject:
            yield subject


def request_of(model: nn.Module, given: dict[str, Any], how: dict[str, Any]) -> Request:
    """What is to be run, checked; hooks of functions, routes and probes are a capture's."""
    return make_request(
        model, given.get("inputs"), given.get("input_shape"), given.get("kwargs"), given.get("dtypes"),
        how.get("mode"), how.get("backward", False), how.get("optimizer"), how.get("loss"), how.get("dtype"),
        how.get("autocast"), memo=False, functions=False, ways=None, checkpointed=frozenset(), probe=None,
    )  # fmt: skip


@contextmanager
def subject_of(
    request: Request, on: Device, trace: Trace | None, settings: Settings, made: type[Subject] = Subject
) -> Iterator[Subject]:
    """The stand-in to be run; what the model raises is told as the model's."""
    written = trace is not None and _writes_parameters(trace)
    subject = None
    try:
        subject = made(
            request, on, copies=written, channels_last=settings.channels_last, copy_inputs=settings.copy_inputs
        )
        yield subject
    except (RaspError, NotImplementedError):
        raise
    except Exception as error:
        told = failure(error, request, on) or ModelError(
            f"{type(request.model).__name__} raised {type(error).__name__} when it was run on {on.name} to be timed: "
            f"{error}"
        )
        raise told from error
    finally:
        if subject is not None:
            subject.close()


class _Session:
    """The runs of one measurement, and what they leave."""

    def __init__(self, subject: Subject, trace: Trace, settings: Settings) -> None:
        self.subject, self.trace, self.settings = subject, trace, settings
        self.device = subject.device
        self.series = Series()
        self.progress = Progress(settings.progress)
        self.matched = Matching(trace, subject)

    def samples(self) -> Samples:
        found = Samples(self.device.name, {"time": self.series}, self.device.describe(), self._how())
        collecting = gc.isenabled()
        try:
            gc.collect()
            gc.disable()
            self._measure(found)
        except KeyboardInterrupt:
            self.subject.shut()
            if not self.series.whole:
                raise
            found.partial = True
            found.remarks.append("interrupted: these are the runs until then")
        finally:
            self.progress.close()
            if collecting:
                gc.enable()
        self._even(found)
        found.remarks += remarks_on(self.series, self.settings)
        return found

    def _measure(self, found: Samples) -> None:
        self._warm_up()
        if self.settings.modules and not self.device.asynchronous:
            found.instrument = watching_costs(self.device)
        before, began = self.device.state(), self.device.now()
        try:
            self._rounds()
        finally:
            found.remarks += devices.remarks(before, self.device.state(), self.device.now() - began)
        if self.settings.compiled:
            self._compiled(found)

    def _warm_up(self) -> None:
        """An exact count, or until two runs in a row take about the same."""
        series, wanted = self.series, self.settings.warmup
        most = wanted if wanted is not None else CFG.profile.warmup_batches
        end = self.device.now() + self.settings.seconds
        while len(series.warmup) < most:
            self.progress.say(f"timing: warm-up run {len(series.warmup) + 1}")
            series.warmup.append(self.subject.once()["whole"])
            if wanted is None and len(series.warmup) >= WARM:
                last, before = series.warmup[-1], series.warmup[-2]
                if abs(last - before) <= STEADY * before or self.device.now() > end:
                    return

    def _rounds(self) -> None:
        end = self.device.now() + self.settings.seconds
        number = 0
        while not self._enough(end):
            size = self._block_size()
            for bare in (True, False) if number % 2 == 0 else (False, True):
                self._block(size, bare)
            gc.collect(1)
            number += 1

    def _block_size(self) -> int:
        known = self.series.whole or self.series.warmup
        once = max(median(known[-5:]) / 1e3, 1e-6) if known else BLOCK
        size = min(max(int(BLOCK / once), 1), LONGEST_BLOCK)
        return size if self.settings.batches is None else min(size, self.settings.batches - len(self.series.whole))

    def _enough(self, end: float) -> bool:
        done = len(self.series.whole)
        if self.settings.batches is not None:
            self.progress.say(f"timing: run {done} of {self.settings.batches}")
            return done >= self.settings.batches
        if done < FEWEST:
            return done >= FEW and self.device.now() > end + self.settings.seconds
        latency = Latency(tuple(self.series.whole))
        self.progress.say(f"timing: {done} runs, ±{latency.precision:.1%} at 95 %")
        return latency.precision <= self.settings.precision or self.device.now() > end or done >= MOST

    def _block(self, size: int, bare: bool) -> None:
        if bare:
            for _ in range(size):
                self._note(self.subject.once())
        elif self.settings.modules:
            self.subject.open()
            try:
                for _ in range(size):
                    times, calls = self.subject.watched()
                    self.matched.note(self.series, times["whole"], calls)
            finally:
                self.subject.shut()

    def _note(self, times: dict[str, float]) -> None:
        self.series.whole.append(times.pop("whole"))
        for name, value in times.items():
            self.series.parts.setdefault(name, []).append(value)

    def _compiled(self, found: Samples) -> None:
        """The whole once more under torch.compile; what fails there is a remark, not the end."""
        options = self.settings.compiled if isinstance(self.settings.compiled, dict) else {}
        try:
            model = torch.compile(self.subject.model, **options)
            for _ in range(WARM):
                self.subject.once(model)
            count = self.settings.batches or min(len(self.series.whole), 100)
            self.series.others["compiled"] = [self.subject.once(model)["whole"] for _ in range(count)]
        except Exception as error:  # noqa: BLE001 - compilers fail in every way there is; eager times stand
            found.remarks.append(f"torch.compile failed ({type(error).__name__}): {' '.join(str(error).split())[:200]}")

    def _even(self, found: Samples) -> None:
        """After an interruption inside a run: every call has a value for every watched run."""
        count = len(self.series.watched)
        for values in self.series.calls.values():
            del values[count:]
            values += [None] * (count - len(values))

    def _how(self) -> dict[str, Any]:
        settings, request = self.settings, self.subject.request
        return {
            "batches": settings.batches, "warmup": settings.warmup, "seconds": settings.seconds,
            "precision": settings.precision, "modules": settings.modules, "channels_last": settings.channels_last,
            "copy_inputs": settings.copy_inputs, "backward": request.backward,
            "optimizer": request.optimizer is not None,
            "dtype": None if request.dtype is None else str(request.dtype).removeprefix("torch."),
            "autocast": None if request.autocast is None else str(request.autocast).removeprefix("torch."),
        }  # fmt: skip


class Matching:
    """Which call of the trace a timed call is: the next one of the same module inside the same call."""

    def __init__(self, trace: Trace, subject: Subject) -> None:
        self.trace = trace
        paths = {info.path: index for index, info in enumerate(trace.modules)}
        self.modules = [paths.get(info.path, -1) for info in subject.stand.modules]
        self.inside: dict[tuple[int, int], list[int]] = {}
        for index, call in enumerate(trace.calls):
            self.inside.setdefault((call.parent, call.module), []).append(index)

    def note(self, series: Series, whole: float, calls: list[tuple[int, float, int]]) -> None:
        """Put a watched run's calls where they belong; one that the trace does not have is part of its caller."""
        run = len(series.watched)
        places = self.places((module, depth) for module, _, depth in calls)
        for found, (_, took, _) in zip(places, calls):
            if found >= 0:
                values = series.calls.setdefault(found, [])
                values += [None] * (run - len(values))
                values.append(took)
        series.watched.append(whole)
        for values in series.calls.values():
            if len(values) <= run:
                values.append(None)

    def places(self, calls: Iterable[tuple[int, int]]) -> list[int]:
        """For (module, depth) of calls in the order they began the trace's numbers; below 0 where it has none."""
        used: dict[tuple[int, int], int] = {}
        above: list[int] = []
        places = []
        for module, depth in calls:
            del above[depth:]
            parent = above[-1] if above else -1
            key = (parent, self.modules[module])
            known, at = self.inside.get(key, ()), used.get(key, 0)
            used[key] = at + 1
            lost = (parent == -1 and bool(above)) or at >= len(known)
            above.append(-2 if lost else known[at])
            places.append(above[-1])
        return places


def watching_costs(device: Device) -> dict[str, float]:
    """What one open door costs, in ms: `inside` is in the call's own time, `outside` in that of its caller."""
    module, mark = _Nothing(), quickest(device)
    steps: list[int] = []
    marks: list[Any] = []
    run, entered, passed = module._call_impl, steps.append, marks.append

    def door(value: Any) -> Any:
        entered(0)
        passed(mark())
        try:
            return run(value)
        finally:
            passed(mark())
            entered(LEFT)

    def calls(times: int) -> float:
        steps.clear()
        marks.clear()
        began = device.now()
        for _ in range(times):
            module(None)
        return (device.now() - began) / times

    bare, with_door, seen = [], [], []
    size = CALLS // 10
    for _ in range(10):
        bare.append(calls(size))
        module.__dict__["_compiled_call_impl"] = door
        with_door.append(calls(size))
        del module.__dict__["_compiled_call_impl"]
        seen.append(sum(device.seconds(a, b) for a, b in zip(marks[::2], marks[1::2])) / size)
    plain, watched, inside = median(bare), median(with_door), median(seen)
    return {
        "inside": milliseconds(inside - plain),
        "outside": milliseconds(max(watched - inside, 0.0)),
        "call": milliseconds(max(watched - plain, 0.0)),
    }


class _Nothing(nn.Module):
    def forward(self, value: Any) -> Any:
        return value


def remarks_on(series: Series, settings: Settings) -> list[str]:
    """What the samples themselves say: noise, drift."""
    whole = series.whole
    if len(whole) < 2:
        return ["a single run was timed: it has no spread"]
    found = []
    latency = Latency(tuple(whole))
    if latency.precision > max(NOISY, settings.precision):
        found.append(f"noisy: the median is known to ±{latency.precision:.0%} only")
    third = len(whole) // 3
    if third >= 4:
        early, late = whole[:third], whole[-third:]
        change = median(late) / median(early) - 1 if median(early) else 0.0
        if abs(change) > NOISY and (interval(late)[0] > interval(early)[1] or interval(late)[1] < interval(early)[0]):
            found.append(f"drift: the last third of the runs took {change:+.0%} against the first")
    return found


def _writes_parameters(trace: Trace) -> bool:
    """Whether the forward writes into parameters, which then have to be copies."""
    kinds = [storage.kind for storage in trace.storages]
    return any(op.phase == 0 and any(w >= 0 and kinds[w] == "parameter" for w in op.writes) for op in trace.ops)


def outside_modes() -> Any:
    """Outside of any dispatch mode of the caller's, which would be timed along."""
    return _disable_current_modes() if torch._C._len_torch_dispatch_stack() else nullcontext()
