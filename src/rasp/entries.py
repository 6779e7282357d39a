"""Entries: one for each leaf call, for each container that did something itself, for each module that never ran.

Every operator and every parameter is charged to exactly one entry, so entries add up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .records import PHASES
from .rules import Work

if TYPE_CHECKING:
    from .ledger import Ledger

EntryKind = Literal["call", "own", "uncalled"]
FORWARD = PHASES.index("forward")


@dataclass(slots=True, eq=False)
class Entry:
    """One row's share of a run: operators by phase and OpSpec, and the tensors charged to it (indices of the Trace)."""

    kind: EntryKind
    module: int
    call: int | None
    counts: tuple[dict[int, int], ...] = field(default_factory=lambda: tuple({} for _ in PHASES))
    tensors: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)  # its module's tensors that another entry was charged for
    opaque: int = 0  # pieces of work that no operator showed
    work: Work | None = None  # by a module rule: stands for every forward operator inside
    index: int = -1

    @property
    def ran(self) -> bool:
        return bool(self.counts[FORWARD]) or self.work is not None


def post(ledger: Ledger) -> list[Entry]:
    """The entries of a run, in the order they finished; what never ran comes last."""
    return _Posting(ledger).entries()


class _Posting:
    """Writes a Ledger's entries: one per leaf call and per container that did something itself, then what never ran."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.trace = ledger, ledger.trace
        self.by_call: dict[int, Entry] = {}
        self.idle: dict[int, Entry] = {}

    def entries(self) -> list[Entry]:
        self._open_calls()
        self._post_operators()
        self._charge_tensors()
        kept = [self.by_call[i] for i in self._finished() if i in self.by_call]
        kept = [e for e in kept if e.kind == "call" or any(e.counts) or e.tensors or e.opaque]
        kept += [self.idle[m] for m in sorted(self.idle)]
        for index, entry in enumerate(kept):
            entry.index = index
        return kept

    def _open_calls(self) -> None:
        parents = {call.parent for call in self.trace.calls}
        for index, call in enumerate(self.trace.calls):
            if self.ledger.homes[index] != index:
                continue
            ruled = index in self.ledger.ruled
            leaf = ruled or (not self.trace.modules[call.module].children and index not in parents)
            entry = self.by_call[index] = Entry("call" if leaf else "own", call.module, index)
            if ruled:
                entry.work = self.ledger.module_work(index)

    def _post_operators(self) -> None:
        homes = self.ledger.homes
        for op in self.trace.ops:
            entry = self.by_call[homes[max(op.owner, 0)]]
            if entry.work is None or op.phase != FORWARD:
                counts = entry.counts[op.phase]
                counts[op.spec] = counts.get(op.spec, 0) + 1
        for item in self.trace.untraced:
            self.by_call[homes[max(item.get("call") or 0, 0)]].opaque += 1

    def _charge_tensors(self) -> None:
        """To the first call of a module that has it; else to the first operator that reads it; else to no call."""
        owner: dict[int, Entry] = {}
        for index, entry in sorted(self.by_call.items()):
            for tensor in self.ledger.own_tensors(index):
                owner.setdefault(tensor, entry)
        owner |= self._readers([t for t in range(len(self.trace.tensors)) if t not in owner])
        registered: dict[int, int] = {}
        for module, info in enumerate(self.trace.modules):
            for tensor in info.tensors:
                registered.setdefault(tensor, module)
        for tensor in range(len(self.trace.tensors)):
            (owner.get(tensor) or self._idle(registered.get(tensor, 0))).tensors.append(tensor)
        for index, entry in self.by_call.items():
            entry.shared = [t for t in self.ledger.own_tensors(index) if owner[t] is not entry]

    def _readers(self, tensors: list[int]) -> dict[int, Entry]:
        wanted: dict[int, list[int]] = {}
        for tensor in tensors:
            wanted.setdefault(self.trace.tensors[tensor].storage, []).append(tensor)
        found: dict[int, Entry] = {}
        for op in self.trace.ops if wanted else ():
            for storage in op.reads:
                for tensor in wanted.pop(storage, ()):
                    found[tensor] = self.by_call[self.ledger.homes[max(op.owner, 0)]]
            if not wanted:
                break
        return found

    def _idle(self, module: int) -> Entry:
        return self.idle.setdefault(module, Entry("uncalled", module, None))

    def _finished(self) -> Iterator[int]:
        """Calls in the order they ended: a container after everything inside it."""
        open_calls: list[int] = []
        for index, call in enumerate(self.trace.calls):
            while open_calls and open_calls[-1] != call.parent:
                yield open_calls.pop()
            open_calls.append(index)
        yield from reversed(open_calls)
