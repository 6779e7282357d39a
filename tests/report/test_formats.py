"""Formats: goldens for their look (pytest --update-goldens rewrites them), and their numbers read back."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from rasp.errors import FileError
from rasp.profile import Profile
from rasp.render import FORMATS, load
from traces import Builder, blocks, spec

GOLDENS = Path(__file__).parent.parent / "goldens"


def everything() -> Profile:
    """A small model with rows of every kind."""
    b = Builder("Small")
    b.trace.inputs.append(("x", spec(4, 8)))
    b.enter("", (spec(4, 8),), (spec(4, 3),))
    for i in range(3):
        b.module(f"layers.{i}", "Block")
        b.enter(f"layers.{i}", (spec(4, 8),), (spec(4, 8),))
        b.leaf(f"layers.{i}.fc")
        b.op("aten::add", spec(4, 8), spec(4, 8), 1, out=spec(4, 8))
        b.leave()
    b.leaf("layers.0.fc")
    b.module("odd", "Odd")
    b.enter("odd", (spec(4, 8), spec(4, 1)), (spec(4, 8),))
    b.op("mylib::odd", spec(4, 8), out=spec(4, 8))
    b.leave()
    b.leaf("head", to=3)
    b.module("aux", "Linear")
    b.tensor("aux", "weight", 10, 10)
    b.leave()
    return Profile(b.trace, {"model": "Small", "mode": "eval", "capture_mode": "meta"})


def golden(name: str, text: str, request: pytest.FixtureRequest) -> None:
    path = GOLDENS / name
    if request.config.getoption("--update-goldens", default=False):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", ["txt", "csv", "md", "json"])
@pytest.mark.parametrize("layout", ["table", "tree"])
def test_look(layout: str, suffix: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    whole = everything()
    report = whole.table() if layout == "table" else whole.tree()
    path = report.save(tmp_path / f"report.{suffix}")
    golden(f"{layout}.{suffix}", path.read_text(encoding="utf-8"), request)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_look_on_a_terminal(width: int, request: pytest.FixtureRequest) -> None:
    console = Console(width=width, file=StringIO(), force_terminal=True, color_system=None, _environ={})
    for report in (everything().table(), everything().tree()):
        console.print(report)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(cell_len, text.splitlines())) <= width
    golden(f"terminal-{width}.txt", text, request)


def test_columns_asked_for_by_name_stay_where_there_is_no_room() -> None:
    shown = {}
    for asked in ((), ("mem_r", "macc")):
        report = everything().table(columns=["name", "type", "in_shape", "params", "flops", "mem_w", "mem_r", "macc"])
        report.asked = asked
        console = Console(width=60, file=StringIO(), force_terminal=True, color_system=None, _environ={})
        console.print(report)
        lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
        shown[asked] = next(line for line in lines if "name" in line).split()
    assert {"mem_r", "macc"} <= set(shown["mem_r", "macc"])
    assert not {"mem_r", "macc"} <= set(shown[()])


def test_colours_only_where_there_are_any() -> None:
    def shown(**how: object) -> str:
        console = Console(width=100, file=StringIO(), **how)  # type: ignore[arg-type]
        console.print(everything())
        return console.file.getvalue()  # type: ignore[attr-defined]

    assert "\x1b[" not in str(everything())
    assert "\x1b[" not in shown()
    assert "\x1b[" in shown(force_terminal=True, color_system="standard", _environ={})
    assert "\x1b[3" not in shown(force_terminal=True, _environ={"NO_COLOR": "1", "TERM": "xterm"}).replace(
        "\x1b[3m", ""
    )


def test_csv_is_the_rows() -> None:
    report = everything().table()
    rows = list(csv.DictReader(StringIO(report.render("csv"))))
    for line, row in zip(rows, report.dicts(), strict=True):
        assert line["name"] == row["name"]
        assert line["kind"] == row["kind"]
        assert line["params"] == str(row["params"])
        assert line["flops"] == ("" if row["flops"] is None else str(row["flops"]))
        assert line["out_shape"] == ("" if row["out_shape"] is None else str(row["out_shape"]))
    assert rows[-1]["kind"] == "total"


def test_json_is_the_rows_with_their_units() -> None:
    report = everything().table(columns=["name", "in_shape", "flops", "mem_r", "intensity"])
    data = json.loads(report.render("json"))
    assert data["schema"] == "rasp.report"
    assert [column["unit"] for column in data["columns"]] == ["", "", "FLOP", "B", "FLOP/B"]
    assert [row["flops"] for row in data["rows"]] == [row["flops"] for row in report.dicts()[:-1]]
    assert data["total"]["flops"] == everything().total("flops")
    assert [row["lower_bound"] for row in data["rows"] if row["name"] == ".odd"] == [True]


def test_markdown_has_as_many_cells_in_every_line() -> None:
    lines = [line for line in str(everything().table().render("md")).splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1


def test_html_escapes_what_it_shows() -> None:
    b = Builder("<script>")
    b.enter("")
    b.leaf("a")
    b.leave()
    html = Profile(b.trace, {})._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_frame_keeps_whole_numbers_and_names_its_rows() -> None:
    pd = pytest.importorskip("pandas")
    frame = everything().to_pandas()
    assert list(frame.index) == [0, "own", 1, "own", 2, "own", 3, 4, 5, "uncalled", "total"]
    assert frame.loc["total", "params"] == everything().total("params")
    assert pd.isna(frame.loc[4, "flops"])
    assert frame["flops"].dtype == "Int64"
    assert frame["params"].dtype == "int64"
    assert frame.loc[0, "in_shape"] == (4, 8)
    calls = frame[frame.kind.isin(["call", "own", "uncalled"])]
    assert calls["flops"].sum() == frame.loc["total", "flops"]


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_a_saved_report_is_read_back(suffix: str, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    import rasp

    path = everything().table().save(tmp_path / f"report.{suffix}")
    frame = rasp.load_report(path)
    assert list(frame["name"])[-1] == "total"
    assert frame["params"].iloc[-1] == everything().total("params")
    columns = ["flops", "intensity", "flops_bwd"]  # a cell that is missing turns no number of its column into words
    table = everything().table(columns=["out_shape", *columns])
    again = rasp.load_report(table.save(tmp_path / f"other.{suffix}"))
    pd.testing.assert_frame_equal(table.to_pandas()[columns].reset_index(drop=True), again[columns])
    assert again["intensity"].isna().any()
    assert (4, 8) in set(again["out_shape"])


def test_every_format_renders_tables_and_trees() -> None:
    load()
    for item in FORMATS.values():
        for report in (everything().table(), everything().tree(), everything().by_op(), everything().by_type()):
            assert item.render(report)


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "report.csv"
    everything().table().save(path)
    before = path.read_text()

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", fails)
    with pytest.raises(FileError, match=r"report\.csv could not be written"):
        Profile(blocks(), {}).table().save(path)
    assert path.read_text() == before
    assert [item.name for item in path.parent.iterdir()] == ["report.csv"]


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="could not be written"):
        everything().table().save(tmp_path / "file" / "report.csv")
