"""Residual networks in all the forms in which they were published: what classifiers, detectors and segmenters share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

CITATION = "He et al.: Deep residual learning for image recognition. CVPR 2016, arXiv:1512.03385."
DEPTHS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
WIDTHS = (64, 128, 256, 512)


def conv_norm(
    wide_in: int, wide_out: int, kernel: int = 1, stride: int = 1, groups: int = 1, dilation: int = 1, relu: bool = True
) -> nn.Sequential:
    """A convolution without bias that keeps the size (over its stride), batch normalisation, and a ReLU if asked."""
    conv = nn.Conv2d(wide_in, wide_out, kernel, stride, dilation * (kernel // 2), dilation, groups=groups, bias=False)
    made = nn.Sequential(conv, nn.BatchNorm2d(wide_out))
    return made.append(nn.ReLU(inplace=True)) if relu else made


@dataclass(frozen=True)
class Form:
    """How blocks are made: their widths for each of 64, 128 …, where the stride is, and what is added to them."""

    inner: float = 1.0  # channels of the middle convolution, times the stage's
    first: float = 0.0  # channels of the first, if they are others
    out: int = 4
    groups: int = 1
    early_stride: bool = False  # Caffe: in the first 1 × 1, not in the 3 × 3
    shortcut: int = 1  # kernel of the shortcut's convolution from the second stage on
    excited: bool = False  # squeeze and excitation


TORCH, CAFFE = Form(), Form(early_stride=True)


class Excitation(nn.Module):
    """A gate for each channel, told by two small layers from the means of all channels (Hu et al., CVPR 2018)."""

    def __init__(self, channels: int, reduction: int = 16) -> None:
        super().__init__()
        self.squeeze = nn.AdaptiveAvgPool2d(1)
        self.gate = nn.Sequential(
            nn.Conv2d(channels, channels // reduction, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels // reduction, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        gates: Tensor = self.gate(self.squeeze(x))
        return gates


class Basic(nn.Module):
    """Two 3 × 3 convolutions and the input added."""

    def __init__(self, wide_in: int, wide: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(conv_norm(wide_in, wide, 3, stride), conv_norm(wide, wide, 3, relu=False))
        self.shortcut = (
            nn.Identity() if stride == 1 and wide_in == wide else conv_norm(wide_in, wide, 1, stride, relu=False)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.residual(x) + self.shortcut(x))
        return out


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3, 1 × 1, perhaps a gate for each channel, and the input added."""

    def __init__(self, wide_in: int, wide: int, stride: int, dilation: int, form: Form) -> None:
        super().__init__()
        first, inner, out = int(wide * (form.first or form.inner)), int(wide * form.inner), wide * form.out
        early, late = (stride, 1) if form.early_stride else (1, stride)
        self.residual = nn.Sequential(
            conv_norm(wide_in, first, 1, early),
            conv_norm(first, inner, 3, late, form.groups, dilation),
            conv_norm(inner, out, relu=False),
        )
        self.excitation = Excitation(out) if form.excited else None
        kernel = form.shortcut if stride > 1 else 1
        self.shortcut = (
            nn.Identity() if stride == 1 and wide_in == out else conv_norm(wide_in, out, kernel, stride, relu=False)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        made = self.residual(x)
        if self.excitation is not None:
            made = made * self.excitation(made)
        out: Tensor = self.relu(made + self.shortcut(x))
        return out


def stage(wide_in: int, wide: int, count: int, stride: int, form: Form = TORCH, dilation: int = 1) -> nn.Sequential:
    """Bottleneck blocks of one width; the first has the stride."""
    made = nn.Sequential(Bottleneck(wide_in, wide, stride, dilation, form))
    for _ in range(count - 1):
        made.append(Bottleneck(wide * form.out, wide, 1, dilation, form))
    return made


def stages(
    counts: Sequence[int],
    form: Form = TORCH,
    strides: Sequence[int] = (1, 2, 2, 2),
    dilations: Sequence[int] = (1, 1, 1, 1),
    wide_in: int = 64,
) -> list[nn.Sequential]:
    """The four stages of bottleneck blocks."""
    made = []
    for wide, count, stride, dilation in zip(WIDTHS, counts, strides, dilations):
        made.append(stage(wide_in, wide, count, stride, form, dilation))
        wide_in = wide * form.out
    return made


def stem(bias: bool = False, padded_pool: bool = True, ceil: bool = False) -> nn.Sequential:
    """7 × 7 with stride 2 and a pooling of 3 × 3 with stride 2, padded (torch) or with a part of a window (Caffe)."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=bias),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, int(padded_pool), ceil_mode=ceil),
    )


def caffe_stem(bias: bool = False) -> nn.Sequential:
    return stem(bias, padded_pool=False, ceil=True)
