"""Multi-person pose by part affinity fields (Cao et al., CVPR 2017): OpenPose's body models for COCO and MPII."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published
from ._vgg import conv_relu, half, stage

CITATION = (
    "Cao et al.: Realtime multi-person 2D pose estimation using part affinity fields. CVPR 2017, arXiv:1611.08050."
)
STAGES, FEATURES = 6, 128
FIELDS, HEATS = "L1", "L2"  # the branches, as the published layers call them


class FreshReLU(nn.Module):
    """A ReLU into memory of its own: the larger of each element and zero.

    Every other ReLU overwrites its input. In the published profile of this network one does not.
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, x.new_zeros(()))


def first_branch(out: int) -> nn.Sequential:
    """Stage 1 of a branch: small kernels on the features alone."""
    made = nn.Sequential()
    for _ in range(3):
        made.extend(conv_relu(FEATURES, 128, 3))
    return made.extend([*conv_relu(128, 512, 1), nn.Conv2d(512, out, 1)])


class Refinement(nn.Module):
    """A later stage of a branch: wide kernels on the features and on both branches' maps."""

    def __init__(self, wide_in: int, out: int, fresh: bool = False) -> None:
        super().__init__()
        self.wide = nn.Sequential(*conv_relu(wide_in, 128, 7))
        for _ in range(4):
            self.wide.extend(conv_relu(128, 128, 7))
        self.deep = nn.Sequential(nn.Conv2d(128, 128, 1), FreshReLU() if fresh else nn.ReLU(inplace=True))
        self.out = nn.Conv2d(128, out, 1)

    def features(self, x: Tensor) -> Tensor:
        """The last map before the branch's own."""
        features: Tensor = self.deep(self.wide(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.out(self.features(x))
        return maps


class Stage(nn.ModuleDict):
    """Both branches of a stage, on the same maps."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self[FIELDS](x), self[HEATS](x)


class MultiPose(nn.Module):
    """The start of VGG 19, then six stages of two branches: fields that point along limbs, and heat maps of the joints.

    Gives both side by side, the heat maps first; the last heat map is the background.
    """

    def __init__(self, fields: int = 38, heats: int = 19) -> None:
        super().__init__()
        self.body = nn.Sequential(
            stage(1, 2, 3, 64, half()),
            stage(2, 2, 64, 128, half()),
            stage(3, 4, 128, 256, half()),
            stage(4, 2, 256, 512),
            *conv_relu(512, 256, 3),
            *conv_relu(256, FEATURES, 3),
        )
        self.maps = {FIELDS: fields, HEATS: heats}
        wide = FEATURES + fields + heats
        self.stages = nn.ModuleList([Stage({name: first_branch(out) for name, out in self.maps.items()})])
        for number in range(2, STAGES + 1):
            last = number == STAGES
            branches = {name: Refinement(wide, out, last and name == FIELDS) for name, out in self.maps.items()}
            self.stages.append(Stage(branches))
        self.apply(initialise)

    def _before_last(self, x: Tensor) -> Tensor:
        """What the last stage reads: both branches' maps and the features."""
        body: Tensor = self.body(x)
        seen = body
        for step in self.stages[:-1]:
            seen = torch.cat([*step(seen), body], 1)
        return seen

    def features(self, x: Tensor) -> Tensor:
        """The last map of the heat maps' branch: Mconv6_stage6_L2."""
        last: Any = self.stages[-1]
        features: Tensor = last[HEATS].features(self._before_last(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        fields, heats = self.stages[-1](self._before_last(x))
        return torch.cat([heats, fields], 1)


published("multipose-coco", MultiPose, family="OpenPose", citation=CITATION)
published("multipose-mpi", partial(MultiPose, 28, 16), family="OpenPose", citation=CITATION)
