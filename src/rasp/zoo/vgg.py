"""VGG 16 and 19 (Simonyan and Zisserman, arXiv:1409.1556), and 16 with dilated fully connected layers (ParseNet)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published
from ._vgg import CITATION, NINETEEN, SIXTEEN, conv_relu, stages

PARSENET = "Liu, Rabinovich, Berg: ParseNet: looking wider to see better. arXiv:1506.04579 (2015)."


class VGG(nn.Module):
    """Five stages of 3 × 3 convolutions, then a classifier whose layers are convolutions: over the map, or dilated."""

    def __init__(self, counts: Sequence[int] = SIXTEEN, atrous: bool = False, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(*stages(counts))
        wide = 1024 if atrous else 4096
        first = conv_relu(512, wide, 3, padding=6, dilation=6) if atrous else conv_relu(512, wide, 7, padding=0)
        self.classifier = nn.Sequential(*first, *conv_relu(wide, wide, 1), nn.Conv2d(wide, classes, 1))
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes; where they make a map it is averaged."""
        scores: Tensor = self.classifier(self.features(x))
        return scores.mean((2, 3)) if scores.shape[2:] != (1, 1) else scores.flatten(1)


published("vgg-vd-16", partial(VGG, SIXTEEN), family="VGG", citation=CITATION)
published("vgg-vd-19", partial(VGG, NINETEEN), family="VGG", citation=CITATION)
published("vgg-vd-16-atrous", partial(VGG, SIXTEEN, atrous=True), family="VGG", citation=PARSENET)
