"""rasp-head and rasp-2020: RASP's two published tables, and its formulas layer by layer, worked out by hand here."""

from __future__ import annotations

import ast
import csv
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rasp

TABLES = Path(rasp.__file__).parent / "published"
STATIC = ("params", "flops", "macc", "mem_r", "mem_w", "mem_rw")
HEAD, OLD = "rasp-head", "rasp-2020"


def published(name: str) -> list[dict[str, str]]:
    with (TABLES / name).open(newline="") as file:
        return list(csv.DictReader(file))


def totals(model: nn.Module, x: Any, convention: str) -> tuple[Any, ...]:
    """flops, macc, params, and reads and writes in words of four bytes."""
    profile = rasp.profile(model, x)
    found = [profile.total(name, convention) for name in ("flops", "macc", "params", "mem_r", "mem_w", "mem_rw")]
    assert found[3] + found[4] == found[5]
    return (*found[:3], found[3] / 4, found[4] / 4)


# -- published ---------------------------------------------------------------------------------------------------------


def test_every_layer_of_the_published_mobilenet_v2() -> None:
    profile = rasp.profile(rasp.zoo.get("mobilenet_v2").build(), input_shape=(1, 3, 224, 224))
    columns = ("name", "type", "in_shape", "out_shape", *STATIC)
    rows = [row for row in profile.rows(columns=columns, convention=HEAD) if row["kind"] == "call"]
    printed = published("rasp_mobilenet_v2.csv")
    assert len(rows) == len(printed) == 141
    for row, line in zip(rows, printed):
        assert (row["name"], row["type"]) == (line["name"], line["type"])
        assert (row["in_shape"], row["out_shape"]) == tuple(
            ast.literal_eval(line[k]) for k in ("in_shape", "out_shape")
        )
        assert [row[name] for name in STATIC] == [int(line[name]) for name in STATIC], row["name"]
    for name in STATIC:
        assert profile.total(name, HEAD) == sum(int(line[name]) for line in printed)


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
@pytest.mark.parametrize("line", published("rasp_torchvision.csv"), ids=lambda line: line["Model"])
def test_the_published_models_of_torchvision(line: dict[str, str]) -> None:
    from rasp.zoo.adapters import source

    name = line["Model"]
    stem = name in ("mnasnet0_5", "mnasnet0_75", "mnasnet1_3")
    model = source(f"{name}_v1" if stem else f"torchvision:{name}").model(virtual=True)
    profile = rasp.profile(model, input_shape=(1, 3, 224, 224))
    for column, title in (("params", "Params"), ("flops", "FLOPs")):
        scale = {"M": 10**6, "G": 10**9}[line[title][-1]]
        assert round(profile.total(column, OLD) / scale, 2) == float(line[title][:-1])


# -- layer by layer ----------------------------------------------------------------------------------------------------

CASES: dict[str, tuple[nn.Module, tuple[int, ...], tuple[int, ...], tuple[Any, ...]]] = {
    # layer, input, what the head gives, what the table of March 2020 gives: flops, macc, params, reads, writes
    "convolution": (
        nn.Conv2d(4, 6, 3, groups=2), (2, 4, 7, 9),
        (2 * 6 * 5 * 7 * (2 * 18 - 1 + 1), 2 * 6 * 5 * 7 * 19, 6 * 18 + 6, 2 * (4 * 63 + 114), 2 * 6 * 35),
        (2 * 6 * 5 * 7 * 18, None, 114, 2 * (4 * 63 + 114), 2 * 6 * 35),
    ),
    "convolution without bias, places not whole": (
        nn.Conv2d(3, 4, 3, stride=2, bias=False), (1, 3, 8, 8),
        (4 * 9 * (2 * 27 - 1), 4 * 9 * 27, 108, 192 + 108, 36),
        (int(4 * 3.5 * 3.5 * 26), None, 108, 192 + 108, 4 * 3.5 * 3.5),
    ),
    "dilated convolution": (
        nn.Conv2d(1, 1, 3, dilation=2), (1, 1, 9, 9), (25 * 18, 25 * 10, 10, 91, 25), (49 * 9, None, 10, 91, 49)
    ),
    "padding in words": (
        nn.Conv2d(2, 2, 3, padding="same"), (1, 2, 5, 5),
        (50 * 36, 50 * 19, 38, 50 + 38, 50), (50 * 18, None, 38, 88, 50),
    ),
    "no padding, in words": (
        nn.Conv2d(2, 2, 3, padding="valid"), (1, 2, 5, 5), (18 * 36, 18 * 19, 38, 88, 18), (18 * 18, None, 38, 88, 18)
    ),
    "convolution of one dimension": (
        nn.Conv1d(2, 4, 3), (3, 2, 10), (3 * 32 * 12, 3 * 32 * 7, 28, 3 * 48, 96), (3 * 32 * 6, None, 28, 144, 96)
    ),
    "convolution of three": (
        nn.Conv3d(1, 2, 3, padding=1, bias=False), (1, 1, 4, 4, 4),
        (128 * 53, 128 * 27, 54, 64 + 54, 128), (128 * 26, None, 54, 118, 128),
    ),
    "transposed convolution, as a plain one": (
        nn.ConvTranspose2d(4, 2, 2, stride=2), (1, 4, 3, 3),
        (72 * 32, 72 * 17, 34, 36 + 34, 72), (int(2 * 1.5 * 1.5 * 16), None, 34, 70, 2 * 1.5 * 1.5),
    ),
    "batch norm": (nn.BatchNorm2d(3), (2, 3, 4, 5), (4 * 120, 240, 6, 2 * 66, 120), (4 * 120, None, 6, 132, 120)),
    "batch norm without affine": (
        nn.BatchNorm1d(3, affine=False), (2, 3), (12, 6, 0, 6, 6), (18, None, 0, 6, 6)
    ),
    "activation": (nn.LeakyReLU(), (2, 3, 4), (24, 24, 0, 24, 24), (24, None, 0, 24, 24)),
    "ELU": (nn.ELU(), (2, 3), (6, 6, 0, 6, 6), (6, None, 0, 6, 6)),
    "an activation with a parameter": (nn.PReLU(3), (2, 3, 4), (24, 24, 3, 30, 30), (24, None, 3, 24, 24)),
    "an activation it does not know": (nn.SiLU(), (2, 3), (0, 0, 0, 0, 0), (0, None, 0, 0, 0)),
    "a norm it does not know": (nn.LayerNorm(3), (2, 3), (0, 0, 6, 0, 0), (0, None, 6, 0, 0)),
    "dropout": (nn.Dropout(), (2, 3), (0, 0, 0, 0, 0), (0, 0, 0, 0, 0)),
    "maximum, window given as a number": (
        nn.MaxPool2d(3, 2), (2, 2, 7, 7), (36 * 2, 36 * 3, 0, 196, 36), (36 * 2, None, 0, 196, 36)
    ),
    "maximum, window given as a pair": (
        nn.MaxPool2d((3, 3), 2), (2, 2, 7, 7), (36 * 8, 36 * 9, 0, 196, 36), (36 * 8, None, 0, 196, 36)
    ),
    "average": (nn.AvgPool2d((2, 2)), (1, 2, 4, 4), (8 * 7, 8 * 4, 0, 32, 8), (8 * 4, None, 0, 32, 8)),
    "average of one dimension": (nn.AvgPool1d(2), (1, 2, 8), (8 * 3, 8 * 2, 0, 16, 8), (8 * 2, None, 0, 16, 8)),
    "adaptive average to one": (
        nn.AdaptiveAvgPool2d(1), (2, 3, 7, 7), (6 * 97, 6 * 49, 0, 294, 6), (6 * 49, None, 0, 294, 6)
    ),
    "adaptive average, sizes that do not divide": (  # head: 10 − ⌊3·10/4⌋ = 3; old: 10 − 3·⌊10/4⌋ = 4
        nn.AdaptiveAvgPool2d(4), (1, 1, 10, 10), (16 * 17, 16 * 9, 0, 100, 16), (16 * 16, None, 0, 100, 16)
    ),
    "adaptive maximum": (nn.AdaptiveMaxPool2d((2, 1)), (1, 1, 4, 3), (2 * 5, 2 * 6, 0, 12, 2), (10, None, 0, 12, 2)),
    "linear": (
        nn.Linear(5, 4), (3, 5), (3 * 4 * 10, 3 * 4 * 6, 24, 3 * 29, 12), (3 * 4 * 5, None, 24, 87, 12)
    ),
    "linear of a sequence: its length is not seen": (
        nn.Linear(8, 4, bias=False), (2, 7, 8), (2 * 4 * 15, 64, 32, 2 * 40, 8), (2 * 4 * 7, None, 32, 80, 8)
    ),
    "upsampling to the nearest": (
        nn.Upsample(scale_factor=2), (1, 2, 3, 3), (0, 0, 0, 18, 72), (0, None, 0, 18, 72)
    ),
    "upsampling between": (
        nn.UpsamplingBilinear2d(scale_factor=2), (2, 1, 3, 3), (72 * 13, 72 * 7, 0, 18, 72), (936, None, 0, 18, 72)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_formulas_by_hand(case: str) -> None:
    layer, shape, head, old = CASES[case]
    x = torch.rand(shape)
    assert totals(nn.Sequential(layer.eval()), x, HEAD) == head
    assert totals(nn.Sequential(layer.eval()), x, OLD) == old


@pytest.mark.parametrize("shape", [(4, 7, 7), (1, 4, 7, 7)])
def test_a_picture_without_a_batch_is_a_batch_of_one(shape: tuple[int, ...]) -> None:
    for name, expected in ((HEAD, 6 * 25 * 72), (OLD, 6 * 25 * 36)):
        assert totals(nn.Conv2d(4, 6, 3), torch.rand(shape), name)[0] == expected


@pytest.mark.parametrize("name", [HEAD, OLD])
def test_where_rasp_itself_stops_the_reason_says_so(name: str) -> None:
    layers = [
        nn.Conv2d(2, 2, 3, padding="same", bias=False),
        nn.ConvTranspose1d(2, 2, 3, bias=False),
        nn.PReLU(),
        nn.Upsample(size=7, mode="linear"),
    ]
    shapes = [(1, 2, 5, 5), (1, 2, 5), (1, 2, 5), (1, 2, 5)]
    for layer, shape in zip(layers, shapes):
        found = rasp.explain(rasp.profile(layer, input_shape=shape), name, "mac")
        assert any("RASP itself stops here" in line["why"] for line in found.lines), layer
    plain = rasp.explain(rasp.profile(nn.Conv2d(2, 2, 3, bias=False), input_shape=(1, 2, 5, 5)), name, "mac")
    assert plain.lines
    assert not any("stops" in line["why"] for line in plain.lines)


# -- models ------------------------------------------------------------------------------------------------------------


class Again(nn.Module):
    """One convolution for two sizes, a layer that never runs, a sum that no layer does."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.never = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(50, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).sum() + self.conv(x[..., ::2, ::2]).sum()


def test_a_layer_called_twice_counts_twice_and_one_that_never_ran_not_at_all() -> None:
    x = torch.rand(1, 2, 8, 8)
    assert totals(Again(), x, HEAD)[:3] == (2 * (64 + 16) * 36, 2 * 80 * 19, 2 * 38)
    assert totals(Again(), x, OLD)[:3] == (2 * 80 * 18, None, 2 * 38)
    rows = rasp.profile(Again(), x).rows(columns=["name", "params"], convention=HEAD)
    assert [row["params"] for row in rows if row["name"] == ".conv"] == [38, 38]


def test_tied_weights_count_in_each_layer() -> None:
    one, two = nn.Linear(4, 4), nn.Linear(4, 4)
    two.weight, two.bias = one.weight, one.bias
    assert totals(nn.Sequential(one, two), torch.rand(1, 4), HEAD)[:3] == (2 * 4 * 8, 2 * 4 * 5, 40)


def test_frozen_parameters_are_seen_by_formulas_of_the_head_only() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)).requires_grad_(False)
    assert totals(model, torch.rand(1, 4), HEAD)[2] == 15
    assert totals(model, torch.rand(1, 4), OLD)[2:4] == (0, 4)


def test_a_container_that_calls_no_module_was_a_row_of_its_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    outer = nn.Sequential(nn.Linear(4, 4), nn.MultiheadAttention(4, 2))

    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.attention = outer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            return self.attention(x, x, x)[0]

    x = torch.rand(3, 4)
    assert totals(Calls(), x, HEAD)[2] == totals(model, x, HEAD)[2] == 20
    assert totals(Calls(), x, OLD)[2] == 20 + 4 * 4 * 4 + 4 * 4


def test_a_subclass_is_another_class() -> None:
    class Mine(nn.Linear):
        pass

    assert totals(Mine(4, 4), torch.rand(1, 4), HEAD) == (0, 0, 20, 0, 0)


def test_memory_is_in_the_element_size_of_the_first_parameter() -> None:
    profile = rasp.profile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()).half(), torch.rand(2, 4).half())
    assert profile.total("mem_w", HEAD) == 8 * 2 + 8 * 4


@pytest.mark.parametrize("name", [HEAD, OLD])
@pytest.mark.parametrize("column", ["flops", "params", "mem_r", "mem_rw"])
def test_what_explains_them_adds_up(name: str, column: str) -> None:
    profile = rasp.profile(Again(), torch.rand(1, 2, 8, 8))
    found = rasp.explain(profile, name, "rasp", column)
    assert found.difference == profile.total(column, name) - profile.total(column, "rasp")
    assert all(line["why"] for line in found.lines)
