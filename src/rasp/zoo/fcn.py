"""Fully convolutional networks 32s, 16s and 8s for PASCAL VOC (Long et al., CVPR 2015), as Caffe's models have them.

The first convolution pads by 100, so that the fully connected layers, now convolutions, have room; crops put the maps
back in place. As they were published for use, they have no dropout.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published
from ._vgg import SIXTEEN, conv_relu, stages

CITATION = (
    "Long, Shelhamer, Darrell: Fully convolutional networks for semantic segmentation. CVPR 2015, arXiv:1411.4038."
)
# Where maps that are to be joined begin in one another, by what the paddings before them have added.
OFFSETS = {32: (19,), 16: (5, 27), 8: (5, 9, 31)}


def bilinear(channels: int, factor: int) -> nn.ConvTranspose2d:
    """Enlarges by a factor; starts as bilinear interpolation of every channel by itself, and may learn."""
    side = 2 * factor
    made = nn.ConvTranspose2d(channels, channels, side, factor, bias=False)
    near = 1 - (torch.arange(side, dtype=torch.float32) + 0.5 - factor).abs() / factor
    with torch.no_grad():
        made.weight.zero_()
        made.weight[range(channels), range(channels)] = (near[:, None] * near).to(made.weight.device)
    return made


def cropped(x: Tensor, like: Tensor, offset: int) -> Tensor:
    """The part of a map from an offset on that is as large as another map."""
    height, width = like.shape[2:]
    return x[:, :, offset : offset + height, offset : offset + width]


class FCN(nn.Module):
    """VGG 16 without its end; class scores of the last map, of the fourth and the third pooling, joined and enlarged.

    Gives the scores of every class at every pixel.
    """

    def __init__(self, stride: int = 32, classes: int = 21) -> None:
        super().__init__()
        body = stages(SIXTEEN, padding=100)
        self.to_pool3, self.to_pool4, self.to_pool5 = nn.Sequential(*body[:3]), body[3], body[4]
        self.fully = nn.Sequential(*conv_relu(512, 4096, 7, padding=0), *conv_relu(4096, 4096, 1))
        self.score_fr = nn.Conv2d(4096, classes, 1)
        self.score_pool4 = nn.Conv2d(512, classes, 1) if stride <= 16 else None
        self.score_pool3 = nn.Conv2d(256, classes, 1) if stride <= 8 else None
        self.apply(initialise)
        self.enlarge = nn.ModuleList(bilinear(classes, 2) for _ in OFFSETS[stride][1:])
        self.enlarge.append(bilinear(classes, stride))
        self.offsets = OFFSETS[stride]

    def _maps(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The third and the fourth pooling, and the scores of the last map."""
        pool3 = self.to_pool3(x)
        pool4 = self.to_pool4(pool3)
        return pool3, pool4, self.score_fr(self.fully(self.to_pool5(pool4)))

    def features(self, x: Tensor) -> Tensor:
        """The scores of the last map: Caffe's score_fr."""
        return self._maps(x)[2]

    def forward(self, x: Tensor) -> Tensor:
        pool3, pool4, scores = self._maps(x)
        finer = ((self.score_pool4, pool4), (self.score_pool3, pool3))
        for enlarge, offset, (score, pool) in zip(self.enlarge[:-1], self.offsets, finer):
            scores = enlarge(scores)
            scores = scores + cropped(score(pool), scores, offset) if score is not None else scores
        return cropped(self.enlarge[-1](scores), x, self.offsets[-1])


for stride in OFFSETS:
    published(f"pascal-fcn{stride}s", partial(FCN, stride), family="FCN", citation=CITATION)
