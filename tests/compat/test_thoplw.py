"""thoplw's own names: its README's table, every kind and format in both layouts, the package itself, other models."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rasp
from rasp.compat import thoplw
from rasp.errors import UnknownName

SAMPLE = Path(rasp.__file__).parent / "published" / "thoplw_resnet18.txt"
KINDS, FORMATS = ("text", "csv", "md"), ("raw", "clever", "ratio")


@pytest.fixture(scope="module")
def resnet18() -> Any:
    torchvision = pytest.importorskip("torchvision")
    return thoplw.profile(torchvision.models.resnet18(), tensor=torch.randn(1, 3, 224, 224))


def test_the_example_of_the_readme_line_by_line(resnet18: Any) -> None:
    macs, params, info = resnet18
    assert (macs, params) == (1_824_010_216, 11_699_112)
    printed = SAMPLE.read_text().splitlines()
    ours = info.summary().splitlines()
    table = printed[printed.index("") + 1 :]
    left_out = table.index("...")
    assert ours[:left_out] == table[:left_out]
    assert ours[left_out + 1 - len(table) :] == table[left_out + 1 :]
    assert len(ours) == 56


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("columns", ["readme", "released"])
def test_every_kind_and_format_has_every_row(resnet18: Any, kind: str, fmt: str, columns: str) -> None:
    _, _, info = resnet18
    lines = info.summary(kind=kind, fmt=fmt, columns=columns).split("\n")
    assert len(lines) == {"text": 56, "csv": 54, "md": 55}[kind]
    if kind == "csv":
        rows = list(csv.reader(io.StringIO("\n".join(lines))))
        assert {len(row) for row in rows} == {6}
        cells = rows[1]
    else:
        assert len(set(map(len, lines))) == 1, "columns stand under each other"
        cells = [cell.strip() for cell in lines[2].strip("| ").split("|")]
    macs = {"raw": "118013952", "clever": "118.01 M", "ratio": "6.47 %"}[fmt]
    params = {"raw": "9408", "clever": "9.41 K", "ratio": "0.08 %"}[fmt]
    if columns == "readme":
        assert cells == ["conv1", "Conv2d", "3 x 224 x 224", "64 x 112 x 112", macs, params]
    else:
        assert cells == ["conv1", "3x224x224", "64x112x112", macs, params, "Conv2d k=7 p=3 s=2"]
    total = {"raw": ("1824010216", "11699112", "11689512"), "clever": ("1.82 G", "11.70 M", "11.69 M")}
    wanted = total["raw" if fmt == "raw" else "clever"]
    assert wanted[0] in lines[-1]
    assert wanted[1 if columns == "readme" else 2] in lines[-1]


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "googlenet", "shufflenet_v2_x0_5"])
def test_the_released_layout_is_the_packages_own(name: str) -> None:
    package, torchvision = pytest.importorskip("thoplw"), pytest.importorskip("torchvision")
    options = {"init_weights": False} if name == "googlenet" else {}
    model, x = torchvision.models.get_model(name, **options).eval(), torch.rand(2, 3, 64, 64)
    _, _, ours = thoplw.profile(model, x, verbose=False)
    _, _, theirs = package.profile(model, x, verbose=False)
    for kind in KINDS:
        for fmt in FORMATS:
            assert ours.summary(kind, fmt, "released") == theirs.summary(kind, fmt)


def test_clever_format_of_one_and_of_many() -> None:
    assert thoplw.clever_format(1_824_010_216) == "  1.82 G"
    assert thoplw.clever_format([1_824_010_216, 11_699_112], "%.3f") == ["1.824 G", "11.699 M"]
    assert thoplw.clever_format((12, 3.5)) == [" 12.00  ", "  3.50  "]
    assert thoplw.clever_format(999_999).strip() == "1.00 M", "no thousands of a thousand"
    assert thoplw.clever_format(10**19).strip() == "10000.00 P"
    assert thoplw.clever_format(0).strip() == "0.00"


# -- other models ------------------------------------------------------------------------------------------------------


class Mixed(nn.Module):
    """A layer called twice, one never, functions, a class without a formula that holds parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.gate = nn.Conv2d(3, 4, 3, bias=False), nn.ReLU(), nn.GroupNorm(2, 4)
        self.pool, self.fc, self.never = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 5), nn.Linear(9, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.gate(self.relu(self.conv(x))) + 1)
        return self.fc(F.relu(self.pool(x)).flatten(1))


def test_what_has_no_formula_is_told_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    macs, params, info = thoplw.profile(Mixed(), torch.rand(2, 3, 8, 8))
    assert [name for name, _ in info.counted] == ["conv", "relu", "pool", "fc"]
    assert macs == 3 * 4 * 9 * 36 + 2 * (2 * 4) + (4 * 5 + 5)
    assert params == 3 * 4 * 9 + 4 * 5 + 5
    said = capsys.readouterr().out
    assert "The following layers will be unexpectedly ignored:" in said
    assert "GroupNorm" in said
    assert "Linear" not in said, "what never ran is not ignored, it costs nothing"
    thoplw.profile(Mixed(), torch.rand(2, 3, 8, 8), verbose=False)
    assert capsys.readouterr().out == ""


def test_custom_operations_count_hide_and_free() -> None:
    seen: list[tuple[int, ...]] = []

    def group_norm(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> int:
        seen.append(tuple(inputs[0].shape))
        return inputs[0].numel()

    model, x = Mixed(), torch.rand(2, 3, 8, 8)
    macs, params, _ = thoplw.profile(model, x, verbose=False)
    counted = thoplw.profile(model, x, {nn.GroupNorm: group_norm}, verbose=False)
    assert seen == [(2, 4, 6, 6)]
    assert (counted[0] - macs, counted[1] - params) == (2 * 4 * 36, 8)
    free = thoplw.profile(model, x, {nn.GroupNorm: lambda *_: 0}, verbose=False)
    assert (free[0] - macs, free[1] - params) == (0, 8)
    hidden = thoplw.profile(model, x, {nn.Linear: lambda *_: None}, verbose=False)
    assert (macs - hidden[0], params - hidden[1]) == (25, 25)
    with pytest.raises(rasp.InputError, match="must give a number, or None"):
        thoplw.profile(model, x, {nn.Linear: lambda *_: "many"}, verbose=False)


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_custom_operation_that_raises_leaves_the_model_as_it_was(error: BaseException) -> None:
    def stop(*_: Any) -> int:
        raise error

    model = Mixed().train()
    model.gate.eval()
    keys = list(model.state_dict())
    with pytest.raises(type(error)):
        thoplw.profile(model, torch.rand(2, 3, 8, 8), {nn.Linear: stop}, verbose=False)
    assert model.training
    assert not model.gate.training
    assert list(model.state_dict()) == keys
    assert not any(module._forward_hooks or hasattr(module, "thoplw_log") for module in model.modules())


@pytest.mark.parametrize(
    ("model", "shape", "macs", "params"),
    [
        (nn.Sequential(nn.Conv1d(2, 4, 3)), (1, 2, 9), 2 * 4 * 3 * 7 + 4, 28),  # the package stops here
        (nn.Sequential(nn.Conv3d(1, 2, 3)), (1, 1, 5, 5, 5), 2 * 27 * 27 + 2, 56),  # and here
        (nn.Sequential(nn.LeakyReLU()), (1, 4), 1, 0),  # and here
        (nn.LSTM(4, 5), (3, 2, 4), 0, 0),
        (nn.Sequential(nn.Identity(), nn.GELU()), (2, 3), 0, 0),
        (nn.Sequential(nn.Linear(16, 32)), (1, 7, 16), 7 * 7 + 32, 544),
    ],
    ids=["conv1d", "conv3d", "leaky", "lstm", "nothing to count", "linear in 3-d"],
)
def test_where_the_package_stops_there_is_an_answer(
    model: nn.Module, shape: tuple[int, ...], macs: int, params: int
) -> None:
    found = thoplw.profile(model, torch.rand(shape), verbose=False)
    assert found[:2] == (macs, params)
    for kind in KINDS:
        for fmt in FORMATS:
            for columns in ("readme", "released"):
                assert "Total" in found[2].summary(kind, fmt, columns)


def test_wrong_use_is_told() -> None:
    _, _, info = thoplw.profile(nn.Linear(2, 3), torch.rand(1, 2), verbose=False)
    for options in ({"kind": "html"}, {"fmt": "pretty"}, {"columns": "all"}):
        with pytest.raises(UnknownName, match="Known: "):
            info.summary(**options)
    with pytest.raises(rasp.RaspError):
        thoplw.profile("resnet18", torch.rand(1, 2))
    assert isinstance(info, thoplw.LayersInfo)
    assert thoplw.LayerInfo is thoplw.LayersInfo


def test_the_model_keeps_its_mode_and_nothing_is_left_on_it() -> None:
    model = Mixed().train()
    thoplw.profile(model, torch.rand(2, 3, 8, 8), verbose=False)
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or hasattr(module, "thoplw_log") for module in model.modules())
