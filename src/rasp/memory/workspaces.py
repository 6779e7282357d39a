"""What kernels take besides their outputs: workspaces of convolutions, transients of attention and of reductions.

They depend on the device's generation; each generation is a file of data and rules, with where they were measured. On a
generation that was not measured the nearest measured one stands in, and the estimate's range says that it is a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..records import OpSpec
from ._estimate import NOTHING, Estimate, Transient
from .targets import Target

__all__ = ["NOTHING", "Estimate", "Transient", "Workspaces", "workspaces"]

Rule = Callable[[OpSpec], Estimate | None]


class Workspaces(Protocol):
    """What a device's kernels take: an Estimate for each distinct operator, None for one that takes nothing."""

    def of(self, spec: OpSpec) -> Estimate | None: ...


class Nothing:
    """Kernels that take nothing: what a run holds, to the byte."""

    def of(self, spec: OpSpec) -> Estimate | None:
        return None


class Hopper:
    """Kernels of cuDNN, cuBLAS and PyTorch as measured on an H200."""

    def of(self, spec: OpSpec) -> Estimate | None:
        from . import hopper

        rule = hopper.RULES.get(spec.name)
        return None if rule is None else rule(spec)


def workspaces(target: Target, allocator: str) -> Workspaces:
    """The workspaces of a target; none where bytes are to be exact or on a CPU."""
    return Hopper() if allocator == "cuda" and target.generation else Nothing()
