"""The script for a GPU machine, as far as it goes without one: page, search, and that a failure ends nothing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "memory_on_gpu.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    place = importlib.util.spec_from_file_location("memory_on_gpu", SCRIPT)
    assert place is not None
    assert place.loader is not None
    found = importlib.util.module_from_spec(place)
    place.loader.exec_module(found)
    return found


def measurements() -> dict[str, Any]:
    said = {"base": 100 << 20, "peak": 150 << 20, "peak_first": 140 << 20, "low": 145 << 20, "high": 160 << 20}
    seen = {"base": 100 << 20, "peak": 151 << 20, "peak_first": 140 << 20}
    run = {"train": True, "dtype": "float32", "batch": 16}
    return {
        "date": "2026-11-19", "device": "a card", "torch": "2.11", "cuda": "13", "cudnn": 9, "python": "3.12",
        "layers": [
            {"row": 0, "name": ".a", "predicted": [0, 512, 512], "measured": [0, 512, 512], "published": [0, 512, 512]},
            {"row": 1, "name": ".b", "predicted": [512, 0, 512], "measured": [512, 0, 1024], "published": []},
        ],
        "peaks": [
            {"model": "net", **run, "predicted": said, "measured": seen},
            {"model": "other", **run, "failed": "OutOfMemoryError: no"},
        ],
        "fits": [
            {"model": "net", "predicted": 100, "predicted_free": 99, "ran": 101, "failed_at": 102},
            {"model": "far", "predicted": 100, "predicted_free": 99, "ran": 120, "failed_at": 121},
            {"model": "none", "failed": "KeyError: x"},
        ],
    }  # fmt: skip


def test_the_page(script: ModuleType) -> None:
    page = script.page(measurements())
    assert "a card, torch 2.11" in page
    assert "1 of 2 rows are equal" in page
    assert "512 / 0 / 512 | 512 / 0 / 1,024 | differs" in page
    assert "| net | training | float32 | 16 | 50.0 | 45.0 to 60.0 | 51.0 | -0.66% | -1.96% |" in page
    assert "100% within 2%" in page
    assert "failed: OutOfMemoryError: no" in page
    assert "| net | 100 | 99 | 101 | 102 | -1.0% |  |" in page
    assert "beyond 3%" in page
    assert "failed: KeyError: x" in page


def test_the_page_from_a_file_and_no_gpu_told(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text(json.dumps(measurements()))
    command = [sys.executable, str(SCRIPT), "--from", str(tmp_path / "found.json"), "--write", str(tmp_path / "p.md")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.md").read_text() == script.page(measurements())


@pytest.mark.parametrize("guess", [1, 40, 100, 101, 102, 500])
def test_the_largest_that_runs_is_found(script: ModuleType, guess: int) -> None:
    tried: list[int] = []

    def works(batch: int) -> bool:
        tried.append(batch)
        return batch <= 100

    assert script.largest(guess, works) == (100, 101)
    assert len(tried) < 16


def test_where_not_even_one_runs(script: ModuleType) -> None:
    assert script.largest(8, lambda batch: False) == (0, 1)


def test_a_part_that_fails_does_not_end_the_others(script: ModuleType) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield {"row": 0, "name": ".a", "predicted": [1], "measured": [1]}
        raise RuntimeError("the device is gone")

    kept: list[str] = []
    found = script.collect(
        ["layers", "fits"], 60, lambda found: kept.append(json.dumps(found)), {**measurements(), "peaks": []},
        {"layers": broken, "fits": lambda: iter(measurements()["fits"])},
    )  # fmt: skip
    assert len(kept) == 5, "after every row"
    assert found["layers"][-1]["failed"] == "RuntimeError: the device is gone"
    assert "the device is gone" in script.page(found)
    assert "| net | 100" in script.page(found)


def test_what_it_predicts_needs_no_gpu(script: ModuleType) -> None:
    pytest.importorskip("torchvision")
    found = script.predicted("squeezenet1_1", 1, train=False)
    assert found["base"] < found["low"] <= found["peak"] <= found["high"]


@pytest.mark.gpu
def test_a_row_of_each_part(script: ModuleType) -> None:
    pytest.importorskip("torchvision")
    rows = list(script.layers())
    assert len(rows) == 141
    seen = script.measured("squeezenet1_1", 1, train=False)
    assert seen["peak"] > seen["base"]
    assert script.runs("squeezenet1_1", 1)
