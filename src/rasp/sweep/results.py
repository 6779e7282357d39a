"""The table of a sweep: a row for each model, size, batch, dtype and device, with its numbers, status and reason."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import render
from ..columns import find
from ..errors import InputError, NotRecorded
from ..profile import Profile, load
from ..report import Heading, Report, Row
from .cells import Cell, Plan, Point
from .outcomes import FAILED, OK, shortened
from .store import Record, Store

AXES = ("model", "height", "width", "tokens", "batch", "dtype", "device")
REASON = 120  # letters of a reason in a table for people
UNSEEN = "not run"  # of a cell that this sweep did not come to


class Results:
    """What a sweep found. `rows` are dicts; `failed` those whose status is not 'ok'."""

    def __init__(self, plan: Plan, store: Store, columns: Sequence[str], seconds: float = 0.0, ran: int = 0) -> None:
        self.columns = list(columns)
        self.seconds = seconds  # that the cells of this run took, each in its own process
        self.ran = ran  # cells of this run; the others were done before
        self._plan = plan
        self._store = store
        self._points = list(plan.points())
        self.rows = [self._row(point) for point in self._points]

    @property
    def folder(self) -> Path:
        """Where the records, the profiles and the index lie."""
        return self._store.folder

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["status"] != OK]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def profile(self, row: int | Mapping[str, Any]) -> Profile:
        """The profile behind a row, given the row or its number; of several, the last (the one that was timed)."""
        at = row if isinstance(row, int) else next(i for i, one in enumerate(self.rows) if one is row or one == row)
        for cell in reversed(self._points[at].cells):
            path = self._store.profile(cell.key)
            if path.exists():
                return load(path)
        raise NotRecorded(f"Row {at} has no profile: it is {self.rows[at]['status']}, or profiles were not kept.")

    # -- rows ------------------------------------------------------------------------------------------------------

    def _row(self, point: Point) -> dict[str, Any]:
        height, width = point.size or (None, None)
        model = self._plan.models[point.model].name
        axes = (model, height, width, point.tokens, point.batch, point.dtype, point.device)
        values: dict[str, Any] = dict.fromkeys(self.columns)
        ended = []
        for cell in point.cells:
            record = self._store.records.get(cell.key)
            ended.append(_ending(record, cell, alone=len(point.cells) == 1))
            if record is not None:
                told = {name: _as_tuples(record["values"].get(name)) for name in self.columns}
                values |= {name: value for name, value in told.items() if value is not None}
        status = next((status for status, _ in ended if status != OK), OK)
        reason = "; ".join(reason for _, reason in ended if reason)
        return {**dict(zip(AXES, axes)), **values, "status": status, "reason": reason}

    # -- formats ---------------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """The table as a Report, which renders as text, Markdown, CSV and JSON."""
        shown = [name for name in AXES if name in ("model", "batch") or any(row[name] is not None for row in self.rows)]
        headings = [Heading(name, name, "", "text", "") for name in shown]
        for name in self.columns:
            column = find(name).column
            headings.append(Heading(name, name, column.unit, column.form, column.doc))
        headings += [Heading(name, name, "", "text", "") for name in ("status", "reason")]
        names = [heading.name for heading in headings]
        shown_rows = [{**row, "reason": shortened(row["reason"], REASON)} for row in self.rows]
        rows = [Row("cell", at, [row[name] for name in names]) for at, row in enumerate(shown_rows)]
        return Report("sweep", headings, rows, notes=self._notes(), asked=(*shown, "status"))

    def _notes(self) -> list[str]:
        """How many rows failed in which way, and why the first of them did: there may be no room for the reasons."""
        found = []
        for status, count in Counter(row["status"] for row in self.failed).items():
            at, first = next((at, row) for at, row in enumerate(self.rows) if row["status"] == status)
            why = f"; row {at}: {shortened(first['reason'], REASON)}" if first["reason"] else ""
            found.append(f"{count} of {len(self.rows)} rows {status}{why}")
        return found

    def to_pandas(self) -> Any:
        """A DataFrame with a column for each key of a row; whole numbers stay whole where some are missing."""
        pandas = _library("pandas")
        frame = pandas.DataFrame({name: [row[name] for row in self.rows] for name in self._names()})
        for name in frame.columns:
            values = [value for value in frame[name] if value is not None and value == value]
            if values and all(isinstance(value, int) and not isinstance(value, bool) for value in self._known(name)):
                frame[name] = pandas.array([row[name] for row in self.rows], dtype="Int64")
        return frame

    def to_csv(self, path: str | Path | None = None) -> str:
        """The rows as CSV, shapes as 1x1000; written to a file where one is named."""
        out = io.StringIO()
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(self._names())
        for row in self.rows:
            lines.writerow(["" if row[name] is None else _plain(row[name]) for name in self._names()])
        if path is not None:
            render.write(path, out.getvalue())
        return out.getvalue()

    def to_parquet(self, path: str | Path) -> Path:
        """The rows as a Parquet file, shapes as text."""
        _library("pyarrow")
        frame = self.to_pandas()
        for name in frame.columns:
            if any(isinstance(value, (tuple, list)) for value in self._known(name)):
                frame[name] = [None if value is None else _plain(value) for value in frame[name]]
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        return render.write(path, buffer.getvalue())

    def save(self, path: str | Path) -> Path:
        """Write the table in the format of the suffix: .csv, .parquet, or one of a report (.md, .json, .txt)."""
        suffix = Path(path).suffix.lower()
        if suffix == ".parquet":
            return self.to_parquet(path)
        if suffix == ".csv":
            self.to_csv(path)
            return Path(path)
        return self.report().save(path)

    def _names(self) -> list[str]:
        return [*AXES, *self.columns, "status", "reason"]

    def _known(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows if row[name] is not None]

    def __str__(self) -> str:
        return str(self.report())

    def __repr__(self) -> str:
        failed = len(self.failed)
        return f"<sweep of {len(self.rows)} rows, {failed or 'none'} failed, in {self.folder}>"

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


def _ending(record: Record | None, cell: Cell, alone: bool) -> tuple[str, str]:
    if record is None:
        return UNSEEN, "" if alone else f"{' and '.join(cell.measures)}: {UNSEEN}"
    reason = record["reason"] or (FAILED if record["status"] != OK else "")
    return record["status"], reason if alone or not reason else f"{' and '.join(cell.measures)}: {reason}"


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    """A shape as 1x1000; other values as they are."""
    if not isinstance(value, (tuple, list)):
        return value
    return (
        " ".join(map(str, map(_plain, value)))
        if any(isinstance(v, tuple) for v in value)
        else "x".join(map(str, value))
    )


def _library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"This needs {name}, which is not installed: pip install {name}.") from error
