"""The README, the docs and the examples in docstrings run."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
DOCSTRINGS = ["rasp", "rasp.rules", "rasp.conventions", "rasp.columns", "rasp.render", "rasp.zoo", "rasp.devices"]


def blocks(page: Path, language: str) -> str:
    """All code of one language on a page, in order, with line numbers kept for error messages."""
    lines = page.read_text().splitlines()
    kept, inside = [], False
    for line in lines:
        fence = line.startswith("```")
        kept.append(line if inside and not fence else "")
        if fence:
            inside = line == f"```{language}"
    return "\n".join(kept)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_a_page_runs(page, tmp_path):
    code = blocks(page, "python")
    if not code.strip():
        pytest.skip("no Python on this page")
    script = tmp_path / f"{page.stem}.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


COMMANDS = [line for page in PAGES for line in blocks(page, "sh").splitlines() if line.startswith("rasp ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_a_page_run(command, tmp_path):
    words = shlex.split(command, comments=True)
    done = subprocess.run(
        [sys.executable, "-m", "rasp", *words[1:]], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_there_are_commands_to_run():
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_make_targets_on_a_page_exist():
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for page in PAGES:
        for target in re.findall(r"`make ([a-z0-9-]+)", page.read_text()):
            assert target in targets, f"{page.name} names make {target}"


@pytest.mark.parametrize("module", DOCSTRINGS)
def test_examples_in_docstrings_run(module):
    code = (
        "import doctest, importlib\n"
        f"result = doctest.testmod(importlib.import_module({module!r}), optionflags=doctest.ELLIPSIS)\n"
        "print(result.attempted)\n"
        "raise SystemExit(result.failed)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", DOCSTRINGS[1:])
def test_every_registry_says_how_to_add_to_it(module):
    assert ">>>" in (importlib.import_module(module).__doc__ or "")


def test_the_picture_shows_what_a_terminal_shows():
    place = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    picture = importlib.util.module_from_spec(place)
    place.loader.exec_module(picture)
    assert picture.PICTURE.read_text() == picture.drawn(), "run `make docs-tables`"
