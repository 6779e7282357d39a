"""Reproduction: the numbers that older tools published, computed again and compared digit by digit.

The printed numbers lie in rasp/published. To add a table, put a function here that yields its lines:

>>> from rasp.reproduction import Line, published
>>> @published("a table of mine", "my README", measured=("ms",))
... def mine():
...     yield Line("resnet18", {"params": ("11.7M", "11.7M")})  # as printed, and ours in the same form
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError, UnknownName
from ..registry import Registry

FACTS = Path(__file__).parent.parent / "published"


@dataclass(frozen=True)
class Line:
    """A row of a published table: for each column what was printed, and ours in the same form."""

    name: str
    cells: dict[str, tuple[str, str]]

    @property
    def wrong(self) -> list[str]:
        return [column for column, (printed, ours) in self.cells.items() if printed != ours]


@dataclass(frozen=True)
class Published:
    """A published table: where it was printed, how to compute it, the columns that are measurements, what it needs."""

    name: str
    source: str
    lines: Callable[[], Iterable[Line]]
    measured: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    remark: str = ""


@dataclass
class Result:
    """A table computed again; `missing` names a library it needs that is not installed."""

    table: Published
    lines: list[Line] = field(default_factory=list)
    missing: str | None = None

    @property
    def values(self) -> int:
        return sum(len(line.cells) for line in self.lines)

    @property
    def same(self) -> int:
        return self.values - sum(len(line.wrong) for line in self.lines)


TABLES: Registry[Published] = Registry("published table")


def published(
    name: str, source: str, *, measured: tuple[str, ...] = (), needs: tuple[str, ...] = (), remark: str = ""
) -> Callable[[Callable[[], Iterable[Line]]], Callable[[], Iterable[Line]]]:
    """Register a function that yields the lines of a table."""

    def register(lines: Callable[[], Iterable[Line]]) -> Callable[[], Iterable[Line]]:
        TABLES.add(name, Published(name, source, lines, measured, needs, remark))
        return lines

    return register


def load() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def reproduce(said: Callable[[str], Any] = lambda words: None, only: str = "") -> Iterator[Result]:
    """Compute every table again whose name contains `only`, in turn; `said` hears which one is under way."""
    load()
    wanted = [table for table in TABLES.values() if only.lower() in table.name.lower()]
    if not wanted:
        raise UnknownName("published table", only, [table.name for table in TABLES.values()])
    for table in wanted:
        said(table.name)
        missing = next((name for name in table.needs if not _installed(name)), None)
        yield Result(table, [] if missing else list(table.lines()), missing)


def facts(name: str) -> list[dict[str, str]]:
    """The rows of a file of printed numbers."""
    with (FACTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def compared(printed: dict[str, str], ours: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Printed and ours, column by column; a column that was printed and that we lack is a mistake of ours."""
    absent = set(ours) - set(printed)
    if absent:
        raise InputError(f"The published table has no column {absent.pop()!r}.")
    return {column: (printed[column], str(value)) for column, value in ours.items()}


def torchvision_model(name: str, **options: Any) -> Any:
    """A model of torchvision with random weights, its batch and image left to the caller."""
    from ..zoo.adapters import source

    return source(f"torchvision:{name}").model(virtual=True, **options)


def reference_model(name: str) -> Any:
    """A built-in model."""
    from ..zoo.adapters import source

    return source(name).model(virtual=True)


def _installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None
