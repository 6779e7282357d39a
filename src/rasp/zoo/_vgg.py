"""The convolutions of the very deep VGG networks, which detectors, segmenters and pose networks start with."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

CITATION = (
    "Simonyan, Zisserman: Very deep convolutional networks for large-scale image recognition. ICLR 2015, "
    "arXiv:1409.1556."
)
WIDTHS = (64, 128, 256, 512, 512)
SIXTEEN, NINETEEN = (2, 2, 3, 3, 3), (2, 2, 4, 4, 4)  # convolutions of each stage


def half(ceil: bool = True) -> nn.MaxPool2d:
    """Half the size; an odd row or column at the end has its own maxima (MatConvNet pads it)."""
    return nn.MaxPool2d(2, 2, ceil_mode=ceil)


def conv_relu(
    wide_in: int, wide_out: int, kernel: int = 3, stride: int = 1, padding: int | None = None, dilation: int = 1
) -> list[nn.Module]:
    """A convolution with a bias, which keeps the size unless told, and a ReLU."""
    around = dilation * (kernel // 2) if padding is None else padding
    return [nn.Conv2d(wide_in, wide_out, kernel, stride, around, dilation), nn.ReLU(inplace=True)]


def stage(
    number: int,
    count: int,
    wide_in: int,
    wide_out: int,
    pool: nn.Module | None = None,
    padding: int = 1,
    dilation: int = 1,
) -> nn.Sequential:
    """Stage `number`: convolutions of 3 × 3 with ReLUs, then a pooling. `padding` is of the first alone."""
    made = nn.Sequential()
    for at in range(1, count + 1):
        around = padding if at == 1 and dilation == 1 else dilation
        conv, relu = conv_relu(wide_in if at == 1 else wide_out, wide_out, 3, 1, around, dilation)
        made.add_module(f"conv{number}_{at}", conv)
        made.add_module(f"relu{number}_{at}", relu)
    if pool is not None:
        made.add_module(f"pool{number}", pool)
    return made


def stages(counts: Sequence[int] = SIXTEEN, pools: int = 5, padding: int = 1, ceil: bool = True) -> list[nn.Sequential]:
    """The five stages, the first `pools` of them with their pooling; `padding` is of the very first convolution."""
    wide = (3, *WIDTHS)
    return [
        stage(at + 1, count, wide[at], wide[at + 1], half(ceil) if at < pools else None, padding if at == 0 else 1)
        for at, count in enumerate(counts)
    ]
