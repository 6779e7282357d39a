"""MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al., CVPR 2018, arXiv:1801.04381).

Modules carry the names and classes of torchvision's, so that reports and weights of the two are interchangeable.
"""

from __future__ import annotations

from torch import Tensor, nn

from . import Reference, reference
from ._classifiers import images, initialise, scaled

# Table 2 of the paper: expansion, output channels, repeats, stride of the first repeat.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
STEM, HEAD = 32, 1280


class Conv2dNormActivation(nn.Sequential):
    """A convolution that keeps the size (over its stride), batch normalisation, ReLU6."""

    def __init__(self, wide_in: int, wide_out: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> None:
        super().__init__(
            nn.Conv2d(wide_in, wide_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(wide_out),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    """Expand by 1×1, filter each channel, project by 1×1 without activation; add the input where shapes agree."""

    def __init__(self, wide_in: int, wide_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = wide_in * expansion
        expand = [Conv2dNormActivation(wide_in, inner, kernel=1)] if expansion > 1 else []
        self.conv = nn.Sequential(
            *expand,
            Conv2dNormActivation(inner, inner, stride=stride, groups=inner),
            nn.Conv2d(inner, wide_out, 1, bias=False),
            nn.BatchNorm2d(wide_out),
        )
        self.residual = stride == 1 and wide_in == wide_out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return x + out if self.residual else out


class MobileNetV2(nn.Module):
    """The classifier of the paper; `width` multiplies every layer's channels, but never shrinks the last."""

    def __init__(self, classes: int = 1000, width: float = 1.0, dropout: float = 0.2) -> None:
        super().__init__()
        channels = scaled(STEM, width)
        layers: list[nn.Module] = [Conv2dNormActivation(3, channels, stride=2)]
        for expansion, base, repeats, first_stride in STAGES:
            for repeat in range(repeats):
                stride = first_stride if repeat == 0 else 1
                layers.append(InvertedResidual(channels, scaled(base, width), stride, expansion))
                channels = scaled(base, width)
        last = scaled(HEAD, max(1.0, width))
        layers.append(Conv2dNormActivation(channels, last, kernel=1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, classes))
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        pooled = self.features(x).mean((2, 3))
        out: Tensor = self.classifier(pooled)
        return out


reference(
    Reference(
        name="mobilenet_v2",
        build=MobileNetV2,
        inputs=images,
        published={
            "params": 3_504_872,
            "flops": 627_688_672,
            "macc": 320_237_288,
            "mem_r": 92_223_904,
            "mem_w": 77_852_064,
            "mem_rw": 170_075_968,
        },
        source="RASP README: sums of the per-layer table of MobileNetV2, input (1, 3, 224, 224)",
        task="classification",
    )
)
