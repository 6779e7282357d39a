"""A module in the tree of a run, to walk by hand: `tree.children`, `tree['flops']`, `tree.find('features.0')`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import report
from .errors import UnknownName
from .tree import Node, grow
from .view import View

COLUMNS = ("name", "type", "out_shape", "params", "flops", "flops%")


class Branch:
    """One node: its name, its class, what it calls, and any column's value over all that ran inside."""

    def __init__(self, node: Node, view: View) -> None:
        self._node, self._view = node, view

    @classmethod
    def root(cls, view: View) -> Branch:
        return cls(grow(view.ledger), view)

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def type(self) -> str:
        return self._node.type

    @property
    def kind(self) -> str:
        """node: a module. own: what its parent did itself. uncalled: it never ran."""
        return self._node.kind

    @property
    def children(self) -> list[Branch]:
        return [Branch(child, self._view) for child in self._node.children]

    def __getitem__(self, column: str) -> Any:
        return self._view.value(column, self._node)

    def __iter__(self) -> Iterator[Branch]:
        """This branch and all below it."""
        return (Branch(node, self._view) for _, node in self._node.walk())

    def find(self, name: str) -> Branch:
        """The branch of a module by its path, with or without the leading dot."""
        found = {branch.name: branch for branch in self if branch.kind != "own"}
        wanted = name if name.startswith(".") else f".{name}"
        if wanted not in found:
            raise UnknownName("module", name, found)
        return found[wanted]

    def __repr__(self) -> str:
        return f"<{self.name} {self.type}: {len(self._node.children)} children>"

    def __str__(self) -> str:
        return str(report.tree(self._view, self._node, COLUMNS, f"{self.name} {self.type}".strip(" .")))
