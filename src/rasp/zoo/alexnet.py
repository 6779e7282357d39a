"""AlexNet (Krizhevsky et al., NIPS 2012) as MatConvNet and Caffe have it, and the VGG team's F, M and S.

The fully connected layers are convolutions over the whole map, as in MatConvNet. There is no dropout in the nets as
they were published for use; `dropout` puts it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published

KRIZHEVSKY = (
    "Krizhevsky, Sutskever, Hinton: ImageNet classification with deep convolutional neural networks. NIPS 2012."
)
CHATFIELD = "Chatfield et al.: Return of the devil in the details. BMVC 2014, arXiv:1405.3531."


class Conv(NamedTuple):
    wide: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1


class Pool(NamedTuple):
    kernel: int
    stride: int
    parts: bool = True  # the last windows may hang over the edge


class Norm(NamedTuple):
    """Local response normalisation over five channels."""

    channels: int = 5


Plan = Sequence[Conv | Pool | Norm]
LRN = Norm()
MATCONVNET: Plan = (
    Conv(96, 11, 4), Pool(3, 2, parts=False), Conv(256, 5, 1, 2, 2), Pool(3, 2, parts=False),
    Conv(384, 3, 1, 1), Conv(384, 3, 1, 1, 2), Conv(256, 3, 1, 1, 2), Pool(3, 2, parts=False),
)  # fmt: skip
CAFFE: Plan = (
    Conv(96, 11, 4), Pool(3, 2), LRN, Conv(256, 5, 1, 2, 2), Pool(3, 2), LRN,
    Conv(384, 3, 1, 1), Conv(384, 3, 1, 1, 2), Conv(256, 3, 1, 1, 2), Pool(3, 2),
)  # fmt: skip
FAST: Plan = (
    Conv(64, 11, 4), LRN, Pool(3, 2), Conv(256, 5, 1, 2), LRN, Pool(3, 2),
    Conv(256, 3, 1, 1), Conv(256, 3, 1, 1), Conv(256, 3, 1, 1), Pool(3, 2),
)  # fmt: skip
MEDIUM: Plan = (
    Conv(96, 7, 2), LRN, Pool(3, 2, parts=False), Conv(256, 5, 2, 1), LRN, Pool(3, 2),
    Conv(512, 3, 1, 1), Conv(512, 3, 1, 1), Conv(512, 3, 1, 1), Pool(3, 2),
)  # fmt: skip
SLOW: Plan = (
    Conv(96, 7, 2), LRN, Pool(3, 3), Conv(256, 5, 1), Pool(2, 2),
    Conv(512, 3, 1, 1), Conv(512, 3, 1, 1), Conv(512, 3, 1, 1), Pool(3, 3),
)  # fmt: skip


def layers(plan: Plan) -> tuple[nn.Sequential, int]:
    """The convolutional part, its layers named as in Caffe, and its channels."""
    made = nn.Sequential()
    channels, number = 3, 0
    for item in plan:
        if isinstance(item, Norm):
            made.add_module(f"norm{number}", nn.LocalResponseNorm(item.channels, alpha=1e-4, beta=0.75, k=1.0))
        elif isinstance(item, Pool):
            made.add_module(f"pool{number}", nn.MaxPool2d(item.kernel, item.stride, ceil_mode=item.parts))
        else:
            number += 1
            wide, kernel, stride, padding, groups = item
            made.add_module(f"conv{number}", nn.Conv2d(channels, wide, kernel, stride, padding, groups=groups))
            made.add_module(f"relu{number}", nn.ReLU(inplace=True))
            channels = wide
    return made, channels


class AlexNet(nn.Module):
    """Five convolutions and three fully connected layers; the second of these is `bottleneck` wide."""

    def __init__(
        self, plan: Plan = MATCONVNET, bottleneck: int = 4096, classes: int = 1000, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.features, channels = layers(plan)
        dropped = [nn.Dropout(dropout)] if dropout else []
        self.classifier = nn.Sequential(
            nn.Conv2d(channels, 4096, 6),
            nn.ReLU(inplace=True),
            *dropped,
            nn.Conv2d(4096, bottleneck, 1),
            nn.ReLU(inplace=True),
            *dropped,
            nn.Conv2d(bottleneck, classes, 1),
        )
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes; larger images give a map of them, which is averaged."""
        scores: Tensor = self.classifier(self.features(x))
        return scores.mean((2, 3)) if scores.shape[2:] != (1, 1) else scores.flatten(1)


for name, plan in (("alexnet", MATCONVNET), ("caffenet", CAFFE)):
    published(name, partial(AlexNet, plan), family="AlexNet", citation=KRIZHEVSKY)
for name, plan, wide in (
    ("vgg-f", FAST, 4096),
    ("vgg-m", MEDIUM, 4096),
    ("vgg-s", SLOW, 4096),
    ("vgg-m-2048", MEDIUM, 2048),
    ("vgg-m-1024", MEDIUM, 1024),
    ("vgg-m-128", MEDIUM, 128),
):
    published(name, partial(AlexNet, plan, wide), family="VGG CNN", citation=CHATFIELD)
