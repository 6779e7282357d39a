"""torchvision's own operators. Regions and boxes depend on the data: where their size matters, a stated assumption
stands in.
"""

from __future__ import annotations

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._contractions import product

SAMPLES = 2  # per axis of a bin, where the sampling ratio is left to the size of the region


def _aligned(out: TensorSpec, ratio: int) -> Work:
    """Bilinear samples per bin: 4 products summed into it; positions and weights per sample, shared by the channels."""
    samples = (ratio if ratio > 0 else SAMPLES) ** 2
    values = out.numel * samples
    positions = values // max(out.shape[1], 1)
    return Work(mul=4 * values + 4 * positions, add=4 * values - out.numel + 4 * positions, div=out.numel)


@rule("torchvision::roi_align", "torchvision::ps_roi_align", "torchvision::qroi_align")
def roi_align(call: OpSpec) -> Work:
    """The mean of bilinear samples; 2 × 2 samples a bin where the model leaves their number to the data."""
    ratio = call.args[{"torchvision::roi_align": 5, "torchvision::ps_roi_align": 5}.get(call.name, 9)]
    return _aligned(call.outputs[0], ratio)


@rule("torchvision::_roi_align_backward", "torchvision::_ps_roi_align_backward")
def roi_align_backward(call: OpSpec) -> Work:
    """Each gradient is divided and spread over four neighbours per sample."""
    grad = call.args[0]
    ratio = call.args[9] if call.name == "torchvision::_roi_align_backward" else call.args[6]
    samples = (ratio if ratio > 0 else SAMPLES) ** 2
    return Work(div=grad.numel, fma=4 * samples * grad.numel)


@rule("torchvision::roi_pool", "torchvision::ps_roi_pool")
def roi_pool(call: OpSpec) -> Work:
    """Bins as large as if every region were the whole map: an upper bound."""
    x, out = call.args[0], call.outputs[0]
    height, width = call.args[3:5]
    window = -(-x.shape[-2] // height) * -(-x.shape[-1] // width)
    if call.name == "torchvision::roi_pool":
        return Work(cmp=out.numel * max(window - 1, 0))
    return Work(add=out.numel * max(window - 1, 0), div=out.numel)


@rule("torchvision::_roi_pool_backward")
def roi_pool_backward(call: OpSpec) -> Work:
    return Work(add=call.args[0].numel)


@rule("torchvision::_ps_roi_pool_backward")
def ps_roi_pool_backward(call: OpSpec) -> Work:
    grad, height, width = call.args[0], *call.args[4:6]
    window = -(-call.args[8] // height) * -(-call.args[9] // width)
    return Work(div=grad.numel, add=grad.numel * window)


@rule("torchvision::nms", "torchvision::qnms")
def nms(call: OpSpec) -> Work:
    """Every pair of boxes compared (an upper bound): 4 bounds, 5 differences and sums, 1 product, 1 division, 1
    comparison.
    """
    n = call.args[0].shape[0]
    pairs = n * (n - 1) // 2
    return Work(cmp=5 * pairs + n * max(n - 1, 1).bit_length(), add=6 * pairs + 2 * n, mul=pairs + n, div=pairs)


@rule("torchvision::box_iou_rotated")
def box_iou_rotated(call: OpSpec) -> Work:
    """Per pair the intersection of two rotated rectangles: 16 edge intersections, a convex hull of at most 24
    points.
    """
    pairs = call.out.numel
    return Work(trig=4 * pairs, mul=200 * pairs, add=200 * pairs, div=17 * pairs, cmp=200 * pairs)


def _sampled(call: OpSpec, weight: TensorSpec, out: TensorSpec, x: TensorSpec) -> int:
    """Interpolated values: one per input channel, kernel position and output position."""
    return x.shape[0] * x.shape[1] * weight.shape[-1] * weight.shape[-2] * out.shape[-1] * out.shape[-2]


@rule("torchvision::deform_conv2d")
def deform_conv2d(call: OpSpec) -> Work:
    """A bilinear sample (6 multiplications, 3 additions, a mask) per term, then the convolution's product."""
    x, weight, _, _, bias = call.args[:5]
    out = call.out
    sampled = _sampled(call, weight, out, x)
    work = product(out.numel * (weight.numel // max(weight.shape[0], 1)), out.numel)
    masked = sampled if call.args[13] else 0
    return work + Work(mul=6 * sampled + masked, add=3 * sampled, bias=out.numel if bias is not None else 0)


@rule("torchvision::_deform_conv2d_backward")
def deform_conv2d_backward(call: OpSpec) -> Work:
    """Two products, and per sample the gradients by value, by offset and by mask."""
    grad, x, weight = call.args[:3]
    sampled = _sampled(call, weight, grad, x)
    mac = grad.numel * (weight.numel // max(weight.shape[0], 1))
    work = product(mac, sampled) + product(mac, weight.numel)
    masked = 2 * sampled if call.args[14] else 0
    return work + Work(mul=6 * sampled + masked, add=3 * sampled, fma=12 * sampled) + Work(add=grad.numel)
