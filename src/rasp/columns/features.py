"""Sizes that older tools print: parameters, feature maps and inputs in bytes, and what a model takes on disk.

A convention may count each of them its own way; here they say what is true of the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..entries import FORWARD
from ..records import TensorInfo
from . import column, per_entry, per_tensor

if TYPE_CHECKING:
    from ..entries import Entry
    from ..parts import Part
    from ..view import View

PARTS_OF_TOTAL = ("input_mem", "feat_mem", "param_mem")


@per_tensor("param_mem", "param mem", unit="B", form="bytes")
def param_mem(tensor: TensorInfo, view: View) -> int:
    """Memory of the parameters, a shared one once; as `param_bytes` where the convention says nothing else."""
    return tensor.nbytes if tensor.kind == "parameter" else 0


@per_tensor("storage", "storage", unit="B", form="bytes")
def storage(tensor: TensorInfo, view: View) -> int:
    """Size on disk: parameters and buffers, a shared one once."""
    return tensor.nbytes


@per_entry("feat_mem", "feat mem", unit="B", form="bytes")
def feat_mem(entry: Entry, view: View) -> int | None:
    """Memory of the feature maps: blocks newly taken that outlive the layer, or in a container's own work the operator.

    Work in place and views take none; what a layer needs while it runs is not a feature map.
    """
    if entry.call is None:
        return 0
    if entry.opaque:
        return None
    call, ledger = view.trace.calls[entry.call], view.ledger
    total = 0
    for index in range(call.start, call.end):
        op = view.trace.ops[index]
        if op.phase == FORWARD and ledger.homes[op.owner] == entry.call:
            over = call.end if entry.kind == "call" else index + 1
            total += sum(
                block.nbytes for block in ledger.born.get(index, ()) if block.died is None or block.died > over
            )
    return total


@per_entry("inference_mem", "inference mem", unit="B", form="bytes")
def inference_mem(entry: Entry, view: View) -> int | None:
    """Outputs of layers, of every call and in place or not; of a container's own work what its operators write."""
    if entry.kind != "call" or entry.call is None:
        value: int | None = view.value("write", view.part(entry))
        return value
    return sum(spec.nbytes for spec in view.trace.calls[entry.call].outputs)


@column("input_mem", "input mem", unit="B", form="bytes")
def input_mem(part: Part, view: View) -> int | None:
    """Memory of the tensors that went in; for the whole model, of its inputs."""
    if part.whole:
        return sum(spec.nbytes for _, spec in view.trace.inputs)
    return None if part.call is None else sum(spec.nbytes for spec in view.trace.calls[part.call].inputs)


@column("total_mem", "total mem", unit="B", form="bytes")
def total_mem(part: Part, view: View) -> int | None:
    """Inputs, feature maps and parameters together: what is called an estimated total size; nothing is freed in it."""
    found = [view.value(name, part) for name in PARTS_OF_TOTAL]
    return None if None in found else sum(found)
