"""rasp stat: count a model, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from .. import addons, api, render, styles
from ..columns import find
from ..conventions import get as get_convention
from ..errors import InputError
from ..profile import Profile
from ..report import Report
from . import say, words, write
from .model import profiled

Mode = Literal["eval", "train", "as-is"]
By = Literal["op", "type", "module"]


def option(words: str, *names: str) -> Parameter:
    return Parameter(name=list(names) or None, help=words, negative=())


def stat(
    model: Annotated[str, option("What to count; see rasp --help.")],
    /,
    *,
    input: Annotated[
        list[str] | None, option("Shape with its batch: 1,3,224,224 or ids:int64=1,128.", "-i", "--input")
    ] = None,
    batch: Annotated[int | None, option("Batch size, in place of that of -i or of the default inputs.")] = None,
    kw: Annotated[list[str] | None, option("An argument of the model's factory: depth=4.")] = None,
    columns: Annotated[list[str] | None, option("Columns, with commas; see rasp columns.", "-c", "--columns")] = None,
    includes: Annotated[list[str] | None, option("Columns to add at the end.", "--includes", "--include")] = None,
    excludes: Annotated[list[str] | None, option("Columns to leave out.", "--excludes", "--exclude")] = None,
    by: Annotated[By | None, option("A row for each operator kind, module class or leaf module.")] = None,
    depth: Annotated[int | None, option("A tree of modules, to this depth.")] = None,
    fold: Annotated[bool, Parameter(help="Join equal blocks of a tree.")] = True,
    sort: Annotated[str | None, option("Column to sort by, largest first.")] = None,
    top: Annotated[int | None, option("Show so many rows, the rest as one.")] = None,
    style: Annotated[str | None, option("A layout people know: summary, repr, tids, tree or table.")] = None,
    format: Annotated[str | None, option("table, tree, md, csv, json or notebook (HTML).", "-f", "--format")] = None,
    output: Annotated[
        Path | None, option("A file; .json is the whole profile, unless -f json.", "-o", "--output")
    ] = None,
    convention: Annotated[str | None, option("A way of counting; see rasp conventions.")] = None,
    backward: Annotated[bool, option("Count the backward as well, in train mode.")] = False,
    mode: Annotated[Mode | None, option("eval, train, or as-is: the model's own.")] = None,
    device: Annotated[str | None, option("Run for real on this device: cpu, cuda:0, mps …")] = None,
    dtype: Annotated[str | None, option("What if the model were of this dtype.")] = None,
    roof: Annotated[str | None, option("A machine for the columns of rooflines; see rasp machines.")] = None,
    memory: Annotated[bool, option("Add device memory: measured on a CUDA device, else predicted.")] = False,
    target: Annotated[str | None, option("The machine, or size (24GiB), that memory is predicted for.")] = None,
    optimizer: Annotated[str | None, option("A step's optimiser (adamw), with --backward.")] = None,
    strict: Annotated[bool, option("Fail when an operator has no rule.")] = False,
    timing: Annotated[bool, option("Run it on the device and time it, module by module.")] = False,
    batches: Annotated[int | None, option("Time exactly so many runs.")] = None,
    warmup: Annotated[int | None, option("Run exactly so many before them.")] = None,
    seconds: Annotated[float | None, option("Time for about so long at most; measure energy for so long.")] = None,
    energy: Annotated[bool, option("Read the device's meters of energy while it runs.")] = False,
    grid_intensity: Annotated[float | None, option("Grams of CO2-equivalent per kWh, for the column co2.")] = None,
    kernels: Annotated[bool, option("Record kernels, or on a CPU operators, by module.")] = False,
    keep_trace: Annotated[Path | None, option("A file for torch.profiler's own trace of a few runs.")] = None,
) -> None:
    """Count a model, layer by layer."""
    chosen = (words.names(columns), words.names(includes), words.names(excludes))
    ask = Ask(format, by, depth, fold, *chosen, sort, top, convention, style)
    ask.check()
    if memory and ask.columns is None and style is None:
        ask = replace(ask, includes=[*(ask.includes or ()), *ask.held])
    how: dict[str, Any] = {
        "backward": backward,
        "mode": mode,
        "device": device,
        "dtype": dtype,
        "strict": strict,
        "roof": roof,
    }
    how |= {"functions": ask.spelled, "optimizer": optimizer}
    how |= {"memory": memory, "target": target or "h200"}
    if target is not None and not memory:
        raise InputError("--target goes with --memory: it names the machine that memory is predicted for.")
    other = {"energy": energy, "grid_intensity": grid_intensity, "kernels": kernels or None, "keep_trace": keep_trace}
    measured = {name: value for name, value in other.items() if value not in (None, False)}
    if measured:
        how |= {**measured, "seconds": seconds}
    if timing or batches is not None or warmup is not None or (seconds is not None and not energy):
        how |= {"timing": True, "batches": batches, "warmup": warmup, "seconds": seconds}
    found = profiled(model, words.keywords(kw or ()), input, batch, how)
    if output is not None and format is None and output.suffix.lower() == ".json":
        say(f"profile saved to {found.save(output)}")
    elif style is not None:
        lay_out(ask.text(found), output)
    else:
        deliver(ask.report(found), None if format in ("table", "tree") else format, output)


@dataclass(frozen=True)
class Ask:
    """Which report was asked for."""

    format: str | None
    by: By | None
    depth: int | None
    fold: bool
    columns: list[str] | None
    includes: list[str] | None
    excludes: list[str] | None
    sort: str | None
    top: int | None
    convention: str | None
    style: str | None = None

    def check(self) -> None:
        """Refuse names that do not exist before the model is built; columns of addons do."""
        addons.load()
        if self.format not in (None, "table", "tree"):
            render.get(self.format or "")
        get_convention(self.convention)
        if self.style is not None:
            self._check_style(self.style)
        for name in (*self._named, *(self.includes or ()), *(self.excludes or ()), *filter(None, [self.sort])):
            get_convention(find(name).convention)

    @property
    def held(self) -> list[str]:
        """The columns that --memory adds: RASP's three of calls, or of a tree what it shows by itself."""
        if self.by in ("op", "type"):
            raise InputError(f"--memory tells of modules, not of {self.by}s: leave --by {self.by} out.")
        return [] if self.format == "tree" or self.depth is not None else list(api.MEMORY)

    @property
    def _named(self) -> list[str]:
        """The columns asked for; a layout that counts one way has columns of its own."""
        return [] if self.style in styles.COUNTED else self.columns or []

    def _check_style(self, style: str) -> None:
        styles.get(style)
        others: dict[str, object] = {"--format": self.format, "--by": self.by, "--sort": self.sort, "--top": self.top}
        others |= {"--includes": self.includes, "--excludes": self.excludes}
        for option, value in others.items():
            if value is not None:
                raise InputError(
                    f"--style {style} is a layout of its own and takes no {option}: leave one of them out."
                )

    @property
    def spelled(self) -> bool:
        """Whether a convention that is asked for counts calls of functions."""
        columns = (*self._named, *(self.includes or ()))
        asked = (self.convention, styles.COUNTED.get(self.style or ""), *(find(name).convention for name in columns))
        return any(get_convention(name).level == "function" for name in asked)

    def text(self, found: Profile) -> str:
        """The layout asked for; it says itself which options it has."""
        given = {"depth": self.depth, "columns": self.columns, "convention": self.convention}
        options = {name: value for name, value in given.items() if value is not None}
        return found.text(self.style or "tree", **options, **({} if self.fold else {"fold": False}))

    def report(self, found: Profile) -> Report:
        report = self._made(found, self.columns)
        if self.includes or self.excludes:
            report = self._made(found, api.choose(report.columns, self.includes, self.excludes))
        report.asked = (*(self.columns or ()), *(self.includes or ()))
        sort = self.sort or ("flops" if self.by in ("op", "type") and "flops" in report.columns else None)
        return report.sorted(sort, self.top) if report.layout == "table" else report

    def _made(self, found: Profile, columns: list[str] | None) -> Report:
        if self.by == "op":
            return found.by_op(columns, self.convention)
        if self.by == "type":
            return found.by_type(columns, self.convention)
        if self.format == "tree" or self.depth is not None:
            return found.tree(self.depth, self.fold, columns, self.convention)
        return found.table("leaves" if self.by == "module" else "tape", columns, self.convention)


def lay_out(text: str, output: Path | None) -> None:
    if output is not None:
        path = render.write(output, text + "\n")
        say(f"written to {path}")
    else:
        write(text + "\n")


def deliver(report: Report, format: str | None, output: Path | None) -> None:
    if output is not None:
        say(f"written to {report.save(output, format)}")
    elif format is not None:
        write(report.render(format))
    else:
        render.show(report)
