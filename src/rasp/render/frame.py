"""A pandas DataFrame: calls by their number, other rows by their kind, the total last."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from ..errors import FileError, InputError
from ..report import Report

PLAIN = {"Int64": "int64", "Float64": "float64", "boolean": "bool"}
MARKS = ("shared", "lower_bound")  # of a row, in json: a column where a row has them


def frame(report: Report) -> Any:
    """The report as a DataFrame; whole numbers stay whole (Int64 where some are missing)."""
    pd = _pandas()
    rows = list(report.all_rows())
    names = [name for name in report.columns if name != "kind"]
    columns: dict[str, Any] = {name: [report.value(row, name) for row in rows] for name in names}
    columns["kind"] = [row.kind for row in rows]
    if any(row.shared for row in rows):
        columns["shared"] = [row.shared for row in rows]
    for heading in report.headings:
        if heading.form in ("count", "bytes") and None in columns.get(heading.name, ()):
            columns[heading.name] = pd.array(columns[heading.name], dtype="Int64")
    return pd.DataFrame(columns, index=[row.label for row in rows])


def read(path: str | Path) -> Any:
    """A report that was saved as csv or json, as a DataFrame."""
    pd = _pandas()
    target = Path(path)
    try:
        if target.suffix.lower() == ".csv":
            return _as_was(pd.read_csv(target, keep_default_na=False, na_values=[""], dtype_backend="numpy_nullable"))
        data = json.loads(target.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("schema") != "rasp.report":
            raise FileError(f"{target} is not a saved report. A profile is read with rasp.load.")
        rows = [*data["rows"], *([data["total"]] if data["total"] else [])]
        names = {name: True for row in rows for name in row if name not in MARKS or any(r.get(name) for r in rows)}
        columns = {name: [row.get(name) for row in rows] for name in names}
        whole = [name for name, found in columns.items() if {int, type(None)} >= set(map(type, found))]
        return _as_was(pd.DataFrame(columns | {name: pd.array(columns[name], dtype="Int64") for name in whole}))
    except OSError as error:
        raise error if isinstance(error, FileError) else FileError(f"{target} could not be read: {error}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{target} is not a saved report (csv or json): {error}.") from error


def _as_was(found: Any) -> Any:
    """Columns in the types the report gave them: plain numbers where none is missing, shapes as tuples."""
    for name in found.columns:
        values = found[name]
        if str(values.dtype) in PLAIN and (not values.hasnans or str(values.dtype) == "Float64"):
            found[name] = values.astype(PLAIN[str(values.dtype)])
        elif name.endswith("_shape"):
            found[name] = [_shape(value) for value in values]
    return found


def _shape(value: Any) -> Any:
    """A shape, or one of several, from the words of a csv file or the lists of a json one."""
    if isinstance(value, str) and value.startswith("("):
        value = ast.literal_eval(value)
    return tuple(_shape(item) for item in value) if isinstance(value, (list, tuple)) else value


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise InputError("A DataFrame needs pandas, which is not installed: pip install pandas.") from error
    return pandas
