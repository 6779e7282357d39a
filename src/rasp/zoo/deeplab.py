"""DeepLab v2 for PASCAL VOC on VGG 16 and on ResNet-101 (Chen et al., TPAMI 2018), as Caffe's models have it.

Four branches of dilated convolutions see the last map at four widths, and their scores are added.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ._classifiers import initialise
from ._published import published
from ._residual import CAFFE, DEPTHS, stages, stem
from ._vgg import conv_relu, stage

CITATION = (
    "Chen et al.: DeepLab: semantic image segmentation with deep convolutional nets, atrous convolution, and fully "
    "connected CRFs. TPAMI 2018, arXiv:1606.00915."
)
RATES = (6, 12, 18, 24)
SCALES = (0.75, 0.5)  # of the image, beside the image itself
FACTOR = 8  # an image is that much larger than its last map


def enlarged(x: Tensor, factor: int = FACTOR) -> Tensor:
    """Bilinear, with corners on corners: n places become (n - 1) · factor + 1."""
    height, width = ((side - 1) * factor + 1 for side in x.shape[2:])
    return F.interpolate(x, (height, width), mode="bilinear", align_corners=True)


class Branches(nn.Module):
    """The sum of what the branches make of one map."""

    def __init__(self, branches: Sequence[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        first, second, third, fourth = (branch(x) for branch in self.branches)
        total: Tensor = first + second + third + fourth
        return total


class DeepLabVGG(nn.Module):
    """VGG 16 whose last two poolings keep the size; each branch has fully connected layers of its own."""

    def __init__(self, classes: int = 21, dropout: float = 0.5) -> None:
        super().__init__()
        keep = nn.MaxPool2d(3, 1, 1)
        halves = [nn.MaxPool2d(3, 2, 1, ceil_mode=True) for _ in range(3)]
        self.body = nn.Sequential(
            stage(1, 2, 3, 64, halves[0]),
            stage(2, 2, 64, 128, halves[1]),
            stage(3, 3, 128, 256, halves[2]),
            stage(4, 3, 256, 512, keep),
            stage(5, 3, 512, 512, nn.MaxPool2d(3, 1, 1), dilation=2),
        )
        self.scores = Branches([self._branch(rate, classes, dropout) for rate in RATES])
        self.apply(initialise)

    @staticmethod
    def _branch(rate: int, classes: int, dropout: float) -> nn.Sequential:
        wide = conv_relu(512, 1024, 3, padding=rate, dilation=rate)
        return nn.Sequential(
            *wide, nn.Dropout(dropout), *conv_relu(1024, 1024, 1), nn.Dropout(dropout), nn.Conv2d(1024, classes, 1)
        )

    def features(self, x: Tensor) -> Tensor:
        """The enlarged scores: Caffe's fc8_interp."""
        return enlarged(self.scores(self.body(x)))

    def forward(self, x: Tensor) -> Tensor:
        """The scores of every class at every pixel."""
        return self.features(x)


def residual_trunk(classes: int) -> nn.Sequential:
    """ResNet-101 in Caffe's form, dilated from stage 4 on, and the four branches."""
    made = nn.Sequential(stem(padded_pool=True, ceil=True))
    made.extend(stages(DEPTHS[101], CAFFE, strides=(1, 2, 1, 1), dilations=(1, 1, 2, 4)))
    made.append(Branches([nn.Conv2d(2048, classes, 3, padding=rate, dilation=rate) for rate in RATES]))
    return made


class DeepLabResNet(nn.Module):
    """Three networks for the image at three sizes, each with weights of its own; the largest score at each place."""

    def __init__(self, classes: int = 21, scales: tuple[float, ...] = SCALES) -> None:
        super().__init__()
        self.scales = scales
        self.whole = residual_trunk(classes)
        self.smaller = nn.ModuleList(residual_trunk(classes) for _ in scales)
        self.apply(initialise)

    def features(self, x: Tensor) -> Tensor:
        """The enlarged scores: Caffe's fc1_interp."""
        best = self.whole(x)
        for scale, trunk in zip(self.scales, self.smaller):
            size = [int((side - 1) * scale) + 1 for side in x.shape[2:]]
            small = F.interpolate(x, size, mode="bilinear", align_corners=True)
            scores = F.interpolate(trunk(small), best.shape[2:], mode="bilinear", align_corners=True)
            best = torch.maximum(best, scores)
        return enlarged(best)

    def forward(self, x: Tensor) -> Tensor:
        """The scores of every class at every pixel."""
        return self.features(x)


published("deeplab-vggvd-v2", DeepLabVGG, family="DeepLab", citation=CITATION)
published("deeplab-res101-v2", DeepLabResNet, family="DeepLab", citation=CITATION)
