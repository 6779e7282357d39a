"""MobileNet (Howard et al., arXiv:1704.04861): convolutions of each channel, then of all channels at each place."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from ._classifiers import initialise, scaled
from ._mobilenet import SETTINGS, STEM
from ._published import FROM_WHOLE, published
from ._residual import conv_norm

CITATION = (
    "Howard et al.: MobileNets: efficient convolutional neural networks for mobile vision applications. "
    "arXiv:1704.04861 (2017)."
)


class MobileNet(nn.Module):
    """Thirteen pairs of a depthwise and a pointwise convolution, and a classifier of the means."""

    def __init__(self, width: float = 1.0, classes: int = 1000) -> None:
        super().__init__()
        channels = scaled(STEM, width)
        layers: list[nn.Module] = [conv_norm(3, channels, 3, 2)]
        for base, stride in SETTINGS:
            out = scaled(base, width)
            layers += [conv_norm(channels, channels, 3, stride, groups=channels), conv_norm(channels, out)]
            channels = out
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))
        self.classifier = nn.Conv2d(channels, classes, 1)
        self.apply(initialise)

    def features(self, x: Tensor) -> Tensor:
        """The classifier's map of one place: MatConvNet's fc7."""
        scores: Tensor = self.classifier(self.layers(x))
        return scores

    def forward(self, x: Tensor) -> Tensor:
        return self.features(x).flatten(1)


published("mcn-mobilenet", partial(MobileNet, 1.0), family="MobileNet", citation=CITATION, scales=FROM_WHOLE)
