"""Memory: what is allocated before, inside and after each row, and what it leaves for the backward.

RASP's three columns are measured where a CUDA device ran the model with memory=True, elsewhere predicted for the
profile's target; they are of a first forward, as a tool reads them that asks before and after each module. The others
are predicted, of a step that lasts: in training the second, backward and optimiser included. A row of several calls
tells the state at the first of them and the most of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..records import TensorInfo
from . import BACKWARD, OPTIMISER, column, per_entry, per_tensor

if TYPE_CHECKING:
    from ..entries import Entry
    from ..memory.readings import Reading, Readings
    from ..parts import Part
    from ..view import View


def calls_of(part: Part, view: View) -> list[int]:
    """A part's calls, in order: its module's own (of folded repeats those of each), else those of its rows."""
    if part.whole:
        return [0] if view.trace.calls else []
    found = {entry.call for entry in part.entries if entry.call is not None}
    if part.call is None or is_own(part):
        return sorted(found)
    return sorted({_above(call, part.call, view) for call in found} | {part.call})


def _above(call: int, like: int, view: View) -> int:
    """The call around this one (or itself) that is of the same module, or at the same depth, as another."""
    line, calls = _line(call, view), view.trace.calls
    same = next((c for c in line if calls[c].module == calls[like].module), None)
    depth = len(_line(like, view))
    return same if same is not None else line[max(len(line) - depth, 0)]


def _line(call: int, view: View) -> list[int]:
    """A call and those around it, from the inside out."""
    found = [call]
    while (parent := view.trace.calls[found[-1]].parent) >= 0:
        found.append(parent)
    return found


def is_own(part: Part) -> bool:
    return part.kind == "own" and not part.whole


def readings(part: Part, view: View, of: Readings | None = None) -> list[Reading]:
    """Bytes allocated before and after each call of a part and the most in between; none where it never ran."""
    found = of or view.ledger.readings
    calls = [] if is_own(part) else calls_of(part, view)
    return [reading for call in calls if (reading := found.of(call)) is not None]


@column("net_dev_mem", "net mem", unit="B", form="bytes")
def net_dev_mem(part: Part, view: View) -> int | None:
    """RASP's device memory in use when the layer begins, beyond the model and its inputs."""
    found = readings(part, view)
    return found[0].before - view.ledger.readings.base if found else None


@column("dev_mem_alloc", "mem alloc", unit="B", form="bytes")
def dev_mem_alloc(part: Part, view: View) -> int | None:
    """RASP's device memory that the layer adds: allocated after it less allocated before it."""
    found = readings(part, view)
    return sum(reading.after - reading.before for reading in found) if found else None


@column("dev_max_mem_alloc", "max mem", unit="B", form="bytes")
def dev_max_mem_alloc(part: Part, view: View) -> int | None:
    """The most device memory in use while the layer runs, beyond the model and its inputs."""
    found = readings(part, view)
    if not found:
        return None
    if view.convention.memory == "after":
        return found[-1].after - view.ledger.readings.base
    return max(reading.most for reading in found) - view.ledger.readings.base


@column("mem_predicted", "predicted", unit="B", form="bytes")
def mem_predicted(part: Part, view: View) -> int | None:
    """The most device memory in use while the layer's forward runs, beyond model and inputs, as predicted."""
    memory = view.ledger.memory
    if part.whole:
        return memory.peak - memory.base
    found = readings(part, view, memory.readings)
    return max(reading.most for reading in found) - memory.readings.base if found else None


@column("mem_measured", "measured", unit="B", form="bytes")
def mem_measured(part: Part, view: View) -> int | None:
    """The same as measured on a CUDA device; not available where none was."""
    found = view.ledger.readings
    if found.measured is None:
        return None
    if part.whole:
        whole = view.ledger.source.info["measured_memory"]["whole"]
        return int(whole["peak"] - whole["base"])
    called = readings(part, view)
    return max(reading.most for reading in called) - found.base if called else None


@column("mem_ratio", "predicted/measured", form="ratio")
def mem_ratio(part: Part, view: View) -> float | None:
    """Predicted over measured."""
    said, found = mem_predicted(part, view), mem_measured(part, view)
    return said / found if found and said is not None else None


@column("live", "live", unit="B", form="bytes")
def live(part: Part, view: View) -> int | None:
    """Bytes allocated when the part begins, the model and its inputs included."""
    calls = calls_of(part, view)
    return view.ledger.memory.inside.before(calls[0], own=is_own(part)) if calls else None


@column("peak", "peak", unit="B", form="bytes")
def peak(part: Part, view: View) -> int | None:
    """The most bytes allocated while the part ran, backward included (of the whole model the optimiser step, too)."""
    memory = view.ledger.memory
    if part.whole:
        return memory.peak
    inside = memory.inside.own if is_own(part) else memory.inside.most
    return max((inside[call] for call in calls_of(part, view) if call in inside), default=None)


@per_entry("saved", "saved", unit="B", form="bytes")
def saved(entry: Entry, view: View) -> int | None:
    """Bytes of activations made here in the forward that the backward needs; not available without a backward."""
    if BACKWARD not in view.ledger.phases:
        return None
    if entry.call is None:
        return 0
    held = view.ledger.memory.saved
    if entry.call not in view.ledger.ruled:
        return held.get(entry.call, 0)
    return sum(held.get(call, 0) for call, home in enumerate(view.ledger.homes) if home == entry.call)


@per_tensor("grad_bytes", "gradients", unit="B", form="bytes")
def grad_bytes(tensor: TensorInfo, view: View) -> int:
    """Bytes of the gradients that a backward leaves: those of trainable parameters, in their dtype."""
    if view.trace.serves:
        return view.ledger.memory.serving["gradient"].get(tensor.storage, 0) if tensor.kind == "parameter" else 0
    return tensor.nbytes if tensor.kind == "parameter" and tensor.trainable else 0


@column("optimizer_bytes", "optimizer", unit="B", form="bytes", additive=True)
def optimizer_bytes(part: Part, view: View) -> int | None:
    """Bytes of the optimiser's state for the parameters (in the total all of it); not available without a step."""
    if OPTIMISER not in view.ledger.phases:
        return None
    held = view.ledger.memory.serving["optimiser state"]
    return sum(held.values()) if part.whole else view.sum_tensors(part, lambda tensor, _: held.get(tensor.storage, 0))
