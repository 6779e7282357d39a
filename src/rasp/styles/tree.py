"""The tree of modules, as print shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import get, style

if TYPE_CHECKING:
    from ..profile import Profile


@style("tree")
def tree(
    profile: Profile,
    depth: int | None = None,
    fold: bool = True,
    columns: Sequence[str] | None = None,
    convention: str | None = None,
    rows: Sequence[str] | None = None,
) -> str:
    """The tree to a depth; equal blocks in a row are one line.

    With torchinfo's settings for `rows` (depth, var_names, ascii_only, hide_recursive_layers) and its names of columns
    it has the layout of style `summary`.
    """
    if rows is None:
        return str(profile.tree(depth, fold, columns, convention))
    asked = {"depth": depth, "columns": columns}
    return get("summary")(profile, rows=rows, **{name: value for name, value in asked.items() if value is not None})
