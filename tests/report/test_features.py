"""Columns of feature maps, parameters and inputs in bytes, under the default convention."""

from __future__ import annotations

import torch
from torch import nn

import rasp

FLOAT = 4


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm(self.conv(x)))
        return self.pool(y + y).flatten(1)


def rows(column: str) -> dict[str, int]:
    profile = rasp.profile(Branch(), input_shape=(2, 3, 16, 16))
    found = {row["name"]: row[column] for row in profile.rows(columns=["name", column])}
    assert sum(value for name, value in found.items() if name != "total") == found["total"]
    return found


def test_feature_maps_are_what_is_newly_taken_and_stays():
    whole, half = 2 * 8 * 16 * 16 * FLOAT, 2 * 8 * 8 * 8 * FLOAT
    expected = {".conv": whole, ".norm": whole, ".relu": 0, ".pool": half, ".": whole}  # the flatten is a view
    assert rows("feat_mem") == {**expected, "total": 3 * whole + half}


def test_inference_memory_has_every_output():
    whole, half = 2 * 8 * 16 * 16 * FLOAT, 2 * 8 * 8 * 8 * FLOAT
    expected = {".conv": whole, ".norm": whole, ".relu": whole, ".pool": half, ".": whole}
    assert rows("inference_mem") == {**expected, "total": 4 * whole + half}


def test_storage_has_buffers_and_parameter_memory_has_not():
    weights, statistics = (8 * 27 + 8 + 16) * FLOAT, 16 * FLOAT + 8  # the count of batches is an int64
    profile = rasp.profile(Branch(), input_shape=(2, 3, 16, 16))
    assert profile.total("param_mem") == profile.total("param_bytes") == weights
    assert profile.total("storage") == weights + statistics


def test_estimated_total_is_inputs_maps_and_parameters():
    profile = rasp.profile(Branch(), input_shape=(2, 3, 16, 16))
    assert profile.total("input_mem") == 2 * 3 * 16 * 16 * FLOAT
    parts = [profile.total(name) for name in ("input_mem", "feat_mem", "param_mem")]
    assert profile.total("total_mem") == sum(parts)
