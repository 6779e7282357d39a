"""Squeeze-and-excitation networks (Hu et al., arXiv:1709.01507): SE-ResNet, SE-ResNeXt, SENet-154, SE-BN-Inception.

All are Caffe's: the last windows of a pooling may be parts, and SE-ResNet has its strides in the first 1 × 1.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published
from ._residual import DEPTHS, Excitation, Form, caffe_stem, conv_norm, stages

CITATION = "Hu, Shen, Sun: Squeeze-and-excitation networks. CVPR 2018, arXiv:1709.01507."


class SEResNet(nn.Module):
    """A stem, four stages of residual blocks with gates, and a classifier of the means."""

    def __init__(self, depth: int, form: Form, deep_stem: bool = False, classes: int = 1000) -> None:
        super().__init__()
        three = (conv_norm(3, 64, 3, 2), conv_norm(64, 64, 3), conv_norm(64, 128, 3))
        start = nn.Sequential(*three, nn.MaxPool2d(3, 2, ceil_mode=True)) if deep_stem else caffe_stem()
        self.features = nn.Sequential(start, *stages(DEPTHS[depth], form, wide_in=128 if deep_stem else 64))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(512 * form.out, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.pool(self.features(x)).flatten(1))
        return scores


# -- SE-BN-Inception ---------------------------------------------------------------------------------------------------

# 1×1 (0: none) | 3×3 reduced, 3×3 | double 3×3 reduced, 3×3, 3×3 | after the pooling (0: none, and the stride is 2)
Widths = tuple[int, int, int, int, int, int, int]
PLAN: tuple[Widths, ...] = (
    (64, 64, 64, 64, 96, 96, 32), (64, 64, 96, 64, 96, 96, 64), (0, 128, 160, 64, 96, 96, 0),
    (224, 64, 96, 96, 128, 128, 128), (192, 96, 128, 96, 128, 128, 128), (160, 128, 160, 128, 160, 160, 128),
    (96, 128, 192, 160, 192, 192, 128), (0, 128, 192, 192, 256, 256, 0),
    (352, 192, 320, 160, 224, 224, 128), (352, 192, 320, 192, 224, 224, 128),
)  # fmt: skip


class ExcitedInception(nn.Module):
    """Branches side by side, each channel times its gate."""

    def __init__(self, wide_in: int, widths: Widths) -> None:
        super().__init__()
        one, three_in, three, double_in, double, last, pooled = widths
        stride = 1 if pooled else 2
        branches = [conv_norm(wide_in, one)] if one else []
        branches.append(nn.Sequential(conv_norm(wide_in, three_in), conv_norm(three_in, three, 3, stride)))
        branches.append(
            nn.Sequential(
                conv_norm(wide_in, double_in), conv_norm(double_in, double, 3), conv_norm(double, last, 3, stride)
            )
        )
        pool = nn.MaxPool2d(3, stride, 1 if pooled else 0, ceil_mode=not pooled)
        branches.append(nn.Sequential(pool, conv_norm(wide_in, pooled)) if pooled else nn.Sequential(pool))
        self.branches = nn.ModuleList(branches)
        self.channels = one + three + last + (pooled or wide_in)
        self.excitation = Excitation(self.channels)

    def forward(self, x: Tensor) -> Tensor:
        joined = torch.cat([branch(x) for branch in self.branches], 1)
        gates: Tensor = self.excitation(joined)
        return joined * gates


class SEInception(nn.Module):
    """BN-Inception (Ioffe and Szegedy, arXiv:1502.03167) with gates after every module."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_norm(3, 64, 7, 2),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            conv_norm(64, 64),
            conv_norm(64, 192, 3),
            nn.MaxPool2d(3, 2, ceil_mode=True),
        )
        channels = 192
        for widths in PLAN:
            block = ExcitedInception(channels, widths)
            self.features.append(block)
            channels = block.channels
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.pool(self.features(x)).flatten(1))
        return scores


for depth in (50, 101, 152):
    form = Form(early_stride=True, excited=True)
    published(f"SE-ResNet-{depth}", partial(SEResNet, depth, form), family="SENet", citation=CITATION)
for depth in (50, 101):
    form = Form(inner=2, groups=32, excited=True)
    published(f"SE-ResNeXt-{depth}-32x4d", partial(SEResNet, depth, form), family="SENet", citation=CITATION)
form = Form(first=2, inner=4, groups=64, shortcut=3, excited=True)
published("SENet", partial(SEResNet, 152, form, deep_stem=True), family="SENet", citation=CITATION)
published("SE-BN-Inception", SEInception, family="SENet", citation=CITATION, scales=(1.0,))
