"""MODELS: what the tools are compared on, each with its inputs, built fresh on every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Built = tuple[nn.Module, tuple[Any, ...]]


class Functional(nn.Module):
    """Everything by functions: a convolution, a matrix product as an operator, a norm, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel, self.weight = nn.Parameter(torch.rand(8, 3, 3, 3)), nn.Parameter(torch.rand(8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(nn.functional.conv2d(x, self.kernel, stride=2))
        x = x.flatten(2).transpose(1, 2) @ self.weight
        x = nn.functional.layer_norm(x, (16,))
        return nn.functional.scaled_dot_product_attention(x, x, x)


class Shared(nn.Module):
    """One layer called three times, one weight in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.again, self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(self.again(self.again(self.again(x)))))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.rnn = kind(16, 24, num_layers=2, batch_first=True, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rnn(x)[0]


def tokens(vocabulary: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, (2, 12))


def hugging(name: str, **options: Any) -> Callable[[], Built]:
    def build() -> Built:
        import transformers

        config = getattr(transformers, f"{name}Config")(**options)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        config.return_dict = False
        return getattr(transformers, f"{name}Model")(config).eval(), (tokens(config.vocab_size),)

    return build


def vision(name: str, size: int = 64, **options: Any) -> Callable[[], Built]:
    def build() -> Built:
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options).eval(), (torch.rand(1, 3, size, size),)

    return build


def pictures(name: str, size: int = 64, **options: Any) -> Callable[[], Built]:
    def build() -> Built:
        import timm

        return timm.create_model(name, **options).eval(), (torch.rand(2, 3, size, size),)

    return build


def own(model: Callable[[], nn.Module], *shape: int) -> Callable[[], Built]:
    return lambda: (model().eval(), (torch.rand(shape),))


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99}
MODELS: dict[str, Callable[[], Built]] = {
    **{f"torchvision:{name}": vision(name) for name in (
        "resnet18", "resnet50", "resnext50_32x4d", "vgg11_bn", "densenet121", "mobilenet_v2", "mobilenet_v3_small",
        "efficientnet_b0", "shufflenet_v2_x1_0", "squeezenet1_1", "mnasnet1_0", "regnet_y_400mf", "convnext_tiny",
        "swin_t",
    )},
    "torchvision:googlenet": vision("googlenet", init_weights=False),
    "torchvision:inception_v3": vision("inception_v3", 128, init_weights=False),
    "torchvision:vit_b_16": vision("vit_b_16", 224),
    "torchvision:fcn_resnet50": vision("fcn_resnet50", weights_backbone=None),
    "timm:vit_tiny_patch16_224": pictures("vit_tiny_patch16_224", 224),
    "timm:mixer_s32_224": pictures("mixer_s32_224", 224),
    "timm:resnetv2_50": pictures("resnetv2_50"),
    "timm:ghostnet_100": pictures("ghostnet_100"),
    "transformers:Bert": hugging("Bert", **SMALL),
    "transformers:GPT2": hugging("GPT2", n_embd=32, n_layer=2, n_head=4, vocab_size=99),
    "transformers:Llama": hugging("Llama", **SMALL),
    "transformers:DistilBert": hugging("DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=99),
    "LSTM": own(lambda: Recurrent(nn.LSTM), 2, 7, 16),
    "GRU, both directions": own(lambda: Recurrent(nn.GRU, bidirectional=True), 2, 7, 16),
    "RNN": own(lambda: Recurrent(nn.RNN), 2, 7, 16),
    "TransformerEncoder": own(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2), 2, 9, 32
    ),
    "functions only": own(Functional, 2, 3, 16, 16),
    "shared layers": own(Shared, 4, 16),
    "Conv1d and pools": own(
        lambda: nn.Sequential(nn.Conv1d(4, 8, 3, groups=2), nn.AvgPool1d(2), nn.PReLU(), nn.AdaptiveAvgPool1d(3)),
        2, 4, 32,
    ),
    "Conv3d": own(lambda: nn.Sequential(nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4), nn.MaxPool3d(2)), 1, 2, 8, 8, 8),
    "transposed convolutions": own(
        lambda: nn.Sequential(nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.GroupNorm(2, 8), nn.Upsample(scale_factor=2)),
        2, 4, 8, 8,
    ),
}  # fmt: skip
