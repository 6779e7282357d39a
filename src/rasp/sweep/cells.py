"""The plan: which cells a sweep has, in order, each known by what decides its numbers. Nothing is built to make one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from types import CodeType
from typing import Any

from .. import __version__
from ..errors import InputError
from .axes import Axes, Size, scaled
from .measures import ON_DEVICE, Measure
from .subjects import Described


@dataclass(frozen=True)
class Cell:
    """One model at one size, batch, dtype and device, and what is measured there in one process."""

    key: str
    model: int  # its place among the models
    batch: int
    size: Size | None
    tokens: int | None
    dtype: str | None
    device: str | None
    measures: tuple[str, ...]
    timed: bool  # bears no neighbour on its device

    @property
    def title(self) -> str:
        size = f" {self.size[0]}x{self.size[1]}" if self.size else f" {self.tokens} tokens" if self.tokens else ""
        return f"{size} batch {self.batch}" + "".join(f" {word}" for word in (self.dtype, self.device) if word)


@dataclass(frozen=True)
class Point:
    """One row of the table: the cells that fill it."""

    model: int
    size: Size | None
    tokens: int | None
    batch: int
    dtype: str | None
    device: str | None
    cells: tuple[Cell, ...]


@dataclass
class Plan:
    """Models × sizes × batches × dtypes × devices, made one by one when asked for."""

    models: Sequence[Described]
    measures: Sequence[Measure]
    axes: Axes = field(default_factory=Axes)
    trunks: Mapping[str, str] | str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def points(self) -> Iterator[Point]:
        """Every row of this shard, model by model."""
        for points in self._places():
            yield from points

    def cells(self) -> Iterator[Cell]:
        """Every cell once: first those that share the machine, then those that want it for themselves."""
        for timed in (False, True):
            if any(timed in self._groups(device) for device in self.axes.devices):
                for points in self._places():
                    cells = (cell for point in points for cell in point.cells if cell.timed is timed)
                    yield from {cell.key: cell for cell in cells}.values()

    def __len__(self) -> int:
        """How many cells there are."""
        groups = [self._groups(device) for device in self.axes.devices]
        quiet = {found[False] for found in groups if False in found}
        places = sum(len(self._shapes(model)) for model in self.models) * len(self.axes.batches) * len(self.axes.dtypes)
        mine = len(range(self.axes.shard.number - 1, places, self.axes.shard.of))
        return mine * (len(quiet) + sum(True in found for found in groups))

    def trunk(self, model: Described) -> str | None:
        if self.trunks is None or isinstance(self.trunks, str):
            return self.trunks
        return self.trunks.get(model.name)

    def _places(self) -> Iterator[list[Point]]:
        """For each model, shape, batch and dtype its rows, one a device."""
        index = 0
        for number, model in enumerate(self.models):
            for size, tokens in self._shapes(model):
                for batch in self.axes.batches:
                    for dtype in self.axes.dtypes:
                        if self.axes.shard.has(index):
                            yield self._on_devices(number, size, tokens, batch, dtype)
                        index += 1

    # -- shapes ----------------------------------------------------------------------------------------------------

    def _shapes(self, model: Described) -> list[tuple[Size | None, int | None]]:
        """Sizes for a model of images, lengths for one of tokens, else the one that it has."""
        if model.kind == "tokens" or (model.kind is None and self.axes.tokens is not None):
            return [(None, length) for length in (self.axes.tokens or (model.length,))]
        if model.kind is None and self.axes.sizes is None:
            return [(None, None)]
        return [(size, None) for size in self._sizes(model)]

    def _sizes(self, model: Described) -> list[Size | None]:
        found: list[Size | None] = list(self.axes.sizes or ())
        if self.axes.scales and model.size is not None:
            height, width = model.size
            found += [(max(scaled(height, scale), 1), max(scaled(width, scale), 1)) for scale in self.axes.scales]
        return list(dict.fromkeys(found)) or [model.size]

    # -- cells -----------------------------------------------------------------------------------------------------

    def _on_devices(
        self, number: int, size: Size | None, tokens: int | None, batch: int, dtype: str | None
    ) -> list[Point]:
        found = []
        for device in self.axes.devices:
            cells = tuple(
                self._cell(number, size, tokens, batch, dtype, device if timed else None, names, timed)
                for timed, names in self._groups(device).items()
            )
            found.append(Point(number, size, tokens, batch, dtype, device, cells))
        return found

    def _groups(self, device: str | None) -> dict[bool, tuple[str, ...]]:
        """Measures that one process takes together: those on shapes alone, and those that run on the device."""
        found: dict[bool, tuple[str, ...]] = {}
        for measure in self.measures:
            timed = self._is_timed(measure, device)
            found[timed] = (*found.get(timed, ()), measure.name)
        return found

    def _is_timed(self, measure: Measure, device: str | None) -> bool:
        return measure.timed or (measure.name in ON_DEVICE and (device or "").startswith("cuda"))

    def _cell(
        self, number: int, size: Size | None, tokens: int | None, batch: int, dtype: str | None,
        device: str | None, names: tuple[str, ...], timed: bool,
    ) -> Cell:  # fmt: skip
        fixed = self._fixed[number]
        text = f"{fixed}|{size}|{tokens}|{batch}|{dtype}|{device}|{','.join(names)}"
        key = hashlib.sha256(text.encode()).hexdigest()[:40]
        return Cell(key, number, batch, size, tokens, dtype, device, names, timed)

    @cached_property
    def _fixed(self) -> list[str]:
        """What all cells of a model share: its source, the options, the versions."""
        options = json.dumps(dict(self.options), sort_keys=True, default=_named)
        return [
            json.dumps([model.digest, model.given, self.trunk(model), options, versions()], sort_keys=True, default=str)
            for model in self.models
        ]


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """What besides the model decides the numbers: rasp and its code, torch."""
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = "none"
    return {"rasp": __version__, "code": _code(), "torch": torch}


def _code() -> str:
    """A digest of rasp's own source: a formula that was put right gives new cells."""
    root = Path(__file__).resolve().parent.parent
    found = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        room = file.relative_to(root).parts[0]
        if room not in ("cli", "render", "compat", "reproduction"):
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _named(value: Any) -> str:
    """A function in an option, by its name and what it does."""
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    if name == ".":
        raise InputError(f"An option of a sweep must be plain or a function; got {value!r}.")
    code = getattr(value, "__code__", None)
    if code is None:
        return name
    closed = [cell.cell_contents for cell in value.__closure__ or ()]
    return f"{name}:{spelled(code)}:{value.__defaults__!r}:{closed!r}"


def spelled(code: CodeType) -> str:
    """What compiled code does, in words that are the same in every process."""
    inside = [spelled(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {inside}"
