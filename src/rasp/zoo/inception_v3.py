"""Inception v3 (Szegedy et al., arXiv:1512.00567), laid out as torchvision's, without the auxiliary classifier."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ._classifiers import initialise
from ._published import FROM_WHOLE, published

CITATION = "Szegedy et al.: Rethinking the Inception architecture for computer vision. CVPR 2016, arXiv:1512.00567."
Kernel = int | tuple[int, int]


def unit(wide_in: int, wide_out: int, kernel: Kernel = 1, stride: int = 1, valid: bool = False) -> nn.Sequential:
    """A convolution (that keeps the size unless `valid`), batch normalisation and ReLU."""
    sides = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = (0, 0) if valid else (sides[0] // 2, sides[1] // 2)
    conv = nn.Conv2d(wide_in, wide_out, sides, stride, padding, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(wide_out, eps=0.001), nn.ReLU(inplace=True))


def chain(wide_in: int, *units: tuple[int, Kernel]) -> nn.Sequential:
    """Units one after the other, by channels and kernel."""
    made = nn.Sequential()
    for wide_out, kernel in units:
        made.append(unit(wide_in, wide_out, kernel))
        wide_in = wide_out
    return made


def reduced(wide_in: int, units: Sequence[tuple[int, Kernel]], last: int) -> nn.Sequential:
    """A chain, then 3 × 3 with stride 2."""
    return chain(wide_in, *units).append(unit(units[-1][0] if units else wide_in, last, 3, 2, valid=True))


class Side(nn.Module):
    """What its branches make of the same map, side by side."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class Fork(nn.Module):
    """One map for two branches, 1 × 3 and 3 × 1; both give their maps to the module they stand in."""

    def __init__(self, trunk: nn.Module, wide: int) -> None:
        super().__init__()
        self.trunk = trunk
        self.wide = unit(wide, 384, (1, 3))
        self.high = unit(wide, 384, (3, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.trunk(x)
        return torch.cat((self.wide(x), self.high(x)), 1)


def pooled(wide_in: int, wide_out: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), unit(wide_in, wide_out))


def block_a(wide_in: int, after_pool: int) -> Side:
    return Side(
        unit(wide_in, 64),
        chain(wide_in, (48, 1), (64, 5)),
        chain(wide_in, (64, 1), (96, 3), (96, 3)),
        pooled(wide_in, after_pool),
    )


def block_b(wide_in: int) -> Side:
    return Side(reduced(wide_in, (), 384), reduced(wide_in, ((64, 1), (96, 3)), 96), nn.MaxPool2d(3, 2))


def block_c(wide_in: int, wide: int) -> Side:
    row, column = (1, 7), (7, 1)
    return Side(
        unit(wide_in, 192),
        chain(wide_in, (wide, 1), (wide, row), (192, column)),
        chain(wide_in, (wide, 1), (wide, column), (wide, row), (wide, column), (192, row)),
        pooled(wide_in, 192),
    )


def block_d(wide_in: int) -> Side:
    return Side(
        reduced(wide_in, ((192, 1),), 320),
        reduced(wide_in, ((192, 1), (192, (1, 7)), (192, (7, 1))), 192),
        nn.MaxPool2d(3, 2),
    )


def block_e(wide_in: int) -> Side:
    return Side(
        unit(wide_in, 320),
        Fork(unit(wide_in, 384), 384),
        Fork(chain(wide_in, (448, 1), (384, 3)), 384),
        pooled(wide_in, 192),
    )


class InceptionV3(nn.Module):
    """A stem, eleven blocks, and a classifier of the means."""

    def __init__(self, classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            unit(3, 32, 3, 2, valid=True),
            unit(32, 32, 3, valid=True),
            unit(32, 64, 3),
            nn.MaxPool2d(3, 2),
            unit(64, 80),
            unit(80, 192, 3, valid=True),
            nn.MaxPool2d(3, 2),
            block_a(192, 32),
            block_a(256, 64),
            block_a(288, 64),
            block_b(288),
            block_c(768, 128),
            block_c(768, 160),
            block_c(768, 160),
            block_c(768, 192),
            block_d(768),
            block_e(1280),
            block_e(2048),
            nn.AvgPool2d(8),
        )
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2048, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes, of images of 299 or more."""
        features = self.dropout(self.features(x))
        scores: Tensor = self.classifier(features.flatten(1) if features.shape[2:] == (1, 1) else features.mean((2, 3)))
        return scores


published("inception-v3", InceptionV3, family="Inception", citation=CITATION, scales=FROM_WHOLE)
