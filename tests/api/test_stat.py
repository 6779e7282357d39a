"""rasp.stat, as its README shows it."""

from __future__ import annotations

import csv
from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rasp
import rasp.zoo

FACTS = Path(__file__).parent.parent / "data" / "rasp_mobilenet_v2.csv"
IMAGE = (1, 3, 224, 224)


class Small(nn.Module):
    """Two layers, a residual and a shared activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.act = nn.Linear(8, 8), nn.Linear(8, 8), nn.ReLU()
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.first(x)) + x
        return self.head(self.act(self.second(x)))


@pytest.fixture(scope="module")
def mobilenet() -> nn.Module:
    return rasp.zoo.get("mobilenet_v2").build()


def assert_published(rows: list[dict[str, Any]]) -> None:
    with FACTS.open() as file:
        published = list(csv.DictReader(file))
    assert len(rows) == len(published) == 141
    for row, fact in zip(rows, published):
        assert (row["name"], row["type"]) == (fact["name"], fact["type"])
        for shape in ("in_shape", "out_shape"):
            assert row[shape] == literal_eval(fact[shape]), row["name"]
        for number in ("params", "flops", "mem_r", "mem_w", "mem_rw", "macc"):
            assert row[number] == int(fact[number]), (row["name"], number)


def test_every_published_row_is_exact(mobilenet: nn.Module) -> None:
    pytest.importorskip("pandas")
    data = rasp.stat(mobilenet, input_shape=IMAGE, includes=["macc"], print_stat=False, returns="data")
    calls = data[data.kind == "call"]
    assert list(calls.index) == list(range(141))
    assert_published(calls.to_dict("records"))


def test_every_published_row_is_exact_with_torchvision() -> None:
    models = pytest.importorskip("torchvision.models")
    found = rasp.profile(models.mobilenet_v2(weights=None), input_shape=IMAGE)
    rows = found.rows(
        columns=["name", "type", "in_shape", "out_shape", "params", "flops", "mem_r", "mem_w", "mem_rw", "macc"]
    )
    assert_published([row for row in rows if row["kind"] == "call"])


def test_it_prints_a_table_and_returns_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert rasp.stat(Small(), input_shape=(2, 8)) is None
    out = capsys.readouterr().out
    assert ".first" in out
    assert "total" in out
    assert "=====" in out
    assert "Total params: 171" in out


def test_print_stat_off_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    rasp.stat(Small(), input_shape=(2, 8), print_stat=False)
    assert capsys.readouterr().out == ""


def test_columns_are_chosen_as_in_rasp() -> None:
    def fields(**how: Any) -> list[str]:
        data = rasp.stat(Small(), input_shape=(2, 8), print_stat=False, returns="data", **how)
        return [name for name in data.columns if name not in ("kind", "shared")]

    pytest.importorskip("pandas")
    default = ["name", "type", "in_shape", "out_shape", "params", "flops", "mem_r", "mem_w", "mem_rw"]
    assert fields() == default
    assert fields(includes=["macc"], excludes=["flops"]) == [n for n in default if n != "flops"] + ["macc"]
    assert fields(includes=["macs", "calls", "macc"])[-3:] == ["macs", "calls", "macc"]
    assert fields(report_fields=["name", "macs"], includes=["flops%"]) == ["name", "macs", "flops%"]
    assert fields(includes="macc,macs")[-2:] == ["macc", "macs"]


def test_the_lists_given_are_not_changed() -> None:
    lists = {"report_fields": ["name", "flops"], "includes": ["macc"], "excludes": ["flops"]}
    rasp.stat(Small(), input_shape=(2, 8), print_stat=False, **lists)
    assert lists == {"report_fields": ["name", "flops"], "includes": ["macc"], "excludes": ["flops"]}


def test_returns_one_or_several() -> None:
    pytest.importorskip("pandas")

    def returned(what: Any, **how: Any) -> Any:
        return rasp.stat(Small(), input_shape=(2, 8), print_stat=False, returns=what, **how)

    data, tree, text = returned("data,tree,sum")
    assert data.index[-1] == "total"
    assert data.loc["total", "params"] == 8 * 8 * 2 + 16 + 27
    assert tree["params"] == 171
    assert tree.find("head")["params"] == 27
    assert [child.name for child in tree.children] == [".first", ".act", ".second", ".head", "."]
    assert "Total flops" in text
    assert isinstance(returned("sum"), str)
    assert len(returned(["tree", "sum"])) == 2
    assert returned("data", report_type=None) is None
    assert returned(None) is None


@pytest.mark.parametrize("report_type", ["tape", "node", "leaves", "root", None])
def test_every_report_type(report_type: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    rasp.stat(Small(), input_shape=(2, 8), report_type=report_type)
    assert bool(capsys.readouterr().out) == (report_type is not None)


def test_what_the_report_types_hold() -> None:
    found = rasp.profile(Small(), input_shape=(2, 8))
    names = {kind: [row["name"] for row in found.rows(kind, ["name"])] for kind in ("tape", "leaves", "node", "root")}
    assert names == {
        "tape": [".first", ".act", ".second", ".act", ".head", ".", "total"],
        "leaves": [".first", ".second", ".act", ".head", ".", "total"],
        "node": [".", "total"],
        "root": [".", "total"],
    }
    assert found.rows(None) == []


def test_include_root_shows_the_model_and_does_not_double_the_total() -> None:
    pytest.importorskip("pandas")
    data = rasp.stat(Small(), input_shape=(2, 8), include_root=True, print_stat=False, returns="data")
    assert list(data.index[-2:]) == ["root", "total"]
    assert data.loc["root", "flops"] == data.loc["total", "flops"]


def test_inputs_of_your_own() -> None:
    pytest.importorskip("pandas")
    data = rasp.stat(Small(), inputs=torch.rand(5, 8), print_stat=False, returns="data")
    assert data["in_shape"].iloc[0] == (5, 8)


def test_inputs_and_input_shape_are_too_much() -> None:
    with pytest.raises(rasp.InputError, match="not both"):
        rasp.stat(Small(), input_shape=(2, 8), inputs=torch.rand(2, 8))


def test_it_runs_in_evaluation_mode_and_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).train()
    tree = rasp.stat(model, input_shape=(4, 8), print_stat=False, returns="tree")
    assert tree.find("2")["mem_r"] == 0
    assert model.training
    assert int(model[1].num_batches_tracked) == 0


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"includes": ["mac"]}, "Did you mean"),
        ({"excludes": ["flop"]}, "Did you mean"),
        ({"report_fields": ["nam"]}, "Did you mean 'name'"),
        ({"report_type": "leafs"}, "Did you mean 'leaves'"),
        ({"returns": "date"}, "Did you mean 'data'"),
        ({"convention": "rap"}, "Did you mean 'rasp'"),
        ({"report_fields": ["flops"], "excludes": ["flops"]}, "No column is left"),
        ({"includes": [3]}, "takes names"),
    ],
)
def test_options_that_do_not_exist(how: dict[str, Any], words: str) -> None:
    with pytest.raises(rasp.InputError, match=words):
        rasp.stat(Small(), input_shape=(2, 8), print_stat=False, **how)


def test_save_path_a_folder_or_a_file(tmp_path: Path) -> None:
    def saved(path: Path) -> list[str]:
        rasp.stat(Small(), input_shape=(2, 8), print_stat=False, save_path=path)
        return sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())

    assert saved(tmp_path / "reports") == ["reports/Small.csv"]
    assert saved(tmp_path / "a.md") == ["a.md", "reports/Small.csv"]
    assert "b.json" in saved(tmp_path / "b.json")
    with pytest.raises(rasp.FileError, match="is a report"):
        rasp.load(tmp_path / "b.json")
    with pytest.raises(rasp.UnknownName, match="suffix"):
        saved(tmp_path / "c.pdf")


def test_a_bare_file_name_is_written_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rasp.stat(Small(), input_shape=(2, 8), print_stat=False, save_path="table.csv")
    with (tmp_path / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[-1]["kind"] == "total"
    assert rows[-1]["params"] == "171"


def test_without_pandas_a_frame_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(rasp.InputError, match="pip install pandas"):
        rasp.stat(Small(), input_shape=(2, 8), print_stat=False, returns="data")
