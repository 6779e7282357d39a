"""Memory traffic: RASP's per-layer estimate, and the bytes that operators truly touch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..rules import Work, bytes_read, bytes_written
from . import column, per_entry, per_op

if TYPE_CHECKING:
    from ..entries import Entry
    from ..parts import Part
    from ..view import View


@per_op("read", "read", unit="B", form="bytes", twins=True, unknown=bytes_read)
def read(work: Work, view: View) -> int | None:
    """Bytes that operators read: each tensor once per operator, buffers included, views by what they touch."""
    return work.read


@per_op("write", "write", unit="B", form="bytes", twins=True, unknown=bytes_written)
def write(work: Work, view: View) -> int | None:
    """Bytes that operators write."""
    return work.write


@per_entry("mem_r", "mem r", unit="B", form="bytes")
def mem_r(entry: Entry, view: View) -> int | None:
    """RASP's memory read: a layer's inputs and its parameters once; 0 where it ran nothing. Elsewhere as `read`."""
    if entry.kind != "call" or entry.call is None:
        return view.sum_ops(view.part(entry), read, (0,), bytes_read)
    if not entry.ran:
        return 0
    tensors = [view.trace.tensors[t] for t in view.ledger.own_tensors(entry.call)]
    own = sum(tensor.nbytes for tensor in tensors if tensor.kind == "parameter")
    return own + sum(spec.nbytes for spec in view.trace.calls[entry.call].inputs)


@per_entry("mem_w", "mem w", unit="B", form="bytes")
def mem_w(entry: Entry, view: View) -> int | None:
    """RASP's memory write: a layer's outputs; 0 where it ran nothing. Elsewhere as `write`."""
    if entry.kind != "call" or entry.call is None:
        return view.sum_ops(view.part(entry), write, (0,), bytes_written)
    return sum(spec.nbytes for spec in view.trace.calls[entry.call].outputs) if entry.ran else 0


@per_entry("mem_rw", "mem rw", unit="B", form="bytes")
def mem_rw(entry: Entry, view: View) -> int | None:
    """RASP's memory traffic: mem_r + mem_w."""
    r, w = mem_r(entry, view), mem_w(entry, view)
    return None if r is None or w is None else r + w


@column("intensity", "FLOP/B", unit="FLOP/B", form="ratio")
def intensity(part: Part, view: View) -> float | None:
    """Arithmetic intensity: flops for each byte read or written."""
    work, r, w = (view.value(name, part) for name in ("flops", "read", "write"))
    if work is None or r is None or w is None or r + w == 0:
        return None
    return float(work / (r + w))


@per_entry("calls", "calls")
def calls(entry: Entry, view: View) -> int:
    """Calls of leaf modules."""
    return int(entry.kind == "call")
