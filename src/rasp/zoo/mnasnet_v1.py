"""MNASNet-B1 as torchvision 0.4 had it: the width multiplier leaves the stem alone (Tan et al., arXiv:1807.11626).

Later versions scale the stem's 32 and 16 channels too. Modules carry the names and classes of torchvision's, so that
its weights of version 1 fit.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from . import Reference, reference
from ._classifiers import images, initialise, scaled

STEM, SEPARATED, HEAD = 32, 16, 1280
# Output channels, kernel, stride of the first repeat, expansion, repeats.
STAGES = ((24, 3, 2, 3, 3), (40, 5, 2, 3, 3), (80, 5, 2, 6, 3), (96, 3, 1, 6, 2), (192, 5, 2, 6, 4), (320, 3, 1, 6, 1))
norm = partial(nn.BatchNorm2d, momentum=0.0003)


class _InvertedResidual(nn.Module):
    """Expand by 1×1, filter each channel, project by 1×1 without activation; add the input where shapes agree."""

    def __init__(self, wide_in: int, wide_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = wide_in * expansion
        self.layers = nn.Sequential(
            nn.Conv2d(wide_in, inner, 1, bias=False),
            norm(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, inner, kernel, stride, padding=kernel // 2, groups=inner, bias=False),
            norm(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, wide_out, 1, bias=False),
            norm(wide_out),
        )
        self.residual = stride == 1 and wide_in == wide_out

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out + x if self.residual else out


def stage(wide_in: int, wide_out: int, kernel: int, stride: int, expansion: int, repeats: int) -> nn.Sequential:
    """Blocks of one size; the first changes the channels and has the stride."""
    first = _InvertedResidual(wide_in, wide_out, kernel, stride, expansion)
    return nn.Sequential(
        first, *(_InvertedResidual(wide_out, wide_out, kernel, 1, expansion) for _ in range(repeats - 1))
    )


class MNASNet(nn.Module):
    """The classifier of the paper; `width` multiplies the channels of every stage, the stem's and the head's not."""

    def __init__(self, width: float = 1.0, classes: int = 1000, dropout: float = 0.2) -> None:
        super().__init__()
        layers = [
            nn.Conv2d(3, STEM, 3, stride=2, padding=1, bias=False),
            norm(STEM),
            nn.ReLU(inplace=True),
            nn.Conv2d(STEM, STEM, 3, padding=1, groups=STEM, bias=False),
            norm(STEM),
            nn.ReLU(inplace=True),
            nn.Conv2d(STEM, SEPARATED, 1, bias=False),
            norm(SEPARATED),
        ]
        channels = SEPARATED
        for base, kernel, stride, expansion, repeats in STAGES:
            layers.append(stage(channels, scaled(base, width), kernel, stride, expansion, repeats))
            channels = scaled(base, width)
        layers += [nn.Conv2d(channels, HEAD, 1, bias=False), norm(HEAD), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(HEAD, classes))
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.classifier(self.layers(x).mean((2, 3)))
        return out


for name, width, printed in (
    ("mnasnet0_5_v1", 0.5, "2.22M parameters, 141.15M FLOPs"),
    ("mnasnet0_75_v1", 0.75, "3.17M parameters, 240.27M FLOPs"),
    ("mnasnet1_3_v1", 1.3, "6.28M parameters, 528.32M FLOPs"),
):
    reference(
        Reference(
            name=name,
            build=partial(MNASNet, width),
            inputs=images,
            published={},
            source=f"RASP README, torchvision models, input (1, 3, 224, 224): {printed} (convention rasp-2020)",
            task="classification",
        )
    )
