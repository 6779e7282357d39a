"""Columns of memory: what sums, what is a state, and what is not available."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rasp
from rasp.profile import Profile

ROWS = 1024
COLUMNS = ["name", "live", "peak", "saved", "grad_bytes", "optimizer_bytes"]
DEVICE = ["name", "net_dev_mem", "dev_mem_alloc", "dev_max_mem_alloc"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.up(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.idle, self.frozen = nn.Linear(8, 8), nn.Linear(64, 64).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.frozen(x)


def profiled(**how: Any) -> Profile:
    return rasp.profile(Model(), input_shape=(ROWS, 64), memory=True, **{"allocator": "none", **how})


@pytest.fixture(scope="module")
def trained() -> Profile:
    return profiled(backward=True, optimizer=torch.optim.Adam)


@pytest.mark.parametrize("report", ["tape", "leaves"])
def test_sums_and_most(trained: Profile, report: str) -> None:
    *rows, total = trained.rows(report, columns=COLUMNS)
    for name in ("saved", "grad_bytes", "optimizer_bytes"):
        assert sum(row[name] or 0 for row in rows) == pytest.approx(total[name], abs=256), name
    assert total["peak"] == trained.memory.peak
    assert max(row["peak"] for row in rows if row["peak"] is not None) <= total["peak"]
    assert all(row["live"] <= row["peak"] for row in rows if row["live"] is not None)


def test_what_is_saved_by_hand(trained: Profile) -> None:
    """Of a block: the wide output for gelu and the wide input of the second product; its output for the next block."""
    saved = {row["name"]: row["saved"] for row in trained.rows(columns=COLUMNS)}
    wide, narrow = ROWS * 256 * 4, ROWS * 64 * 4
    for number in range(3):
        assert saved[f".blocks.{number}.up"] == wide
        assert saved[f".blocks.{number}.act"] == wide
        assert saved[f".blocks.{number}.down"] == 0
    assert [saved[f".blocks.{number}"] for number in range(3)] == [narrow, narrow, 0], "a frozen layer needs no input"


def test_gradients_and_state_belong_to_their_parameters(trained: Profile) -> None:
    rows = {row["name"]: row for row in trained.rows(columns=COLUMNS)}
    own = (64 * 256 + 256) * 4
    assert rows[".blocks.1.up"]["grad_bytes"] == own
    assert rows[".blocks.1.up"]["optimizer_bytes"] == pytest.approx(2 * own, abs=16)
    for name in (".idle", ".frozen"):
        assert rows[name]["grad_bytes"] == rows[name]["optimizer_bytes"] == 0, name
    assert rows["total"]["grad_bytes"] == trained.memory.by_kind()["gradients"] or trained.memory.peak


def test_what_was_not_run_is_not_available() -> None:
    (*_, total) = profiled().rows(columns=COLUMNS)
    assert total["saved"] is None
    assert total["optimizer_bytes"] is None
    assert total["grad_bytes"] > 0, "what a backward would leave"
    rows = {row["name"]: row for row in profiled(backward=True).rows(columns=COLUMNS)}
    assert rows[".idle"]["peak"] is rows[".idle"]["live"] is None
    assert rows["total"]["optimizer_bytes"] is None


def test_a_row_of_several_calls_tells_the_most_of_all() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(64, 64)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(torch.cat([self.fc(x)] * 4))

    profile = rasp.profile(Twice(), input_shape=(256, 64), memory=True, allocator="none")
    first, second = (row for row in profile.rows(columns=DEVICE) if row["kind"] == "call")
    (leaf, *_), size = profile.rows("leaves", columns=DEVICE), 256 * 64 * 4
    assert (first["dev_mem_alloc"], second["dev_mem_alloc"]) == (size, 4 * size)
    assert leaf["dev_mem_alloc"] == 5 * size
    assert leaf["net_dev_mem"] == first["net_dev_mem"] == 0
    assert leaf["dev_max_mem_alloc"] == second["dev_max_mem_alloc"] == 8 * size


def test_a_container_is_the_most_of_what_is_inside(trained: Profile) -> None:
    tree = trained.tree(fold=False, columns=["peak", "live"])
    peaks = {row.values[0]: row.values[tree.columns.index("peak")] for row in tree.rows if row.kind == "node"}
    for number in range(3):
        inside = [value for name, value in peaks.items() if name.startswith(f".blocks.{number}.")]
        assert peaks[f".blocks.{number}"] >= max(inside)
    assert peaks["."] == trained.memory.peak


def test_equal_blocks_fold_though_memory_grows(trained: Profile) -> None:
    lines = [row.title for row in trained.tree(columns=["params", "peak", "live"]).rows]
    assert "blocks.0-2" in lines
    folded = next(row for row in trained.tree(columns=["peak"]).rows if row.title == "blocks.0-2")
    apart = [row for row in trained.tree(fold=False, columns=["peak"]).rows if row.title.startswith("blocks.")]
    assert folded.values[-1] == max(row.values[-1] for row in apart)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "predicted for h200, in bytes as asked for"),
        ({"allocator": "cuda"}, "predicted for h200, as its CUDA allocator counts"),
        ({"allocator": "cpu"}, "predicted for h200, as the CPU's counts"),
        ({"target": "24GiB", "allocator": "cuda"}, "predicted for 24GiB, as its CUDA allocator counts"),
        ({"target": "a100", "allocator": "cuda"}, "those of an H200 stand in"),
    ],
)
def test_a_report_says_what_was_predicted_for_what(how: dict[str, Any], said: str) -> None:
    notes = profiled(**how).table(columns=["name", "peak"]).notes
    assert any(said in note for note in notes), notes
    assert not any("predicted" in note for note in profiled(**how).table(columns=["name", "params"]).notes)


def test_what_was_measured_stands_beside_what_was_predicted() -> None:
    """A measurement as a profile keeps it, made up: no device is needed to read it."""
    profile = profiled(backward=True)
    base, calls = 10_000, range(len(profile.trace.calls))
    readings = {str(call): [base + call, base + call + 5, base + 100 * (call + 1)] for call in calls}
    whole = {"base": base, "peak_first": base + 500_000, "peak": base + 2_000_000}
    measured = {"device": "Some GPU, torch 9", "base": base, "calls": readings, "whole": whole}
    found = Profile(profile.trace, {**profile.info, "measured_memory": measured})
    table = found.table(columns=["name", *DEVICE[1:], "mem_predicted", "mem_measured", "mem_ratio"])
    first, *_, total = table.dicts()
    number = next(i for i, call in enumerate(profile.trace.calls) if profile.trace.modules[call.module].path)
    call = next(i for i in calls if profile.trace.modules[profile.trace.calls[i].module].path == "blocks.0.up")
    assert call >= number
    assert (first["net_dev_mem"], first["dev_mem_alloc"]) == (call, 5)
    assert first["dev_max_mem_alloc"] == first["mem_measured"] == 100 * (call + 1)
    assert total["mem_measured"] == 2_000_000
    assert total["mem_predicted"] == found.memory.peak - found.memory.base
    assert total["mem_ratio"] == total["mem_predicted"] / 2_000_000
    assert any("mem_measured measured on Some GPU, torch 9" in note for note in table.notes)
    assert "measured on Some GPU" in str(found.memory)


def test_nothing_is_said_to_be_measured_that_was_not() -> None:
    table = profiled().table(columns=["name", "mem_predicted", "mem_measured", "mem_ratio"])
    assert all(row["mem_measured"] is None and row["mem_ratio"] is None for row in table.dicts())
    assert any("mem_measured needs a CUDA device" in note for note in table.notes)


def test_a_saved_profile_answers_without_torch(trained: Profile, tmp_path: Path) -> None:
    trained.save(tmp_path / "p.json")
    code = (
        "import sys, rasp\n"
        f"p = rasp.load({str(tmp_path / 'p.json')!r})\n"
        "print(p.memory.peak, p.memory.needed, len(p.memory.timeline()))\n"
        "print(p.total('saved'), p.total('optimizer_bytes'))\n"
        "print(p.memory.at_peak(1)[0]['why'])\n"
        "str(p.memory), str(p)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    numbers, columns, why = done.stdout.splitlines()
    found = trained.memory
    assert numbers == f"{found.peak} {found.needed} {len(found.timeline())}"
    assert columns == f"{trained.total('saved')} {trained.total('optimizer_bytes')}"
    assert why == found.at_peak(1)[0]["why"]


def test_the_first_profile_in_a_process_is_as_any_other() -> None:
    """What torch loads when an operator is first called must keep no tensor alive."""
    code = (
        "import torch, rasp\n"
        "def peak():\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 4096))\n"
        "    loss = lambda out: out.float().std()\n"
        "    found = rasp.profile(model, input_shape=(64, 8), backward=True, loss=loss, memory=True)\n"
        "    return found.memory.peak\n"
        "print(peak(), peak())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.split()
    assert first == second
