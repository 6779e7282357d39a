"""What a person asks of a run's memory: how much, when, of what kind, and who holds it at the peak."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from .. import units
from ..records import Trace
from .allocators import OutOfMemory
from .owners import KINDS, Owners
from .picture import told
from .plan import Plan, Settings
from .readings import Inside, Readings, predicted
from .targets import Target, target
from .workspaces import workspaces

GRAIN = 2 << 20  # of the allocator's segments


class Memory:
    """The memory of a run, predicted for a target.

    `base` is allocated before the call: parameters, buffers and inputs. `peak` is the most allocated, `base` included;
    of training the second step's, in which the optimiser's state is there from the start (`peak_first`: the first's).
    `reserved` is what the allocator takes from the device in all. `measured` has the same of a device that ran it
    (device, base, peak, peak_first), or is None.
    """

    def __init__(self, trace: Trace, settings: Settings | None = None, measured: dict[str, Any] | None = None) -> None:
        self.trace = trace
        self.settings = settings or Settings()
        self.measured: dict[str, Any] | None = measured and {"device": measured["device"], **measured["whole"]}
        self.target: Target = target(self.settings.target)

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.trace, self.settings, workspaces(self.target, self.settings.allocator))

    @cached_property
    def needed(self) -> int:
        """The least memory that the run gets by with, to within 2 MiB or a thousandth.

        Under a limit the allocator gives free segments back to the device before it fails, so this lies between the
        peak and what is reserved where memory abounds.
        """
        grain = max(GRAIN, self.peak // 1000 // GRAIN * GRAIN)
        low, high = -(-self.peak // grain), -(-self.reserved // grain)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._runs_in(middle * grain) else (middle + 1, high)
        return high * grain if self.settings.allocator == "cuda" else self.peak

    def _runs_in(self, nbytes: int) -> bool:
        try:
            Plan(self.trace, self.settings, workspaces(self.target, self.settings.allocator), limit=nbytes)
        except OutOfMemory:
            return False
        return True

    @cached_property
    def owners(self) -> Owners:
        return Owners(self.plan)

    @property
    def base(self) -> int:
        return self.plan.base

    @property
    def peak(self) -> int:
        return max(self.plan.steady.peak, self.base)

    @property
    def peak_first(self) -> int:
        return max(self.plan.first.peak, self.base)

    @property
    def reserved(self) -> int:
        return self.plan.reserved

    @cached_property
    def range(self) -> tuple[int, int]:
        """The least and the most that the peak may be, by what is not known of the kernels' workspaces."""
        low, high = (
            Plan(self.trace, self.settings, workspaces(self.target, self.settings.allocator), bound=bound)
            for bound in ("low", "high")
        )
        return min(low.steady.peak, self.peak), max(high.steady.peak, self.peak)

    def timeline(self) -> list[tuple[int, dict[str, int]]]:
        """(operator, {kind: bytes}) for every operator: what is there while it runs.

        Kinds add up to the most allocated; `workspace` is what a kernel takes for itself beside all that it makes.
        """
        owners, plan = self.owners, self.plan
        current = dict.fromkeys(KINDS, 0)
        for index in plan.steady.charged:
            if self.trace.storages[index].born < 0 or index in plan.lasting:
                current[owners.kind(index)] += plan.steady.charged[index]
        found = []
        for number in range(len(self.trace.ops)):
            for index in plan.deaths.get(number, ()):
                if index in plan.steady.charged and self._comes_and_goes(index):
                    current[owners.kind(index)] -= plan.steady.charged[index]
            for index in plan.births.get(number, ()):
                if index in plan.steady.charged and self._comes_and_goes(index):
                    current[owners.kind(index)] += plan.steady.charged[index]
            beside = max(plan.steady.most[number] - sum(current.values()), 0)
            found.append((number, {**current, "workspace": beside}))
        return found

    def _comes_and_goes(self, index: int) -> bool:
        storage = self.trace.storages[index]
        return index not in self.plan.lasting and storage.died != storage.born

    def by_kind(self) -> dict[str, int]:
        """Bytes of each kind at the peak."""
        at = self.plan.steady.at
        if at < 0:
            return dict.fromkeys(KINDS, 0) | self._there_before()
        found = dict.fromkeys(KINDS, 0)
        for index in self.owners.alive(at):
            found[self.owners.kind(index)] += self.plan.steady.charged[index]
        found["workspace"] = max(self.peak - sum(found.values()), 0)
        return found

    @cached_property
    def saved(self) -> dict[int, int]:
        """Bytes saved for the backward, by the call whose forward made them."""
        found: dict[int, int] = {}
        for index in self.owners.saved:
            maker = self.owners.maker.get(index)
            if maker is not None:
                call = max(self.trace.ops[maker].owner, 0)
                found[call] = found.get(call, 0) + self.plan.steady.charged.get(index, 0)
        return found

    @cached_property
    def readings(self) -> Readings:
        """Around each module call, as a tool would read them that asks before and after."""
        return predicted(self.trace, self.plan)

    @cached_property
    def inside(self) -> Inside:
        """What was allocated while each module call's operators ran, backward included."""
        return Inside(self.trace, self.plan)

    @cached_property
    def serving(self) -> dict[str, dict[int, int]]:
        """Bytes of gradients and of the optimiser's state, by the parameter's storage (-1: of none in particular)."""
        found: dict[str, dict[int, int]] = {"gradient": {}, "optimiser state": {}}
        for index, storage in enumerate(self.trace.storages):
            if storage.kind in found:
                place = self.trace.serves.get(index, -1)
                found[storage.kind][place] = found[storage.kind].get(place, 0) + storage.nbytes
        return found

    def _there_before(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for index, nbytes in self.plan.steady.charged.items():
            kind = self.owners.kind(index)
            found[kind] = found.get(kind, 0) + nbytes
        return found

    def at_peak(self, n: int | None = 10) -> list[dict[str, Any]]:
        """Who is there at the peak, the largest first: {module, op, shape, bytes, kind, why}."""
        at = self.plan.steady.at
        if at < 0:
            return []
        rows = [self.owners.described(index, at) for index in self._largest(at, n)]
        beside = self.by_kind()["workspace"]
        if beside:
            op = self.trace.ops[at]
            estimate = self.plan.estimates[op.spec]
            why = (estimate.why if estimate is not None else "") or "taken by the kernel while it runs"
            place = {"module": self.owners.path(at), "op": self.owners.operator(at), "shape": None}
            rows.append({**place, "bytes": beside, "kind": "workspace", "why": why})
        rows.sort(key=lambda row: -row["bytes"])
        return rows if n is None else rows[:n]

    def _largest(self, at: int, n: int | None) -> list[int]:
        alive = sorted(self.owners.alive(at), key=lambda index: -self.plan.steady.charged[index])
        return alive if n is None else alive[:n]

    @property
    def summary(self) -> str:
        """The peak in one sentence."""
        at = self.plan.steady.at
        where = f", at {self.owners.operator(at).partition('::')[2]} in {self.owners.place(at)}" if at >= 0 else ""
        before = f"{units.size(self.base)} before the run"
        return f"memory peak {units.size(self.peak)} on {self.target.name}, {before}{where}"

    def text(self, width: int = 80, owners: int = 8) -> str:
        """The memory as a page: sums, what is allocated over time, and who holds it at the peak."""
        return told(self, width, owners)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return (
            f"<rasp.Memory for {self.target.name}: base {units.size(self.base)}, peak {units.size(self.peak)}, "
            f"reserved {units.size(self.reserved)}, predicted>"
        )
