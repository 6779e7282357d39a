"""What holds for the package as a whole: who imports whom, what importing costs, what is public."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rasp

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rooms_import_only_what_they_may():
    pytest.importorskip("importlinter")
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("package", ["torch", "numpy", "pandas", "rich", "cyclopts", "transformers", "torchvision"])
def test_importing_rasp_imports_nothing_heavy(package):
    assert python(f"import sys, rasp; print({package!r} in sys.modules)").strip() == "False"


def test_the_command_line_shows_help_without_torch():
    code = """
import sys
from rasp.cli import main
sys.argv = ["rasp", "--help"]
try:
    main()
except SystemExit:
    pass
print("torch" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stderr.strip().splitlines()[-1] == "False"
    assert "stat" in done.stdout


def test_every_public_name_exists():
    for name in rasp.__all__:
        assert getattr(rasp, name) is not None, name


def test_the_version_is_one():
    assert rasp.__version__ == PROJECT["project"]["version"]


def test_types_are_shipped():
    assert (Path(rasp.__file__).parent / "py.typed").is_file()


def test_locks_pin_every_package_exactly():
    for lock in (ROOT / "requirements").glob("*.lock"):
        for line in lock.read_text().splitlines():
            assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.!+-]+", line), (
                f"{lock.name}: {line}"
            )


def test_nothing_recommends_the_package_of_another_project():
    """The name rasp on the package index is taken by something unrelated."""
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*.py"),
    ]:
        assert not re.search(r"pip install (-\S+ )*rasp\b", page.read_text()), page


def test_a_file_stays_readable_in_one_sitting():
    for file in (ROOT / "src").rglob("*.py"):
        assert len(file.read_text().splitlines()) <= 600, f"{file} has outgrown one idea"
