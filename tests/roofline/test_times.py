"""Least times by hand: products at the peak of their type, the rest at the vector peak, bytes at the bandwidth."""

from __future__ import annotations

import math
import platform
from pathlib import Path

import pytest
import torch
from torch import nn

import rasp
from rasp import devices
from rasp.devices import Machine, machine, sheet
from rasp.errors import FileError, InputError, UnknownName

PLAIN = Machine(
    "plain", None, "", bandwidth=1e9, vector=1e10, peaks={"fp32": 1e11, "bf16": 4e11}, how="measured", source="by hand"
)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of round numbers, kept as if it had been calibrated here."""
    monkeypatch.setenv("RASP_HOME", str(tmp_path))
    devices.keep(Machine(**{**vars(PLAIN), "host": platform.node(), "launch": 5e-6}))


def profile(model: nn.Module, shape: tuple[int, ...], **how: object) -> rasp.Profile:
    return rasp.profile(model, input_shape=shape, roof="plain", **how)


@pytest.mark.usefixtures("plain")
def test_a_product_that_computes() -> None:
    found = profile(nn.Linear(4096, 4096, bias=False), (4096, 4096))
    assert found.total("operations") == 2 * 4096**3
    assert found.total("least_time") == pytest.approx(2 * 4096**3 / 1e11)
    assert found.total("attainable") == round(1e11)
    assert found.total("bound") == "compute"


@pytest.mark.usefixtures("plain")
def test_a_product_that_moves_bytes() -> None:
    found = profile(nn.Linear(1024, 1024, bias=False), (1, 1024))
    moved = 4 * (1024 * 1024 + 2 * 1024)
    assert found.total("least_time") == pytest.approx(moved / 1e9)
    assert found.total("bound") == "memory"


@pytest.mark.usefixtures("plain")
def test_small_operators_wait_for_their_launch() -> None:
    assert profile(nn.ReLU(), (1, 8)).total("bound") == "launch"


@pytest.mark.usefixtures("plain")
def test_the_type_of_the_inputs_sets_the_peak() -> None:
    fast = profile(nn.Linear(4096, 4096, bias=False), (4096, 4096), dtype=torch.bfloat16)
    assert fast.total("least_time") == pytest.approx(2 * 4096**3 / 4e11)


def test_convolutions_take_tf32_where_torch_lets_them() -> None:
    model = nn.Conv2d(512, 512, 3, padding=1, bias=False)
    found = rasp.profile(model, input_shape=(64, 512, 56, 56), roof="a100")
    assert found.total("least_time") == pytest.approx(found.total("operations") / sheet()["a100"].peaks["tf32"])


def test_rows_sum_to_the_total_and_other_phases_are_apart() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
    found = rasp.profile(model, input_shape=(2, 3, 8, 8), backward=True, optimizer=torch.optim.AdamW, roof="h100")
    for column in ("least_time", "least_time_bwd", "least_time_opt", "least_time_total"):
        rows = found.rows("tape", [column])
        total = rows.pop()[column]
        assert total > 0
        assert math.fsum(row[column] for row in rows) == pytest.approx(total, rel=1e-12)
        by_op = found.by_op([column], sort=None).dicts()
        assert math.fsum(row[column] for row in by_op[:-1]) == pytest.approx(total, rel=1e-12)
    parts = sum(found.total(f"least_time{end}") for end in ("", "_bwd", "_opt"))
    assert parts == pytest.approx(found.total("least_time_total"))


def test_phases_that_did_not_run_are_not_zero() -> None:
    found = rasp.profile(nn.Linear(4, 4), input_shape=(1, 4))
    assert found.total("least_time_bwd") is None


def test_a_machine_without_the_type_says_nothing() -> None:
    found = rasp.profile(nn.Linear(4, 4, dtype=torch.float64), input_shape=(1, 4), dtypes=torch.float64).on("h100")
    assert found.total("least_time") is not None
    with_it = dict(sheet()["h100"].peaks)
    del with_it["fp64"]
    found.info["machine"] = {**vars(sheet()["h100"]), "peaks": with_it}
    assert rasp.Profile(found.trace, found.info).total("least_time") is None


@pytest.mark.usefixtures("plain")
def test_a_saved_profile_keeps_the_measured_machine_and_takes_others(tmp_path: Path) -> None:
    found = profile(nn.Linear(64, 64), (8, 64))
    path = found.save(tmp_path / "linear.json")
    devices.kept_at().unlink()
    again = rasp.load(path)
    assert again.total("least_time") == found.total("least_time")
    assert "by hand" in str(again.table(columns=["name", "least_time"]))
    assert again.on("a100").total("least_time") < again.total("least_time")


def test_what_is_published_is_whole() -> None:
    assert len(sheet()) >= 50
    for name, item in sheet().items():
        assert item.source, name
        assert item.bandwidth > 1e9, name
        assert item.vector > 1e11, name
        assert item.peaks["fp32"] >= item.vector, name
        assert item.generation == "cpu" or item.memory, name
        order = [item.peaks[kind] for kind in ("fp32", "tf32", "bf16", "fp8") if kind in item.peaks]
        assert order == sorted(order), f"{name}: a narrower type is slower"


def test_names_that_are_no_machine() -> None:
    with pytest.raises(UnknownName, match="h100"):
        machine("h1000")
    with pytest.raises(InputError, match="rasp calibrate --device cuda:0"):
        machine("cuda")
    with pytest.raises(InputError, match="not the name of a machine"):
        rasp.profile(nn.Linear(2, 2), input_shape=(1, 2), roof=7)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="64GiB"):
        rasp.profile(nn.Linear(2, 2), input_shape=(1, 2), memory=True, target="epyc-7763")


def test_a_broken_file_of_machines_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RASP_HOME", str(tmp_path))
    (tmp_path / "machines.json").write_text("[{")
    with pytest.raises(FileError, match="calibrate again"):
        machine("cpu")


@pytest.mark.usefixtures("plain")
def test_rows_above_the_roof_say_why() -> None:
    from rasp.devices.fake import Fake

    class Quick(nn.Module):
        def __init__(self, fake: Fake) -> None:
            super().__init__()
            self.spend = fake.spend

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.spend(1e-6)  # of a second, to move 512 KB at 1 GB/s
            return x * 2

    fake = Fake()
    how = {"roof": "plain", "timing": True, "device": fake, "batches": 2, "warmup": 0}
    found = rasp.profile(nn.Sequential(Quick(fake)), input_shape=(64, 1024), **how)
    assert found.rows(columns=["roof%"])[0]["roof%"] == pytest.approx(2 * 4 * 64 * 1024 / 1e9 / 1e-6, rel=1e-3)
    assert "1 row is above the roof" in str(found.table(columns=["name", "roof%"]))
    assert "above the roof" not in str(found.table(columns=["name", "net_lat"]))
