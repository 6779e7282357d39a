"""R-FCN for PASCAL VOC on ResNet-50 and 101 (Dai et al., NIPS 2016), as Caffe's models have it."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published
from ._regions import Boxes, Detections, Proposal, PSRoIPool
from ._residual import CAFFE, DEPTHS, caffe_stem, stages
from ._vgg import conv_relu

CITATION = (
    "Dai et al.: R-FCN: object detection via region-based fully convolutional networks. NIPS 2016, arXiv:1605.06409."
)
SHAPES = 9  # anchors at each place
PARTS = 7  # of a region, in each direction


class RFCN(nn.Module):
    """A residual network of stride 16; proposals from its fourth stage; scores and boxes for every part of a region.

    The parts vote by their mean. Gives for each image boxes, labels and scores, and the proposals with the chance that
    each is an object. `rois` is how many proposals an image gets; the printed digits are the same for any number.
    """

    def __init__(self, depth: int = 50, rois: int = 300, classes: int = 21) -> None:
        super().__init__()
        first, second, third, fourth = stages(DEPTHS[depth], CAFFE, strides=(1, 2, 2, 1), dilations=(1, 1, 1, 2))
        self.body = nn.Sequential(caffe_stem(bias=True), first, second, third)
        self.last = fourth
        self.rpn = nn.Sequential(*conv_relu(1024, 512, 3))
        self.rpn_score = nn.Conv2d(512, 2 * SHAPES, 1)
        self.rpn_box = nn.Conv2d(512, 4 * SHAPES, 1)
        self.proposal = Proposal(rois)
        self.reduce = nn.Sequential(*conv_relu(2048, 1024, 1))
        self.score = nn.Conv2d(1024, classes * PARTS**2, 1)
        self.box = nn.Conv2d(1024, 8 * PARTS**2, 1)
        self.pool = PSRoIPool(PARTS)
        self.vote = nn.AvgPool2d(PARTS)
        self.detections = Detections(kept=100, most=0.3)
        self.apply(initialise)

    def features(self, x: Tensor) -> Tensor:
        """The last map: Caffe's res5c_relu."""
        features: Tensor = self.last(self.body(x))
        return features

    def forward(self, x: Tensor) -> list[Boxes]:
        image = x.shape[2], x.shape[3]
        body = self.body(x)
        shared = self.rpn(body)
        pairs = torch.unflatten(self.rpn_score(shared), 1, (2, SHAPES))
        objects, regions = self.proposal(pairs.softmax(1).flatten(1, 2), self.rpn_box(shared), image)
        last = self.reduce(self.last(body))
        chances = self.vote(self.pool(self.score(last), regions)).softmax(1)
        offsets = self.vote(self.pool(self.box(last), regions))
        more = {"proposals": regions, "objectness": objects}
        found: list[Boxes] = self.detections(regions, offsets, chances, image, more)
        return found


for depth in (50, 101):
    published(f"rfcn-res{depth}-pascal", partial(RFCN, depth=depth), family="R-FCN", citation=CITATION)
