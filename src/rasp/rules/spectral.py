"""Fourier transforms: 5·n·log2 n real operations for n complex points, half that for real ones.

The radix-2 count (Cooley and Tukey, as FFTW's benchmarks quote it): n/2·log2 n butterflies of one complex product
and two complex sums, so 2·n·log2 n multiplications and 3·n·log2 n additions. Over several axes log2 n is that of
their product.
"""

from __future__ import annotations

from math import log2, prod

from ..records import OpSpec, TensorSpec
from . import Work, rule


def transform(full: TensorSpec, dims: tuple[int, ...], real: bool) -> Work:
    """`full` has the lengths of the transform: of a real one those of its real side."""
    points = prod(full.shape[d] for d in dims)
    butterflies = full.numel * log2(points) if points > 1 else 0.0
    halves = 1 if real else 2
    return Work(mul=round(butterflies * halves), add=round(1.5 * butterflies * halves))


@rule("aten::_fft_c2c")
def c2c(call: OpSpec) -> Work:
    x, dims = call.args[:2]
    return transform(x, dims, real=False)


@rule("aten::_fft_r2c")
def r2c(call: OpSpec) -> Work:
    x, dims = call.args[:2]
    return transform(x, dims, real=True)


@rule("aten::_fft_c2r")
def c2r(call: OpSpec) -> Work:
    return transform(call.out, call.args[1], real=True)


@rule("aten::fft_fftshift", "aten::fft_ifftshift")
def shifted(call: OpSpec) -> Work:
    return Work()
