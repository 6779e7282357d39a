"""json: the report as data, every value raw, every column with its unit and meaning."""

from __future__ import annotations

import json as encoder
from dataclasses import asdict
from typing import Any

from ..report import Report
from . import format

SCHEMA = "rasp.report"
VERSION = 1


@format("json", ".json")
def json(report: Report) -> str:
    """A JSON object: columns, rows, total, notes."""
    rows = [_row(line, report) for line in zip(report.rows, report.dicts())]
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "version": VERSION,
        "title": report.title,
        "facts": report.facts,
        "layout": report.layout,
        "columns": [asdict(heading) for heading in report.headings],
        "rows": rows,
        "total": report.dicts()[-1] if report.total is not None else None,
        "notes": report.notes,
    }
    return encoder.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _row(pair: Any, report: Report) -> dict[str, Any]:
    row, values = pair
    place = {"level": row.level, "times": row.times} if report.layout == "tree" else {}
    return {**values, "lower_bound": row.partial, **place}
