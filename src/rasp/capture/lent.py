"""Memory handed out of torch in a real run (numpy, an address): what is written there no operator tells of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch.utils._python_dispatch import _disable_current_modes

Tensor = torch.Tensor
LIMIT = 1 << 28  # bytes: of a larger storage no copy is kept to compare with


class Lent:
    """Storages whose memory somebody else holds, with their contents as torch last left them."""

    def __init__(self) -> None:
        self.held: dict[int, Tensor] = {}

    def __bool__(self) -> bool:
        return bool(self.held)

    def lend(self, index: int, tensor: Tensor) -> None:
        """Note that a storage's memory was handed out."""
        if 0 < tensor.untyped_storage().nbytes() <= LIMIT:
            with _disable_current_modes(), torch.no_grad():
                self.held[index] = _contents(tensor).clone()

    def changed(self, tensors: Iterable[Tensor], indices: Iterable[int]) -> Iterator[int]:
        """Those of the storages that hold something else than torch wrote there; each change is told once."""
        for tensor, index in zip(tensors, indices):
            if index in self.held:
                with _disable_current_modes(), torch.no_grad():
                    now = _contents(tensor)
                    if not torch.equal(now, self.held[index]):
                        self.held[index] = now.clone()
                        yield index

    def written(self, tensors: Iterable[Tensor], indices: Iterable[int]) -> None:
        """An operator wrote these: what they hold now is torch's own."""
        for tensor, index in zip(tensors, indices):
            if index in self.held:
                self.lend(index, tensor)


def _contents(tensor: Tensor) -> Tensor:
    """The bytes of a tensor's storage."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())  # type: ignore[call-overload,no-any-return]
