"""A named collection that refuses duplicates and, for a name it does not hold, suggests the nearest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from threading import RLock
from typing import Generic, TypeVar

from .errors import RaspError, UnknownName

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Names to things of one kind ("column", "format" …)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}

    def add(self, name: str, item: T, *, replace: bool = False) -> T:
        if name in self._items and not replace:
            raise RaspError(f"There is already a {self.kind} named {name!r}. Pick another name or pass replace=True.")
        self._items[name] = item
        return item

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[name]
        except (KeyError, TypeError):
            raise UnknownName(self.kind, name, self._items) from None

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


def once(load: Callable[[], None]) -> Callable[[], None]:
    """A loader that runs once; other threads wait until it is through, what it loads itself does not."""
    lock = RLock()
    steps: list[str] = []

    @wraps(load)
    def loading() -> None:
        if len(steps) == 2:
            return
        with lock:
            if not steps:
                steps.append("begun")
                load()
                steps.append("done")

    return loading
