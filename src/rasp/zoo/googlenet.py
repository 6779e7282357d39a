"""GoogLeNet (Szegedy et al., CVPR 2015) as Caffe's BVLC model has it, with both auxiliary classifiers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published
from ._vgg import conv_relu

CITATION = "Szegedy et al.: Going deeper with convolutions. CVPR 2015, arXiv:1409.4842."
# 1×1 | 3×3 reduced, 3×3 | 5×5 reduced, 5×5 | after the pooling
Widths = tuple[int, int, int, int, int, int]
FIRST: tuple[Widths, ...] = ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64))
SECOND: Widths = (192, 96, 208, 16, 48, 64)
THIRD: tuple[Widths, ...] = ((160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64))
FOURTH: Widths = (256, 160, 320, 32, 128, 128)
FIFTH: tuple[Widths, ...] = ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128))


def width(widths: Widths) -> int:
    return widths[0] + widths[2] + widths[4] + widths[5]


class Inception(nn.Module):
    """Four branches side by side: 1 × 1, 3 × 3, 5 × 5, and a pooling with 1 × 1."""

    def __init__(self, wide_in: int, widths: Widths) -> None:
        super().__init__()
        one, three_in, three, five_in, five, pooled = widths
        self.branch1 = nn.Sequential(*conv_relu(wide_in, one, 1))
        self.branch2 = nn.Sequential(*conv_relu(wide_in, three_in, 1), *conv_relu(three_in, three, 3))
        self.branch3 = nn.Sequential(*conv_relu(wide_in, five_in, 1), *conv_relu(five_in, five, 5))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), *conv_relu(wide_in, pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)), 1)


def inceptions(wide_in: int, plan: tuple[Widths, ...]) -> nn.Sequential:
    """Inception modules one after the other."""
    made = nn.Sequential()
    for widths in plan:
        made.append(Inception(wide_in, widths))
        wide_in = width(widths)
    return made


class Auxiliary(nn.Sequential):
    """A classifier on features from the middle, which helps to train what lies before it."""

    def __init__(self, wide_in: int, classes: int) -> None:
        super().__init__(
            nn.AvgPool2d(5, 3, ceil_mode=True),
            *conv_relu(wide_in, 128, 1),
            *conv_relu(128, 1024, 4, padding=0),
            nn.Conv2d(1024, classes, 1),
            nn.Flatten(),
        )


class GoogLeNet(nn.Module):
    """Nine inception modules; gives the scores and those of the two auxiliary classifiers."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *conv_relu(3, 64, 7, 2),
            self._pool(),
            self._norm(),
            *conv_relu(64, 64, 1),
            *conv_relu(64, 192, 3),
            self._norm(),
            self._pool(),
        )
        self.inception3 = nn.Sequential(*inceptions(192, FIRST), self._pool())
        self.inception4a = Inception(width(FIRST[-1]), SECOND)
        self.inception4b_d = inceptions(width(SECOND), THIRD)
        self.inception4e = nn.Sequential(Inception(width(THIRD[-1]), FOURTH), self._pool())
        self.inception5 = inceptions(width(FOURTH), FIFTH)
        self.classifier = nn.Sequential(nn.AvgPool2d(7), nn.Conv2d(width(FIFTH[-1]), classes, 1), nn.Flatten())
        self.auxiliary1 = Auxiliary(width(SECOND), classes)
        self.auxiliary2 = Auxiliary(width(THIRD[-1]), classes)
        self.apply(initialise)

    @staticmethod
    def _pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    @staticmethod
    def _norm() -> nn.Module:
        return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0)

    def features(self, x: Tensor) -> Tensor:
        """The last map of features, without the auxiliary classifiers."""
        early = self.inception4a(self.inception3(self.stem(x)))
        features: Tensor = self.inception5(self.inception4e(self.inception4b_d(early)))
        return features

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        early = self.inception4a(self.inception3(self.stem(x)))
        middle = self.inception4b_d(early)
        late = self.inception5(self.inception4e(middle))
        return self.classifier(late), self.auxiliary1(early), self.auxiliary2(middle)


published("googlenet", GoogLeNet, family="Inception", citation=CITATION)
