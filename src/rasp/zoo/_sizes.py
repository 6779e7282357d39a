"""What a model's trunk costs at several sizes of the image, as convnet-burden's reports have it."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any

import torch

from ..capture import capture
from ..errors import InputError, RaspError
from ..profile import Profile
from . import Reference

CONVENTION = "burden"


def scaled_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """Height and width times a scale, rounded half away from zero."""
    height, width = (floor(side * scale + 0.5) for side in size)
    return height, width


def sweep(item: Reference, batch: int = 128, scales: Sequence[float] | None = None) -> list[dict[str, Any]]:
    """A row for each size: one image is counted, and times the batch."""
    wanted = item.scales if scales is None else scales
    if batch < 1 or not wanted or min(wanted) <= 0:
        raise InputError(
            f"The batch must be at least 1 and the scales above 0; got batch={batch}, scales={tuple(wanted)}."
        )
    with torch.device("meta"):
        model = item.build()
        trunk = item.trunk(model) if item.trunk is not None else model
    return [_row(item, trunk, scaled_size(item.size, scale), batch) for scale in wanted]


def _row(item: Reference, trunk: torch.nn.Module, size: tuple[int, int], batch: int) -> dict[str, Any]:
    try:
        trace, info = capture(trunk, input_shape=(1, 3, *size), functions=True)
    except RaspError as error:
        raise InputError(f"{item.name} cannot take an image of {size[0]} × {size[1]}: {error}") from error
    profile = Profile(trace, info)
    shape = trace.outputs[0].shape
    channels, height, width = shape[1], *(shape[2:] if len(shape) == 4 else (1, 1))
    return {
        "input_h": size[0],
        "input_w": size[1],
        "batch": batch,
        "feat_h": height,
        "feat_w": width,
        "feat_c": channels,
        "feat_mem": batch * profile.total("feat_mem", CONVENTION),
        "flops": batch * profile.total("flops", CONVENTION),
    }
