"""LAYERS: one of each layer, function and way of holding modules, in small models that the tools are compared on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from .models import Built, own

Function = Callable[..., Any]


class Each(nn.Module):
    """Every layer on the same input, one after the other."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.each = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> list[Any]:
        return [layer(x) for layer in self.each]


class Functions(nn.Module):
    """Functions of the inputs and of a parameter."""

    def __init__(self, shape: tuple[int, ...], *functions: Function) -> None:
        super().__init__()
        self.weight, self.functions = nn.Parameter(torch.rand(shape)), functions

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        return [function(self.weight, *inputs) for function in self.functions]


class Attending(nn.Module):
    """Attention to itself and to something else, of other widths."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.own = nn.MultiheadAttention(8, 2, **options)
        self.other = nn.MultiheadAttention(8, 2, kdim=6, vdim=4, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, _ = self.own(x, x, x, need_weights=False)
        return self.other(x, x[..., :6], x[..., :4])[0]


class Steps(nn.Module):
    """Cells of a recurrent network, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.RNNCell(4, 4), nn.GRUCell(4, 4, bias=False), nn.LSTMCell(4, 4)])

    def forward(self, x: torch.Tensor) -> list[Any]:
        return [cell(row) for row in x for cell in self.cells]


class Sequences(nn.Module):
    """Recurrent layers of every kind."""

    def __init__(self) -> None:
        super().__init__()
        both: dict[str, Any] = {"bidirectional": True, "batch_first": True}
        layers = [
            kind(4, 5, **options) for kind in (nn.RNN, nn.GRU, nn.LSTM) for options in ({}, both, {"bias": False})
        ]
        self.layers = nn.ModuleList([*layers, nn.LSTM(4, 5, 2, proj_size=3), nn.RNN(4, 5, nonlinearity="relu")])

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [layer(x)[0] for layer in self.layers]


class Held(nn.Module):
    """A layer in three places, lists taken in turns, one module never called, parameters of the model's own."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.Conv2d(3, 3, 3, padding=1)
        self.first, self.second = nn.Sequential(layer, nn.ReLU()), nn.Sequential(layer, nn.BatchNorm2d(3))
        self.both = nn.ModuleList([layer, self.first])
        self.convs = nn.ModuleList([nn.Conv2d(3, 3, 1) for _ in range(3)])
        self.norms = nn.ModuleList([nn.ModuleList([nn.BatchNorm2d(3)]) for _ in range(3)])
        self.never, self.bare = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), nn.Parameter(torch.rand(3, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.both[1](self.both[0](self.second(self.first(x))))
        for conv, norm in zip(self.convs, self.norms):
            x = norm[0](conv(x))
        return x * self.bare


class Subclass(nn.Conv2d):
    """A layer that does something of its own before."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(F.pad(x, (1, 1, 1, 1)))


class Pair(nn.Module):
    """Two inputs, a dict within, keywords inside, a dict returned."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.bilinear = nn.Linear(4, 4), nn.Bilinear(4, 4, 2)

    def forward(self, x: torch.Tensor, more: dict[str, list[torch.Tensor]]) -> dict[str, torch.Tensor]:
        return {"out": self.bilinear(self.linear(input=x), self.linear(more["y"][0]))}


class Embedded(nn.Module):
    """Embeddings, one tied to the layer that turns them back."""

    def __init__(self) -> None:
        super().__init__()
        self.bag, self.embed, self.head = nn.EmbeddingBag(11, 8), nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(ids) + self.bag(ids)[:, None])


def spatial(dimensions: int) -> tuple[nn.Module, ...]:
    """Convolutions and pools of a number of dimensions, on 4 channels."""
    conv, transposed, *pools, norm, instance = (
        getattr(nn, f"{name}{dimensions}d")
        for name in ("Conv", "ConvTranspose", "MaxPool", "AvgPool", "AdaptiveMaxPool", "AdaptiveAvgPool", "BatchNorm",
                     "InstanceNorm")
    )  # fmt: skip
    return (
        conv(4, 6, 3), conv(4, 6, 3, stride=2, padding=2, dilation=2, bias=False), conv(4, 8, 3, groups=4),
        conv(4, 6, 3, padding="same"), conv(4, 4, 3, padding=1, padding_mode="reflect"),
        transposed(4, 6, 3, stride=2, padding=1, output_padding=1), transposed(4, 6, 2, groups=2, bias=False),
        *(pool(2) for pool in pools), norm(4), norm(4, affine=False), instance(4), instance(4, affine=True),
    )  # fmt: skip


def frozen(build: Callable[[], Built]) -> Callable[[], Built]:
    def built() -> Built:
        model, inputs = build()
        return model.requires_grad_(requires_grad=False), inputs

    return built


ACTIVATIONS = """ReLU ReLU6 ELU SELU CELU GELU SiLU Mish Sigmoid Tanh Hardswish Hardsigmoid Hardtanh Softplus Softsign
    LogSigmoid RReLU PReLU Tanhshrink Dropout Identity"""
SPELLED = "relu relu6 elu gelu silu leaky_relu hardswish hardtanh mish selu sigmoid tanh softplus normalize".split()


def encoder(*shape: int, **options: Any) -> Callable[[], Built]:
    return own(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, **options), 2), *shape)


LAYERS: dict[str, Callable[[], Built]] = {
    "1-D layers": own(lambda: Each(*spatial(1)), 2, 4, 9),
    "2-D layers": own(lambda: Each(*spatial(2)), 2, 4, 9, 9),
    "3-D layers": own(lambda: Each(*spatial(3)), 2, 4, 7, 7, 7),
    "2-D layers without a batch": own(lambda: Each(nn.Conv2d(4, 6, 3), nn.MaxPool2d(2)), 4, 9, 9),
    "activations": own(lambda: Each(*(getattr(nn, name)() for name in ACTIVATIONS.split())), 2, 4, 6),
    "softmaxes": own(lambda: Each(nn.Softmax(1), nn.LogSoftmax(1), nn.Softmin(1), nn.GLU(1), nn.PReLU(4)), 2, 4, 6),
    "norms": own(
        lambda: Each(nn.GroupNorm(2, 4), nn.GroupNorm(2, 4, affine=False), nn.LayerNorm(6), nn.RMSNorm(6),
                     nn.LayerNorm((4, 6), elementwise_affine=False), nn.LocalResponseNorm(2)),
        2, 4, 6,
    ),
    "upsampling": own(
        lambda: Each(*(nn.Upsample(scale_factor=2, mode=mode) for mode in ("nearest", "bilinear", "bicubic")),
                     nn.Upsample((9, 7), mode="bilinear"), nn.UpsamplingBilinear2d(scale_factor=2), nn.PixelShuffle(2)),
        2, 4, 6, 6,
    ),
    "shapes": own(lambda: Each(nn.Flatten(), nn.ZeroPad2d(1), nn.Unfold(2), nn.PixelUnshuffle(2)), 2, 4, 6, 6),
    **{f"Linear on {len(shape)} dimensions": own(lambda: Each(nn.Linear(5, 7), nn.Linear(5, 7, bias=False)), *shape)
       for shape in ((5,), (3, 5), (2, 3, 5), (2, 2, 3, 5), (2, 1, 2, 3, 5))},
    "recurrent layers": own(Sequences, 3, 2, 4),
    "recurrent layers without a batch": own(lambda: Each(nn.LSTM(4, 5), nn.GRU(4, 5), nn.RNN(4, 5)), 3, 4),
    "cells": own(Steps, 3, 2, 4),
    "attention": own(Attending, 5, 2, 8),
    "attention, batch first": own(lambda: Attending(batch_first=True), 2, 5, 8),
    "attention, no bias": own(lambda: Attending(bias=False, batch_first=True), 2, 5, 8),
    "frozen attention": frozen(own(lambda: Attending(batch_first=True), 2, 5, 8)),
    "encoder": encoder(5, 2, 8),
    "encoder, norm first": encoder(2, 5, 8, batch_first=True, norm_first=True, activation="gelu"),
    "frozen encoder": frozen(encoder(2, 5, 8, batch_first=True)),
    "transformer": lambda: (nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval(), (torch.rand(2, 5, 8),) * 2),
    "modules held": own(Held, 2, 3, 8, 8),
    "subclasses": own(lambda: nn.Sequential(Subclass(3, 4, 3), nn.ReLU()), 2, 3, 6, 6),
    "nested inputs": lambda: (Pair().eval(), (torch.rand(3, 4), {"y": [torch.rand(3, 4)]})),
    "embeddings": lambda: (Embedded().eval(), (torch.randint(0, 11, (2, 5)),)),
    "products": lambda: (
        Functions(
            (4, 5),
            lambda w, x, y: x @ w, lambda w, x, y: torch.matmul(x, w), lambda w, x, y: x.matmul(w),
            lambda w, x, y: torch.mm(x[0], w), lambda w, x, y: torch.bmm(x, y), lambda w, x, y: x.bmm(y),
            lambda w, x, y: torch.baddbmm(w[:3], x, y), lambda w, x, y: torch.addmm(w[:3], x[0], w),
            lambda w, x, y: w[:3].addmm(x[0], w), lambda w, x, y: torch.einsum("bij,jk->bik", x, w),
            lambda w, x, y: torch.einsum("...ij,...jk", x, y), lambda w, x, y: torch.mv(x[0], w[:, 0]),
            lambda w, x, y: torch.inner(x, w.t()), lambda w, x, y: torch.tensordot(x, w, dims=1),
        ).eval(),
        (torch.rand(2, 3, 4), torch.rand(2, 4, 5)),
    ),
    "functions of layers": lambda: (
        Functions(
            (6, 4, 3, 3),
            lambda w, x: F.conv2d(x, w, stride=2), lambda w, x: F.conv2d(input=x, weight=w, padding="same"),
            lambda w, x: F.conv_transpose2d(x, w.transpose(0, 1)), lambda w, x: F.linear(x, w[0, 0, 0].repeat(5, 3)),
            lambda w, x: F.layer_norm(x, (9,)), lambda w, x: F.group_norm(x, 2), lambda w, x: F.instance_norm(x),
            lambda w, x: F.batch_norm(x, torch.zeros(4), torch.ones(4)), lambda w, x: F.avg_pool2d(x, 2),
            lambda w, x: F.max_pool2d(x, 2), lambda w, x: F.adaptive_avg_pool2d(x, 1), lambda w, x: x.relu(),
            lambda w, x: F.interpolate(x, scale_factor=2), lambda w, x: F.interpolate(x, size=(5, 5), mode="bilinear"),
            lambda w, x: F.softmax(x, -1), lambda w, x: F.relu(x + 1, inplace=True),
            *(lambda w, x, name=name: getattr(F, name)(x) for name in SPELLED),
        ).eval(),
        (torch.rand(2, 4, 9, 9),),
    ),
    "functions of attention": lambda: (
        Functions(
            (2, 3, 7, 4),
            lambda w, q: F.scaled_dot_product_attention(q, q, q, is_causal=True),
            lambda w, q: F.scaled_dot_product_attention(q, w, w),
            lambda w, q: F.scaled_dot_product_attention(q, w[:, :1], w[:, :1], enable_gqa=True),
            lambda w, q: torch.softmax(q @ w.mT, -1) @ w,
        ).eval(),
        (torch.rand(2, 3, 5, 4),),
    ),
    "operators": own(
        lambda: Functions((3, 4), lambda w, x: x + w, torch.add, torch.mul, lambda w, x: x.mul(2.0) / w - x**2,
                          lambda w, x: x.clone().add_(w), lambda w, x: torch.cat([x.mean(1), x.sum(1)])),
        2, 3, 4,
    ),
    "training": lambda: (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout()), (torch.rand(2, 3, 6, 6),)),
}  # fmt: skip
