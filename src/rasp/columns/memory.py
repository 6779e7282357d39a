"""Memory: what is allocated before, inside and after each row, and what it leaves for the backward.

On a CUDA device that ran the model with memory=True these are measured, elsewhere predicted for the profile's target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..records import TensorInfo
from . import BACKWARD, column, per_entry, per_tensor

if TYPE_CHECKING:
    from ..entries import Entry
    from ..memory.readings import Reading
    from ..parts import Part
    from ..view import View


def reading(part: Part, view: View) -> Reading | None:
    """Bytes allocated before and after a part's call and the most in between; None where it never ran."""
    if part.call is None or part.kind in ("uncalled", "own"):
        return None
    return view.ledger.readings.of(part.call)


@column("net_dev_mem", "net mem", unit="B", form="bytes")
def net_dev_mem(part: Part, view: View) -> int | None:
    """RASP's device memory in use when the layer begins, beyond the model and its inputs."""
    found = reading(part, view)
    return None if found is None else found.before - view.ledger.readings.base


@column("dev_mem_alloc", "mem alloc", unit="B", form="bytes")
def dev_mem_alloc(part: Part, view: View) -> int | None:
    """RASP's device memory that the layer adds: allocated after it less allocated before it."""
    found = reading(part, view)
    return None if found is None else found.after - found.before


@column("dev_max_mem_alloc", "max mem", unit="B", form="bytes")
def dev_max_mem_alloc(part: Part, view: View) -> int | None:
    """The most device memory in use while the layer runs, beyond the model and its inputs."""
    found = reading(part, view)
    return None if found is None else found.most - view.ledger.readings.base


@column("live", "live", unit="B", form="bytes")
def live(part: Part, view: View) -> int | None:
    """Bytes allocated when the part begins, the model and its inputs included."""
    found = reading(part, view)
    return None if found is None else found.before


@column("peak", "peak", unit="B", form="bytes")
def peak(part: Part, view: View) -> int | None:
    """The most bytes allocated while the part ran (of the whole model: also in its backward and optimiser step)."""
    if part.whole:
        return view.ledger.memory.peak
    found = reading(part, view)
    return None if found is None else found.most


@per_entry("saved", "saved", unit="B", form="bytes")
def saved(entry: Entry, view: View) -> int | None:
    """Bytes of activations made here in the forward that the backward needs; not available without a backward."""
    if BACKWARD not in view.ledger.phases:
        return None
    return view.ledger.memory.saved_by(view.ledger.homes).get(entry.call, 0) if entry.call is not None else 0


@per_tensor("grad_bytes", "gradients", unit="B", form="bytes")
def grad_bytes(tensor: TensorInfo, view: View) -> int:
    """Bytes of the gradients that a backward leaves: those of trainable parameters, in their dtype."""
    return tensor.nbytes if tensor.kind == "parameter" and tensor.trainable else 0


@column("optimizer_bytes", "optimizer", unit="B", form="bytes")
def optimizer_bytes(part: Part, view: View) -> int | None:
    """Bytes of the optimiser's state; of the whole model only, and where a step was taken."""
    if not part.whole:
        return None
    found = [storage.nbytes for storage in view.trace.storages if storage.kind == "optimiser state"]
    return sum(found) if found else None
