"""What DeepSpeed's profiler counts for each function before which it stands, from the arguments of the call.

Formulas of deepspeed 0.19.8 (profiling/flops_profiler/profiler.py) in our own words. Where the profiler itself would
stop with an error (an argument given by keyword that it does not take so, say), its formula is applied all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from ..records import FunctionCall, TensorSpec
from ._contraction_path import printed_cost


class Cost(NamedTuple):
    """What a call counts: its flops, those of them that are MACs, and why so many."""

    flops: int
    macs: int
    why: str


Formula = Callable[[FunctionCall], Cost | None]


def argument(call: FunctionCall, position: int, name: str, default: Any = None) -> Any:
    """An argument, however it was given."""
    return call.args[position] if position < len(call.args) else call.kwargs.get(name, default)


def tensors(call: FunctionCall, *names: str) -> list[TensorSpec] | None:
    """The first arguments, where all of them are tensors."""
    found = [argument(call, position, name) for position, name in enumerate(names)]
    return found if all(isinstance(value, TensorSpec) for value in found) else None


def per_input(each: int, words: str = "") -> Formula:
    def cost(call: FunctionCall) -> Cost | None:
        found = tensors(call, "input")
        return Cost(each * found[0].numel, 0, f"{each} per input element{words}") if found else None

    return cost


def normalisation(position: int, plain: int, scaled: int) -> Formula:
    """So many per element, more with a weight."""

    def cost(call: FunctionCall) -> Cost | None:
        found = tensors(call, "input")
        each, words = (plain, "without") if argument(call, position, "weight") is None else (scaled, "with")
        return (
            Cost(each * found[0].numel, 0, f"{each} per input element {words} weight, an estimate") if found else None
        )

    return cost


def batch_normalisation(call: FunctionCall) -> Cost | None:
    """In training as other norms; else a scale and, with a weight, a second one."""
    if argument(call, 5, "training", default=False):
        return normalisation(3, 4, 5)(call)
    found = tensors(call, "input")
    each = 1 if argument(call, 3, "weight") is None else 2
    return Cost(each * found[0].numel, 0, f"{each} per input element, running statistics") if found else None


def linear(call: FunctionCall) -> Cost | None:
    found = tensors(call, "input", "weight")
    if found is None:
        return None
    macs = found[0].numel * found[1].shape[0]
    return Cost(2 * macs, macs, "2 × input elements × output features, the bias free")


def convolution(call: FunctionCall) -> Cost | None:
    """2 · K · Cin · (Cout // groups) for each position, and Cout with a bias; positions by the formula for sizes."""
    found = tensors(call, "input", "weight")
    if found is None:
        return None
    x, weight = found
    kernel, sizes = weight.shape[2:], x.shape[2:]
    stride, dilation = (_each(argument(call, at, n, 1), len(sizes)) for at, n in ((3, "stride"), (5, "dilation")))
    padding = _padding(argument(call, 4, "padding", 0), dilation, kernel)
    out = [
        (size + 2 * p - (d * (k - 1) + 1)) // s + 1
        for size, p, d, k, s in zip(sizes, padding, dilation, kernel, stride)
    ]
    positions = x.shape[0] * prod(out)
    macs = prod(kernel) * x.shape[1] * (weight.shape[0] // argument(call, 6, "groups", 1)) * positions
    return _with_bias(call, macs, weight.shape[0] * positions)


def transposed_convolution(call: FunctionCall) -> Cost | None:
    """2 · K · Cin · Cout/groups for each position of the input; with a bias 1 for each element of the output."""
    found = tensors(call, "input", "weight")
    if found is None:
        return None
    x, weight = found
    kernel, sizes = weight.shape[2:], x.shape[2:]
    names = ((3, "stride", 1), (4, "padding", 0), (5, "output_padding", 0), (7, "dilation", 1))
    settings = (_each(argument(call, at, name, default), len(sizes)) for at, name, default in names)
    out = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, o, d in zip(sizes, kernel, *settings)]
    macs = prod(kernel) * x.shape[1] * weight.shape[1] * x.shape[0] * prod(sizes)
    return _with_bias(call, macs, weight.shape[1] * argument(call, 6, "groups", 1) * x.shape[0] * prod(out))


def _with_bias(call: FunctionCall, macs: int, outputs: int) -> Cost:
    """Two flops a MAC, and a bias for each output."""
    if argument(call, 2, "bias") is None:
        return Cost(2 * macs, macs, "2 per MAC")
    return Cost(2 * macs + outputs, macs, "2 per MAC, 1 per output for the bias")


def _each(value: Any, count: int) -> tuple[int, ...]:
    """One setting for each dimension."""
    if isinstance(value, tuple):
        return value * count if len(value) == 1 else value
    return (value,) * count


def _padding(value: Any, dilation: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
    """On each side; 'same' halves what it adds, rounded down."""
    if isinstance(value, str):
        return tuple(d * (k - 1) // 2 if value == "same" else 0 for d, k in zip(dilation, kernel))
    return _each(value, len(kernel))


def resizing(call: FunctionCall) -> Cost | None:
    """The size asked for, without batch and channels, and an int not squared; or the input times the factors."""
    found = tensors(call, "input")
    size, scale = argument(call, 1, "size"), argument(call, 2, "scale_factor")
    if size is not None:
        sizes = _sizes(size, call.out)
        return Cost(int(prod(sizes)), 0, "the size asked for, without batch and channels") if sizes else None
    if found is None or scale is None:
        return None
    x = found[0]
    factor = prod(scale) if isinstance(scale, tuple) else scale ** (x.ndim - 2)
    return Cost(int(x.numel * factor), 0, "1 per output element by the scale factor")


def _sizes(size: Any, out: Any) -> tuple[int, ...]:
    """The sizes asked for; what was asked by tensors is what came out."""
    sizes = size if isinstance(size, tuple) else (size,)
    if all(isinstance(n, (int, float)) for n in sizes):
        return sizes
    return out.shape[-len(sizes) :] if isinstance(out, TensorSpec) else ()


def matrix_product(call: FunctionCall) -> Cost | None:
    """Elements of the first × the last size of the second; right where that is the size of a row."""
    first, second = argument(call, 0, "input"), _second(call, "other", "mat2", "tensor2")
    if not isinstance(first, TensorSpec) or not isinstance(second, TensorSpec):
        return None
    macs = first.numel * (second.shape[-1] if second.shape else 1)
    return Cost(2 * macs, macs, "2 × elements of the first × last size of the second")


def _second(call: FunctionCall, *names: str) -> Any:
    return next((value for name in names if (value := argument(call, 1, name)) is not None), None)


def product_and_sum(call: FunctionCall) -> Cost | None:
    """The product, and 1 for each element of what it is added to, before that broadcasts."""
    added, first = argument(call, 0, "input"), _argument_of(call, 1, "mat1", "batch1")
    second = _argument_of(call, 2, "mat2", "batch2")
    if not all(isinstance(value, TensorSpec) for value in (added, first, second)):
        return None
    macs = first.numel * second.shape[-1]
    return Cost(
        2 * macs + added.numel, macs, "2 × elements of the first × last size of the second, 1 per element added to"
    )


def _argument_of(call: FunctionCall, position: int, *names: str) -> Any:
    return next((value for name in names if (value := argument(call, position, name)) is not None), None)


def elementwise(call: FunctionCall) -> Cost | None:
    """1 for each element of the two shapes broadcast."""
    values = (argument(call, 0, "input"), _second(call, "other"))
    shapes = [value.shape for value in values if isinstance(value, TensorSpec)]
    return Cost(prod(broadcast(shapes)), 0, "1 per element, broadcast")


def broadcast(shapes: list[tuple[int, ...]]) -> list[int]:
    """The shape that shapes make together, lined up from the last dimension."""
    ndim = max(map(len, shapes), default=0)
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    return [next((n for n in sizes if n != 1), 1) for sizes in zip(*padded)]


def attention(call: FunctionCall) -> Cost | None:
    """Both products over the whole square, causal or not; the softmax is free."""
    found = tensors(call, "query", "key", "value")
    if found is None:
        return None
    q, k, v = found
    macs = q.numel * k.shape[-2] + prod(q.shape[:-1]) * k.shape[-2] * v.shape[-1]
    return Cost(2 * macs, macs, "2 per MAC of both products")


def einsum(call: FunctionCall) -> Cost | None:
    """numpy's count for the best order of contractions, which it prints in four digits; as flops only, no MACs."""
    return _einsum(call.args[:1], call.args[1:])


def einsum_of_einops(call: FunctionCall) -> Cost | None:
    return _einsum(call.args[-1:], call.args[:-1])


def _einsum(equation: tuple[Any, ...], operands: tuple[Any, ...]) -> Cost | None:
    if len(operands) == 1 and isinstance(operands[0], tuple):
        operands = operands[0]
    if not equation or not isinstance(equation[0], str) or not all(isinstance(o, TensorSpec) for o in operands):
        return None
    flops = printed_cost(equation[0], [operand.shape for operand in operands])
    return Cost(flops, 0, "numpy's count for the best order of contractions, to four digits")


def free(call: FunctionCall) -> Cost:
    return Cost(0, 0, "counted as free")


ACTIVATIONS = "relu prelu elu leaky_relu relu6 silu gelu"
POOLS = """avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"""
FORMULAS: dict[str, Formula] = {
    **{f"F.{name}": per_input(1) for name in ACTIVATIONS.split()},
    **{f"F.{name}": per_input(1, ", whatever the kernel") for name in POOLS.split()},
    "F.softmax": per_input(1),
    "F.linear": linear,
    **{f"F.conv{n}d": convolution for n in (1, 2, 3)},
    **{f"F.conv_transpose{n}d": transposed_convolution for n in (1, 2, 3)},
    "F.batch_norm": batch_normalisation,
    "F.layer_norm": normalisation(2, 4, 5),
    "F.group_norm": normalisation(2, 4, 5),
    "F.instance_norm": normalisation(3, 4, 5),
    "F.upsample": resizing,
    "F.interpolate": resizing,
    "F.embedding": free,
    "F.scaled_dot_product_attention": attention,
    **{f"torch.{n}": matrix_product for n in ("matmul", "mm", "bmm")},
    **{f"torch.Tensor.{n}": matrix_product for n in ("matmul", "__matmul__", "mm", "bmm")},
    **{f"torch.{n}": product_and_sum for n in ("addmm", "Tensor.addmm", "baddbmm")},
    **{f"torch.{n}": elementwise for n in ("mul", "Tensor.mul", "add", "Tensor.add")},
    "torch.einsum": einsum,
    "einops.einsum": einsum_of_einops,
}
