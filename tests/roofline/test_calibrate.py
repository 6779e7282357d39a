"""Calibrating this machine: what is measured is plausible, kept, and used."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

import rasp
from rasp.cli import run
from rasp.devices import machine
from rasp.errors import InputError
from rasp.measure.ceilings import ceilings


def test_the_command_measures_and_keeps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RASP_HOME", str(tmp_path))
    monkeypatch.setattr("rasp.measure.ceilings.SIDES", {"cpu": (64, 128)})
    monkeypatch.setattr("rasp.measure.ceilings.COPIED", {"cpu": 1 << 22})
    assert run(["calibrate", "--seconds", "0.2"]) == 0
    said = capsys.readouterr()
    assert "bandwidth" in said.out
    assert str(tmp_path) in said.err
    kept = machine("cpu")
    assert kept.how == "measured"
    assert {"fp32", "fp64"} <= set(kept.peaks)
    assert 1e6 < kept.peaks["fp32"] < 1e15
    assert kept.launch is not None
    assert 0 < kept.launch < 1
    found = rasp.profile(nn.Linear(8, 8), input_shape=(1, 8), roof="cpu")
    assert found.total("least_time") > 0
    assert run(["machines"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("cpu\t")


@pytest.mark.parametrize("device", ["tpu9", "meta", "cuda:99"])
def test_devices_that_cannot_be_measured(device: str) -> None:
    with pytest.raises(InputError):
        ceilings(device, 0.1)


def test_no_time_to_measure() -> None:
    with pytest.raises(InputError, match="positive"):
        ceilings("cpu", 0)


def test_caches_as_linux_tells_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rasp.measure import ceilings as room

    for index, size in enumerate(("48K", "2048K", "36M", "odd")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    monkeypatch.setattr(room, "CACHES", tmp_path)
    assert room._cache(room.torch.device("cpu")) == 36 << 20
    monkeypatch.setattr(room, "CACHES", tmp_path / "none")
    assert room._cache(room.torch.device("cpu")) is None


def test_peaks_with_sparsity(capsys: pytest.CaptureFixture[str]) -> None:
    assert machine("h200").sparse_peak("bf16") == 2 * machine("h200").peaks["bf16"]
    assert machine("h200").sparse_peak("fp32") is None
    assert machine("v100").sparse_peak("fp16") is None
    for flags, expected in (([], "989.40 T"), (["--sparse"], "1.98 P")):
        assert run(["machines", *flags]) == 0
        line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("h200\t"))
        assert expected in line.split("\t")
        assert "50.00 MiB" in line
