"""Shape rules: outputs of the operators whose meta kernels are dear (they are Python, up to milliseconds a call).

A rule takes the call's arguments and returns, for each output, (shape, strides, dtype) or a plain value, or None where the
case is not the plain one: then the meta kernel decides. Rules check what the kernel would check, so bad shapes still raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
Out = Any  # (shape, stride, dtype) | None | int
ShapeRule = Callable[[Any, Any], "list[Out] | None"]

SHAPES: dict[str, ShapeRule] = {}


def shape_rule(*names: str) -> Callable[[ShapeRule], ShapeRule]:
    def register(function: ShapeRule) -> ShapeRule:
        for name in names:
            SHAPES[f"aten::{name}"] = function
        return function

    return register


def packed(shape: Any) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n if n > 1 else 1
    return tuple(reversed(strides))


def channels_last(shape: Any) -> tuple[int, ...]:
    """Strides of (N, C, *spatial) with the channels innermost."""
    n, c, *spatial = shape
    inner = packed((*spatial, c))
    return (inner[0] * spatial[0] if spatial else c, 1, *inner[:-1])


def dense(tensor: Tensor) -> bool:
    """Whether a tensor fills its span of memory without gaps or overlaps."""
    if tensor.is_contiguous():
        return True
    step = 1
    for stride, size in sorted((s, n) for n, s in zip(tensor.shape, tensor.stride()) if n != 1):
        if stride != step:
            return False
        step *= size
    return True


def out(shape: Any, dtype: torch.dtype) -> Out:
    return tuple(shape), packed(shape), dtype


def like(tensor: Tensor, dtype: torch.dtype | None = None) -> Out:
    return tuple(tensor.shape), tensor.stride(), dtype or tensor.dtype


# -- elementwise ------------------------------------------------------------------------------------------------------


def broadcast(*tensors: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape and strides of an elementwise result, in the two plain cases: same dense layout, or all contiguous."""
    first = tensors[0]
    shape, stride = first.shape, first.stride()
    if all(t.shape == shape and t.stride() == stride for t in tensors[1:]):
        return (tuple(shape), stride) if dense(first) else None
    if not all(t.is_contiguous() for t in tensors):
        return None
    try:
        joined = torch.broadcast_shapes(*(t.shape for t in tensors))
    except RuntimeError:
        return None
    return tuple(joined), packed(joined)


def _shaped(*operands: Any) -> tuple[Tensor, ...]:
    """The operands that decide the shape: tensors with dimensions, else the first."""
    return tuple(t for t in operands if isinstance(t, Tensor) and t.dim()) or (operands[0],)


def unary(args: Any, kwargs: Any) -> list[Out] | None:
    """Same shape and dtype, for floating tensors; a dense layout is kept."""
    x = args[0]
    return [like(x)] if x.dtype.is_floating_point and not kwargs and dense(x) else None


for _name in (
    "relu relu_ sigmoid sigmoid_ tanh tanh_ silu silu_ gelu hardtanh hardtanh_ hardswish hardswish_ hardsigmoid hardsigmoid_ "
    "leaky_relu leaky_relu_ elu elu_ mish exp log sqrt rsqrt neg abs sin cos erf softplus reciprocal floor ceil round "
    "log1p expm1 exp_ neg_ sqrt_ clamp_min clamp_min_ hardtanh relu6 rsqrt_ reciprocal_ bernoulli logit threshold log2"
).split():
    SHAPES[f"aten::{_name}"] = unary


def binary(args: Any, kwargs: Any) -> list[Out] | None:
    """Arithmetic of two operands, promoted as torch.result_type says, where the result is floating."""
    a, b = args[0], args[1]
    dtype = torch.result_type(a, b)
    if not dtype.is_floating_point:
        return None
    where = broadcast(*_shaped(a, b))
    return None if where is None else [(*where, dtype)]


for _name in "add sub mul div rsub maximum minimum atan2 fmod remainder".split():
    SHAPES[f"aten::{_name}"] = binary


@shape_rule("pow")
def power(args: Any, kwargs: Any) -> list[Out] | None:
    return binary(args, kwargs) if isinstance(args[0], Tensor) and args[0].dtype.is_floating_point else None


def in_place(args: Any, kwargs: Any) -> list[Out] | None:
    """An in-place operator is fine when its operands broadcast to the first and promote to its dtype's kind."""
    x = args[0]
    for other in args[1:]:
        if isinstance(other, Tensor):
            if other.dtype != x.dtype or other.dim() > x.dim():
                return None
            if any(n not in (1, m) for n, m in zip(reversed(other.shape), reversed(x.shape))):
                return None
        elif isinstance(other, (list, tuple, torch.Generator)):
            return None
    return [like(x)] if x.dtype.is_floating_point else None


for _name in "add_ sub_ mul_ div_ copy_ fill_ zero_ addcmul_ addcdiv_ lerp_ clamp_ dropout_ bernoulli_ uniform_ normal_".split():
    SHAPES[f"aten::{_name}"] = in_place


def comparison(args: Any, kwargs: Any) -> list[Out] | None:
    where = broadcast(*_shaped(*args[:2]))
    return None if where is None else [(*where, torch.bool)]


for _name in "eq ne lt le gt ge logical_and logical_or".split():
    SHAPES[f"aten::{_name}"] = comparison


@shape_rule("bitwise_and", "bitwise_or", "bitwise_xor")
def bitwise(args: Any, kwargs: Any) -> list[Out] | None:
    a, b = args[:2]
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype == b.dtype and a.dim() and b.dim()):
        return None
    where = broadcast(a, b)
    return None if where is None else [(*where, a.dtype)]


@shape_rule("logical_not", "bitwise_not", "isnan", "isinf")
def negation(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    return [like(x, torch.bool)] if x.dtype == torch.bool and dense(x) else None


@shape_rule("where")
def where(args: Any, kwargs: Any) -> list[Out] | None:
    if len(args) != 3 or not all(isinstance(a, Tensor) for a in args) or args[1].dtype != args[2].dtype:
        return None
    place = broadcast(*args)
    return None if place is None else [(*place, args[1].dtype)]


@shape_rule("masked_fill")
def masked_fill(args: Any, kwargs: Any) -> list[Out] | None:
    x, mask = args[:2]
    place = broadcast(x, mask) if mask.dtype == torch.bool else None
    return None if place is None else [(*place, x.dtype)]


@shape_rule("masked_fill_", "index_put_", "index_put", "index_add_", "scatter_", "index_copy_", "index_fill_")
def same_as_first(args: Any, kwargs: Any) -> list[Out] | None:
    return [like(args[0])] if dense(args[0]) else None


# -- matrix products --------------------------------------------------------------------------------------------------


def _same_dtype(op: str, *tensors: Tensor) -> None:
    kinds = {t.dtype for t in tensors}
    if len(kinds) > 1:
        names = ", ".join(str(t.dtype).removeprefix("torch.") for t in tensors)
        raise RuntimeError(f"{op}: expected operands of one dtype, but got {names}")


def _matrices(op: str, a: Tensor, b: Tensor) -> None:
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"{op}: mat1 and mat2 shapes cannot be multiplied ({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})")
    _same_dtype(op, a, b)


@shape_rule("mm")
def mm(args: Any, kwargs: Any) -> list[Out] | None:
    a, b = args[:2]
    if len(args) > 2 or kwargs or a.dim() != 2 or b.dim() != 2:
        return None
    _matrices("mm", a, b)
    return [out((a.shape[0], b.shape[1]), a.dtype)]


@shape_rule("addmm")
def addmm(args: Any, kwargs: Any) -> list[Out] | None:
    bias, a, b = args[:3]
    if len(args) > 3 or a.dim() != 2 or b.dim() != 2 or bias.shape[-1:] != b.shape[1:] or bias.dim() != 1:
        return None
    _matrices("addmm", a, b)
    _same_dtype("addmm", bias, a)
    return [out((a.shape[0], b.shape[1]), a.dtype)]


@shape_rule("bmm")
def bmm(args: Any, kwargs: Any) -> list[Out] | None:
    a, b = args[:2]
    if len(args) > 2 or a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0]:
        return None
    _matrices("bmm", a, b)
    return [out((a.shape[0], a.shape[1], b.shape[2]), a.dtype)]


@shape_rule("baddbmm")
def baddbmm(args: Any, kwargs: Any) -> list[Out] | None:
    return bmm(args[1:3], {}) if args[0].dtype == args[1].dtype else None


@shape_rule("_grouped_mm")
def grouped_mm(args: Any, kwargs: Any) -> list[Out] | None:
    """Matrix products of consecutive groups of rows, each with a matrix of its own."""
    a, b = args[:2]
    dtype = kwargs.get("out_dtype") or a.dtype
    if a.dim() == 2 and b.dim() == 3:
        return [out((a.shape[0], b.shape[2]), dtype)]
    if a.dim() == 3 and b.dim() == 2:
        return [out((a.shape[1], b.shape[1]), dtype)]
    if a.dim() == 2 and b.dim() == 2:
        groups = (args[2] if len(args) > 2 else kwargs["offs"]).shape[0]
        return [out((groups, a.shape[0], b.shape[1]), dtype)]
    return [out((a.shape[0], a.shape[1], b.shape[2]), dtype)]


# -- convolution ------------------------------------------------------------------------------------------------------


def _spread(value: Any, n: int) -> list[int]:
    return list(value) * n if len(value) == 1 else list(value)


@shape_rule("convolution")
def convolution(args: Any, kwargs: Any) -> list[Out] | None:
    x, w, bias, stride, padding, dilation, transposed, out_padding, groups = args[:9]
    n = w.dim() - 2
    if transposed or x.dim() != n + 2 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        return None
    _same_dtype("convolution", x, w, *(() if bias is None else (bias,)))
    stride, padding, dilation = (_spread(v, n) for v in (stride, padding, dilation))
    spatial = []
    for size, k, s, p, d in zip(x.shape[2:], w.shape[2:], stride, padding, dilation):
        if s <= 0 or size + 2 * p < d * (k - 1) + 1:
            return None
        spatial.append((size + 2 * p - d * (k - 1) - 1) // s + 1)
    shape = (x.shape[0], w.shape[0], *spatial)
    if x.is_contiguous() and w.is_contiguous():
        return [out(shape, x.dtype)]
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if last is not None and (x.is_contiguous(memory_format=last) or w.is_contiguous(memory_format=last)):
        return [(shape, channels_last(shape), x.dtype)]
    return None


@shape_rule("convolution_backward")
def convolution_backward(args: Any, kwargs: Any) -> list[Out] | None:
    grad, x, w, bias_sizes, *_, mask = args
    if not (grad.is_contiguous() and x.is_contiguous() and w.is_contiguous()):
        return None
    bias = out((w.shape[0] if not args[7] else w.shape[1] * args[9],), grad.dtype)
    return [like(x) if mask[0] else None, like(w) if mask[1] else None, bias if mask[2] else None]


# -- normalisation ----------------------------------------------------------------------------------------------------


def _statistics(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


@shape_rule("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
def batch_norm(args: Any, kwargs: Any) -> list[Out] | None:
    """Output as the input; saved statistics per channel in training, empty in evaluation (as the CPU gives them)."""
    x = args[0]
    if x.dim() < 2 or not dense(x) or any(isinstance(t, Tensor) and t.shape[0] != x.shape[1] for t in args[1:5]):
        return None
    training = next((a for a in args[3:6] if isinstance(a, bool)), False)
    stats = out((x.shape[1] if training else 0,), _statistics(x))
    return [like(x), stats, stats]


@shape_rule("native_batch_norm_backward")
def batch_norm_backward(args: Any, kwargs: Any) -> list[Out] | None:
    grad, x, weight, mask = args[0], args[1], args[2], args[9]
    if not (dense(x) and grad.stride() == x.stride()):
        return None
    per_channel = out((x.shape[1],), weight.dtype if weight is not None else x.dtype)
    return [like(x) if mask[0] else None, per_channel if mask[1] else None, per_channel if mask[2] else None]


@shape_rule("native_layer_norm")
def layer_norm(args: Any, kwargs: Any) -> list[Out] | None:
    x, normalized, weight = args[:3]
    split = x.dim() - len(normalized)
    if not x.is_contiguous() or tuple(x.shape[split:]) != tuple(normalized):
        return None
    if weight is not None and weight.dtype != x.dtype:
        return None
    stats = out((*x.shape[:split], *(1 for _ in normalized)), _statistics(x))
    return [like(x), stats, stats]


@shape_rule("native_layer_norm_backward")
def layer_norm_backward(args: Any, kwargs: Any) -> list[Out] | None:
    grad, x, _, _, _, weight, bias, mask = args[:8]
    if not x.is_contiguous():
        return None
    wide = [like(weight) if weight is not None and mask[1] else None, like(bias) if bias is not None and mask[2] else None]
    return [like(x) if mask[0] else None, *wide]


@shape_rule("native_group_norm")
def group_norm(args: Any, kwargs: Any) -> list[Out] | None:
    x, n, groups = args[0], args[3], args[6]
    return [like(x), out((n, groups), _statistics(x)), out((n, groups), _statistics(x))] if x.is_contiguous() else None


# -- reductions, softmax ----------------------------------------------------------------------------------------------


@shape_rule("mean", "sum", "amax", "amin")
def reduction(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    dims = args[1] if len(args) > 1 else None
    if not x.is_contiguous() or not x.dtype.is_floating_point or not isinstance(dims, (list, tuple)) or not dims:
        return None
    gone = {d % x.dim() for d in dims}
    keep = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    shape = [1 if i in gone else n for i, n in enumerate(x.shape)] if keep else [n for i, n in enumerate(x.shape) if i not in gone]
    return [out(shape, kwargs.get("dtype") or x.dtype)]


@shape_rule("_softmax", "_log_softmax", "_safe_softmax")
def softmax(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    plain = x.is_contiguous() and x.dtype.is_floating_point and not (len(args) > 2 and args[2]) and not kwargs.get("dtype")
    return [like(x)] if plain else None


@shape_rule("_softmax_backward_data", "_log_softmax_backward_data", "gelu_backward", "silu_backward", "threshold_backward",
            "hardtanh_backward", "sigmoid_backward", "tanh_backward", "hardswish_backward", "hardsigmoid_backward")
def elementwise_backward(args: Any, kwargs: Any) -> list[Out] | None:
    grad, saved = args[:2]
    if grad.shape != saved.shape or grad.stride() != saved.stride() or grad.dtype != saved.dtype or not dense(grad):
        return None
    return [like(grad)]


# -- moving data ------------------------------------------------------------------------------------------------------


@shape_rule("cat")
def cat(args: Any, kwargs: Any) -> list[Out] | None:
    parts = args[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    first = parts[0]
    n = first.dim()
    if any(t.dim() != n or t.dtype != first.dtype or not t.is_contiguous() for t in parts) or not n:
        return None
    dim %= n
    shape = list(first.shape)
    for t in parts[1:]:
        if any(a != b for i, (a, b) in enumerate(zip(shape, t.shape)) if i != dim):
            return None
    shape[dim] = sum(t.shape[dim] for t in parts)
    return [out(shape, first.dtype)]


@shape_rule("clone")
def clone(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    form = kwargs.get("memory_format")
    if form is torch.contiguous_format:
        return [out(x.shape, x.dtype)]
    return [like(x)] if form in (None, torch.preserve_format) and dense(x) else None


@shape_rule("_to_copy")
def to_copy(args: Any, kwargs: Any) -> list[Out] | None:
    x = args[0]
    dtype = kwargs.get("dtype") or x.dtype
    return [like(x, dtype)] if kwargs.get("memory_format") in (None, torch.preserve_format) and dense(x) else None


@shape_rule("embedding")
def embedding(args: Any, kwargs: Any) -> list[Out] | None:
    weight, ids = args[:2]
    return [out((*ids.shape, weight.shape[1]), weight.dtype)] if ids.dtype in (torch.int64, torch.int32) and weight.dim() == 2 else None


@shape_rule("roll", "tril", "triu", "flip")
def rearranged(args: Any, kwargs: Any) -> list[Out] | None:
    return [like(args[0])] if args[0].is_contiguous() else None


@shape_rule("constant_pad_nd")
def pad(args: Any, kwargs: Any) -> list[Out] | None:
    x, amounts = args[:2]
    if not x.is_contiguous():
        return None
    shape = list(x.shape)
    for i in range(len(amounts) // 2):
        shape[-1 - i] += amounts[2 * i] + amounts[2 * i + 1]
    return [out(shape, x.dtype)] if min(shape, default=0) >= 0 else None


@shape_rule("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def upsample(args: Any, kwargs: Any) -> list[Out] | None:
    x, size = args[:2]
    if size is None or x.dim() != 4 or not x.is_contiguous() or len(size) != 2 or isinstance(size[0], float):
        return None
    return [out((*x.shape[:2], *size), x.dtype)]


@shape_rule("grid_sampler_2d")
def grid_sampler(args: Any, kwargs: Any) -> list[Out] | None:
    x, grid = args[:2]
    return [out((*x.shape[:2], *grid.shape[1:3]), x.dtype)] if x.is_contiguous() and x.dtype == grid.dtype else None


@shape_rule("max_pool2d_with_indices")
def max_pool(args: Any, kwargs: Any) -> list[Out] | None:
    x, kernel = args[:2]
    stride = (args[2] if len(args) > 2 else []) or kernel
    padding = args[3] if len(args) > 3 else [0]
    dilation = args[4] if len(args) > 4 else [1]
    if x.dim() != 4 or not x.is_contiguous() or (len(args) > 5 and args[5]):
        return None
    spatial = []
    for n, k, s, p, d in zip(x.shape[2:], *(_spread(v, 2) for v in (kernel, stride, padding, dilation))):
        if 2 * p > k or n + 2 * p < d * (k - 1) + 1:
            return None
        spatial.append((n + 2 * p - d * (k - 1) - 1) // s + 1)
    shape = (*x.shape[:2], *spatial)
    return [out(shape, x.dtype), out(shape, torch.int64)]



# -- attention --------------------------------------------------------------------------------------------------------


def _heads_inside(shape: Any) -> tuple[int, ...]:
    """Strides of (B, H, L, E) kept as (B, L, H, E): fused kernels write heads next to each other."""
    b, h, n, e = shape
    return (n * h * e, e, h * e, 1)


def _attended(query: Tensor, value: Tensor) -> Out:
    shape = (*query.shape[:3], value.shape[3])
    return shape, _heads_inside(shape), query.dtype


@shape_rule("_scaled_dot_product_flash_attention")
def flash(args: Any, kwargs: Any) -> list[Out] | None:
    q, k, v = args[:3]
    logsumexp = out(q.shape[:3], torch.float32)
    seed = out((2,), torch.uint64)
    return [_attended(q, v), logsumexp, None, None, q.shape[2], k.shape[2], seed, out((), torch.uint64), out((0,), q.dtype)]


@shape_rule("_scaled_dot_product_efficient_attention")
def efficient(args: Any, kwargs: Any) -> list[Out] | None:
    q, v, keep = args[0], args[2], args[4]
    rows = -(-q.shape[2] // 32) * 32 if keep else 0
    scalar = out((), torch.int64)
    return [_attended(q, v), out((*q.shape[:2], rows), torch.float32), scalar, scalar]


@shape_rule("_scaled_dot_product_flash_attention_backward")
def flash_backward(args: Any, kwargs: Any) -> list[Out] | None:
    return [(tuple(t.shape), _heads_inside(t.shape), t.dtype) for t in args[1:4]]


@shape_rule("_scaled_dot_product_efficient_attention_backward")
def efficient_backward(args: Any, kwargs: Any) -> list[Out] | None:
    bias, mask = args[4], args[10]
    grads: list[Out] = [(tuple(t.shape), _heads_inside(t.shape), t.dtype) for t in args[1:4]]
    return [*grads, out(bias.shape, bias.dtype) if bias is not None and mask[3] else None]
