"""dnn-analyzer: its README's tables, and its formulas layer by layer, worked out by hand here."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rasp

TABLES = Path(rasp.__file__).parent / "published"
NAME = "dnn-analyzer"
COLUMNS = ("flops", "params", "mem_r", "mem_w", "storage", "inference_mem")
MEBI = 2**20


def published(name: str) -> list[dict[str, str]]:
    with (TABLES / name).open(newline="") as file:
        return list(csv.DictReader(file))


def totals(model: nn.Module, x: Any) -> tuple[Any, ...]:
    """MACs, parameters, and in words of four bytes reads, writes, storage and inference memory."""
    profile = rasp.profile(model, x)
    found = [profile.total(name, NAME) for name in COLUMNS]
    assert profile.total("mem_rw", NAME) == found[2] + found[3]
    return (*found[:2], *(value / 4 for value in found[2:]))


# -- published ---------------------------------------------------------------------------------------------------------


def test_the_published_layers_of_mobilenet_v2() -> None:
    profile = rasp.profile(rasp.zoo.get("mobilenet_v2").build(), input_shape=(1, 3, 224, 224))
    rows = profile.rows(columns=["type", *COLUMNS], convention=NAME)
    rows = [row for row in rows if row["kind"] == "call"]
    scales = {
        "mem read (MB)": ("mem_r", MEBI), "mem write (MB)": ("mem_w", MEBI), "storage (MB)": ("storage", MEBI),
        "inference (MB)": ("inference_mem", MEBI), "MACs (Mega)": ("flops", 10**6),
    }  # fmt: skip
    lines = published("dnn_analyzer_mobilenet_v2.csv")
    assert len(lines) == 15
    for line in lines:
        row = rows[int(line["row_index"])]
        assert (row["type"], row["params"]) == (line["module name"], int(line["parameters"]))
        for title, (column, scale) in scales.items():
            assert round(row[column] / scale, 3) == float(line[title]), (line["row_index"], title)
    printed = {"storage": 13.37, "inference_mem": 74.25, "mem_rw": 162.19}
    assert {name: round(profile.total(name, NAME) / MEBI, 2) for name in printed} == printed
    assert profile.total("params", NAME) == 3504872
    assert round(profile.total("flops", NAME) / 10**6, 2) == 308.87


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
@pytest.mark.parametrize("line", published("dnn_analyzer_benchmarks.csv"), ids=lambda line: line["Model"])
def test_the_published_models(line: dict[str, str]) -> None:
    from rasp.zoo.adapters import source

    name = line["Model"]
    model = source(f"{name}_2021" if "v3" in name else f"torchvision:{name}").model(virtual=True)
    profile = rasp.profile(model, input_shape=(1, 3, 224, 224))
    scales = {
        "Params(M)": ("params", 10**6), "Storage(MB)": ("storage", MEBI), "MACs(G)": ("flops", 10**9),
        "inference memory(MB)": ("inference_mem", MEBI), "Memory Read+Write": ("mem_rw", MEBI),
    }  # fmt: skip
    for title, (column, scale) in scales.items():
        digits = len(line[title].partition(".")[2])
        assert round(profile.total(column, NAME) / scale, digits) == float(line[title]), title


# -- layer by layer ----------------------------------------------------------------------------------------------------

CASES: dict[str, tuple[nn.Module, tuple[int, ...], tuple[Any, ...]]] = {
    # layer, input: MACs, parameters, reads, writes, storage, inference memory
    "convolution": (
        nn.Conv2d(4, 6, 3, groups=2), (2, 4, 7, 9), (2 * 9 * 4 * 3 * 35, 114, 2 * (252 + 114), 420, 114, 210)
    ),
    "a stride divides twice": (
        nn.Conv2d(3, 4, 3, stride=(2, 1), bias=False), (1, 3, 9, 9),
        (27 * 4 * (4 / 1) * (7 / 2), 108, 243 + 108, 112, 108, 112),
    ),
    "padding in words": (nn.Conv2d(2, 2, 3, padding="same"), (1, 2, 5, 5), (18 * 2 * 25, 38, 88, 50, 38, 50)),
    "groups that leave a rest of nothing": (
        nn.Conv2d(6, 6, 3, groups=6), (1, 6, 5, 5), (9 * 6 * 9, 60, 150 + 60, 54, 60, 54)
    ),
    "convolution of one dimension, as its README has it": (
        nn.Conv1d(2, 4, 3, stride=2), (3, 2, 10), (3 * 3 * 2 * 4 * (4 / 2), 28, 3 * 48, 48, 28, 16)
    ),
    "convolution of three": (
        nn.Conv3d(1, 2, 3, padding=1, bias=False), (1, 1, 4, 4, 4), (27 * 2 * 64, 54, 118, 128, 54, 128)
    ),
    "transposed convolution": (nn.ConvTranspose2d(4, 2, 2), (2, 4, 3, 3), (0, 34, 0, 0, 34, 2 * 16)),
    "ReLU6": (nn.ReLU6(), (2, 3, 4), (24, 0, 24, 24, 0, 12)),
    "PReLU": (nn.PReLU(3), (2, 3, 4), (24, 3, 27, 24, 3, 12)),
    "ELU": (nn.ELU(), (2, 3), (0, 0, 0, 0, 0, 3)),
    "maximum": (nn.MaxPool2d(3, 2), (2, 2, 7, 7), (196, 0, 196, 36, 0, 18)),
    "average of one dimension": (nn.AvgPool1d(2), (1, 2, 8), (16, 0, 16, 8, 0, 8)),
    "adaptive maximum of three": (nn.AdaptiveMaxPool3d(1), (2, 2, 3, 3, 3), (108, 0, 108, 4, 0, 2)),
    "batch norm": (nn.BatchNorm2d(3), (2, 3, 4, 5), (240, 6, 2 * 66, 120, 6, 60)),
    "batch norm without affine": (nn.BatchNorm1d(3, affine=False), (2, 3), (6, 0, 2 * 9, 6, 0, 3)),
    "linear": (nn.Linear(5, 4), (1, 5), (20, 24, 24, 4, 24, 4)),
    "linear of three samples": (nn.Linear(5, 4), (3, 5), (60, 24, 3 * (2 * 4 + 24), 12, 24, 4)),
    "linear of a sequence: its length for its features": (
        nn.Linear(8, 4), (2, 7, 8), (2 * 49, 36, 2 * (28 + 36), 56, 36, 28)
    ),
    "upsampling": (nn.Upsample(scale_factor=2), (1, 2, 3, 3), (0, 0, 0, 0, 0, 72)),
    "layer norm": (nn.LayerNorm(3), (2, 3), (0, 6, 0, 0, 6, 3)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_formulas_by_hand(case: str) -> None:
    layer, shape, expected = CASES[case]
    assert totals(layer.eval(), torch.rand(shape)) == expected


def test_a_subclass_counts_as_what_it_derives_from() -> None:
    class Mine(nn.Linear):
        pass

    assert totals(Mine(4, 3), torch.rand(1, 4))[0] == 12


def test_a_layer_called_twice_is_listed_twice_with_its_parameters() -> None:
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x).sum() + self.conv(x[..., ::2, ::2]).sum()

    found = totals(Again(), torch.rand(1, 2, 8, 8))
    assert found[:2] == (36 * (64 + 16), 76)
    assert found[2:] == ((128 + 38) + (32 + 38), 128 + 32, 76, 128 + 32)


def test_sizes_are_in_the_elements_of_the_input_and_of_the_output() -> None:
    profile = rasp.profile(nn.Embedding(10, 4), torch.randint(0, 10, (2, 3)))
    assert profile.total("storage", NAME) == 40 * 8  # ids are of eight bytes
    assert profile.total("inference_mem", NAME) == 12 * 4


def test_an_empty_container_makes_rows_of_all_of_its_class() -> None:
    x = torch.rand(1, 2, 4, 4)
    plain = totals(nn.Sequential(nn.ReLU()), x)
    doubled = totals(nn.Sequential(nn.ReLU(), nn.Sequential()), x)
    assert plain[-1] == 32
    assert doubled[-1] == 3 * 32
    assert doubled[:5] == plain[:5]


def test_frozen_parameters_count_and_buffers_do_not() -> None:
    model = nn.BatchNorm2d(5).requires_grad_(False).eval()
    assert totals(model, torch.rand(1, 5, 2, 2))[1] == 10


@pytest.mark.parametrize("column", ["flops", "params", "mem_rw", "storage", "inference_mem"])
def test_what_explains_it_adds_up(column: str) -> None:
    model = nn.Sequential(nn.Conv1d(2, 4, 3, stride=2), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(16, 3)).eval()
    profile = rasp.profile(model, torch.rand(2, 2, 9))
    found = rasp.explain(profile, NAME, "rasp", column)
    assert found.difference == profile.total(column, NAME) - profile.total(column, "rasp")
    if column == "flops":
        assert any("its README lists Conv1d, its code counts 0" in line["why"] for line in found.lines)
