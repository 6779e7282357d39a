"""rasp zoo: the built-in models, and pages with tables and figures of them or of any others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App

from .. import units
from . import examples, say, words, write
from .lists import show
from .stat import option

ZOO = App(name="zoo", help=examples.ZOO, help_format="plaintext")


@ZOO.default
def models(
    *, task: Annotated[str | None, option("classification, detection, segmentation or keypoints.")] = None
) -> None:
    """The built-in models, with their published numbers."""
    from ..zoo import REFERENCES
    from ..zoo import list as names

    rows = []
    chosen = set(names(task))
    for item in REFERENCES.values():
        if item.name in chosen:
            numbers = ", ".join(
                f"{name} {value if isinstance(value, str) else units.count(value)}"
                for name, value in item.published.items()
            )
            rows.append((item.name, item.task, "×".join(map(str, item.size)), numbers, item.source))
    show(("model", "task", "size", "published", "source"), rows)


@ZOO.command(name="report", help=examples.REPORT)
def report(
    *names: Annotated[str, option("What to report on; the whole zoo if left out. See rasp --help.")],
    out: Annotated[Path, option("The folder for the pages.", "-o", "--out")],
    input: Annotated[str | None, option("Shape with its batch, where a model tells none.", "-i", "--input")] = None,
    quiet: Annotated[bool, option("Do not say which model is under way.", "-q", "--quiet")] = False,
) -> None:
    """Pages with tables and figures: an index, a scatter of MACs against parameters, and a page for each model."""
    from ..errors import InputError, ModelError
    from ..zoo._report import report as written

    shape = words.inputs([input])["input_shape"] if input is not None else None
    if isinstance(shape, dict):
        raise InputError("rasp zoo report takes one shape with -i, without a name: -i 1,3,224,224.")
    files, failed = written(names or None, out, shape, (lambda name: None) if quiet else lambda name: say(f"{name} …"))
    write(f"{files[0]}\n")
    say(f"{len(files)} files written to {out}")
    for name, reason in failed.items():
        say(f"left out {name}: {reason}")
    if failed:
        raise ModelError(f"{len(failed)} of {len(failed) + len(names)} models could not be run; the index names them.")
