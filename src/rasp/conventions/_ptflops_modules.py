"""What ptflops counts for a call of a layer, by its very class. Source: ptflops/pytorch_ops.py, its hooks."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from ..records import leaves

if TYPE_CHECKING:
    from ..ledger import LayerCall

Counted = tuple[int, str]  # how much, and why
Shape = tuple[int, ...]


def first(layer: LayerCall) -> Shape:
    """Shape of the first tensor that went in."""
    return next((spec.shape for spec in (*leaves(layer.args), *layer.inputs)), ())


def came_out(layer: LayerCall) -> Shape:
    return layer.out.shape if layer.out else ()


def own(layer: LayerCall, name: str) -> Shape | None:
    """Shape of a parameter by its name in the layer, whatever else it is called."""
    path = f"{layer.path}.{name}" if layer.path else name
    return next((tensor.spec.shape for tensor in layer.tensors if path in tensor.names), None)


def convolution(transposed: bool = False, extra: int = 0) -> Callable[[LayerCall], Counted]:
    def count(layer: LayerCall) -> Counted:
        hyper, x, out = layer.hyper, first(layer), came_out(layer)
        more = extra + (1 if extra and len(layer.args) == 3 and layer.args[2] is not None else 0)
        filters = hyper["in_channels"] * (hyper["out_channels"] // hyper["groups"])
        positions = x[0] * prod((x if transposed else out)[2:])
        total = prod(hyper["kernel_size"]) * (filters + more) * positions
        words = f"kernel × input channels × filters of a group × positions of the {'input' if transposed else 'output'}"
        if more:
            words += f", {more} more per kernel element for its offset"
        if own(layer, "bias") is not None:
            total += x[0] * prod(out[1:])
            words += ", bias once per output element"
        return total, words

    return count


def activation(layer: LayerCall) -> Counted:
    return prod(came_out(layer)), "1 per element of the output"


def pool(layer: LayerCall) -> Counted:
    return prod(first(layer)), "1 per element of the input"


def norm(layer: LayerCall) -> Counted:
    """A layer norm has no attribute `affine`, so its scale is not seen."""
    each = 2 if layer.hyper.get("affine") else 1
    return each * prod(first(layer)), f"{each} per element of the input"


def linear(layer: LayerCall) -> Counted:
    x, out = first(layer), came_out(layer)[-1]
    bias = own(layer, "bias") is not None
    words = "rows × input features × output features" + (", bias once per output element" if bias else "")
    return (x[-1] * out + bias * out) * prod(x[:-1]), words


def upsample(layer: LayerCall) -> Counted:
    """It takes the first of the batch for the whole output."""
    return prod(came_out(layer)[1:]), "1 per element of the first output of the batch"


def rnn(layer: LayerCall) -> Counted:
    hyper, x = layer.hyper, first(layer)
    weights = sum(_step(layer, f"_l{i}") for i in range(hyper["num_layers"]))
    both = 2 if hyper.get("bidirectional") else 1
    words = "weights, biases and gates of every layer × steps of the batch"
    if both == 2:
        words += ", twice for both directions"
    return weights * prod(x[:2]) * both, words


def cell(layer: LayerCall) -> Counted:
    return _step(layer, "") * first(layer)[0], "weights, biases and gates × batch"


GATES = {"RNN": 1, "GRU": 7, "LSTM": 10}  # elementwise operations per hidden unit: sums, products of gates


def _step(layer: LayerCall, suffix: str) -> int:
    """One step of one layer: its weights, the work of its gates, its biases."""
    shapes = [own(layer, f"{kind}{suffix}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    kind = layer.type.removesuffix("Cell")
    return sum(prod(shape) for shape in shapes if shape is not None) + GATES[kind] * int(layer.hyper["hidden_size"])


def attention(layer: LayerCall) -> Counted:
    """nn.MultiheadAttention: a key or value of another width is projected as if to its own, the bias always counted."""
    q, k, v = ([spec.shape for spec in (*leaves(layer.args), *leaves(layer.kwargs))] * 3)[:3]
    if len(q) < 3:
        q, k, v = ((1, *shape) if layer.hyper.get("batch_first") else (shape[0], 1, shape[1]) for shape in (q, k, v))
    batch, length = (0, 1) if layer.hyper.get("batch_first") else (1, 0)
    heads = layer.hyper["num_heads"]
    total = q[length] * q[2] + sum(shape[length] * shape[2] ** 2 for shape in (q, k, v))
    if own(layer, "in_proj_bias") is not None:
        total += (q[length] + k[length] + v[length]) * q[2]
    total += heads * q[length] * k[length] * (q[2] // heads + 1 + v[2] // heads)
    total += q[length] * v[2] * (v[2] + 1)
    return total * q[batch], "scaling, projections of query, key and value, scores, softmax, weighted sum, projection"


def timm_attention(layer: LayerCall) -> Counted:
    """Scores and weighted sum; with this formula on it, the linear layers inside are not added any more."""
    batch, tokens, _ = first(layer)
    heads, width = layer.hyper["num_heads"], layer.hyper["head_dim"]
    total = batch * heads * (tokens * width + tokens * tokens * (2 * width + 1))
    return total, "scaling, scores, softmax and weighted sum; the linear layers inside are left out"


LAYERS: dict[str, Callable[[LayerCall], Counted]] = {
    **{f"torch.nn.Conv{n}d": convolution() for n in (1, 2, 3)},
    **{f"torch.nn.ConvTranspose{n}d": convolution(transposed=True) for n in (1, 2, 3)},
    "torchvision.ops.deform_conv.DeformConv2d": convolution(extra=24),
    **{f"torch.nn.{name}": activation for name in ("ReLU", "PReLU", "ELU", "LeakyReLU", "ReLU6", "GELU")},
    **{
        f"torch.nn.{kind}Pool{n}d": pool
        for kind in ("Max", "Avg", "AdaptiveMax", "AdaptiveAvg")
        for n in (1, 2, 3)
    },
    **{f"torch.nn.{kind}Norm{n}d": norm for kind in ("Batch", "Instance") for n in (1, 2, 3)},
    **{f"torch.nn.{name}": norm for name in ("GroupNorm", "LayerNorm")},
    "torch.nn.Linear": linear,
    "torch.nn.Upsample": upsample,
    **{f"torch.nn.{name}": rnn for name in GATES},
    **{f"torch.nn.{name}Cell": cell for name in GATES},
    "torch.nn.MultiheadAttention": attention,
    "timm.layers.attention.Attention": timm_attention,
}  # fmt: skip
