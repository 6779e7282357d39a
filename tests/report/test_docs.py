"""The pages on columns and on the profile file say what is there, and their examples run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import rasp
from rasp import addons, archive
from rasp.columns import TWINS, Column

ROOT = Path(__file__).parent.parent.parent
PAGES = ("columns.md", "roofline.md", "schema.md", "timing.md")


def table() -> str:
    """The columns as a Markdown table, twins of other phases left out."""
    addons.load()
    lines = ["| column | unit | what it says |", "| :-- | :-- | :-- |"]
    for column in rasp.columns():
        if not _is_twin(column):
            lines.append(f"| `{column.name}` | {column.unit} | {column.doc} |")
    return "\n".join(lines)


def _is_twin(column: Column) -> bool:
    return column.name.endswith(tuple(TWINS))


def test_every_column_is_in_the_docs(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "columns.md"
    text = page.read_text()
    start, end = text.index("| column |"), text.index("<!-- end of columns -->")
    if request.config.getoption("--update-goldens", default=False):
        page.write_text(text[:start] + table() + "\n\n" + text[end:])
        return
    assert text[start:end].strip() == table(), "run pytest tests/report --update-goldens"


def test_every_column_has_a_description() -> None:
    for column in rasp.columns():
        assert column.doc.endswith("."), column.name
        assert column.title, column.name


def test_every_key_of_the_file_is_in_the_docs() -> None:
    schema = json.loads((Path(archive.__file__).parent / "profile.schema.json").read_text())
    page = (ROOT / "docs" / "schema.md").read_text()
    for key in (*schema["properties"], *schema["properties"]["ops"]["properties"]):
        assert f"`{key}`" in page, key


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_rules: None) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL))
    assert code
    before = dict(rasp.columns.COLUMNS)  # type: ignore[attr-defined]
    try:
        exec(compile(code, page, "exec"), {})
    finally:
        for name in set(rasp.columns.COLUMNS) - set(before):  # type: ignore[attr-defined]
            del rasp.columns.COLUMNS._items[name]  # type: ignore[attr-defined]
