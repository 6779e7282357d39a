"""SqueezeNet 1.0 and 1.1 (Iandola et al., arXiv:1602.07360), laid out as torchvision's."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published

CITATION = "Iandola et al.: SqueezeNet: AlexNet-level accuracy with 50x fewer parameters. arXiv:1602.07360 (2016)."
# Fire modules: channels of the squeeze and of each half of the expansion. None: a pooling.
EARLY = (None, (16, 64), (16, 64), (32, 128), None, (32, 128), (48, 192), (48, 192), (64, 256), None, (64, 256))
LATE = (None, (16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256))
POOLED = 13  # side of the last map at the usual size


class Fire(nn.Module):
    """Squeeze by 1 × 1, then expand by 1 × 1 and by 3 × 3, side by side."""

    def __init__(self, wide_in: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(wide_in, squeezed, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        halves = self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))
        return torch.cat(halves, 1)


class SqueezeNet(nn.Module):
    """Fire modules between poolings; the classifier is a convolution and a mean."""

    def __init__(
        self,
        plan: tuple[tuple[int, int] | None, ...] = EARLY,
        stem: int = 96,
        kernel: int = 7,
        classes: int = 1000,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, stem, kernel, 2), nn.ReLU(inplace=True))
        channels = stem
        for item in plan:
            if item is None:
                self.features.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            else:
                self.features.append(Fire(channels, *item))
                channels = 2 * item[1]
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), nn.Conv2d(channels, classes, 1), nn.ReLU(inplace=True), nn.AvgPool2d(POOLED)
        )
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(x))
        return scores.flatten(1)


published("squeezenet1-0", SqueezeNet, family="SqueezeNet", citation=CITATION)
published("squeezenet1-1", partial(SqueezeNet, LATE, 64, 3), family="SqueezeNet", citation=CITATION)
