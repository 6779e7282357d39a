"""DNN analyzer's face: its README's example line by line, its layout against tabulate's, and what it leaves alone."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rasp
from rasp.compat.dnn_analyzer import ModelAnalyse, model_analysis
from rasp.errors import InputError

EXAMPLE = Path(__file__).parent.parent / "data" / "dnn_analyzer_mobilenet_v2.txt"
TITLES = {
    "name": "module name",
    "parameters": "parameters",
    "mem_read": "mem read (MB)",
    "mem_write": "mem write (MB)",
    "storage": "storage (MB)",
    "inference": "inference (MB)",
    "macs": "MACs (Mega)",
    "duration": "duration[%]",
}


class Net(nn.Module):
    """A layer that is called twice, one without a formula, a buffer that every forward writes, a random draw."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, stride=2)
        self.act, self.drop, self.head = nn.PReLU(), nn.Dropout(), nn.Linear(6, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        x = self.act(self.act(self.conv(x))).mean((2, 3))
        return self.head(self.drop(x + torch.rand_like(x)))


def lines(text: str) -> list[str]:
    """Lines with the measured column blanked."""
    return [re.sub(r"\| [\d.]+ % +\|$", "|", line) for line in text.splitlines()]


def test_the_example_of_the_readme_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    model_analysis.ModelAnalyse(rasp.zoo.get("mobilenet_v2").build(), (3, 224, 224))
    printed, shown = lines(capsys.readouterr().out), lines(EXAMPLE.read_text())
    cut = next(at for at, line in enumerate(shown) if line.startswith("("))
    rest = len(shown) - cut - 1
    assert printed[:cut] == shown[:cut]
    assert printed[-rest:] == shown[-rest:]
    assert len(printed) == 141 + 4 + 5


def test_the_numbers_are_there_as_data() -> None:
    found = ModelAnalyse(Net(), (3, 9, 9), batch_size=2)
    conv, first, second, drop, head = found.rows
    assert (first["path"], second["path"], second["parameters"]) == ("act", "act", 1)
    assert (conv["parameters"], conv["macs"]) == (6 * 27 + 6, 2 * 27 * 6 * 2 * 2)  # 4 places a side, halved again
    assert (drop["macs"], drop["mem_read"], drop["inference"]) == (0, 0, 6 * 4)
    assert (head["macs"], head["mem_read"]) == (2 * 6 * 4, 2 * (4 + 28) * 4)
    assert found.unsupported == ["Dropout"]
    for name in ("parameters", "storage", "inference", "macs"):
        assert found.totals[name] == sum(row[name] for row in found.rows)
    assert found.totals["mem_read_write"] == sum(row["mem_read"] + row["mem_write"] for row in found.rows)
    assert found.totals["macs"] == found.profile.total("flops", "dnn-analyzer")
    assert found.totals["storage"] == found.profile.total("storage", "dnn-analyzer")


def test_durations_are_measured_and_sum_to_all() -> None:
    class Slow(nn.Identity):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            for _ in range(300):
                torch.linalg.matrix_norm(torch.ones(60, 60))
            return input

    found = ModelAnalyse(nn.Sequential(nn.ReLU(), Slow(), nn.ReLU()), (3, 4, 4))
    shares = [row["duration"] for row in found.rows]
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0
    assert shares[1] > 0.8
    assert found.not_run is None


def test_a_model_without_values_is_not_said_to_take_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    with torch.device("meta"):
        model = Net()
    found = ModelAnalyse(model, (3, 9, 9))
    said = capsys.readouterr()
    assert {row["duration"] for row in found.rows} == {None}
    assert said.out.count("| not run") == 5
    assert "meta" in str(found.not_run)
    assert "no durations" in said.err


def test_a_lazy_model_stays_lazy() -> None:
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU())
    try:
        found = ModelAnalyse(model, (3, 8, 8))
    except rasp.RaspError:
        return  # what it cannot count it may refuse
    finally:
        assert isinstance(model[0], nn.LazyConv2d)
    assert "lazy" in str(found.not_run)


def test_what_has_no_formula_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    ModelAnalyse(nn.Sequential(*(nn.Sigmoid() for _ in range(4)), nn.Dropout()), (3, 4, 4))
    said = capsys.readouterr()
    assert said.err.count("Sigmoid") == 1
    assert said.err.count("Dropout") == 1
    assert said.out.startswith("+")


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda model: model])
def test_the_model_is_left_as_it_was(wrap: Any) -> None:
    model = Net().train()
    model.drop.eval()
    calls: list[int] = []
    model.conv.register_forward_hook(lambda *_: calls.append(1))
    before = copy.deepcopy(model.state_dict())
    flags = [module.training for module in model.modules()]
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    classes, random = {m.__class__: m.__class__.__call__ for m in model.modules()}, torch.get_rng_state()
    found = ModelAnalyse(wrap(model), (3, 9, 9))
    assert found.not_run is None
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == flags
    assert [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()] == hooks
    assert all(cls.__call__ is call for cls, call in classes.items())
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in model.parameters())


def test_a_second_analysis_counts_the_same() -> None:
    model = Net()
    one, two = (ModelAnalyse(model, (3, 9, 9)) for _ in range(2))
    assert one.totals == two.totals


def test_half_precision_and_batches() -> None:
    found = ModelAnalyse(nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()).bfloat16(), (3, 5, 5), batch_size=3)
    conv, relu = found.rows
    assert conv["storage"] == 16 * 2
    assert conv["mem_read"] == 3 * (75 + 16) * 2
    assert relu["inference"] == 100 * 2
    assert found.not_run is None


@pytest.mark.parametrize("shape", [(3, 224), (1, 3, 224, 224), 224, "3,224,224", (3, 0, 4), (3, 4.0, 4), None])
def test_another_shape_is_refused_in_words(shape: Any) -> None:
    with pytest.raises(InputError, match=r"channels, height, width"):
        ModelAnalyse(nn.ReLU(), shape)


def test_other_wrong_arguments_are_refused_in_words() -> None:
    with pytest.raises(InputError, match="batch_size"):
        ModelAnalyse(nn.ReLU(), (3, 4, 4), batch_size=0)
    with pytest.raises(InputError, match=r"torch\.nn\.Module; got a str"):
        ModelAnalyse("resnet18", (3, 4, 4))  # type: ignore[arg-type]


def test_what_the_model_raises_is_its_own() -> None:
    with pytest.raises(rasp.ModelError):
        ModelAnalyse(nn.Linear(5, 5), (3, 4, 4))


MODELS = {
    "small": lambda: nn.Sequential(nn.Conv2d(1, 1, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 1)),
    "containers that are rows": lambda: nn.Sequential(nn.Conv2d(1, 700, 3), nn.Sequential(), nn.BatchNorm2d(700)),
    "large": lambda: nn.Sequential(nn.Conv2d(1, 4096, 5, padding=2), nn.Conv2d(4096, 4096, 5, padding=2)),
    "whole numbers": lambda: nn.Sequential(nn.ReLU(), nn.Dropout()),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_layout_is_that_of_tabulate(name: str) -> None:
    tabulate = pytest.importorskip("tabulate").tabulate
    with torch.device("meta"):
        model = MODELS[name]()
    found = ModelAnalyse(model, (1, 32, 32))
    units = {"macs": 1000**2, "mem_read": 2**20, "mem_write": 2**20, "storage": 2**20, "inference": 2**20}
    cells = [{title: _cell(key, row[key], units) for key, title in TITLES.items()} for row in found.rows]
    assert str(found).splitlines()[:-5] == tabulate(cells, headers="keys", tablefmt="psql").splitlines()


def _cell(key: str, value: Any, units: dict[str, int]) -> Any:
    """What the tool hands to tabulate."""
    if key == "duration":
        return "not run" if value is None else f"{round(100 * value, 2)} %"
    return str(round(value / units[key], 3)) if key in units else value


def test_small_totals_have_no_prefix() -> None:
    found = ModelAnalyse(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), (1, 2, 2))
    assert str(found).splitlines()[-5:] == [
        "Total Storage:  60B",
        "Total Parameters:  15",
        "Total inference memory:  28B",
        "Total number of Macs:  12MAC",
        "Total Memory Read + Write:  72B",
    ]
