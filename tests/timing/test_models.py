"""Models of every kind are timed, their rows add up, and what cannot be timed says why."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

import rasp


class Cached(nn.Module):
    """Takes an object that grows in the forward, as a cache of keys does."""

    def forward(self, x: torch.Tensor, cache: object) -> torch.Tensor:
        cache.keys = torch.cat([cache.keys, x])
        return cache.keys.sum(0)


class Cache:
    def __init__(self) -> None:
        self.keys = torch.zeros(1, 4)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, batch: dict, scale: float = 1.0) -> dict:
        return {"out": [self.layer(batch["x"]) * scale]}


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


def shared() -> nn.Module:
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


MODELS = {
    "tied": (tied, {"input_shape": (2, 4)}),
    "shared": (shared, {"input_shape": (2, 4)}),
    "nested": (Nested, {"inputs": {"batch": {"x": torch.ones(2, 4)}, "scale": 2.0}}),
    "cache": (Cached, {"inputs": (torch.ones(1, 4), Cache())}),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2),
        {"input_shape": (2, 5, 16)},
    ),
    "lstm": (lambda: nn.LSTM(4, 8, 2), {"input_shape": (5, 2, 4)}),
    "scripted": (lambda: torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), {"input_shape": (2, 4)}),
    "compiled": (lambda: torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), {"input_shape": (2, 4)}),
    "parallel": (lambda: nn.DataParallel(nn.Linear(4, 4)), {"input_shape": (2, 4)}),
    "half": (lambda: nn.Linear(4, 4).bfloat16(), {"input_shape": (2, 4)}),
    "ids": (lambda: nn.Embedding(10, 4), {"input_shape": (2, 3), "dtypes": "int64"}),
    "bare": (lambda: nn.Conv2d(3, 4, 3), {"input_shape": (2, 3, 8, 8)}),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "step"])
@pytest.mark.filterwarnings("ignore")
def test_rows_add_up(name, backward):
    build, given = MODELS[name]
    if backward and name == "cache":
        pytest.skip("nothing to run backward")
    torch.manual_seed(0)
    found = rasp.profile(build(), timing=True, batches=4, warmup=1, backward=backward, **given)
    rows = found.rows(columns=["name", "net_lat", "flops", "FLOPS"])
    assert sum(row["net_lat"] or 0 for row in rows[:-1]) == rows[-1]["net_lat"] == found.latency.median > 0
    assert found.latency.n == 4
    assert any(row["kind"] in ("call", "own") and row["net_lat"] for row in rows)


def test_the_fused_encoder_is_timed_as_it_runs():
    """In evaluation torch takes a fused kernel for a layer, and does not call the modules inside."""
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1, enable_nested_tensor=False
    ).eval()
    found = rasp.profile(model, input_shape=(2, 5, 16), timing=True, batches=3, warmup=1)
    rows = {row["name"]: row for row in found.rows("leaves", ["name", "net_lat"])}
    assert rows[".layers.0.linear1"]["net_lat"] is None
    assert rows[".layers.0"]["net_lat"] > 0


def test_models_without_data_or_of_no_device_say_what_to_do():
    with pytest.raises(rasp.InputError, match="meta device and holds no data"):
        rasp.profile(nn.Linear(4, 4, device="meta"), input_shape=(2, 4), timing=True)
    with pytest.raises(rasp.InputError, match="give device='cpu'"):
        rasp.profile(nn.Linear(4, 4), input_shape=(2, 4), timing=True, device="meta")
    with pytest.raises(rasp.InputError, match="lazy"):
        rasp.profile(nn.LazyLinear(4), input_shape=(2, 4), timing=True)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"batches": 0}, "1 or more"),
        ({"batches": 2.5}, "whole number"),
        ({"warmup": -1}, "0 or more"),
        ({"seconds": 0}, "above 0"),
        ({"precision": -1}, "above 0"),
        ({"timing": "fast"}, "'whole'"),
    ],
)
def test_wrong_settings_are_refused(wrong, words):
    with pytest.raises(rasp.InputError, match=words):
        rasp.profile(nn.Linear(4, 4), input_shape=(2, 4), **{"timing": True, **wrong})


@pytest.mark.parametrize("unused", [{"batches": 5}, {"seconds": 1.0}, {"compiled": True}, {"channels_last": True}])
def test_how_to_measure_without_measuring_is_refused(unused):
    with pytest.raises(rasp.InputError, match="add timing=True"):
        rasp.profile(nn.Linear(4, 4), input_shape=(2, 4), **unused)


def test_a_model_that_needs_its_data_is_timed_as_well():
    class Picky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)
            kept = y[y.sum(1) > 0]
            return self.other(kept) if len(kept) else kept

    torch.manual_seed(0)
    found = rasp.profile(Picky(), torch.randn(8, 4), timing=True, batches=3, warmup=1)
    assert found.capture_mode == "real"
    rows = found.rows(columns=["name", "net_lat"])
    assert sum(row["net_lat"] or 0 for row in rows[:-1]) == rows[-1]["net_lat"]
    assert {row["name"]: row["net_lat"] for row in rows}[".other"] > 0


def test_a_failing_compiler_is_a_remark(monkeypatch):
    def broken(*args, **options):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(torch, "compile", broken)
    found = rasp.profile(nn.Linear(4, 4), input_shape=(2, 4), timing=True, batches=2, compiled=True)
    assert found.latency.n == 2
    assert any("no compiler here" in remark for remark in found.samples.remarks)


def test_the_compiled_whole_on_request():
    """In a process of its own: torch's compiler patches functions for good when it is first used."""
    code = """
import rasp, torch
found = rasp.profile(torch.nn.Linear(4, 4), input_shape=(2, 4), timing=True, batches=3, compiled={"backend": "eager"})
assert found.compiled_latency.n == 3
assert "torch.compile" in str(found.table())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_call_of_the_readme_of_rasp(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    rasp.CFG.profile.num_batches = 3
    rasp.CFG.profile.warmup_batches = 1
    try:
        rasp.stat(model, input_shape=(1, 3, 8, 8), timing=True)
        assert "net_lat" in capsys.readouterr().out
        data = rasp.stat(model, input_shape=(1, 3, 8, 8), timing=True, print_stat=False, returns="data")
        assert data.iloc[-1]["lat"] == data.iloc[-1]["net_lat"] > 0
        for report_type in ["tape", "node", "leaves", "root", None]:
            rasp.stat(model, input_shape=(1, 3, 8, 8), report_type=report_type, timing=True)
        rasp.stat(model, inputs=torch.randn(8, 3, 8, 8), timing=True, save_path="./reports")
        assert "net_lat" in (tmp_path / "reports" / "Sequential.csv").read_text()
    finally:
        del rasp.CFG.profile.num_batches, rasp.CFG.profile.warmup_batches


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_cuda_device():
    model = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3))
    found = rasp.profile(model, input_shape=(8, 3, 64, 64), timing=True, device="cuda", batches=10)
    rows = found.rows(columns=["net_lat"])
    assert sum(row["net_lat"] or 0 for row in rows[:-1]) == rows[-1]["net_lat"]
    assert found.samples.environment["gpu"]
    assert next(model.parameters()).device.type == "cpu"
