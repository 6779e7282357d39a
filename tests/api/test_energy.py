"""The energy addon: RASP's published column, its formula by hand, costs of every dtype, and how it is switched on."""

from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rasp
from rasp.addons import energy
from rasp.columns import COLUMNS
from rasp.errors import InputError, UnknownName
from rasp.records import ITEMSIZE

TABLES = Path(rasp.__file__).parent / "published"
MIXED = 0.2 * 640 + 0.8 * 5  # pJ for a word of 32 bits


@pytest.fixture
def own_costs() -> Iterator[None]:
    before = dict(energy.COSTS)
    yield
    energy.COSTS.clear()
    energy.COSTS.update(before)


def published() -> list[dict[str, str]]:
    with (TABLES / "rasp_torchvision.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def energy_of(model: nn.Module, x: Any, convention: str | None = None) -> Any:
    return rasp.profile(model, x).total("energy", convention)


# -- numbers -----------------------------------------------------------------------------------------------------------

FEW = ("alexnet", "googlenet", "mnasnet0_5", "mobilenet_v2", "resnet50", "squeezenet1_1", "vgg11_bn")


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
@pytest.mark.parametrize("line", [line for line in published() if line["Model"] in FEW], ids=lambda line: line["Model"])
def test_the_published_column(line: dict[str, str]) -> None:
    from rasp.zoo.adapters import source

    name = line["Model"]
    model = source(f"{name}_v1" if name == "mnasnet0_5" else f"torchvision:{name}").model(virtual=True)
    found = rasp.profile(model, input_shape=(1, 3, 224, 224)).total("energy@rasp-2020")
    assert round(found / 10**9, 2) == float(line["Energy (pJ)"][:-1])


def test_the_published_mobilenet_v2_without_torchvision() -> None:
    profile = rasp.profile(rasp.zoo.get("mobilenet_v2").build(), input_shape=(1, 3, 224, 224))
    assert round(profile.total("energy", "rasp-2020") / 10**9, 2) == 7.09
    words = (92_223_904 + 77_852_064) / 4
    assert profile.total("energy", "rasp-head") == pytest.approx(627_688_672 * 4.5 + words * MIXED)
    rows = profile.rows(columns=["energy", "energy%"], convention="rasp-head")
    assert sum(row["energy"] for row in rows[:-1]) == pytest.approx(rows[-1]["energy"])
    assert sum(row["energy%"] for row in rows[:-1]) == pytest.approx(1)


def test_it_follows_the_convention() -> None:
    layer, x = nn.Linear(8, 4), torch.rand(3, 8)
    head = 3 * 4 * 16 * 4.5 + (3 * (8 + 36) + 12) * MIXED
    default = 3 * 4 * 16 * 4.5 + (24 + 36 + 12) * MIXED
    macs = 3 * 4 * 8 * 4.5 + (24 + 36 + 12) * MIXED
    assert energy_of(layer, x, "rasp-head") == pytest.approx(head)
    assert energy_of(layer, x) == pytest.approx(default)
    assert energy_of(layer, x, "mac") == pytest.approx(macs)


def test_each_row_has_the_costs_of_its_dtype() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.narrow, self.wide = nn.Linear(8, 8).half(), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.wide(self.narrow(x).float())

    rows = rasp.profile(Two(), torch.rand(1, 8).half()).rows(columns=["name", "energy"])
    found = {row["name"]: row["energy"] for row in rows}
    words = 8 + 72 + 8
    assert found[".wide"] == pytest.approx(128 * 4.5 + words * MIXED)
    assert found[".narrow"] == pytest.approx(128 * 1.1 + words * MIXED / 2)


@pytest.mark.parametrize(("dtype", "each"), [("bfloat16", 1.1), ("float16", 1.1), ("float64", 18), ("float32", 4.5)])
def test_any_dtype_of_floats(dtype: str, each: float) -> None:
    profile = rasp.profile(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), input_shape=(1, 8), dtype=dtype)
    words = 8 + 72 + 8 + 16
    assert profile.total("energy") == pytest.approx((128 + 8) * each + words * MIXED * ITEMSIZE[dtype] / 4)


def test_whole_numbers() -> None:
    class Look(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    profile = rasp.profile(nn.Sequential(Look()), torch.ones(16, dtype=torch.int8))
    moved = profile.total("mem_rw")
    assert moved
    assert profile.total("energy") == pytest.approx(profile.total("flops") * 3.1 / 16 + moved * MIXED / 4)


def test_operator_kinds_have_none() -> None:
    report = rasp.profile(nn.Linear(4, 4), torch.rand(1, 4)).by_op(columns=["name", "energy"])
    assert [report.value(row, "energy") for row in report.rows] == [None]


def test_unknown_operations_are_no_zero() -> None:
    assert energy_of(nn.Linear(4, 4), torch.rand(1, 4), "rasp-2020") > 0
    profile = rasp.profile(nn.SiLU(), torch.rand(1, 4))
    assert profile.total("energy", "rasp-2020") == 0  # RASP has no formula: nothing counted, nothing moved


# -- costs -------------------------------------------------------------------------------------------------------------


def test_costs_as_rasp_has_them() -> None:
    assert [energy.energy_cost("float32", key) for key in ("add", "mult", "sram", "dram")] == [0.9, 4.5, 5, 640]
    assert [energy.energy_cost("int16", key) for key in ("add", "mult")] == [0.06, 0.8]


def test_missing_costs_go_by_width() -> None:
    assert energy.energy_cost("float64", "dram") == 1280
    assert energy.energy_cost(torch.bfloat16, "sram") == 2.5
    assert energy.energy_cost("int8", "reg") == 0.25
    assert energy.energy_cost("int8", "mult") == pytest.approx(3.1 / 16)
    assert energy.energy_cost("float8_e4m3fn", "add") == pytest.approx(0.9 / 4)
    assert energy.energy_cost("complex64", "mult") == 4.5
    for dtype in ITEMSIZE:
        for key in (*energy.ARITHMETIC, *energy.MEMORY):
            assert energy.energy_cost(dtype, key) > 0


def test_costs_can_be_set(own_costs: None) -> None:
    profile = rasp.profile(nn.Linear(8, 4, bias=False), torch.rand(1, 8))
    before = profile.total("energy")
    energy.set_energy_cost("float32", "mult", 5.5)
    assert profile.total("energy") == pytest.approx(before + profile.total("flops"))
    energy.set_energy_cost(torch.float32, "dram", 0)
    energy.set_energy_cost("float32", "sram", 0)
    assert profile.total("energy") == pytest.approx(profile.total("flops") * 5.5)
    assert energy.energy_cost("float16", "dram") == 0


@pytest.mark.parametrize("value", [-1, "5", None, True, float("nan"), float("inf")])
def test_a_cost_is_a_number(value: Any, own_costs: None) -> None:
    with pytest.raises(InputError, match="number of pJ"):
        energy.set_energy_cost("float32", "mult", value)


def test_names_that_do_not_exist() -> None:
    with pytest.raises(UnknownName, match="float32"):
        energy.set_energy_cost("float23", "mult", 1)
    with pytest.raises(UnknownName, match="mult"):
        energy.energy_cost("float32", "multiply")


# -- switching it on ---------------------------------------------------------------------------------------------------


def test_registering_again_changes_nothing() -> None:
    before = COLUMNS["energy"]
    energy.register()
    assert COLUMNS["energy"] is before


def test_a_report_says_that_it_is_estimated(capsys: pytest.CaptureFixture[str]) -> None:
    rasp.stat(nn.Linear(4, 4), input_shape=(1, 4), includes=["energy"])
    printed = capsys.readouterr().out
    assert "energy: estimated" in printed
    assert "pJ" in printed
    assert "estimated" in COLUMNS["energy"].doc


def test_without_the_addon_the_error_names_it() -> None:
    program = """
import rasp
try:
    rasp.columns.find("energy%@rasp-2020")
except rasp.InputError as error:
    print(error)
"""
    assert "import rasp.addons.energy" in run(program)


def test_importing_it_does_not_import_torch() -> None:
    assert run("import sys, rasp.addons.energy; print('torch' in sys.modules)").strip() == "False"


def test_the_command_line_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    from rasp.cli import run as command

    argument = ["stat", "mobilenet_v2", "-i", "1,3,64,64", "--include", "energy@rasp-2020", "-f", "csv"]
    assert command(argument) == 0
    lines = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert all(line["energy@rasp-2020"] for line in lines)
    assert float(lines[-1]["energy@rasp-2020"]) > 0
