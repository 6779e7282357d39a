"""Formats: how a Report is written. One format per file; a renderer sees the Report and nothing else.

To add one, put a file here with a function of the Report and register it; `save` finds it by its suffix:

>>> from rasp.render import format
>>> @format("names", ".names")
... def names(report):
...     return "\\n".join(str(row.values[0]) for row in report.all_rows())
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileError, InputError, UnknownName
from ..registry import Registry, once
from ..report import Report

Render = Callable[[Report], str | bytes]


@dataclass(frozen=True)
class Format:
    """A way of writing a report, and the suffix of files written in it."""

    name: str
    suffix: str | None
    render: Render


FORMATS: Registry[Format] = Registry("format")


def format(name: str, suffix: str | None = None) -> Callable[[Render], Render]:
    """Register a function of a Report that returns text or bytes."""

    def register(function: Render) -> Render:
        FORMATS.add(name, Format(name, suffix, function))
        return function

    return register


@once
def load() -> None:
    """Import every file of this folder once."""
    _load_rich()
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def _load_rich() -> None:
    """rich draws from Python's random numbers when it is imported first: a report must not move them."""
    before = random.getstate()
    importlib.import_module("rich.style")
    random.setstate(before)


def get(name: str) -> Format:
    load()
    return FORMATS[name]


def render(report: Report, name: str = "text") -> str | bytes:
    """A report in a format."""
    return get(name).render(report)


def of_suffix(path: str | Path) -> str:
    """The format that files of this name are written in."""
    load()
    suffix = Path(path).suffix.lower()
    suffixes = {item.suffix: item.name for item in FORMATS.values() if item.suffix}
    if not suffix:
        raise InputError(f"{path} has no suffix to tell the format by. Name a file with one: {', '.join(suffixes)}.")
    if suffix not in suffixes:
        raise UnknownName("format with the suffix", suffix, suffixes)
    return suffixes[suffix]


def save(report: Report, path: str | Path, name: str | None = None) -> Path:
    """Write a report to a file, whole or not at all."""
    content = render(report, name or of_suffix(path))
    return write(path, content)


def write(path: str | Path, content: str | bytes) -> Path:
    """Write a file whole or not at all, making its folder; an interrupted write leaves the old file as it was."""
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            unfinished.write_bytes(data)
            os.replace(unfinished, target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileError(f"{target} could not be written: {error.strerror or error}.") from error
    return target


def show(report: Report) -> None:
    """Print a report: fitted and coloured on a terminal, whole and plain elsewhere."""
    load()
    from rich.console import Console

    console = Console()
    if console.is_terminal:
        console.print(report)
    else:
        sys.stdout.write(str(render(report, "text")))


def to_frame(report: Report) -> Any:
    from .frame import frame as as_frame

    return as_frame(report)


def read_frame(path: str | Path) -> Any:
    """A saved report as a DataFrame."""
    from .frame import read as as_frame

    return as_frame(path)


def on_console(report: Report, width: int | None) -> Any:
    """A rich renderable that fits a width."""
    load()
    from .text import on_console as fitted

    return fitted(report, width)
