"""Interpolation and grid sampling: a weighted sum of neighbours per output element, one axis after the other.

Linear weights on d axes take 2^d neighbours: 2·(2^d - 1) multiplications and 2^d - 1 additions. Cubic ones take 4
per axis. The weights depend on the position only and are folded in, but for grid sampling, where they are computed
per position.
"""

from __future__ import annotations

from math import ceil, prod
from typing import Any

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._forms import Form, charge, form

LINEAR: dict[int, Form] = {d: form(mul=2 * (2**d - 1), add=2**d - 1) for d in (1, 2, 3)}
CUBIC = form(mul=20, add=15)  # four rows of four taps, then a column of four
ANTIALIASED = {"bilinear": 2, "bicubic": 4, "lanczos": 6}  # width of the filter at scale 1


@rule(*(f"aten::{exact}{d}d" for exact in ("upsample_nearest", "_upsample_nearest_exact") for d in (1, 2, 3)))
def nearest(call: OpSpec) -> Work:
    """Copies."""
    return Work(read=min(call.args[0].touched_bytes, call.out.nbytes))


@rule("aten::upsample_linear1d", "aten::upsample_bilinear2d", "aten::upsample_trilinear3d")
def linear(call: OpSpec) -> Work:
    return charge(LINEAR[_dims(call)], call.out.numel)


@rule("aten::upsample_bicubic2d")
def cubic(call: OpSpec) -> Work:
    return charge(CUBIC, call.out.numel)


def _dims(call: OpSpec) -> int:
    return next(d for d in (1, 2, 3) if f"{d}d" in call.name)


@rule(
    *(f"aten::{exact}{d}d_backward" for exact in ("upsample_nearest", "_upsample_nearest_exact") for d in (1, 2, 3)),
)
def nearest_backward(call: OpSpec) -> Work:
    """Every gradient is added to the element it was copied from."""
    return Work(add=call.args[0].numel)


@rule("aten::upsample_linear1d_backward", "aten::upsample_bilinear2d_backward", "aten::upsample_trilinear3d_backward")
def linear_backward(call: OpSpec) -> Work:
    """Every gradient is spread over its neighbours by a multiply-add each."""
    return Work(fma=call.args[0].numel * 2 ** _dims(call))


@rule("aten::upsample_bicubic2d_backward")
def cubic_backward(call: OpSpec) -> Work:
    return Work(fma=call.args[0].numel * 16)


@rule("aten::_upsample_bilinear2d_aa", "aten::_upsample_bicubic2d_aa", "aten::_upsample_lanczos2d_aa")
def antialiased(call: OpSpec) -> Work:
    """Two passes, rows first; the filter widens with the scale it shrinks by."""
    return _two_passes(call.name, call.args[0], call.out)


@rule(*(f"aten::_upsample_{name}2d_aa_backward" for name in ("bilinear", "bicubic", "lanczos")))
def antialiased_backward(call: OpSpec) -> Work:
    return _two_passes(call.name, call.out, call.args[0])


def _two_passes(name: str, small_side: TensorSpec, out: TensorSpec) -> Work:
    width = next(w for kind, w in ANTIALIASED.items() if kind in name)
    (h, w), (oh, ow) = small_side.shape[-2:], out.shape[-2:]
    taps_h, taps_w = (max(ceil(width * max(a / max(b, 1), 1.0)), 1) for a, b in ((h, oh), (w, ow)))
    planes = prod(out.shape[:-2])
    first, second = planes * h * ow, planes * oh * ow
    return Work(mul=first * taps_w + second * taps_h, add=first * (taps_w - 1) + second * (taps_h - 1))


@rule("aten::grid_sampler_2d", "aten::grid_sampler_3d", "aten::_grid_sampler_2d_cpu_fallback", "aten::grid_sampler")
def grid_sampler(call: OpSpec) -> Work:
    """Positions scaled to pixels, weights per position, then the weighted sum per channel (0: linear, 1: nearest,
    2: cubic).
    """
    _, grid, mode = call.args[:3]
    return _grid(grid, call.out, mode)


@rule("aten::cudnn_grid_sampler")
def cudnn_grid_sampler(call: OpSpec) -> Work:
    return _grid(call.args[1], call.out, 0)


def _grid(grid: TensorSpec, out: TensorSpec, mode: int) -> Work:
    dims = grid.shape[-1]
    positions = grid.numel // max(dims, 1)
    work = Work(fma=grid.numel, cmp=grid.numel)
    if mode == 1:
        return work
    if mode == 2:
        return work + charge(form(fma=6 * dims), positions) + charge(CUBIC, out.numel)
    taps = 2**dims
    return (
        work
        + Work(add=2 * grid.numel, mul=positions * taps * (dims - 1) + out.numel * taps, fma=0)
        + Work(add=out.numel * (taps - 1))
    )


@rule("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward")
def grid_sampler_backward(call: OpSpec) -> Work:
    """Per channel: gradients spread over the neighbours, and the derivative by position gathered from them."""
    grad, _, grid, mode, _, _, mask = call.args[:7]
    return _grid_backward(grad, grid, mode, mask)


@rule("aten::_grid_sampler_2d_cpu_fallback_backward")
def fallback_backward(call: OpSpec) -> Work:
    grad, _, grid, mode = call.args[:4]
    return _grid_backward(grad, grid, mode, (True, True))


@rule("aten::cudnn_grid_sampler_backward")
def cudnn_grid_sampler_backward(call: OpSpec) -> Work:
    return _grid_backward(call.args[2], call.args[1], 0, (True, True))


def _grid_backward(grad: TensorSpec, grid: TensorSpec, mode: int, mask: Any) -> Work:
    dims = grid.shape[-1]
    taps = {0: 2**dims, 1: 1, 2: 4**dims}[mode]
    work = Work(fma=grid.numel, cmp=grid.numel)
    if mask[0]:
        work += Work(fma=grad.numel * taps)
    if mask[1] and mode != 1:
        work += Work(fma=grad.numel * taps * dims)
    return work


@rule("aten::affine_grid_generator", "aten::cudnn_affine_grid_generator")
def affine_grid(call: OpSpec) -> Work:
    """Every position times the affine matrix: a product over 3 (or 4) homogeneous coordinates."""
    n = call.out.numel
    length = call.args[0].shape[-1]
    return Work(mac=n * length, dot=n)


@rule("aten::affine_grid_generator_backward", "aten::cudnn_affine_grid_generator_backward")
def affine_grid_backward(call: OpSpec) -> Work:
    grad = call.args[0]
    mac = grad.numel * call.out.shape[-1]
    return Work(mac=mac, dot=min(call.out.numel, mac))
