"""A sweep of the test's models, of which every test gets its own folder."""

from __future__ import annotations

import pytest

import rasp
from sweep_models import model


@pytest.fixture
def flags(tmp_path, monkeypatch):
    """A folder in which models leave signs of what they did."""
    folder = tmp_path / "flags"
    folder.mkdir()
    monkeypatch.setenv("SWEEP_TEST_FLAGS", str(folder))
    return folder


@pytest.fixture
def swept(tmp_path):
    """Sweep some of the test's models, by name, into a folder of the test."""

    def run(*names, out="out", **options):
        given = {"sizes": 16, **options}
        found = rasp.sweep({name: model(name) for name in names}, out=tmp_path / out, progress=False, **given)
        found.by_name = {row["model"]: row for row in found.rows}
        return found

    return run
