"""The processor: work is done when a call returns."""

from __future__ import annotations

from ..meters import rapl
from . import Device, Meter, device


@device
class CPU(Device):
    """The host's processor, all of torch's threads together."""

    kind = "cpu"

    def __init__(self, index: int | None = None) -> None:
        super().__init__(None)  # torch has one, whatever its number

    def meters(self) -> list[Meter]:
        return rapl.meters()
