"""Profile: what a person holds after a run. A thin face over plain data; others answer the questions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import archive, coverage, parts, remarks, render, report, rules, styles
from . import tree as trees
from .columns import BACKWARD, Asked
from .conventions import get as get_convention
from .devices import as_kept as machine_called
from .energy import Energy
from .errors import UnknownName
from .explain import Explanation, explain
from .kernels import Kernels
from .ledger import Given, Ledger, Source
from .memory.face import Memory
from .parts import Part
from .records import FunctionCall, Trace
from .report import Report
from .samples import Samples
from .spread import Latency
from .tree import Node
from .verdict import Verdict, of_model
from .view import View

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Columns = Sequence[str] | None
REPORTS = {"tape": parts.tape, "node": parts.root, "leaves": parts.leaves, "root": parts.root}
TABLE = ("name", "type", "in_shape", "out_shape", "params", "flops", "mem_r", "mem_w", "mem_rw")
TIMED = (
    *TABLE[: TABLE.index("flops")], "lat", "net_lat", "lat[%]", "flops", "FLOPS", *TABLE[TABLE.index("flops") + 1 :]
)  # fmt: skip
TREE = ("name", "type", "out_shape", "params", "macs", "flops", "flops%")
BY_OP = ("name", "ops", "macs", "flops", "read", "write", "flops%")
BY_TYPE = ("name", "calls", "params", "macs", "flops", "read", "write", "flops%")
COMPARED = ("params", "macs", "flops", "read", "write")  # equal in blocks that fold
TIMES = ("lat", "net_lat", "lat[%]", "net_lat%", "FLOPS")  # with these a table shows the remainder of the time
TREE_LINES = 60  # print(profile) shows as many levels as fit in this


class Profile:
    """The record of one run of a model, and every number that follows from it."""

    def __init__(
        self,
        trace: Trace,
        info: dict[str, Any],
        given: Given | None = None,
        functions: Callable[[], list[FunctionCall] | None] = lambda: None,
    ) -> None:
        self.trace = trace
        self.info = info
        self._given = given or Given()
        self._source = Source(info, functions)
        self._views: dict[tuple[int, int], dict[str, View]] = {}

    # -- numbers ---------------------------------------------------------------------------------------------------

    def total(self, column: str, convention: str | None = None) -> Any:
        """A column's value for the whole model; None where it is not available."""
        view = self.view(convention)
        return view.value(column, view.total)

    def rows(
        self, report_type: str | None = "tape", columns: Columns = None, convention: str | None = None
    ) -> list[dict[str, Any]]:
        """Rows as dicts of raw values, each with its `kind` (call, own, uncalled, total); the rest sum to the total."""
        return [] if report_type is None else self.table(report_type, columns, convention).dicts()

    @property
    def uncounted(self) -> list[dict[str, Any]]:
        """Operators that no rule covers: op, calls, modules, and a bound on the operations they could hide."""
        return [gap.as_dict() for gap in coverage.gaps(self.view().ledger)]

    @property
    def capture_mode(self) -> str:
        """'meta': parameters stood in and nothing was computed. 'real': the model ran on its device."""
        return str(self.info.get("capture_mode", "meta"))

    @property
    def capture_reason(self) -> dict[str, Any] | None:
        """Why the model had to run for real: why, op, module, where."""
        return self.info.get("capture_reason")

    def view(self, convention: str | None = None) -> View:
        """The run under a convention; rules added since the last question are heeded."""
        views = self._views.setdefault((len(rules.RULES), len(rules.MODULE_RULES)), {})
        found = get_convention(convention or self.info.get("convention"))
        if found.name not in views:
            ledger = next(iter(views.values())).ledger if views else Ledger(self.trace, self._given, self._source)
            View(ledger, found, views)
        return views[found.name]

    @property
    def memory(self) -> Memory:
        """Memory predicted for a target: .base, .peak, .peak_first, .reserved, .timeline(), .at_peak(n), .by_kind()."""
        return self.view().ledger.memory

    @property
    def energy(self) -> Energy:
        """Energy as it was measured: .gross, .net, .per_pass, .per_sample, .power, .co2(…); or the .reason."""
        return self.view().ledger.energy

    @property
    def samples(self) -> Samples | None:
        """What was measured: every run's raw samples by meter, the environment, remarks; None where nothing was."""
        return Samples.of(self.info.get("samples"))

    @property
    def latency(self) -> Latency | None:
        """The whole model's, in milliseconds, without any instrument: .median .mean .std .p5 .p95 .ci .n .samples."""
        samples = self.samples
        return None if samples is None else samples.latency

    @property
    def compiled_latency(self) -> Latency | None:
        """The whole model's under torch.compile, where that was asked for."""
        found = self.samples.time.others.get("compiled") if self.samples is not None else None
        return Latency(tuple(found), what="compiled latency") if found else None

    @property
    def remainder(self) -> float | None:
        """Milliseconds of the latency that no module accounts for."""
        found = next((row for row in self.rows(columns=["net_lat"]) if row["kind"] == "remainder"), None)
        return None if found is None else found["net_lat"]

    @property
    def verdict(self) -> Verdict | None:
        """What the measured time is bound by, and the evidence; None where nothing was timed."""
        return of_model(self.view())

    @property
    def kernels(self) -> Kernels | None:
        """Kernels by module and operator: .by_op(), .by_kernel(), .busy, .idle, .graph_latency; None: not recorded."""
        return self.view().ledger.kernels

    def on(self, machine: str) -> Profile:
        """The same run with the ceilings of another machine: 'a100', or 'cpu' as `rasp calibrate` measured it."""
        info = {**self.info, "machine": machine_called(machine)}
        return Profile(self.trace, info, self._given, self._source.functions)

    def explain(self, a: str, b: str, column: str = "flops") -> Explanation:
        """Why two conventions differ: every place where they do, both numbers, the difference, and the reason."""
        facts = remarks.facts(self.trace, self.info)
        return explain(self.view(a), self.view(b), column, self._title, facts)

    # -- reports ---------------------------------------------------------------------------------------------------

    def table(
        self,
        report_type: str = "tape",
        columns: Columns = None,
        convention: str | None = None,
        include_root: bool = False,
    ) -> Report:
        """Rows as a Report: 'tape' (calls in order), 'leaves' (modules in order), 'node' or 'root' (one row)."""
        if report_type not in REPORTS:
            raise UnknownName("report type", report_type, REPORTS)
        view = self.view(convention)
        columns = columns or self._usual(view)
        rows = REPORTS[report_type](view.ledger)
        if report_type in ("tape", "leaves") and not set(columns).isdisjoint(TIMES):
            rows += parts.rest_of_time(view.ledger)
        if include_root:
            rows.append(parts.whole(view.ledger, "root"))
        return self._table(view, rows, columns)

    @staticmethod
    def _usual(view: View) -> tuple[str, ...]:
        """The columns of a table that names none: those of what was measured among them."""
        usual = TABLE if view.ledger.clocked is None else TIMED
        usual += ("kernel_time",) if view.ledger.kernels is not None else ()
        return (*usual, "energy_measured") if view.ledger.energy.asked else usual

    def by_op(self, columns: Columns = None, convention: str | None = None, sort: str | None = "flops") -> Report:
        """A table by operator kind, dearest first."""
        view = self.view(convention)
        return _sorted(self._table(view, parts.by_operator(view.ledger), columns or BY_OP), sort)

    def by_type(self, columns: Columns = None, convention: str | None = None, sort: str | None = "flops") -> Report:
        """A table by module class, dearest first; containers' own work stands apart."""
        view = self.view(convention)
        return _sorted(self._table(view, parts.by_type(view.ledger), columns or BY_TYPE), sort)

    def tree(
        self,
        depth: int | None = None,
        fold: bool = True,
        columns: Columns = None,
        convention: str | None = None,
    ) -> Report:
        """The tree of modules to a depth; equal blocks in a row are one line (`layers.0-31 ×32`), their sum."""
        view = self.view(convention)
        names = ("name", *(name for name in columns or self._tree_columns if name != "name"))
        root = _folded(view, names) if fold else trees.grow(view.ledger)
        return self._explained(view, report.tree(view, root, names, self._title, depth))

    def overview(self) -> Report:
        """The tree, as many levels as fit on a page: what print shows."""
        view = self.view()
        root = _folded(view, self._tree_columns)
        levels = [level for level, _ in root.walk()]
        depth = max(levels)
        while depth > 1 and sum(level <= depth for level in levels) > TREE_LINES:
            depth -= 1
        found = report.tree(view, root, self._tree_columns, self._title, depth)
        if depth < max(levels):
            found.notes.append(f"{depth} of {max(levels)} levels shown")
        if "memory" in self.info:
            found.notes.append(f"{self.memory.summary}; print(profile.memory) shows when, and who holds it")
        return self._explained(view, found)

    def text(self, style: str = "tree", **options: Any) -> str:
        """The run as text in a layout: 'tree', 'table', 'summary' or another file of rasp/styles, with its options."""
        return styles.write(self, style, options)

    def _table(self, view: View, rows: Iterable[Part], columns: Sequence[str]) -> Report:
        return self._explained(view, report.table(view, rows, columns, self._title))

    def _explained(self, view: View, found: Report) -> Report:
        notes = [*found.notes, *remarks.notes(view, self.info, found.columns)]
        return replace(found, facts=remarks.facts(self.trace, self.info), notes=notes)

    @property
    def _tree_columns(self) -> tuple[str, ...]:
        """The usual columns, the backward's work where there was one, memory and time where they were asked for."""
        trained, held = any(op.phase == BACKWARD for op in self.trace.ops), "memory" in self.info
        timed = self.latency is not None
        return (
            *TREE[:-1], *(["flops_bwd"] if trained else []), *(["peak"] if held else []),
            *(["saved"] if held and trained else []), TREE[-1], *(["net_lat", "net_lat%"] if timed else []),
        )  # fmt: skip

    @property
    def _title(self) -> str:
        return str(self.info.get("model") or self.trace.modules[0].type)

    # -- out -------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, format: str | None = None) -> Path:
        """`.json` is the profile itself, for rasp.load; any other suffix (csv, md, txt) is its report."""
        if format is None and Path(path).suffix.lower() == ".json":
            self._record_functions()
            return render.write(path, self.dumps())
        return self.table().save(path, format)

    def _record_functions(self) -> None:
        """Run the function level now, so that what leaves the process answers every convention."""
        if self.trace.functions is None:
            self.trace.functions = self._source.functions()

    def dumps(self) -> str:
        """The text of the profile's file, with what was recorded; `save` also records the function level."""
        return archive.dumps(self.trace, self.info, self._foreign())

    def _foreign(self) -> Given:
        """What rules of the user's own computed: saved along, since they may be missing where the file is loaded."""
        ledger = self.view().ledger
        specs = dict(self._given.specs)
        for index, spec in enumerate(self.trace.specs):
            rule = rules.find(spec)
            if rule is not None and not str(getattr(rule, "__module__", "")).startswith(f"{__package__}."):
                specs[index] = ledger.works[index] or rules.Work(read=0, write=0)
        calls = {
            entry.call: entry.work for entry in ledger.entries if entry.call is not None and entry.work is not None
        }
        return Given(specs, calls)

    def to_pandas(self, report_type: str = "tape", columns: Columns = None, convention: str | None = None) -> Any:
        """The rows as a pandas DataFrame, the total last."""
        return self.table(report_type, columns, convention).to_pandas()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy for another process is what a loaded one is: without the model, it answers all the same."""
        self._record_functions()
        return Profile, (self.trace, self.info, self._foreign())

    def __repr__(self) -> str:
        return (
            f"<rasp.Profile of {self._title}: {len(self.trace.ops)} operators, captured on {remarks.place(self.info)}>"
        )

    def __str__(self) -> str:
        return str(self.overview())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.overview()

    def _repr_html_(self) -> str:
        return self.overview()._repr_html_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def load(path: str | Path) -> Profile:
    """Read a profile that was saved with `profile.save('name.json')`; no torch is needed."""
    return Profile(*archive.load(path))


def _folded(view: View, columns: Sequence[str]) -> Node:
    """The tree with equal neighbours joined: equal in all that is shown, in shapes, parameters, work and traffic."""
    asked = {name: view.asked(name) for name in (*COMPARED, *columns)}
    seen = [name for name, ask in asked.items() if _tells(ask)]

    def signature(part: Part) -> Hashable:
        return tuple(view.value(name, part) for name in seen), _first_shapes(view, part)

    return trees.fold(trees.grow(view.ledger), signature)


def _tells(asked: Asked) -> bool:
    """Whether a column must be equal in what folds: not a label, nor the state of the whole, as memory in use is, nor
    a time, which no two have in common.
    """
    column = asked.column
    plain = column.form not in ("text", "shape", "time") and not asked.share
    return plain and (column.additive or column.form != "bytes")


def _first_shapes(view: View, part: Part) -> Hashable:
    """Of the first tensor in and out: what follows may be a cache that grows from block to block."""
    if part.call is None:
        return None
    call = view.trace.calls[part.call]
    return tuple(specs[0].shape for specs in (call.inputs, call.outputs) if specs)


def _sorted(found: Report, column: str | None) -> Report:
    return report.ordered(found, column) if column in found.columns else found
