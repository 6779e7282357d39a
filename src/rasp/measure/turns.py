"""Two models run in turns in one process, so that load and drift fall on both: pairs of runs."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from .. import devices
from ..capture import capture
from ..capture.guard import process_kept
from ..contrast import Contrast, contrast
from ..records import Trace
from ..samples import Series
from .progress import Progress
from .subject import Subject, check_data, place_of
from .timing import Matching, Settings, outside_modes, request_of, subject_of

SECONDS = 12.0
FEWEST, MOST = 24, 400
WARM = 3


def in_turns(
    models: tuple[nn.Module, nn.Module],
    given: dict[str, Any],
    how: dict[str, Any],
    device: Any,
    settings: Settings,
    names: tuple[str, str],
) -> Contrast:
    """Time two models on the same inputs, A B then B A, and say whether and where they differ."""
    traces = tuple(capture(model, **given, **how)[0] for model in models)
    with torch.inference_mode(mode=False), outside_modes(), process_kept(), ExitStack() as stack:
        subjects = []
        for model, trace in zip(models, traces):
            request = request_of(model, given, how)
            check_data(request.model, device)
            on = devices.usable(place_of(request, device))
            subjects.append(stack.enter_context(subject_of(request, on, trace, settings)))
        turns = _Turns((subjects[0], subjects[1]), (traces[0], traces[1]), settings)
        return turns.contrast(names)


class _Turns:
    """The pairs of one comparison."""

    def __init__(self, subjects: tuple[Subject, Subject], traces: tuple[Trace, Trace], settings: Settings) -> None:
        self.subjects, self.traces, self.settings = subjects, traces, settings
        self.device = subjects[0].device
        self.series = (Series(), Series())
        self.matching = tuple(Matching(trace, subject) for trace, subject in zip(traces, subjects))
        self.progress = Progress(settings.progress)

    def contrast(self, names: tuple[str, str]) -> Contrast:
        partial = False
        before, began = self.device.state(), self.device.now()
        collecting = gc.isenabled()
        try:
            gc.collect()
            gc.disable()
            self._run()
        except KeyboardInterrupt:
            if not all(series.whole for series in self.series):
                raise
            partial = True
        finally:
            self.progress.close()
            for subject in self.subjects:
                subject.shut()
            if collecting:
                gc.enable()
        self._even()
        remarks = devices.remarks(before, self.device.state(), self.device.now() - began)
        if partial:
            remarks.append("interrupted: these are the runs until then")
        return contrast(self.traces, self.series, names, remarks, partial)

    def _run(self) -> None:
        warm = WARM if self.settings.warmup is None else self.settings.warmup
        for series, subject in zip(self.series, self.subjects):
            series.warmup += [subject.once()["whole"] for _ in range(warm)]
        end = self.device.now() + self.settings.seconds
        pairs = 0
        while not self._enough(pairs, end):
            order = (0, 1) if pairs % 2 == 0 else (1, 0)
            for side in order:
                self.series[side].whole.append(self.subjects[side].once()["whole"])
            for side in order:
                self._watched(side)
            pairs += 1
            if pairs % 10 == 0:
                gc.collect(1)

    def _watched(self, side: int) -> None:
        subject = self.subjects[side]
        subject.open()
        try:
            times, calls = subject.watched()
        finally:
            subject.shut()
        self.matching[side].note(self.series[side], times["whole"], calls)

    def _enough(self, pairs: int, end: float) -> bool:
        wanted = self.settings.batches
        self.progress.say(f"timing in turns: pair {pairs + 1}" + (f" of {wanted}" if wanted else ""))
        if wanted is not None:
            return pairs >= wanted
        if pairs < FEWEST:  # no verdict from fewer, unless each run is very long
            return pairs >= 2 and self.device.now() > end + 4 * self.settings.seconds
        return self.device.now() > end or pairs >= MOST

    def _even(self) -> None:
        """After an interruption: as many runs of one as of the other."""
        whole = min(len(series.whole) for series in self.series)
        watched = min(len(series.watched) for series in self.series)
        for series in self.series:
            del series.whole[whole:], series.watched[watched:]
            for values in series.calls.values():
                del values[watched:]
