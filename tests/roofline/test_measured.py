"""No run that was measured on an H200 was faster than its least time there."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "roofline.py"
spec = importlib.util.spec_from_file_location("roofline_benchmark", BENCHMARK)
assert spec is not None
assert spec.loader is not None
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)
QUICK = ("alexnet", "mobilenet_v2", "resnet50")


@pytest.mark.parametrize(
    "row", [r for r in benchmark.runs() if r["model"] in QUICK], ids=lambda row: "-".join(row.values())
)
def test_least_times_are_below_measured_ones(row: dict[str, str]) -> None:
    pytest.importorskip("torchvision")
    found = benchmark.held(row)
    assert 0 < found.least < found.measured
