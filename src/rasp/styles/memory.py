"""Memory over time, and who holds it at the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import style

if TYPE_CHECKING:
    from ..profile import Profile


@style("memory")
def memory(profile: Profile, width: int = 80, owners: int = 8) -> str:
    """What is allocated from operator to operator, with the peak and its largest holders."""
    return profile.memory.text(width, owners)
