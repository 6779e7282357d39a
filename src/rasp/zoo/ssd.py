"""SSD for PASCAL VOC (Liu et al., ECCV 2016): on VGG 16 at 300 and 512 as mcnSSD builds it, and on MobileNet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ._classifiers import initialise
from ._mobilenet import SETTINGS, STEM
from ._published import published
from ._regions import Boxes, Detections, PriorBox
from ._vgg import conv_relu, half, stage

CITATION = "Liu et al.: SSD: single shot multibox detector. ECCV 2016, arXiv:1512.02325."
MOBILE = (
    f"{CITATION} Howard et al.: MobileNets: efficient convolutional neural networks for mobile vision applications. "
    "arXiv:1704.04861 (2017)."
)
FEW, MANY = (2.0,), (2.0, 3.0)  # ratios of the sides of prior boxes
Extra = tuple[int, int, int, int, int]  # 1 × 1 to the first width, then to the second: kernel, stride, padding
Prior = tuple[float, float | None, Sequence[float]]
EXTRAS_300: tuple[Extra, ...] = (
    (256, 512, 3, 2, 1), (128, 256, 3, 2, 1), (128, 256, 3, 1, 0), (128, 256, 3, 1, 0),
)  # fmt: skip
EXTRAS_512: tuple[Extra, ...] = (*EXTRAS_300, (128, 256, 4, 1, 1))
EXTRAS_MOBILE: tuple[Extra, ...] = (
    (256, 512, 3, 2, 1), (128, 256, 3, 2, 1), (128, 256, 3, 2, 1), (64, 128, 3, 2, 1),
)  # fmt: skip


def priors(sizes: Sequence[float], ratios: Sequence[Sequence[float]], alone: bool = False) -> list[Prior]:
    """Smaller and larger sizes one after the other; `alone`: the first smaller one has no larger."""
    larger = [None if alone and at == 0 else size for at, size in enumerate(sizes[1:])]
    return list(zip(sizes, larger, ratios))


PRIORS_300 = priors((30, 60, 111, 162, 213, 264, 315), (FEW, MANY, MANY, MANY, FEW, FEW))
PRIORS_512 = priors((35.84, 76.8, 153.6, 230.4, 307.2, 384, 460.8, 537.6), (FEW, MANY, MANY, MANY, MANY, FEW, FEW))
PRIORS_MOBILE = priors((60, 105, 150, 195, 240, 285, 300), (FEW, *[MANY] * 5), alone=True)


class ScaledNorm(nn.Module):
    """Every place divided by its length, each channel times a factor that is learnt (Liu et al.: ParseNet)."""

    def __init__(self, channels: int, start: float = 20.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((channels,), start))

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=1) * self.weight[:, None, None]


class VGGSources(nn.Module):
    """VGG 16, its first fully connected layers as convolutions, and the extra layers: a map of each size."""

    def __init__(self, extras: Sequence[Extra]) -> None:
        super().__init__()
        self.early = nn.Sequential(
            stage(1, 2, 3, 64, half()),
            stage(2, 2, 64, 128, half()),
            stage(3, 3, 128, 256, half()),
            stage(4, 3, 256, 512),
        )
        self.norm = ScaledNorm(512)
        self.late = nn.Sequential(
            half(),
            stage(5, 3, 512, 512, nn.MaxPool2d(3, 1, 1)),
            *conv_relu(512, 1024, 3, padding=6, dilation=6),
            *conv_relu(1024, 1024, 1),
        )
        self.extras = extra_layers(1024, extras)
        self.channels = [512, 1024, *(extra[1] for extra in extras)]

    def features(self, x: Tensor) -> Tensor:
        """The first map: Caffe's relu4_3."""
        features: Tensor = self.early(x)
        return features

    def forward(self, x: Tensor) -> list[Tensor]:
        early = self.features(x)
        return [self.norm(early), *following(self.late(early), self.extras)]


class MobileNetSources(nn.Module):
    """MobileNet with its batch normalisation merged into its convolutions, and the extra layers."""

    def __init__(self, extras: Sequence[Extra]) -> None:
        super().__init__()
        layers: list[nn.Module] = [*conv_relu(3, STEM, 3, 2)]
        channels, ends = STEM, []
        for wide, stride in SETTINGS:
            layers += [nn.Conv2d(channels, channels, 3, stride, 1, groups=channels), nn.ReLU(inplace=True)]
            layers += conv_relu(channels, wide, 1)
            channels = wide
            ends.append(len(layers))
        self.early = nn.Sequential(*layers[: ends[10]])
        self.late = nn.Sequential(*layers[ends[10] :])
        self.extras = extra_layers(channels, extras)
        self.channels = [512, channels, *(extra[1] for extra in extras)]

    def features(self, x: Tensor) -> Tensor:
        """The last and smallest map: Caffe's conv17_2_relu."""
        last: Tensor = self(x)[-1]
        return last

    def forward(self, x: Tensor) -> list[Tensor]:
        early = self.early(x)
        return [early, *following(self.late(early), self.extras)]


def extra_layers(channels: int, extras: Sequence[Extra]) -> nn.ModuleList:
    """Pairs of convolutions, each pair for a smaller map."""
    made = nn.ModuleList()
    for narrow, wide, kernel, stride, padding in extras:
        pair = (*conv_relu(channels, narrow, 1), *conv_relu(narrow, wide, kernel, stride, padding))
        made.append(nn.Sequential(*pair))
        channels = wide
    return made


def following(x: Tensor, extras: nn.ModuleList) -> list[Tensor]:
    """A map and those that the extra layers make of it, one of the other."""
    maps = [x]
    for extra in extras:
        maps.append(extra(maps[-1]))
    return maps


class SSD(nn.Module):
    """Maps of several sizes; at each place of each, for every prior box, the chances of the classes and four offsets.

    Gives for each image the best boxes, their labels and scores.
    """

    def __init__(
        self, sources: Callable[[], nn.Module], boxes: Sequence[Prior], kernel: int = 3, classes: int = 21
    ) -> None:
        super().__init__()
        self.classes = classes
        self.sources = sources()
        self.priors = nn.ModuleList(PriorBox(*prior) for prior in boxes)
        channels: list[int] = self.sources.channels  # type: ignore[assignment]
        counts = [len(prior.sides) for prior in self.priors]  # type: ignore[arg-type]
        around = kernel // 2
        self.offsets = nn.ModuleList(nn.Conv2d(c, 4 * n, kernel, 1, around) for c, n in zip(channels, counts))
        self.scores = nn.ModuleList(nn.Conv2d(c, classes * n, kernel, 1, around) for c, n in zip(channels, counts))
        self.detections = Detections(priors=True)
        self.apply(initialise)

    def features(self, x: Tensor) -> Tensor:
        features: Tensor = self.sources.features(x)  # type: ignore[operator]
        return features

    def forward(self, x: Tensor) -> list[Boxes]:
        image = x.shape[2], x.shape[3]
        maps = self.sources(x)
        offsets = torch.cat([self._flat(head(found)) for head, found in zip(self.offsets, maps)], 1)
        scores = torch.cat([self._flat(head(found)) for head, found in zip(self.scores, maps)], 1)
        boxes = torch.cat([prior(found, image) for prior, found in zip(self.priors, maps)], 1)
        chances = torch.unflatten(scores, 1, (-1, self.classes)).softmax(-1).flatten(1)
        found: list[Boxes] = self.detections(boxes, offsets, chances, image)
        return found

    @staticmethod
    def _flat(x: Tensor) -> Tensor:
        """What was told at each place, place by place."""
        return x.permute(0, 2, 3, 1).flatten(1)


for name, boxes, extras in (("300", PRIORS_300, EXTRAS_300), ("512", PRIORS_512, EXTRAS_512)):
    build = partial(SSD, partial(VGGSources, extras), boxes)
    published(f"ssd-pascal-vggvd-{name}", build, family="SSD", citation=CITATION)
build = partial(SSD, partial(MobileNetSources, EXTRAS_MOBILE), PRIORS_MOBILE, kernel=1)
published("ssd-pascal-mobilenet-ft", build, family="SSD", citation=MOBILE)
