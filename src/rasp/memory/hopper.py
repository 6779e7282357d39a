"""Kernels of a Hopper GPU."""

from __future__ import annotations

RULES = {}
