"""Layouts of a whole profile as text."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import rasp
from rasp.styles import STYLES, style


@pytest.fixture(scope="module")
def profile() -> rasp.Profile:
    return rasp.profile(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), input_shape=(2, 4))


def test_tree_and_table_are_the_reports(profile: rasp.Profile):
    assert profile.text() == profile.text("tree") == str(profile.tree())
    assert profile.text("table", columns=["name", "macs"]) == str(profile.table(columns=["name", "macs"]))


def test_a_style_is_one_function(profile: rasp.Profile):
    @style("paths")
    def paths(profile: rasp.Profile, sep: str = " ") -> str:
        return sep.join(module.path for module in profile.trace.modules)

    try:
        assert profile.text("paths", sep="/") == "/0/1"
    finally:
        del STYLES._items["paths"]


def test_unknown_styles_and_options_are_said(profile: rasp.Profile):
    with pytest.raises(rasp.UnknownName, match="tree"):
        profile.text("treee")
    with pytest.raises(rasp.InputError, match="no option 'deep'; it has: depth"):
        profile.text("tree", deep=2)


class Nested(nn.Module):
    """Blocks in a list, an idle layer, a shared layer, a residual sum, a dict of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU()) for _ in range(2)])
        self.idle, self.again = nn.Linear(2, 2), self.blocks[0][0]

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for block in self.blocks:
            x = torch.add(x, block(x))
        return {"before": x, "after": self.again(x)}


@pytest.fixture(scope="module")
def nested() -> rasp.Profile:
    return rasp.profile(Nested(), input_shape=(2, 3, 8, 8), functions=True)


def test_repr_is_what_torch_prints_with_costs_before():
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.Softmax(dim=1), nn.Linear(3, 2, bias=False)))
    text = rasp.profile(model, input_shape=(2, 4)).text("repr")
    cost = r"\d\S*( [kMG])?, \S+ Params, \S+ [KMG]?MACs, \S+ MACs, "
    assert re.sub(cost, "", re.sub(rf"^ *{cost}\n", "", text, flags=re.M)) == str(model)


def test_repr_counts_a_module_with_all_inside_it(nested: rasp.Profile):
    text = nested.text("repr")
    conv = 2 * 3 * 64 * 27
    assert f"{round(3 * conv / 1000, 2)} KMACs, 100.00% MACs" in text
    assert "(0): Conv2d(84, 48.28% Params, 20.74 KMACs, 66.67% MACs, 3, 3, kernel_size=(3, 3)" in text  # called twice
    assert "(idle): Linear(6, 3.45% Params, 0 MACs, 0.00% MACs, in_features=2" in text


def test_repr_of_nothing_but_a_layer():
    layer = rasp.profile(nn.ReLU(inplace=True), input_shape=(2, 4), functions=True)
    assert layer.text("repr") == "ReLU(0, 0.00% Params, 0 MACs, 0.00% MACs, inplace=True)"


def test_latencies_are_shown_where_they_are_given(nested: rasp.Profile):
    given = {"": 2e-3, "blocks.0": 0.5e-3, "blocks.1": 0.75e-3, "blocks.0.0": 3e-4}
    text = nested.text("repr", latencies=given)
    assert "2.0 ms, 100.00% latency" in text
    assert "(blocks): ModuleList(\n    168, 96.55% Params, 31.1 KMACs, 100.00% MACs, 1.25 ms, 62.50% latency" in text
    assert "300.0 us, 15.00% latency, 140.8 MFLOPS" in text
    lines = nested.text("tids", latencies=given).splitlines()
    assert lines[0] == (
        "(model): Nested, num_params 174, 2.0ms, 100.0% latency, input shape [2, 3, 8, 8], output shape [2, 3, 8, 8]"
    )
    assert (
        lines[1] == "\t(blocks): ModuleList, num_params 168, 1.25ms, 62.5% latency, input shape None, output shape None"
    )
    assert lines[4].startswith("\t\t\t(1): ReLU, num_params 0, 0ms, 0.0% latency, input shape [2, 3, 8, 8]")
    with pytest.raises(rasp.UnknownName, match=r"blocks\.0"):
        nested.text("tids", latencies={"block.0": 1.0})
    with pytest.raises(rasp.InputError, match="seconds"):
        nested.text("tids", latencies={"blocks.0": -1.0})


def test_row_settings_of_torchinfo_give_its_layout(nested: rasp.Profile):
    settings = ("depth", "var_names", "ascii_only")
    text = nested.text("tree", depth=2, rows=settings, columns=["output_size", "mult_adds"])
    assert text == nested.text("summary", depth=2, rows=settings, columns=["output_size", "mult_adds"])
    assert "Layer (type (var_name):depth-idx)" in text
    assert nested.text("tree", rows=["depth"]) == nested.text("summary")
    with pytest.raises(rasp.UnknownName, match="row setting"):
        nested.text("tree", rows=["names"])


@pytest.mark.parametrize("name", ["tids", "repr"])
def test_depths(nested: rasp.Profile, name: str):
    assert "(blocks)" not in nested.text(name, depth=0)
    assert "Sequential" not in nested.text(name, depth=1)
    assert nested.text(name, depth=9) == nested.text(name)


@pytest.mark.parametrize("name", ["tids", "repr", "summary"])
def test_layouts_need_no_model(nested: rasp.Profile, name: str, tmp_path):
    nested.save(tmp_path / "nested.json")
    assert rasp.load(tmp_path / "nested.json").text(name) == nested.text(name)


def test_layouts_are_recorded_later_while_the_model_lives():
    model = Nested()
    profile = rasp.profile(model, input_shape=(2, 3, 8, 8))
    assert "kernel_size=(3, 3)" in profile.text("repr")


def test_a_style_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path):
    from rasp.cli import run

    assert run(["stat", "mobilenet_v2", "--style", "tids", "--depth", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert run(["stat", "mobilenet_v2", "--style", "repr", "-o", str(tmp_path / "repr.txt")]) == 0
    assert (tmp_path / "repr.txt").read_text().startswith("MobileNetV2(\n  3.5 M, 100.00% Params, 300.77 MMACs")
    assert run(["stat", "mobilenet_v2", "--style", "repr", "--by", "op"]) == 2
    assert run(["stat", "mobilenet_v2", "--style", "summary", "--columns", "output_size,mult_adds"]) == 0
    assert "Mult-Adds" in capsys.readouterr().out
    assert run(["stat", "mobilenet_v2", "--style", "nothing"]) == 2
    assert "Known: memory, repr, summary" in capsys.readouterr().err
