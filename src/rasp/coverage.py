"""What was not counted: operators without a rule (with a bound on what they could hide) and modules that never ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import rules
from .ledger import Ledger


@dataclass(slots=True)
class Gap:
    """An operator that no rule covers: how often it ran, where, and at most how much it computed (None: no telling)."""

    op: str
    calls: int = 0
    modules: list[str] = field(default_factory=list)
    bound: int | None = 0

    def as_dict(self) -> dict[str, Any]:
        return {"op": self.op, "calls": self.calls, "modules": self.modules, "bound": self.bound}


def gaps(ledger: Ledger) -> list[Gap]:
    """Every operator that could not be counted, largest bound first."""
    found: dict[str, Gap] = {}
    if ledger.unknown:
        for entry in ledger.entries:
            path = f".{ledger.trace.modules[entry.module].path}"
            for counts in entry.counts:
                for spec in ledger.unknown.intersection(counts):
                    _note(
                        found, ledger.trace.specs[spec].name, path, counts[spec], rules.bound(ledger.trace.specs[spec])
                    )
    for item in ledger.trace.untraced:
        path = str(item.get("module") or "")
        _note(found, str(item.get("op") or "unseen work"), path if path.startswith(".") else f".{path}", 1, None)
    return sorted(found.values(), key=lambda gap: -1 if gap.bound is None else gap.bound, reverse=True)


def _note(found: dict[str, Gap], op: str, path: str, calls: int, bound: int | None) -> None:
    gap = found.setdefault(op, Gap(op))
    gap.calls += calls
    gap.bound = None if bound is None or gap.bound is None else gap.bound + calls * bound
    if path not in gap.modules:
        gap.modules.append(path)


def idle(ledger: Ledger) -> list[tuple[str, int]]:
    """Modules that never ran, with the parameters they hold."""
    found = []
    for entry in ledger.entries:
        if entry.kind == "uncalled":
            tensors = [ledger.trace.tensors[t] for t in entry.tensors]
            params = sum(t.spec.numel for t in tensors if t.kind == "parameter")
            found.append((f".{ledger.trace.modules[entry.module].path}", params))
    return found
