"""rasp.profile on models: what capture, rules and columns give together."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

import rasp


def test_a_residual_add_is_a_row_of_the_container() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) + x

    rows = rasp.profile(nn.Sequential(Residual()), input_shape=(2, 8)).rows(columns=["name", "type", "flops"])
    assert [(row["kind"], row["name"], row["type"], row["flops"]) for row in rows[:2]] == [
        ("call", ".0.fc", "Linear", 2 * 2 * 64),
        ("own", ".0", "add", 16),
    ]


def test_attention_is_charged_with_the_parameters_it_reads() -> None:
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.rand(2, 5, 8)
    found = rasp.profile(model, inputs=(x, x, x))
    assert found.total("params") == sum(p.numel() for p in model.parameters())
    assert [row["kind"] for row in found.rows()] == ["own", "total"]
    assert found.total("params_active") == found.total("params")
    assert found.uncounted == []


def test_a_bare_parameter_a_frozen_one_and_a_buffer() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))
            self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)
            self.register_buffer("table", torch.ones(5, 8))
            self.unused = nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale + self.frozen + self.table.sum(0)

    found = rasp.profile(Scaled(), input_shape=(2, 8))
    totals = {name: found.total(name) for name in ("params", "trainable", "buffers", "buffer_bytes", "params_active")}
    assert totals == {"params": 16 + 18, "trainable": 8 + 18, "buffers": 40, "buffer_bytes": 160, "params_active": 16}
    assert [(row["kind"], row["params"]) for row in found.rows(columns=["params"])] == [
        ("own", 16),
        ("uncalled", 18),
        ("total", 34),
    ]


def test_tied_weights_are_counted_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(10, 8), nn.Linear(8, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(ids))

    rows = rasp.profile(Tied(), inputs=torch.zeros(1, 4, dtype=torch.long)).rows(columns=["params"])
    assert [(row["params"], row["shared"]) for row in rows] == [(80, False), (0, True), (80, False)]


def test_a_backward_counts_twice_a_linear_layer() -> None:
    found = rasp.profile(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), input_shape=(4, 8), backward=True)
    assert found.total("macs") == 2 * 4 * 64
    assert found.total("macs_bwd") == 3 * 4 * 64, "the first layer's input needs no gradient"
    assert found.total("macs_total") == 5 * 4 * 64
    rows = found.rows(columns=["macs_bwd"])
    assert sum(row["macs_bwd"] for row in rows[:-1]) == rows[-1]["macs_bwd"]


def test_a_saved_profile_answers_the_same(tmp_path: Path) -> None:
    found = rasp.profile(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), input_shape=(1, 3, 8, 8))
    again = rasp.load(found.save(tmp_path / "model.json"))
    names = [column.name for column in rasp.columns()]
    assert again.rows(columns=names) == found.rows(columns=names)
    assert str(again) == str(found)
    assert again.capture_mode == found.capture_mode == "meta"
    assert again.capture_reason is None


def test_what_depends_on_data_runs_for_real_and_says_so() -> None:
    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.fc(x)
            return y if y.sum() > 0 else self.fc(y)

    found = rasp.profile(Branch(), inputs=torch.rand(2, 8))
    assert found.capture_mode == "real"
    assert found.capture_reason is not None
    assert {"why", "op", "module", "where"} <= found.capture_reason.keys()
    assert any("run for real on cpu, since" in note for note in found.table().notes)


def test_strict_refuses_what_no_rule_counts() -> None:
    library = torch.library.Library("rasp_api_test", "DEF")
    library.define("warp(Tensor x) -> Tensor")
    for key in ("CPU", "Meta"):
        library.impl("warp", torch.empty_like, key)

    class Warp(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.rasp_api_test.warp(x)

    found = rasp.profile(nn.Sequential(Warp()), input_shape=(2, 8))
    assert [(gap["op"], gap["calls"], gap["modules"]) for gap in found.uncounted] == [
        ("rasp_api_test::warp", 1, [".0"])
    ]
    assert found.uncounted[0]["bound"] == 16 * 16
    with pytest.raises(rasp.UncountedError, match=r"rasp_api_test::warp ×1 in \.0"):
        rasp.profile(nn.Sequential(Warp()), input_shape=(2, 8), strict=True)


def test_how_a_profile_shows_itself() -> None:
    found = rasp.profile(nn.Linear(8, 4), input_shape=(2, 8))
    assert repr(found).startswith("<rasp.Profile of Linear")
    assert "Linear" in str(found)
    assert set(found._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert found._repr_html_().startswith("<div>")


@pytest.mark.parametrize(
    ("model", "how"),
    [
        (7, {"input_shape": (1, 8)}),
        (nn.Linear, {"input_shape": (1, 8)}),
        (nn.Linear(8, 8), {}),
        (nn.Linear(8, 8), {"input_shape": "1,8"}),
        (nn.Linear(8, 8), {"input_shape": (1, 8), "mode": "evaluate"}),
        (nn.Linear(8, 8), {"input_shape": (1, 8), "optimizer": "sgd"}),
    ],
)
def test_what_cannot_be_profiled_is_a_clear_error(model: object, how: dict[str, object]) -> None:
    with pytest.raises(rasp.InputError):
        rasp.profile(model, **how)


def test_the_models_own_error_stays_visible() -> None:
    with pytest.raises(rasp.RaspError) as caught:
        rasp.profile(nn.Linear(8, 8), input_shape=(1, 7))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_profile_goes_to_another_process() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU())
    profile = rasp.profile(model, input_shape=(2, 4), backward=True)
    again = pickle.loads(pickle.dumps(profile))
    assert str(again) == str(profile)
    for convention in (None, "fvcore"):
        assert again.total("flops", convention) == profile.total("flops", convention)
