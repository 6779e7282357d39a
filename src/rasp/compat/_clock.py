"""Wall time on the device a model lives on: what a stopwatch reads that its user starts and stops."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from torch import nn

from .. import devices


def clock(model: nn.Module) -> Callable[[], float]:
    """Seconds, read once the model's device has done what it was given."""
    tensor = next(chain(model.parameters(), model.buffers()), None)
    devices.load()
    known = tensor is not None and tensor.device.type in devices.DEVICES
    device = devices.get(tensor.device) if tensor is not None and known else devices.Device()
    if not device.asynchronous:
        return device.now

    def finished() -> float:
        device.synchronize()
        return device.now()

    return finished
