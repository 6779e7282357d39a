"""Will it fit: whether a run goes into a machine's memory, by how much, with which batch, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import units
from .errors import CaptureError, InputError, ModelError
from .memory import allocators
from .memory.face import Memory
from .memory.plan import Settings
from .memory.targets import Target
from .memory.targets import target as target_of

if TYPE_CHECKING:
    import torch

LARGEST_BATCH = 1 << 20


@dataclass(frozen=True)
class Advice:
    """Something that would help: what, how much less memory is needed, and how much is then."""

    what: str
    saves: int
    needed: int

    def __str__(self) -> str:
        return f"{self.what}: saves {units.size(self.saves)}, needs {units.size(self.needed)}"


@dataclass(frozen=True)
class Fits:
    """The answer: `needed` against `usable` bytes for each process; `margin` is what is left (or lacking, below 0).

    `max_batch` is the largest batch that fits (0: not even one), None where it was not asked for.
    """

    target: Target
    batch: int | None
    memory: Memory
    processes: int = 1
    max_batch: int | None = None
    advice: list[Advice] = field(default_factory=list)

    @property
    def needed(self) -> int:
        return self.memory.needed

    @property
    def usable(self) -> int:
        """Bytes that each process may allocate."""
        return self.target.shared_by(self.processes)

    @property
    def margin(self) -> int:
        return self.usable - self.needed

    @property
    def fits(self) -> bool:
        return self.margin >= 0

    def __bool__(self) -> bool:
        return self.fits

    def __str__(self) -> str:
        share = f" for each of {self.processes} processes" if self.processes > 1 else ""
        verdict = "fits" if self.fits else "does not fit"
        left = f"{units.size(abs(self.margin))} {'left' if self.fits else 'lacking'}"
        lines = [
            f"{verdict}: needs {units.size(self.needed)} of {units.size(self.usable)} usable on {self.target.name}"
            f"{share}, {left}",
            f"  peak {units.size(self.memory.peak)} allocated, {units.size(self.memory.base)} of it before the run "
            "(predicted)",
        ]
        if self.max_batch is not None:
            lines.append(f"  largest batch: {self.max_batch or 'none, not even 1'}")
        lines += [f"  {item}" for item in self.advice]
        if self.target.is_limit:
            lines.append(
                f"  {self.target.name} is taken as what may be allocated; a card of that size keeps some for itself: "
                "name the machine"
            )
        if not self.target.measured:
            lines.append("  kernels' workspaces are those of an H200: this machine's were not measured")
        return "\n".join(lines)


def fits(
    model: torch.nn.Module,
    inputs: Any = None,
    *,
    target: str | int = "h200",
    train: bool = False,
    optimizer: Any = None,
    max_batch: bool = False,
    advice: bool = True,
    processes: int = 1,
    input_shape: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    dtypes: Any = None,
    loss: Any = None,
    dtype: Any = None,
    autocast: Any = None,
    allocator: str = "cuda",
    allocator_settings: str = "",
    said: Callable[[str], Any] = lambda words: None,
) -> Fits:
    """Whether a run of the model (a training step with train=True) fits a machine, without that machine.

    `target` is a machine ('h200', 'rtx-4090') or a size ('24GiB', or bytes, all of which may then be allocated);
    `processes` share it. `max_batch=True` looks for the largest batch, each candidate captured and planned.
    """
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise InputError(f"processes={processes!r}: give a whole number of at least 1.")
    if optimizer is not None and not train:
        raise InputError("An optimizer goes with training (train=True, --train): inference takes no step.")
    machine = target_of(target)
    allocators.get(allocator, allocator_settings)
    given = {"dtypes": dtypes, "loss": loss, "dtype": dtype, "autocast": autocast, "optimizer": optimizer}
    settings = Settings(target, allocator, allocator_settings)
    search = _Search(model, inputs, input_shape, kwargs, train, given, settings)
    memory = search.memory()
    found = Fits(machine, search.batch_or_none, memory, processes)
    if max_batch:
        found = replace(found, batch=search.batch, max_batch=search.largest(found.usable, said))
    return replace(found, advice=list(search.advice(memory, said))) if advice else found


class _Search:
    """Captures of one model with one batch or another, on one machine."""

    def __init__(
        self, model: Any, inputs: Any, input_shape: Any, kwargs: Any, train: bool, given: dict[str, Any],
        settings: Settings,
    ) -> None:  # fmt: skip
        from .capture.inputs import arguments
        from .capture.standin import unwrapped

        self.model, self.train, self.settings = model, train, settings
        self.target = target_of(settings.target)
        dtypes = given.pop("dtypes")
        self.args, self.kwargs = arguments(unwrapped(model), inputs, input_shape, kwargs, dtypes)
        self.given = {name: value for name, value in given.items() if value is not None}
        self.known: dict[int, Memory] = {}

    @cached_property
    def batch(self) -> int:
        from .capture.batch import batch_of

        return batch_of(self._inputs)

    @property
    def batch_or_none(self) -> int | None:
        try:
            return self.batch
        except InputError:
            return None

    @property
    def _inputs(self) -> Any:
        return self.args[0] if len(self.args) == 1 and not self.kwargs else [*self.args, *self.kwargs.values()]

    def memory(self, batch: int | None = None, **changes: Any) -> Memory:
        """The memory of a run with a batch, and other options where they are given."""
        if batch is not None and not changes and batch in self.known:
            return self.known[batch]
        from .capture import capture, ways_of
        from .capture.batch import with_batch

        args, kwargs = self.args, self.kwargs
        if batch is not None:
            args = tuple(with_batch(value, batch) for value in args)
            kwargs = {name: with_batch(value, batch) for name, value in kwargs.items()}
        options = {"backward": self.train, "ways": ways_of(self.target), **self.given, **changes}
        trace, _ = capture(self.model, args, kwargs=kwargs, **options)
        found = Memory(trace, self.settings)
        if batch is not None and not changes:
            self.known[batch] = found
        return found

    def largest(self, usable: int, said: Callable[[str], Any]) -> int:
        """The largest batch that fits: guessed by a straight line, then captured, until b fits and b + 1 does not."""

        def runs(batch: int) -> bool:
            found = self.memory(batch).needed <= usable
            said(f"batch {batch}: {units.size(self.memory(batch).needed)} {'fits' if found else 'is too much'}")
            return found

        low, high = 0, None
        guess, before = 1, LARGEST_BATCH
        while high is None or high - low > 1:
            if guess > LARGEST_BATCH:
                return low
            low, high = (guess, high) if runs(guess) else (low, guess)
            between = LARGEST_BATCH if high is None else high - low
            halved, before = 2 * between <= before, between
            guess = self._next(low, high, usable, halved)
        return low

    def _next(self, low: int, high: int | None, usable: int, halved: bool) -> int:
        """Where the line through the two nearest batches meets what is usable, and just beyond it, so that both ends
        close in; the middle where that did not halve what is left.
        """
        points = sorted((batch, memory.needed) for batch, memory in self.known.items())
        if len(points) < 2:
            return 2 * max(low, 1) if high is None else (low + high) // 2
        (b0, n0), (b1, n1) = sorted(sorted(points, key=lambda point: abs(point[1] - usable))[:2])
        line = b0 + int((usable - n0) * (b1 - b0) / (n1 - n0)) if n1 > n0 else 2 * max(low, 1)
        if high is None:
            return min(max(line, low) + max(low // 32, 1), 64 * max(low, 1))
        if not halved:
            return (low + high) // 2
        return min(max(line + (line <= low), low + 1), high - 1)

    def advice(self, memory: Memory, said: Callable[[str], Any]) -> Iterator[Advice]:
        """What would help, each thing computed by running it; the best first."""
        found = []
        for what, changes in self._ideas():
            said(f"trying {what}")
            try:
                other = self.memory(**changes)
            except (CaptureError, ModelError, InputError):
                continue  # the model cannot be run that way: no advice
            if other.needed < memory.needed:
                found.append(Advice(what, memory.needed - other.needed, other.needed))
        yield from sorted(found, key=lambda item: item.needed)

    def _ideas(self) -> Iterator[tuple[str, dict[str, Any]]]:
        from .capture.batch import blocks_of
        from .capture.inputs import as_dtype

        halved = {"bfloat16", "float16"}
        own = str(self.given.get("dtype") or "")
        dtypes = {str(p.dtype).removeprefix("torch.") for p in self.model.parameters()}
        if "float32" in dtypes and own not in halved:
            if self.train and self.given.get("autocast") is None:
                yield "autocast to bfloat16", {"autocast": as_dtype("bfloat16")}
            yield "the model in bfloat16", {"dtype": as_dtype("bfloat16")}
        for path, blocks in blocks_of(self.model) if self.train else ():
            yield f"checkpointing the {len(blocks)} blocks of {path or 'the model'}", {"checkpointed": blocks}
