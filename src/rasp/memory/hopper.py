"""Kernels of a Hopper GPU (placeholder until measured rules are in)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..records import OpSpec
from ._estimate import Estimate

RULES: dict[str, Callable[[OpSpec], Estimate | None]] = {}


def attention_backend(query: Any, key: Any, value: Any, mask: str, gqa: bool, grad: bool) -> str:
    return "efficient" if query.dtype == "float32" else "cudnn"
