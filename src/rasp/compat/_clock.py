"""Wall time on the device a model lives on: what every stopwatch here reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain

import torch
from torch import nn


def clock(model: nn.Module) -> Callable[[], float]:
    """Seconds, read once the model's device has done what it was given."""
    tensor = next(chain(model.parameters(), model.buffers()), None)
    device = torch.device("cpu") if tensor is None else tensor.device
    if device.type in ("cpu", "meta"):
        return time.perf_counter

    def finished() -> float:
        torch.accelerator.synchronize(device)
        return time.perf_counter()

    return finished
