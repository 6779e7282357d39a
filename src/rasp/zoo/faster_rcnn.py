"""Faster R-CNN for PASCAL VOC on VGG 16 (Ren et al., NIPS 2015), as Caffe's model has it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published
from ._regions import Boxes, Detections, Proposal, RoIPool
from ._vgg import SIXTEEN, conv_relu, stages

CITATION = (
    "Ren et al.: Faster R-CNN: towards real-time object detection with region proposal networks. NIPS 2015, "
    "arXiv:1506.01497."
)
SHAPES = 9  # anchors at each place
PUBLISHED_ROIS = 79  # 78 to 85 give the printed digits


class FasterRCNN(nn.Module):
    """VGG 16 to its last ReLU; proposals; their parts of the map through the fully connected layers.

    Gives for each image boxes, labels and scores, and the proposals with the chance that each is an object.

    `rois` is how many proposals get that far. The published cost is that of an image of zeros, of whose proposals some
    were left after those over one another had been taken out: 78 to 85 give the printed digits, and the bar in its
    figure is that of about 79. On real images there are up to 300.
    """

    def __init__(self, rois: int = PUBLISHED_ROIS, classes: int = 21) -> None:
        super().__init__()
        self.body = nn.Sequential(*stages(SIXTEEN, pools=4))
        self.rpn = nn.Sequential(*conv_relu(512, 512, 3))
        self.rpn_score = nn.Conv2d(512, 2 * SHAPES, 1)
        self.rpn_box = nn.Conv2d(512, 4 * SHAPES, 1)
        self.proposal = Proposal(rois)
        self.pool = RoIPool()
        self.head = nn.Sequential(*conv_relu(512, 4096, 7, padding=0), *conv_relu(4096, 4096, 1))
        self.score = nn.Conv2d(4096, classes, 1)
        self.box = nn.Conv2d(4096, 4 * classes, 1)
        self.detections = Detections(kept=100, most=0.3)
        self.apply(initialise)
        for layer in (self.rpn_score, self.rpn_box, self.score, self.box):
            nn.init.normal_(layer.weight, 0, 0.001)

    def features(self, x: Tensor) -> Tensor:
        """The last map: Caffe's relu5_3."""
        features: Tensor = self.body(x)
        return features

    def _proposed(self, features: Tensor, image: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """The chance of an object and the box of every proposal."""
        shared = self.rpn(features)
        pairs = torch.unflatten(self.rpn_score(shared), 1, (2, SHAPES))
        chances = pairs.softmax(1).flatten(1, 2)
        objects, boxes = self.proposal(chances, self.rpn_box(shared), image)
        return objects, boxes

    def forward(self, x: Tensor) -> list[Boxes]:
        image = x.shape[2], x.shape[3]
        features = self.features(x)
        objects, regions = self._proposed(features, image)
        seen = self.head(self.pool(features, regions))
        chances = torch.softmax(self.score(seen), 1)
        offsets = self.box(seen)
        more = {"proposals": regions, "objectness": objects}
        found: list[Boxes] = self.detections(regions, offsets, chances, image, more)
        return found


published("faster-rcnn-vggvd-pascal", FasterRCNN, family="Faster R-CNN", citation=CITATION)
