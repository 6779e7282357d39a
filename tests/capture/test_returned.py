"""What a module returned is kept as it was nested, where its first tensor does not say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rasp


class Returns(nn.Module):
    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.shape = shape

    def forward(self, x: torch.Tensor) -> Any:
        y = self.inner(x)
        return {"dict": {"a": x, "b": [y, x]}, "hole": (None, y), "tensor": y, "tuple": (y, x), "none": None}[
            self.shape
        ]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("shape", ["dict", "hole", "tensor", "tuple"])
def test_nesting_is_kept(shape: str, backward: bool, tmp_path: Path):
    profile = rasp.profile(Returns(shape), input_shape=(2, 4), backward=backward)
    x, y = profile.trace.calls[0].inputs[0], profile.trace.calls[1].outputs[0]
    expected = {"dict": {"a": x, "b": (y, x)}, "hole": (None, y), "tensor": None, "tuple": None}[shape]
    profile.save(tmp_path / "p.json")
    for seen in (profile, rasp.load(tmp_path / "p.json")):
        assert seen.trace.calls[0].returned == expected
        assert seen.trace.calls[1].returned is None
        layer = next(seen.view().ledger.layers())
        assert layer.returned == (expected if expected is not None else seen.trace.calls[0].outputs)
