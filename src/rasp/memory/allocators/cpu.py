"""PyTorch's CPU allocator: posix_memalign with 64 bytes of alignment, and nothing kept back."""

from __future__ import annotations

from . import Allocator, allocator

ALIGNMENT = 64  # c10/core/alignment.h: gAlignment


@allocator("cpu")
class Cpu(Allocator):
    """Requests rounded up to 64 bytes."""

    def size_of(self, nbytes: int) -> int:
        return -(-nbytes // ALIGNMENT) * ALIGNMENT
