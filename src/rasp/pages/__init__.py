"""Pages: what a list of models costs, as Markdown with figures, from plain data alone.

`write(subjects, folder)` makes an index with tables and a scatter of MACs against parameters, and a page with a figure
for each model. Figures are SVG written here, so that the same numbers always give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import FileError


@dataclass(frozen=True)
class Layer:
    """One layer in order of execution: bytes of its parameters and features, and its operations."""

    name: str
    kind: str
    param_mem: float
    feat_mem: float
    flops: float


@dataclass(frozen=True)
class Subject:
    """A model and its numbers. Memory and `fused` are of convention burden; macs and flops of rasp's own count.

    `sweep` has a row for each size as rasp.zoo.burden_report gives it, for one image; a row with a `reason` says why
    the model cannot take that size. `printed` are published values by the same names, `told` what was printed of the
    sweep.
    """

    name: str
    family: str
    task: str
    input: str
    params: int
    macs: int | None
    flops: int | None
    param_mem: int
    feat_mem: int
    fused: int
    layers: Sequence[Layer]
    sweep: Sequence[Mapping[str, Any]] = ()
    swept: str = ""  # what the sweep ran
    printed: Mapping[str, str] = field(default_factory=dict)
    told: Sequence[Mapping[str, str]] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    citation: str = ""
    source: str = ""


@dataclass(frozen=True)
class Point:
    """A model in a scatter and a table of results: its MACs and parameters, and what was printed of them."""

    name: str
    family: str
    macs: float
    params: float
    shown: bool = True  # in the picture
    printed: tuple[str, str] | None = None


@dataclass(frozen=True)
class Results:
    """A table of models with its picture."""

    title: str
    words: str
    file: str
    points: Sequence[Point]


def write(
    subjects: Sequence[Subject],
    folder: str | Path,
    *,
    title: str = "Models",
    results: Sequence[Results] = (),
    failed: Mapping[str, str] | None = None,
    command: str = "",
) -> list[Path]:
    """Write the pages into a folder, which is made if need be; gives the files, the index first."""
    from . import along, scatter, words

    texts: dict[str, str] = {"index.md": words.index(subjects, title, results, failed or {}, command)}
    for item in results:
        texts[item.file] = scatter.drawn([point for point in item.points if point.shown], item.title)
    for subject, name in zip(subjects, words.files(subjects)):
        texts[f"{name}.md"] = words.page(subject, f"figures/{name}.svg")
        texts[f"figures/{name}.svg"] = along.drawn(subject)
    return _written(made(folder), texts)


def made(folder: str | Path) -> Path:
    """The folder for the pages, made if need be: what cannot be written is better known before hours of work."""
    try:
        (Path(folder) / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"The pages could not be written to {folder}: {error.strerror or error}.") from error
    return Path(folder)


def _written(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    try:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise FileError(f"The pages could not be written to {folder}: {error.strerror or error}.") from error
    return [folder / name for name in texts]
