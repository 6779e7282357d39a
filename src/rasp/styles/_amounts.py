"""Amounts as DeepSpeed's profiler writes them: two decimals less trailing zeros, and a prefix of 1000."""

from __future__ import annotations

from collections.abc import Sequence

Scale = Sequence[tuple[float, str]]

PARAMS: Scale = ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1, ""))
MACS: Scale = ((1e12, " TMACs"), (1e9, " GMACs"), (1e6, " MMACs"), (1e3, " KMACs"), (1, " MACs"))
FLOPS: Scale = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " K"), (1, " "))
RATES: Scale = ((1e12, " TFLOPS"), (1e9, " GFLOPS"), (1e6, " MFLOPS"), (1e3, " KFLOPS"), (1, " FLOPS"))
SECONDS: Scale = ((1, " s"), (1e-3, " ms"), (1e-6, " us"))


def params(count: int) -> str:
    """'11.69 M', '513.0 k', '128'."""
    return _scaled(count, PARAMS)


def macs(count: int) -> str:
    """'29.03 GMACs', '0 MACs'."""
    return _scaled(count, MACS)


def number(count: int) -> str:
    """'58.18 G'; below a thousand the number and a space."""
    return _scaled(count, FLOPS)


def rate(flops_per_second: float) -> str:
    """'720.81 GFLOPS'."""
    return _scaled(flops_per_second, RATES)


def duration(seconds: float) -> str:
    """'80.71 ms', '713.11 us'."""
    return _scaled(seconds, SECONDS)


def _scaled(value: float, scale: Scale) -> str:
    """With the largest unit of which there is at least one; with the smallest where there is none."""
    size, unit = next((step for step in scale if value >= step[0]), scale[-1])
    if size == 1 and isinstance(value, int):
        return f"{value}{unit}"
    return f"{round(value / size, 2) if value else 0}{unit}"
