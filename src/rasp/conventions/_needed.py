"""Which operators of a forward its results need: a tracer drops the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..entries import FORWARD

if TYPE_CHECKING:
    from ..ledger import Ledger


def needed(ledger: Ledger) -> list[bool]:
    """For each operator whether anything it wrote reaches a result.

    Results are what is there at the end, what a backward reads, and what was there before the run and is written to.
    """
    ops, storages = ledger.trace.ops, ledger.trace.storages
    wanted = {index for index, block in enumerate(storages) if block.died is None or block.born < 0}
    wanted.update(storage for op in ops if op.phase != FORWARD for storage in op.reads)
    live = [False] * len(ops)
    for index in range(len(ops) - 1, -1, -1):
        op = ops[index]
        if op.phase == FORWARD and not wanted.isdisjoint(op.writes):
            live[index] = True
            wanted.update(op.reads)
    return live
