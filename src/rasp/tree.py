"""The tree of modules as they called each other, and how repeated blocks fold into one."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from .entries import Entry
from .ledger import Ledger
from .parts import Part, entry_part, own_type

Signature = Callable[[Part], Hashable]


@dataclass(slots=True, eq=False)
class Node(Part):
    """A module where it was called from, with the entries of all that ran inside; `times` > 1 for folded repeats."""

    children: list[Node] = field(default_factory=list)
    times: int = 1

    def walk(self, depth: int | None = None, level: int = 0) -> Iterator[tuple[int, Node]]:
        """This node and all below it, to a depth, with the level of each."""
        yield level, self
        for child in self.children if depth is None or level < depth else ():
            yield from child.walk(depth, level + 1)


def grow(ledger: Ledger) -> Node:
    """The tree; a module called again from the same place is one node, own work and idle modules are leaves."""
    grower = _Grower(ledger)
    for index in range(1, len(ledger.trace.calls)):
        if ledger.homes[index] == index:
            grower.place(index)
    for entry in ledger.entries:
        grower.hang(entry)
    _gather(grower.root)
    return grower.root


class _Grower:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.trace = ledger, ledger.trace
        self.root = Node("node", ".", self.trace.modules[0].type, call=0 if self.trace.calls else None, whole=True)
        self.by_call: dict[int, Node] = {0: self.root}
        self.by_module: dict[int, Node] = {0: self.root}
        self.places: dict[tuple[int, int], Node] = {}
        self.own: dict[int, Node] = {}

    def place(self, index: int) -> None:
        call = self.trace.calls[index]
        above = self.by_call.get(call.parent, self.root)
        node = self.places.get((id(above), call.module))
        if node is None:
            info = self.trace.modules[call.module]
            node = self.places[id(above), call.module] = Node("node", f".{info.path}", info.type, call=index)
            above.children.append(node)
            self.by_module.setdefault(call.module, node)
        self.by_call[index] = node

    def hang(self, entry: Entry) -> None:
        above = self._above(entry)
        if entry.kind == "call":
            above.entries.append(entry)
            return
        place = self.own.get(id(above)) if entry.kind == "own" else None
        if place is None:
            part = entry_part(entry, self.ledger)
            place = Node(part.kind, part.name, part.type, call=part.call)
            above.children.append(place)
            if entry.kind == "own":
                self.own[id(above)] = place
        place.entries.append(entry)
        if len(place.entries) > 1:
            place.type = own_type(place.entries, self.ledger) or place.type

    def _above(self, entry: Entry) -> Node:
        """The node of an entry's call; of the nearest module above that was called, where it never ran."""
        if entry.call is not None:
            return self.by_call[entry.call]
        module = entry.module
        while module > 0 and module not in self.by_module:
            module = self.trace.modules[module].parent
        return self.by_module.get(module, self.root)


def _gather(node: Node) -> list[Entry]:
    """Give every node the entries of all below it."""
    for child in node.children:
        node.entries.extend(_gather(child))
    return node.entries


# -- folding -----------------------------------------------------------------------------------------------------------


def fold(node: Node, signature: Signature) -> Node:
    """Join consecutive siblings that differ in nothing but their number; the joined node sums over the repeats."""
    children = [fold(child, signature) for child in node.children]
    runs = groupby(_in_runs(children, signature), key=lambda pair: pair[0])
    joined = [_join([child for _, child in run]) for _, run in runs]
    return Node(
        node.kind, node.name, node.type, node.entries, node.call, whole=node.whole, children=joined, times=node.times
    )


def _in_runs(children: list[Node], signature: Signature) -> Iterator[tuple[int, Node]]:
    """Number the runs of siblings that may be joined."""
    run, before = 0, None
    for child in children:
        stem, number = split_number(child.name)
        look = (stem, _look(child, child.name, signature))
        if number is None or before != (look, number - 1):
            run += 1
        before = (look, number)
        yield run, child


def split_number(name: str) -> tuple[str, int | None]:
    """'.layers.12' → ('.layers.', 12)."""
    found = re.fullmatch(r"(.*?)(\d+)", name)
    return (found[1], int(found[2])) if found else (name, None)


def _look(node: Node, prefix: str, signature: Signature) -> Hashable:
    """All that must be equal for two nodes to be joined."""
    inside = tuple(_look(child, prefix, signature) for child in node.children)
    return node.kind, node.name.removeprefix(prefix), node.type, node.times, signature(node), inside


def _join(nodes: list[Node], names: tuple[str, str] | None = None) -> Node:
    first = nodes[0]
    if len(nodes) == 1:
        return first
    old, new = names or (first.name, f"{first.name}-{split_number(nodes[-1].name)[1]}")
    entries = [entry for node in nodes for entry in node.entries]
    children = [_join(list(group), (old, new)) for group in zip(*(node.children for node in nodes))]
    name = new + first.name[len(old) :] if first.name.startswith(old) else first.name
    return Node(first.kind, name, first.type, entries, first.call, children=children, times=len(nodes) * first.times)
