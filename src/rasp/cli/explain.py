"""rasp explain: where and why two ways of counting differ on a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from .. import addons, render
from ..columns import find
from ..conventions import get as get_convention
from . import say, words, write
from .model import profiled
from .stat import option


def explain(
    model: Annotated[str, option("What to count; see rasp --help.")],
    a: Annotated[str, option("A way of counting; see rasp conventions.")],
    b: Annotated[str, option("Another one.")],
    /,
    *,
    input: Annotated[
        list[str] | None, option("Shape with its batch: 1,3,224,224 or ids:int64=1,128.", "-i", "--input")
    ] = None,
    batch: Annotated[int | None, option("Batch size, in place of that of -i or of the default inputs.")] = None,
    kw: Annotated[list[str] | None, option("An argument of the model's factory: depth=4.")] = None,
    column: Annotated[str, option("What to compare: flops, macc, params, mem_r …", "-c", "--column")] = "flops",
    everywhere: Annotated[bool, option("A line for every place, not one for all places of a kind.")] = False,
    top: Annotated[int | None, option("Show so many lines, the rest as one.")] = None,
    format: Annotated[
        str | None, option("md, csv, json or notebook (HTML); a table without it.", "-f", "--format")
    ] = None,
    output: Annotated[Path | None, option("A file, in the format of its suffix.", "-o", "--output")] = None,
) -> None:
    """Where and why two ways of counting differ on a model: lines that add up to the difference of the totals."""
    for name in (a, b):
        get_convention(name)
    addons.load()
    find(column)
    if format is not None:
        render.get(format)
    spelled = any(get_convention(name).level == "function" for name in (a, b))
    found = profiled(model, words.keywords(kw or ()), input, batch, {"functions": spelled}).explain(a, b, column)
    shown = found if everywhere else found.gathered()
    if output is not None:
        say(f"written to {found.report().save(output, format)}")
    elif format is not None:
        write(shown.report().sorted(None, top).render(format))
    else:
        render.show(shown.numbered().sorted(None, top))
