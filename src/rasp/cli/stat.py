"""rasp stat: count a model, layer by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from .. import api, render
from ..errors import CaptureError, InputError
from ..profile import Profile
from ..report import Report, ordered
from . import say, words, write

By = Literal["op", "type", "module"]
Mode = Literal["eval", "train", "as-is"]
Names = list[str] | None


def stat(
    model: Annotated[str, Parameter(help="What to count; see rasp --help.")],
    /,
    *,
    input: Annotated[
        Names,
        Parameter(
            name=["--input", "-i"],
            negative=(),
            help="Shape with its batch: 1,3,224,224 or ids:int64=1,128; one for each input.",
        ),
    ] = None,
    batch: Annotated[
        int | None, Parameter(help="Batch size in place of the one in -i or of the default inputs.")
    ] = None,
    kw: Annotated[
        Names, Parameter(negative=(), help="An argument of the model's factory: depth=4; repeatable.")
    ] = None,
    columns: Annotated[Names, Parameter(name=["--columns", "-c"], negative=(), help="Columns, with commas.")] = None,
    includes: Annotated[
        Names, Parameter(name=["--includes", "--include"], negative=(), help="Columns to add at the end.")
    ] = None,
    excludes: Annotated[
        Names, Parameter(name=["--excludes", "--exclude"], negative=(), help="Columns to leave out.")
    ] = None,
    by: Annotated[By | None, Parameter(help="A row for each operator kind, module class or leaf module.")] = None,
    depth: Annotated[int | None, Parameter(help="A tree of modules to this depth.")] = None,
    fold: Annotated[bool, Parameter(help="Join equal blocks of a tree.")] = True,
    sort: Annotated[str | None, Parameter(help="Column to sort by, largest first.")] = None,
    top: Annotated[int | None, Parameter(help="Show so many rows, the rest as one.")] = None,
    format: Annotated[
        str | None, Parameter(name=["--format", "-f"], help="table, tree, md, csv, json or notebook (HTML).")
    ] = None,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="A file; .json without --format is the whole profile.")
    ] = None,
    convention: Annotated[str | None, Parameter(help="A way of counting; see rasp conventions.")] = None,
    backward: Annotated[bool, Parameter(negative=(), help="Count the backward as well (in train mode).")] = False,
    mode: Annotated[Mode | None, Parameter(help="eval, train, or as-is (the model's own).")] = None,
    device: Annotated[str | None, Parameter(help="Run on this device instead of counting without data.")] = None,
    dtype: Annotated[str | None, Parameter(help="What if the model were of this dtype.")] = None,
    strict: Annotated[bool, Parameter(negative=(), help="Fail when an operator has no rule.")] = False,
) -> None:
    """Count a model, layer by layer."""
    chosen = (words.names(columns), words.names(includes), words.names(excludes))
    layout, written = _format(format, depth)
    fields = api.choose(*chosen) if any(chosen) and by is None and layout == "table" else words.names(columns)
    for name in filter(None, (sort, *(fields or ()))):
        api.find(name)
    if _is_saved(model):
        found = api.load(model)
    else:
        how = {"backward": backward, "mode": mode, "device": device, "dtype": dtype, "strict": strict}
        found = _profiled(model, words.keywords(kw or ()), input, batch, how)
    if output is not None and format is None and output.suffix.lower() == ".json":
        say(f"profile saved to {found.save(output)}")
        return
    report = _report(found, layout, by, fields, chosen, convention, depth, fold)
    _deliver(_arranged(report, sort, top), written, output)


def _is_saved(model: str) -> bool:
    return model.endswith(".json") and ":" not in model.removeprefix(str(Path(model).anchor))


def _format(format: str | None, depth: int | None) -> tuple[str, str | None]:
    """The layout asked for, and the format it is to be written in (None: as it suits the output)."""
    if format in ("table", "tree"):
        return format, None
    if format is not None:
        render.get(format)
    return "tree" if depth is not None else "table", format


def _profiled(
    name: str, factory: dict[str, Any], given: list[str] | None, batch: int | None, how: dict[str, Any]
) -> Profile:
    """Build a model, without memory where its origin allows, and profile it; for real where it must be."""
    from ..zoo.adapters import source

    found = source(name)
    if given:
        taken = words.inputs(given, batch)
    elif found.given is not None:
        taken = found.given(batch or 1)
        say(f"no -i given: {found.title} takes {_shapes(taken)}")
    else:
        raise InputError(f"{name} does not tell its inputs: give their shapes with -i, as in -i 1,3,224,224.")
    virtual = found.virtual and how["device"] is None
    try:
        return api.profile(found.model(virtual, **factory), **taken, **how)
    except CaptureError:
        if not virtual:
            raise
    return api.profile(found.model(False, **factory), **taken, **how)


def _shapes(taken: dict[str, Any]) -> str:
    shapes = taken.get("input_shape")
    if shapes is None:
        inputs = taken["inputs"]
        return ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
    if isinstance(shapes, dict):
        return ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    return str(shapes)


def _report(
    found: Profile,
    layout: str,
    by: By | None,
    fields: list[str] | None,
    chosen: tuple[list[str] | None, ...],
    convention: str | None,
    depth: int | None,
    fold: bool,
) -> Report:
    """The report asked for; --includes and --excludes change the columns it has by itself."""

    def made(columns: list[str] | None) -> Report:
        if by == "op":
            return found.by_op(columns, convention, sort=None)
        if by == "type":
            return found.by_type(columns, convention, sort=None)
        if layout == "tree":
            return found.tree(depth, fold, columns, convention)
        return found.table("leaves" if by == "module" else "tape", columns, convention)

    report = made(fields)
    if any(chosen[1:]) and (by in ("op", "type") or layout == "tree"):
        report = made(api.choose(fields or report.columns, *chosen[1:]))
    return report


def _arranged(report: Report, sort: str | None, top: int | None) -> Report:
    if sort is None and report.layout == "table" and report.rows and report.rows[0].kind == "op":
        sort = "flops" if "flops" in report.columns else None
    if sort is not None and sort not in report.columns:
        raise InputError(f"--sort {sort}: that column is not shown. Shown are {', '.join(report.columns)}.")
    return ordered(report, sort, top) if report.layout == "table" else report


def _deliver(report: Report, format: str | None, output: Path | None) -> None:
    if output is not None:
        say(f"written to {report.save(output, format)}")
    elif format is not None:
        write(report.render(format))
    else:
        render.show(report)
