"""Allocators: how requests for bytes become bytes taken. One per file; an allocator serves `take` and `give_back`.

To add one, put a file here with a class and register it under the name that `allocator=` takes:

>>> from rasp.memory.allocators import Allocator, allocator
>>> @allocator("pages")
... class Pages(Allocator):
...     '''Whole pages of 4 KiB.'''
...     def size_of(self, nbytes):
...         return -(-nbytes // 4096) * 4096
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from ...registry import Registry, once

A = TypeVar("A", bound="type[Allocator]")


class OutOfMemory(Exception):
    """A request that does not fit under the allocator's limit."""


class Allocator:
    """Hands out what is asked for, to the byte, and nothing is kept back: the base of the others.

    `allocated` are the bytes handed out now, `reserved` those taken from the device; `most` and `most_reserved` the
    most of each so far.
    """

    limit: int | None = None  # bytes of the device; None: as many as are asked for

    def __init__(self, settings: str = "") -> None:
        self.allocated = self.most = self.reserved = self.most_reserved = 0

    def size_of(self, nbytes: int) -> int:
        """Bytes that a request is charged with."""
        return nbytes

    def take(self, nbytes: int) -> Any:
        """Hand out a block; what comes back is its handle."""
        size = self.size_of(nbytes)
        if self.limit is not None and self.allocated + size > self.limit:
            raise OutOfMemory
        self.allocated += size
        self.reserved = self.allocated
        self.most = max(self.most, self.allocated)
        self.most_reserved = max(self.most_reserved, self.reserved)
        return size

    def give_back(self, handle: Any) -> None:
        self.allocated -= handle
        self.reserved = self.allocated

    def charged(self, handle: Any) -> int:
        """Bytes that a block counts for."""
        return int(handle)

    def restart_most(self) -> None:
        """Begin a new `most` from what is handed out now."""
        self.most = self.allocated


ALLOCATORS: Registry[type[Allocator]] = Registry("allocator")


def allocator(name: str) -> Callable[[A], A]:
    """Register a class as the allocator of that name."""

    def register(made: A) -> A:
        ALLOCATORS.add(name, made)
        return made

    return register


def get(name: str, settings: str = "") -> Allocator:
    """A fresh allocator."""
    load()
    return ALLOCATORS[name](settings)


@once
def load() -> None:
    """Import every file of this folder once."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
