"""What another device would do: which attention kernel it takes."""

from __future__ import annotations

from typing import Any

from ..memory.targets import Target
from .routes import Ways


class CudaWays:
    """A CUDA device's ways, by the generation of its kernels."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def attention(self, query: Any, key: Any, value: Any, mask: str, gqa: bool, grad: bool) -> str:
        from ..memory.hopper import attention_backend

        return attention_backend(query, key, value, mask, gqa, grad)


def ways_of(target: Target) -> Ways | None:
    """The ways of a target; None where it has none of its own."""
    return CudaWays(target) if target.generation else None
