"""The table of rows, one for each call of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import style

if TYPE_CHECKING:
    from ..profile import Profile


@style("table")
def table(
    profile: Profile,
    report_type: str = "tape",
    columns: Sequence[str] | None = None,
    convention: str | None = None,
    include_root: bool = False,
) -> str:
    """Rows in order and their total: 'tape', 'leaves', 'node' or 'root'."""
    return str(profile.table(report_type, columns, convention, include_root))
