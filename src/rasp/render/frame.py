"""A pandas DataFrame: calls by their number, other rows by their kind, the total last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import FileError, InputError
from ..report import Report


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
            return pd.read_csv(target, keep_default_na=False, na_values={})
        data = json.loads(target.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("schema") != "rasp.report":
            raise FileError(f"{target} is not a saved report. A profile is read with rasp.load.")
        return pd.DataFrame([*data["rows"], *([data["total"]] if data["total"] else [])])
    except OSError as error:
        raise error if isinstance(error, FileError) else FileError(f"{target} could not be read: {error}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{target} is not a saved report (csv or json): {error}.") from error


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise InputError("A DataFrame needs pandas, which is not installed: pip install pandas.") from error
    return pandas
