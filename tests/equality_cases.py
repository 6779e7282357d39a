"""Small models that are run for real, in every mode: hand-written ones and small ones of the libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from oracle.case import Case, Inputs, image


class Functional(nn.Module):
    """Nothing but functions and bare parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.rand(4, 3, 3, 3))
        self.matrix = nn.Parameter(torch.rand(4, 5))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.conv2d(x, self.kernel)).mean((2, 3)) @ self.matrix


class Tied(nn.Module):
    """An embedding whose weight is the head's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embedding(ids))


class Looped(nn.Module):
    """One layer called three times, in a list of layers that share it."""

    def __init__(self) -> None:
        super().__init__()
        shared = nn.Linear(8, 8)
        self.layers = nn.ModuleList([shared, nn.Linear(8, 8), shared])

    def forward(self, x: Tensor) -> Tensor:
        for layer in [*self.layers, self.layers[0]]:
            x = torch.tanh(layer(x)) + x
        return x


@dataclass
class Box:
    boxes: Tensor
    scale: float


class Structured(nn.Module):
    """A dict, a dataclass and a list go in; a dict comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(6, 4)
        self.decode = nn.Linear(4, 2)

    def forward(self, batch: dict[str, Tensor], box: Box, extra: list[Tensor], *, flag: bool = False) -> dict[str, Any]:
        hidden = self.encode(batch["x"] + box.boxes * box.scale) + sum(extra)
        return {"hidden": hidden, "out": (self.decode(hidden), flag)}


class Branching(nn.Module):
    """Takes its branch on a value that follows from the ids given."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.long, self.short = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        return self.long(x) if bool((ids > 3).any()) else self.short(x)


class Checkpointed(nn.Module):
    """Holds no activations of its block: it runs again in the backward."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=False)
        return self.head(hidden)


def norm(kind: Callable[[nn.Module], nn.Module]) -> nn.Module:
    return nn.Sequential(kind(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 2))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout2d(0.2),
        nn.Conv2d(8, 8, 3, groups=4), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip


def token_ids(*shape: int, high: int = 20) -> Callable[[int], Inputs]:
    return lambda batch: ((torch.randint(4, high, (batch, *shape)),), {})


def structured_inputs(batch: int) -> Inputs:
    return ({"x": torch.rand(batch, 6)}, Box(torch.rand(batch, 6), 2.0), [torch.rand(4), torch.rand(4)]), {"flag": True}


def own(name: str, make: Callable[[], nn.Module], example: Callable[[int], Inputs], **more: Any) -> Case:
    return Case(f"own:{name}", "own", make, example, small=True, batch=2, **more)


def vectors(*shape: int) -> Callable[[int], Inputs]:
    return lambda batch: ((torch.rand(batch, *shape),), {})


def handmade() -> list[Case]:
    encoder_layer = partial(nn.TransformerEncoderLayer, 16, 4, 32, batch_first=True)
    return [
        own("Functional", Functional, image(8)),
        own("Tied", Tied, token_ids(7)),
        own("Looped", Looped, vectors(5, 8)),
        own("Structured", Structured, structured_inputs),
        own("Branching", Branching, token_ids(7)),
        own("Checkpointed", Checkpointed, vectors(8)),
        own("convolutional", convolutional, image(16)),
        own("weight_norm", lambda: norm(nn.utils.parametrizations.weight_norm), vectors(8)),
        own("spectral_norm", lambda: norm(nn.utils.parametrizations.spectral_norm), vectors(8)),
        own("old weight_norm", lambda: norm(nn.utils.weight_norm), vectors(8)),
        own("TransformerEncoder", lambda: nn.TransformerEncoder(encoder_layer(), 2), vectors(6, 16)),
        own("Transformer", lambda: nn.Transformer(16, 4, 1, 1, 32, batch_first=True),
            lambda b: ((torch.rand(b, 6, 16), torch.rand(b, 4, 16)), {})),
        own("MultiheadAttention", lambda: nn.MultiheadAttention(16, 4, batch_first=True),
            lambda b: ((torch.rand(b, 5, 16),) * 3, {})),
        own("LSTM", lambda: nn.LSTM(8, 12, 2, bidirectional=True, batch_first=True), vectors(5, 8)),
        own("GRU", lambda: nn.GRU(8, 12, batch_first=True), vectors(5, 8)),
        own("EmbeddingBag", lambda: nn.EmbeddingBag(20, 8), token_ids(5)),
        own("Conv3d", lambda: nn.Conv3d(2, 3, 3), vectors(2, 5, 5, 5)),
        own("ConvTranspose2d", lambda: nn.ConvTranspose2d(4, 3, 3, stride=2), vectors(4, 5, 5)),
    ]  # fmt: skip


LIBRARY = {
    "torchvision": [
        "resnet18", "mobilenet_v2", "mobilenet_v3_small", "shufflenet_v2_x0_5", "squeezenet1_1", "mnasnet0_5",
        "regnet_x_400mf", "efficientnet_b0",
    ],
    "timm": ["convnext_atto", "ghostnet_050", "vit_tiny_patch16_224", "mobilevitv2_050", "levit_128s"],
    "transformers": ["bert", "gpt2", "llama", "t5", "qwen3", "mamba", "clip", "wav2vec2", "bert with a mask", "vit"],
}  # fmt: skip


def library() -> list[Case]:
    if not all(find_spec(name) for name in LIBRARY):
        return []
    from oracle.catalogue import BY_NAME

    return [BY_NAME[f"{library}:{name}"] for library, names in LIBRARY.items() for name in names]


MODELS: list[Case] = [*handmade(), *library()]
