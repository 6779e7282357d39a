"""csv: raw numbers under a heading line, RASP's layout: no index, the total last. A `kind` column tells rows apart."""

from __future__ import annotations

import csv as writer
from io import StringIO

from ..report import Report
from . import format


@format("csv", ".csv")
def csv(report: Report) -> str:
    """Comma-separated values."""
    out = StringIO()
    lines = writer.writer(out, lineterminator="\n")
    shared = any(row.shared for row in report.rows)
    lines.writerow([*_without_kind(report.columns), "kind", *(["shared"] if shared else [])])
    for row in report.all_rows():
        values = ["" if v is None else v for name, v in zip(report.columns, row.values) if name != "kind"]
        lines.writerow([*values, row.kind, *([str(row.shared).lower()] if shared else [])])
    return out.getvalue()


def _without_kind(columns: list[str]) -> list[str]:
    return [name for name in columns if name != "kind"]
