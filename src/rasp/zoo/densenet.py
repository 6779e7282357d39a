"""DenseNet 121, 161, 169 and 201 (Huang et al., arXiv:1608.06993), laid out as torchvision's."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from ._classifiers import initialise
from ._published import FROM_WHOLE, published

CITATION = "Huang et al.: Densely connected convolutional networks. CVPR 2017, arXiv:1608.06993."
BOTTLENECK = 4  # channels of the 1 × 1, in growth rates


def norm_conv(wide_in: int, wide_out: int, kernel: int) -> list[nn.Module]:
    """Batch normalisation, ReLU and a convolution that keeps the size."""
    conv = nn.Conv2d(wide_in, wide_out, kernel, padding=kernel // 2, bias=False)
    return [nn.BatchNorm2d(wide_in), nn.ReLU(inplace=True), conv]


class Dense(nn.Module):
    """A 1 × 1 and a 3 × 3 convolution; gives what came in and what they made of it, side by side."""

    def __init__(self, wide_in: int, growth: int) -> None:
        super().__init__()
        inner = BOTTLENECK * growth
        self.layers = nn.Sequential(*norm_conv(wide_in, inner, 1), *norm_conv(inner, growth, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((x, self.layers(x)), 1)


class DenseNet(nn.Module):
    """Four blocks in which every layer reads all layers before it; between them the channels and the size halve."""

    def __init__(self, growth: int, counts: tuple[int, ...], stem: int, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, stem, 7, 2, 3, bias=False),
            nn.BatchNorm2d(stem),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        channels = stem
        for at, count in enumerate(counts):
            self.features.append(nn.Sequential(*(Dense(channels + n * growth, growth) for n in range(count))))
            channels += count * growth
            if at < len(counts) - 1:
                self.features.append(nn.Sequential(*norm_conv(channels, channels // 2, 1), nn.AvgPool2d(2)))
                channels //= 2
        self.features.extend([nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.AvgPool2d(7)])
        self.classifier = nn.Linear(channels, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes, of images of 224 or more."""
        pooled = self.features(x)
        scores: Tensor = self.classifier(pooled.flatten(1) if pooled.shape[2:] == (1, 1) else pooled.mean((2, 3)))
        return scores


for depth, growth, counts, stem in (
    (121, 32, (6, 12, 24, 16), 64),
    (161, 48, (6, 12, 36, 24), 96),
    (169, 32, (6, 12, 32, 32), 64),
    (201, 32, (6, 12, 48, 32), 64),
):
    build = partial(DenseNet, growth, counts, stem)
    published(f"densenet{depth}", build, family="DenseNet", citation=CITATION, scales=FROM_WHOLE)
