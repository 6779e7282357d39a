"""No allocator: requested bytes, to the byte."""

from __future__ import annotations

from . import Allocator, allocator


@allocator("none")
class Exact(Allocator):
    """Requested bytes, to the byte."""
