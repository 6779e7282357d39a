"""Single layers and awkward models whose counts are worked out by hand: the closed form stands beside each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from .case import Case, Inputs

B, T, D, H = 2, 7, 16, 24


def tensors(*shapes: tuple[int, ...]) -> Callable[[int], Inputs]:
    return lambda batch: (tuple(torch.rand(shape) for shape in shapes), {})


class Call(nn.Module):
    """A model that is one function of its inputs, with parameters of its own where asked."""

    def __init__(self, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList([nn.Parameter(torch.rand(shape)) for shape in shapes])

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs, *self.weights)


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped_query_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def recurrent(cls: type[nn.RNNBase], gates: int, layers: int = 1, directions: int = 1, projection: int = 0) -> Case:
    """gates·H·(input + state) per token, layer and direction, plus H·P for the projection of an LSTM."""
    state = projection or H
    total = 0
    for layer in range(layers):
        width = D if layer == 0 else state * directions
        total += directions * B * T * (gates * H * (width + state) + (H * projection))
    extra = {"proj_size": projection} if projection else {}
    make = partial(cls, D, H, num_layers=layers, bidirectional=directions == 2, batch_first=True, **extra)
    name = f"{cls.__name__}(layers={layers}, directions={directions}, projection={projection})"
    # backward: twice the forward, less what the first layer would owe the input, which asks for no gradient,
    # and less what the first step of each layer and direction would owe its zero initial state
    backward = 2 * total - directions * B * T * gates * H * D
    backward -= layers * directions * B * gates * H * state
    return Case(f"layer:{name}", "layer recurrent", make, tensors((B, T, D)), small=True, macs=total, macs_bwd=backward)


def layer(name: str, kind: str, make: Callable[[], nn.Module], macs: int, *shapes: tuple[int, ...],
          macs_bwd: int | None = None, meta: bool = True, training: bool = True) -> Case:  # fmt: skip
    return Case(
        f"layer:{name}", f"layer {kind}", make, tensors(*shapes), small=True, macs=macs, macs_bwd=macs_bwd,
        backward=macs_bwd is not None, meta=meta, training=training,
    )  # fmt: skip


def products() -> list[Case]:
    n = B * T * D * H
    return [
        layer("Linear", "product", partial(nn.Linear, D, H), n, (B, T, D), macs_bwd=n),
        layer("Linear of one vector", "product", partial(nn.Linear, D, H), D * H, (D,), macs_bwd=D * H),
        layer("Bilinear", "product", partial(nn.Bilinear, 3, 4, 5), B * 5 * 3 * 4, (B, 3), (B, 4)),
        layer("x @ w", "product", partial(Call, torch.matmul, (D, H)), n, (B, T, D), macs_bwd=n),
        layer("matrix @ vector", "product", partial(Call, torch.mv, (D,)), T * D, (T, D), macs_bwd=T * D),
        layer("dot", "product", partial(Call, torch.dot, (D,)), D, (D,)),
        layer("baddbmm", "product", partial(Call, torch.baddbmm), B * T * D * H, (B, T, H), (B, T, D), (B, D, H)),
        layer("addbmm", "product", partial(Call, torch.addbmm), B * T * D * H, (T, H), (B, T, D), (B, D, H)),
        layer(
            "einsum bij,jk->bik",
            "product",
            partial(Call, partial(torch.einsum, "bij,jk->bik"), (D, H)),
            n,
            (B, T, D),
            macs_bwd=n,
        ),
        layer(
            "chain_matmul",
            "product",
            partial(Call, lambda a, b: torch.linalg.multi_dot([a, b])),
            T * D * H,
            (T, D),
            (D, H),
        ),
        layer(
            "tensordot", "product", partial(Call, partial(torch.tensordot, dims=2)), 5 * 3 * 4 * 6, (5, 3, 4), (3, 4, 6)
        ),
    ]


def convolutions() -> list[Case]:
    def conv(name: str, make: Callable[[], nn.Module], macs: int, *shape: int) -> Case:
        return layer(name, "convolution", make, macs, shape, macs_bwd=macs)

    return [
        conv("Conv1d", partial(nn.Conv1d, 4, 6, 3), B * 6 * 8 * 4 * 3, B, 4, 10),
        conv("Conv2d", partial(nn.Conv2d, 4, 6, 3, stride=2, padding=1), B * 6 * 5 * 5 * 4 * 9, B, 4, 10, 10),
        conv("Conv2d groups", partial(nn.Conv2d, 4, 8, 3, groups=2), B * 8 * 8 * 8 * 2 * 9, B, 4, 10, 10),
        conv("Conv2d depthwise", partial(nn.Conv2d, 4, 4, 3, groups=4), B * 4 * 8 * 8 * 9, B, 4, 10, 10),
        conv("Conv2d dilation", partial(nn.Conv2d, 4, 6, 3, dilation=2), B * 6 * 6 * 6 * 4 * 9, B, 4, 10, 10),
        conv("Conv2d unbatched", partial(nn.Conv2d, 4, 6, 3), 6 * 8 * 8 * 4 * 9, 4, 10, 10),
        conv("Conv3d", partial(nn.Conv3d, 2, 3, (1, 3, 3)), B * 3 * 4 * 4 * 4 * 2 * 9, B, 2, 4, 6, 6),
        conv("ConvTranspose1d", partial(nn.ConvTranspose1d, 4, 6, 3, stride=2), B * 4 * 10 * 6 * 3, B, 4, 10),
        conv("ConvTranspose2d", partial(nn.ConvTranspose2d, 4, 6, 3, stride=2), B * 4 * 25 * 6 * 9, B, 4, 5, 5),
        conv("ConvTranspose2d groups", partial(nn.ConvTranspose2d, 4, 6, 3, groups=2), B * 4 * 25 * 3 * 9, B, 4, 5, 5),
        conv("LazyConv2d", partial(nn.LazyConv2d, 6, 3), B * 6 * 8 * 8 * 4 * 9, B, 4, 10, 10),
    ]  # fmt: skip


def attentions() -> list[Case]:
    heads, width = 4, 4
    q, kv = (B, heads, T, width), (B, 2, T, width)
    scores = B * heads * T * T * width
    projections = 4 * B * T * D * D
    encoder = projections + 2 * scores + 2 * B * T * D * H

    def make_encoder() -> nn.Module:
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(D, heads, H, batch_first=True), 2)

    return [
        layer("scaled_dot_product_attention", "attention", partial(Call, F.scaled_dot_product_attention), 2 * scores, q, q, q),
        layer("causal attention", "attention", partial(Call, causal_attention), 2 * scores, q, q, q),
        layer("grouped-query attention", "attention", partial(Call, grouped_query_attention), 2 * scores, q, kv, kv),
        layer("MultiheadAttention", "attention", partial(nn.MultiheadAttention, D, heads, batch_first=True),
              projections + 2 * scores, *[(B, T, D)] * 3, macs_bwd=2 * (projections + 2 * scores) - 3 * B * T * D * D),
        layer("TransformerEncoder", "attention", make_encoder, 2 * encoder, (B, T, D),
              macs_bwd=2 * (2 * encoder) - 3 * B * T * D * D),
    ]  # fmt: skip


def zeros() -> list[Case]:
    """Layers without any contraction: a count of exactly 0, with work of other kinds."""
    x = (B, D, 6, 6)
    return [
        layer("BatchNorm2d", "no contraction", partial(nn.BatchNorm2d, D), 0, x),
        layer("GELU", "no contraction", nn.GELU, 0, x),
        layer("AdaptiveAvgPool2d", "no contraction", partial(nn.AdaptiveAvgPool2d, 2), 0, x),
        layer("Softmax", "no contraction", partial(nn.Softmax, -1), 0, x),
        layer("Upsample", "no contraction", partial(nn.Upsample, scale_factor=2, mode="bilinear"), 0, x),
        layer("fft2", "no contraction", partial(Call, torch.fft.rfft2), 0, x),
    ]


def cases() -> list[Case]:
    return [
        *products(),
        *convolutions(),
        *attentions(),
        recurrent(nn.LSTM, 4),
        recurrent(nn.LSTM, 4, layers=2, directions=2),
        recurrent(nn.LSTM, 4, projection=8),
        recurrent(nn.GRU, 3, layers=2),
        recurrent(nn.GRU, 3, directions=2),
        recurrent(nn.RNN, 1, layers=2, directions=2),
        *zeros(),
    ]
