"""MobileNetV3 as torchvision had it until mid-2021 (Howard et al., ICCV 2019, arXiv:1905.02244).

It computes what today's does, in other modules: the squeeze-and-excitation's pooling and gate are calls of functions,
and a convolution without activation ends in an Identity. Modules carry the names of torchvision's, so that its weights
fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from . import Reference, reference
from ._classifiers import images, initialise, scaled

Setting = tuple[int, int, int, bool, bool, int]
# Tables 1 and 2 of the paper: kernel, channels inside, channels out, squeeze-and-excitation, h-swish, stride.
LARGE: tuple[Setting, ...] = (
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
)  # fmt: skip
SMALL: tuple[Setting, ...] = (
    (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
)  # fmt: skip
STEM, SQUEEZED, LAST_EXPANSION = 16, 4, 6


class ConvBNActivation(nn.Sequential):
    """A convolution that keeps the size (over its stride), batch normalisation, and an activation, perhaps none."""

    def __init__(
        self,
        wide_in: int,
        wide_out: int,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        activation: type[nn.Module] = nn.Identity,
    ) -> None:
        super().__init__(
            nn.Conv2d(wide_in, wide_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(wide_out, eps=0.001, momentum=0.01),
            activation(inplace=True),
        )


class SqueezeExcitation(nn.Module):
    """Each channel times a gate between 0 and 1, which two small layers tell from the means of all channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = scaled(channels // SQUEEZED, 1.0)
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.relu = nn.ReLU(inplace=True)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.fc2(self.relu(self.fc1(F.adaptive_avg_pool2d(x, 1))))
        return F.hardsigmoid(gate, inplace=True) * x


class InvertedResidual(nn.Module):
    """Expand by 1×1, filter each channel, weigh the channels, project by 1×1; add the input where shapes agree."""

    def __init__(self, wide_in: int, setting: Setting) -> None:
        super().__init__()
        kernel, inner, wide_out, excited, swish, stride = setting
        activation = nn.Hardswish if swish else nn.ReLU
        layers: list[nn.Module] = []
        if inner != wide_in:
            layers.append(ConvBNActivation(wide_in, inner, 1, activation=activation))
        layers.append(ConvBNActivation(inner, inner, kernel, stride, inner, activation))
        if excited:
            layers.append(SqueezeExcitation(inner))
        layers.append(ConvBNActivation(inner, wide_out, 1))
        self.block = nn.Sequential(*layers)
        self.residual = stride == 1 and wide_in == wide_out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block(x)
        if self.residual:
            out += x
        return out


class MobileNetV3(nn.Module):
    """The classifier of the paper from the settings of its blocks."""

    def __init__(self, settings: Sequence[Setting], last: int, classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        channels = STEM
        layers: list[nn.Module] = [ConvBNActivation(3, channels, stride=2, activation=nn.Hardswish)]
        for setting in settings:
            layers.append(InvertedResidual(channels, setting))
            channels = setting[2]
        wide = LAST_EXPANSION * channels
        layers.append(ConvBNActivation(channels, wide, 1, activation=nn.Hardswish))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(wide, last),
            nn.Hardswish(inplace=True),
            nn.Dropout(dropout, inplace=True),
            nn.Linear(last, classes),
        )
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return out


for name, build, params in (
    ("mobilenet_v3_small_2021", partial(MobileNetV3, SMALL, 1024), 2_542_856),
    ("mobilenet_v3_large_2021", partial(MobileNetV3, LARGE, 1280), 5_483_032),
):
    reference(
        Reference(
            name=name,
            build=build,
            inputs=images,
            published={"params": params},
            source="torchvision's documentation of the weights; DNN analyzer's README has costs of this layout",
            task="classification",
        )
    )
