"""TIDSProfiler: what torch_profiler's class of that name does, with the forward that its user runs.

    profiler = TIDSProfiler(model)
    profiler.start_profile()
    model(inputs)
    print(profiler.generate_profile())
    profiler.end_profile()

Between start and stop the model has hooks; they go with `stop_profile`, `end_profile`, the end of a `with`, another
`start_profile`, or the profiler itself. What differs from the tool: deepspeed is not needed, nothing of torch is
replaced, recurrent layers have latencies and shapes, and counts of a module contain those of the modules inside it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from torch import nn

from ...errors import InputError
from ...styles import _amounts
from ...styles._modules import Module
from . import _report
from ._counts import Counts
from ._tree import Profile, described, grown
from ._watch import Watch


class TIDSProfiler:
    """Latency, parameters and shapes of each module, for the forwards between `start_profile` and `stop_profile`."""

    def __init__(self, model: nn.Module, ds_engine: Any = None) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"TIDSProfiler takes a torch.nn.Module; got a {type(model).__name__}.")
        self.model, self.ds_engine = model, ds_engine
        self._watch: Watch | None = None
        self._counts: Counts | None = None
        self._release: weakref.finalize[..., Any] | None = None

    @property
    def started(self) -> bool:
        return self._watch is not None

    # -- from start to end -----------------------------------------------------------------------------------------

    def start_profile(self, ignore_list: Iterable[type] | None = None) -> None:
        """Watch the model from now, anew; modules of exactly a type in `ignore_list` are not timed."""
        ignored = list(ignore_list or ())
        if not all(isinstance(kind, type) for kind in ignored):
            raise InputError(f"ignore_list holds classes, as in [torch.nn.ReLU]; got {ignored!r}.")
        self.end_profile()
        self._watch = Watch(self.model, ignored)
        self._counts = Counts(self._watch)
        self._release = weakref.finalize(self, self._watch.stop)

    def stop_profile(self) -> None:
        """Watch no longer; the numbers stay."""
        if self._watch is not None:
            self._watch.stop()

    def reset_profile(self) -> None:
        """Forget what was seen so far."""
        if self._watch is not None:
            self._watch.reset()
            self._counts = Counts(self._watch)

    def end_profile(self) -> None:
        """Watch no longer, and forget the numbers."""
        if self._release is not None:
            self._release()
        self._watch = self._counts = self._release = None

    def __enter__(self) -> TIDSProfiler:
        self.start_profile()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Watch no longer; the numbers stay, to be asked for after the `with`."""
        self.stop_profile()

    # -- what was seen ---------------------------------------------------------------------------------------------

    def generate_profile(self, module: nn.Module | None = None, name: str = "model", curr_depth: int = 0) -> Profile:
        """The tree of the model, or of a module of it; print it for TIDSProfiler's lines."""
        return grown(self._described(module, name), self._asked[0], curr_depth)

    def get_total_flops(self, as_string: bool = False) -> Any:
        flops = self._asked[1].of(self.model).flops
        return _amounts.number(flops) if as_string else flops

    def get_total_macs(self, as_string: bool = False) -> Any:
        macs = self._asked[1].of(self.model).macs
        return _amounts.macs(macs) if as_string else macs

    def get_total_duration(self, as_string: bool = False) -> Any:
        """Seconds of all forwards of the model."""
        seconds = self._described().seconds
        return _amounts.duration(seconds or 0) if as_string else seconds

    def get_total_params(self, as_string: bool = False) -> Any:
        params = self._described().params
        return _amounts.params(params) if as_string else params

    def print_model_profile(
        self,
        profile_step: int = 1,
        module_depth: int = -1,
        top_modules: int = 1,
        detailed: bool = True,
        output_file: str | Path | None = None,
    ) -> None:
        """Print DeepSpeed's report, or write it to a file: totals, the dearest classes to a depth, every module."""
        if module_depth < -1 or top_modules < 1:
            raise InputError(
                f"module_depth is -1 (all) or more and top_modules 1 or more; got {module_depth} and {top_modules}."
            )
        lines = _report.report(self._described(), profile_step, module_depth, top_modules, detailed, self.ds_engine)
        text = "\n".join(lines) + "\n"
        if not output_file:
            sys.stdout.write(text)
            return
        path = Path(output_file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def print_model_aggregated_profile(self, module_depth: int = -1, top_modules: int = 1) -> None:
        """Print the classes that cost most at each depth."""
        lines = _report.aggregated(self._described(), module_depth, top_modules)
        sys.stdout.write("\n".join(lines) + "\n")

    @property
    def _asked(self) -> tuple[Watch, Counts]:
        if self._watch is None or self._counts is None:
            raise InputError(
                "There is nothing to show: call start_profile(), run the model, and ask before end_profile()."
            )
        return self._watch, self._counts

    def _described(self, module: nn.Module | None = None, name: str = "model") -> Module:
        watch, counts = self._asked
        return described(self.model if module is None else module, watch, counts, name)
