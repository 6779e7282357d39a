"""What the zoo's image classifiers share: widths in multiples of 8, fresh weights, images to look at."""

from __future__ import annotations

import torch
from torch import Tensor, nn

Size = int | tuple[int, int] | None


def scaled(channels: int, width: float) -> int:
    """Channels times the width multiplier, to the nearest multiple of 8 that loses no more than a tenth."""
    wanted = channels * width
    nearest = max(8, int(wanted + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * wanted else nearest + 8


def initialise(module: nn.Module) -> None:
    """Weights to start training from."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.kaiming_normal_(module.weight, mode="fan_out")
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, 0, 0.01)
        nn.init.zeros_(module.bias)


def images(batch: int = 1, size: Size = None, usual: tuple[int, int] = (224, 224)) -> tuple[Tensor]:
    """A batch of random images; `size` is a side or (height, width)."""
    height, width = usual if size is None else (size, size) if isinstance(size, int) else size
    return (torch.rand(batch, 3, height, width),)
