"""The tree of modules, as print shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import style

if TYPE_CHECKING:
    from ..profile import Profile


@style("tree")
def tree(
    profile: Profile,
    depth: int | None = None,
    fold: bool = True,
    columns: Sequence[str] | None = None,
    convention: str | None = None,
) -> str:
    """The tree to a depth; equal blocks in a row are one line."""
    return str(profile.tree(depth, fold, columns, convention))
