"""ResNet (He et al., arXiv:1512.03385) as torchvision and as Caffe have it, and ResNeXt (Xie et al., arXiv:1611.05431).

The first has its strides in the 3 × 3 convolutions and a padded pooling; the second has them in the first 1 × 1 of a
stage, and a pooling whose last windows are parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from ._classifiers import initialise
from ._published import published
from ._residual import CAFFE, CITATION, DEPTHS, TORCH, WIDTHS, Basic, Form, caffe_stem, stages, stem

RESNEXT = "Xie et al.: Aggregated residual transformations for deep neural networks. CVPR 2017, arXiv:1611.05431."


def basic_stages(counts: Sequence[int]) -> list[nn.Sequential]:
    """The four stages of blocks of two 3 × 3 convolutions."""
    made, wide_in = [], 64
    for at, (wide, count) in enumerate(zip(WIDTHS, counts)):
        blocks = [Basic(wide_in if n == 0 else wide, wide, 2 if n == 0 and at else 1) for n in range(count)]
        made.append(nn.Sequential(*blocks))
        wide_in = wide
    return made


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, and a classifier of the means."""

    def __init__(self, depth: int = 50, form: Form | None = TORCH, classes: int = 1000) -> None:
        super().__init__()
        blocks = basic_stages(DEPTHS[depth]) if form is None else stages(DEPTHS[depth], form)
        start = caffe_stem(bias=True) if form == CAFFE else stem()
        self.features = nn.Sequential(start, *blocks)
        self.pool = nn.AvgPool2d(7, 1)
        self.classifier = nn.Linear(WIDTHS[-1] * (1 if form is None else form.out), classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes, of images of 224; on larger maps the pooling's places are averaged."""
        pooled = self.pool(self.features(x))
        scores: Tensor = self.classifier(pooled.flatten(1) if pooled.shape[2:] == (1, 1) else pooled.mean((2, 3)))
        return scores


published("resnet18", partial(ResNet, 18, None), family="ResNet", citation=CITATION)
published("resnet34", partial(ResNet, 34, None), family="ResNet", citation=CITATION)
for depth in (50, 101, 152):
    published(f"resnet-{depth}", partial(ResNet, depth, CAFFE), family="ResNet", citation=CITATION)
for depth, groups in ((50, 32), (101, 32), (101, 64)):
    form = Form(inner=groups * 4 / 64, groups=groups)
    published(f"resnext-{depth}-{groups}x4d", partial(ResNet, depth, form), family="ResNeXt", citation=RESNEXT)
