"""Rooflines: the least time an operator can take on a machine, from its peaks and its bandwidth, and what sets it.

An operator takes no less than its matrix products at the peak of their type, its other arithmetic at the vector peak,
and the bytes it reads and writes at the bandwidth, whichever is longest (Williams, Waterman and Patterson, 2009).
"""

from __future__ import annotations

from typing import NamedTuple

from .devices import Machine
from .records import OpSpec
from .rules import PRIMITIVES, Work

NOT_VECTOR = ("mac", "dot", "bias", "int", "rand")
WEIGHTS = {name: 2 if name == "fma" else 1 for name in PRIMITIVES if name not in NOT_VECTOR}
TYPES = {"float64": "fp64", "complex128": "fp64", "bfloat16": "bf16", "float16": "fp16", "complex32": "fp16"}
WIDER = {"fp8": ("fp16", "fp32"), "int8": ("fp32",), "bf16": ("fp32",), "fp16": ("fp32",), "tf32": ("fp32",)}


class Times(NamedTuple):
    """Seconds that arithmetic and memory need at least, and how many operators have to be launched."""

    compute: float = 0.0
    memory: float = 0.0
    launches: int = 0

    @property
    def least(self) -> float:
        return max(self.compute, self.memory)


def arithmetic(work: Work) -> int:
    """Operations of an operator: two for each multiply-accumulate, two for each fma, one for everything else."""
    return 2 * work.mac + vector(work)


def vector(work: Work) -> int:
    """Operations outside matrix products."""
    return sum(weight * int(getattr(work, name)) for name, weight in WEIGHTS.items())


def times(work: Work, kind: str, machine: Machine) -> Times | None:
    """The least times of a Work whose products are of a kind ('bf16'); None where the machine's peak is not known."""
    rate = peak(kind, machine)
    if (work.mac and not rate) or not machine.bandwidth or not machine.vector:
        return None
    moved = (work.read or 0) + (work.write or 0)
    compute = max(2 * work.mac / rate if rate else 0.0, vector(work) / machine.vector)
    return Times(compute, moved / machine.bandwidth, int(moved > 0 or work.mac > 0))


def kind_of(spec: OpSpec, machine: Machine) -> str:
    """The type in which a machine multiplies for an operator: that of its first input.

    torch lets cuDNN take tf32 for convolutions of fp32 tensors, unless told otherwise; cuBLAS keeps fp32.
    """
    kind = dtype_kind(next((t.dtype for t in spec.tensors if t.dtype not in ("bool", "int64")), "float32"))
    if kind == "fp32" and "tf32" in machine.peaks and ("convolution" in spec.name or "cudnn" in spec.name):
        return "tf32"
    return kind


def dtype_kind(dtype: str) -> str:
    if dtype.startswith("float8"):
        return "fp8"
    if dtype in ("int8", "uint8", "qint8", "quint8"):
        return "int8"
    return TYPES.get(dtype, "fp32")


def peak(kind: str, machine: Machine) -> float | None:
    """Operations a second for products of a type; where a machine has none, those of the next wider type it has."""
    return next((machine.peaks[name] for name in (kind, *WIDER.get(kind, ())) if name in machine.peaks), None)
