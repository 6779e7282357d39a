"""The published numbers come out again, and the page of them says where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rasp import cli, reproduction
from rasp.errors import UnknownName
from rasp.reproduction import Line, Published, Result, _page

pytest.importorskip("torchvision")

reproduction.load()
TABLES = list(reproduction.TABLES.values())
ELSEWHERE = {  # numbers that other tests hold already
    "convnet-burden, the tables", "convnet-burden, features at other sizes", "DNN analyzer, models of torchvision",
    "RASP, models of torchvision", "RASP, MobileNetV2, memory of a GPU layer by layer",
}  # fmt: skip
LINES = {  # of the tables as their READMEs have them
    "convnet-burden, the tables": 48, "DeepSpeed, ResNet-18 module by module": 68,
    "DNN analyzer, MobileNetV2 layer by layer": 15, "DNN analyzer, MobileNetV2 totals": 5,
    "DNN analyzer, models of torchvision": 14, "RASP, MobileNetV2 layer by layer": 141,
    "RASP, models of torchvision": 34, "thoplw, models of torchvision": 33, "TIDSProfiler, ResNet-18 line by line": 68,
}  # fmt: skip


@pytest.mark.parametrize(
    "table", [pytest.param(t, id=t.name, marks=[pytest.mark.slow] * (t.name in ELSEWHERE)) for t in TABLES]
)
def test_a_published_table_comes_out_again(table: Published) -> None:
    result = Result(table, list(table.lines()))
    assert not [(line.name, line.cells[column]) for line in result.lines for column in line.wrong]
    assert result.same == result.values > 0
    assert len(result.lines) == LINES.get(table.name, len(result.lines))


def test_the_page_says_what_is_not_the_same() -> None:
    lines = [Line("one", {"MACs": ("1.82 G", "1.82 G")}), Line("two", {"MACs": ("7 M", "8 M")}), Line("none", {})]
    table = Published("a table", "a README", lambda: lines, measured=("ms",))
    text = _page.page([Result(table, lines), Result(Published("other", "it", list), missing="torchvision")], "torch 2")
    assert "**1 of 2 printed values are the same.**" in text
    assert "| one | 1.82 G | 1.82 G | yes |" in text
    assert "| two | 7 M | 8 M | **no: MACs** |" in text
    assert "| none |   |   | not computed |" in text
    assert "| [a table](#a-table) | 3 | 2 | 1 | ms |" in text
    assert "Not computed here: torchvision is not installed." in text


def test_the_command_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = {name: t for name, t in reproduction.TABLES._items.items() if "MobileNetV2 totals" in name}
    monkeypatch.setattr(reproduction.TABLES, "_items", few)
    assert cli.run(["reproduce"]) == 0
    assert "**5 of 5 printed values are the same.**" in (tmp_path / "docs" / "reproduction.md").read_text()
    assert cli.run(["reproduce", "--only", "totals", "-o", "page.md"]) == 0
    assert "| Total Storage | 13.37 MB | 13.37 MB | yes |" in (tmp_path / "page.md").read_text()
    capsys.readouterr()
    assert cli.run(["reproduce", "--only", "nothing"]) == 2
    assert "published table" in capsys.readouterr().err


def test_a_table_of_another_name_is_refused() -> None:
    with pytest.raises(UnknownName, match="thoplw, the example"):
        list(reproduction.reproduce(only="thopl w, the example"))
