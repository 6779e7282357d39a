"""Whose work it was: events of torch's profiler brought to module calls and operators. Pure: plain records in and out.

A kernel names the operator it was launched under, an operator lies inside the range of a module call on its thread, and
a node of the backward has the sequence number of the operator that made it: the last to begin with that number on the
forward's thread (torch.autograd.profiler's own rule; the number is taken when the node is made, so operators begun
before carry it as well). A node that only accumulates a gradient has none; the engine runs it right after the node that
gave the gradient, so it goes to that one's call.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Kind = Literal["pass", "call", "op", "launch", "kernel"]
NODE = "autograd::engine::evaluate_function"
OPTIMISER = ("Optimizer.step#", "Optimizer.zero_grad#")


class Event(NamedTuple):
    """Something that took time: a pass, a module call, an operator, the launch of a kernel, a kernel. Nanoseconds.

    `thread` is the host's, of a kernel its stream. `id` is what kernels and launches `link` to; of these two it is the
    number that a launch shares with its kernel. `call` numbers module calls in the order they began.
    """

    kind: Kind
    name: str
    start: int
    end: int
    thread: int = 0
    id: int = 0
    link: int = 0
    sequence: int = -1
    forward_thread: int = 0
    call: int = -1


class Home(NamedTuple):
    """Where work belongs: a call (None: outside of all), and its phase."""

    call: int | None
    phase: str  # forward, backward, recompute, optimiser, outside
    op: str = ""  # the innermost operator
    within: tuple[str, ...] = ()  # the operators around it, from the inside out


OUTSIDE = Home(None, "outside")


class Piece(NamedTuple):
    """One kernel, or on the host one operator without those inside it: how long it ran, after how long a gap."""

    home: Home
    name: str
    start: int
    took: int
    gap: int = 0  # in which the device did nothing before it
    waited: int | None = None  # from the launch on the host to the start


@dataclass
class Attributed:
    """What ran in one pass."""

    pieces: list[Piece] = field(default_factory=list)
    host: dict[tuple[int | None, str], int] = field(default_factory=dict)  # of the host's time, by call and phase
    busy: int = 0  # in which at least one kernel ran
    span: int = 0  # from the first kernel's start to the last one's end
    whole: int = 0  # of the pass, on the host's clock


def attribute(events: Iterable[Event]) -> list[Attributed]:
    """The work of each pass. Without a kernel among the events, operators stand for themselves, on the host."""
    found = _Nest([event for event in events if event.kind not in ("launch", "kernel")], every := list(events))
    kernels = sorted((event for event in every if event.kind == "kernel"), key=lambda event: event.start)
    pieces = found.kernels(kernels) if kernels else found.operators()
    results = []
    for number in found.passes:
        one = found.events[number]
        inside = [piece for piece in pieces if one.start <= piece.start < one.end]
        result = Attributed(_with_gaps(inside) if kernels else inside, found.host(one), whole=one.end - one.start)
        result.busy, result.span = _busy(inside) if kernels else (sum(piece.took for piece in inside), result.whole)
        results.append(result)
    return results


class _Nest:
    """The host's events, each with the one it lies in."""

    def __init__(self, events: Sequence[Event], every: Sequence[Event]) -> None:
        order = {"pass": 0, "call": 1, "op": 2}
        self.events = sorted(events, key=lambda e: (e.thread, e.start, -e.end, order[e.kind]))
        self.launches = {event.id: event for event in every if event.kind == "launch"}
        self.parents = self._parents()
        self.inside: dict[int, int] = {}  # nanoseconds of what lies right inside each event
        for event, parent in zip(self.events, self.parents):
            if parent >= 0:
                self.inside[parent] = self.inside.get(parent, 0) + event.end - event.start
        self.by_id = {event.id: number for number, event in enumerate(self.events) if event.id}
        self.passes = sorted(
            (n for n, e in enumerate(self.events) if e.kind == "pass"), key=lambda n: self.events[n].start
        )
        self.makers = self._makers()
        self.nodes = self._nodes()
        self.homes: dict[int, Home] = {}

    def _parents(self) -> list[int]:
        found: list[int] = []
        open_events: list[int] = []
        for number, event in enumerate(self.events):
            while open_events and not self._holds(self.events[open_events[-1]], event):
                open_events.pop()
            found.append(open_events[-1] if open_events else -1)
            open_events.append(number)
        return found

    @staticmethod
    def _holds(outer: Event, inner: Event) -> bool:
        return outer.thread == inner.thread and inner.start < max(outer.end, outer.start + 1)

    def _makers(self) -> dict[tuple[int, int], int]:
        """(thread, sequence number) → the operator that made this node of the backward."""
        found: dict[tuple[int, int], int] = {}
        for number, event in enumerate(self.events):  # in the order they began, thread by thread
            if event.kind == "op" and event.sequence >= 0 and not self._in_node(number):
                found[event.thread, event.sequence] = number
        return found

    def _in_node(self, number: int) -> bool:
        """Whether an event is a node's own work; what a checkpoint runs again inside of one is not."""
        while number >= 0:
            event = self.events[number]
            if event.kind == "call":
                return False
            if event.name.startswith(NODE):
                return True
            number = self.parents[number]
        return False

    def _nodes(self) -> dict[int, list[int]]:
        """Nodes of the backward with a sequence number, by thread, in the order they began."""
        found: dict[int, list[int]] = {}
        for number, event in enumerate(self.events):
            if event.name.startswith(NODE) and event.sequence >= 0:
                found.setdefault(event.thread, []).append(number)
        return found

    def home(self, number: int) -> Home:
        """The call and the phase of a host's event; the operator is its own name."""
        if number not in self.homes:
            self.homes[number] = self._home(number)
        return self.homes[number]

    def _home(self, number: int) -> Home:
        names: list[str] = []
        found, at = OUTSIDE, number
        while at >= 0 and found is OUTSIDE:
            event = self.events[at]
            if event.kind == "call":
                found = Home(event.call, "recompute" if self._in_backward(self.parents[at]) else "forward")
            elif event.name.startswith(NODE):
                found = Home(self._maker_of(at), "backward")
            elif event.name.startswith(OPTIMISER):
                found = Home(None, "optimiser")
            elif event.kind == "op":
                names.append(event.name)
            at = self.parents[at]
        own = self.events[number].name if self.events[number].kind == "op" else ""
        return found._replace(op=own, within=tuple(names[1:]))

    def _in_backward(self, number: int) -> bool:
        while number >= 0:
            if self.events[number].name.startswith(NODE):
                return True
            number = self.parents[number]
        return False

    def _maker_of(self, node: int) -> int | None:
        """The call whose operator made a node."""
        event = self.events[node]
        if event.sequence < 0:
            before = self.nodes.get(event.thread, [])
            at = bisect_right(before, node) - 1
            return self._maker_of(before[at]) if at >= 0 else None
        maker = self.makers.get((event.forward_thread, event.sequence))
        if maker is None:
            makers = [number for (_, sequence), number in self.makers.items() if sequence == event.sequence]
            maker = makers[0] if len(makers) == 1 else None
        return None if maker is None else self.home(maker).call

    # -- what ran --------------------------------------------------------------------------------------------------

    def kernels(self, kernels: Sequence[Event]) -> list[Piece]:
        found = []
        for kernel in kernels:
            launch = self.launches.get(kernel.id) if kernel.id else None
            number = self.by_id.get(kernel.link) if kernel.link else None
            home = self.home(number) if number is not None else self._around(launch)
            waited = None if launch is None else kernel.start - launch.start
            found.append(Piece(home, kernel.name, kernel.start, kernel.end - kernel.start, 0, waited))
        return found

    def _around(self, launch: Event | None) -> Home:
        """Of a kernel that no operator launched: the call that was open on the host, where only one thread had one."""
        if launch is None:
            return OUTSIDE
        held = [n for n, e in enumerate(self.events) if e.kind == "call" and e.start <= launch.start < e.end]
        if len({self.events[number].thread for number in held}) != 1:
            return OUTSIDE
        return self.home(max(held, key=lambda number: self.events[number].start))

    def operators(self) -> list[Piece]:
        """Each operator's time without that of the operators in it."""
        return [
            Piece(self.home(number), event.name, event.start, max(event.end - event.start - self._held(number), 0))
            for number, event in enumerate(self.events)
            if event.kind == "op" and not event.name.startswith(OPTIMISER)
        ]

    def _held(self, number: int) -> int:
        return self.inside.get(number, 0)

    def host(self, one: Event) -> dict[tuple[int | None, str], int]:
        """The host's time of each call and phase, without that of calls inside: module calls, and nodes of backward."""
        found: dict[tuple[int | None, str], int] = {}
        for number, event in enumerate(self.events):
            if not one.start <= event.start < one.end:
                continue
            if event.kind == "call" or event.name.startswith((NODE, *OPTIMISER)):
                home = self.home(number)
                self._add(found, home, event.end - event.start)
                above = self._keeper(self.parents[number])
                if above >= 0:
                    self._add(found, self.home(above), event.start - event.end)
        return found

    def _keeper(self, number: int) -> int:
        """The nearest event above whose time is counted."""
        while number >= 0:
            event = self.events[number]
            if event.kind == "call" or event.name.startswith((NODE, *OPTIMISER)):
                return number
            number = self.parents[number]
        return -1

    @staticmethod
    def _add(found: dict[tuple[int | None, str], int], home: Home, took: int) -> None:
        key = (home.call, home.phase)
        found[key] = found.get(key, 0) + took


def _with_gaps(pieces: Sequence[Piece]) -> list[Piece]:
    """Each kernel with the time before it in which no other ran."""
    found, reached = [], None
    for piece in pieces:
        gap = 0 if reached is None else max(piece.start - reached, 0)
        found.append(piece._replace(gap=gap))
        reached = max(reached or 0, piece.start + piece.took)
    return found


def _busy(pieces: Sequence[Piece]) -> tuple[int, int]:
    """Nanoseconds in which a kernel ran, and from the first's start to the last's end."""
    if not pieces:
        return 0, 0
    end = max(piece.start + piece.took for piece in pieces)
    span = end - pieces[0].start
    return span - sum(piece.gap for piece in _with_gaps(pieces)), span
