"""A convention is one file: put it in the folder, and it is everywhere. And what asking needs, if it cannot be had."""

from __future__ import annotations

import csv
import gc
import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rasp
from rasp.cli import run
from rasp.errors import NotRecorded

PACKAGE = Path(rasp.__file__).parent
ONE_FILE = '''
"""Weights, and nothing else, as a talk of mine counted."""

from . import Charge, Convention, convention


def params(ledger):
    for layer in ledger.layers():
        if layer.last and layer.is_a("torch.nn.Linear"):
            yield Charge(layer.module, layer.call, layer.params["weight"].numel, "Linear", "weights without biases")


MINE = convention(
    Convention("mine", "three for each MAC", "my talk", 2031, {"flops": {"mac": 3}, "macc": {"mac": 1}},
               charges={"params": params}, words={"flops": "triples"})
)
'''
SCRIPT = """
import sys
import torch, rasp

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
profile = rasp.profile(model, input_shape=(3, 4))
assert rasp.__file__.startswith(sys.argv[1]), rasp.__file__
mine = next(item for item in rasp.conventions() if item.name == "mine")
assert (mine.source, mine.year, mine.title) == ("my talk", 2031, "three for each MAC")
assert profile.total("flops", convention="mine") == profile.total("flops@mine") == 3 * 3 * (4 * 8 + 8 * 2)
assert profile.total("macc", "mine") == 3 * (4 * 8 + 8 * 2)
assert profile.total("params", "mine") == 4 * 8 + 8 * 2
found = rasp.explain(profile, "mine", "rasp")
assert sum(line["difference"] for line in found.lines) == profile.total("flops@mine") - profile.total("flops")
loaded = rasp.load(profile.save(sys.argv[1] + "/p.json"))
assert loaded.rows(columns=["flops@mine"])[-1]["flops@mine"] == profile.total("flops@mine")
said = rasp.stat(model, input_shape=(3, 4), convention="mine", returns="sum", print_stat=False)
assert "three for each MAC" in said
from rasp.cli import run
assert run(["explain", "mobilenet_v2", "mine", "mac", "-f", "json"]) == 0
assert run(["stat", "mobilenet_v2", "--columns", "name,flops@mine", "-f", "csv"]) == 0
"""


def test_one_file_adds_a_convention(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "rasp", ignore=shutil.ignore_patterns("__pycache__", "static"))
    before = set((tmp_path / "rasp").rglob("*.py"))
    (tmp_path / "rasp" / "conventions" / "mine.py").write_text(ONE_FILE)
    assert len(set((tmp_path / "rasp").rglob("*.py")) - before) == 1
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "PATH": ""}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "flops@mine" in done.stdout


# -- the function level, asked for later -------------------------------------------------------------------------------


def profiled() -> rasp.Profile:
    """Of a model that is gone."""
    profile = rasp.profile(nn.Sequential(nn.Linear(4, 4), nn.GELU()), torch.rand(2, 4))
    gc.collect()
    return profile


ASKS: tuple[Callable[[rasp.Profile, str], Any], ...] = (
    lambda found, name: found.total("flops", name),
    lambda found, name: found.total(f"flops@{name}"),
    lambda found, name: found.rows(convention=name),
    lambda found, name: rasp.explain(found, "rasp", name),
    lambda found, name: str(found.table(columns=["name", f"flops@{name}"])),
)


@pytest.mark.parametrize("name", [item.name for item in rasp.conventions() if item.level == "function"])
def test_a_profile_without_functions_says_so(name: str, tmp_path: Path) -> None:
    profile = profiled()
    for found in (profile, rasp.load(profile.save(tmp_path / "p.json"))):
        for ask in ASKS:
            with pytest.raises(NotRecorded, match=r"no function level: .*functions=True"):
                ask(found, name)
    assert profile.total("flops", "thop") == 2 * 4 * 4, "the others answer"


def test_functions_are_recorded_later_while_the_model_lives() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU())
    profile, wanted = rasp.profile(model, torch.rand(2, 4)), rasp.profile(model, torch.rand(2, 4), functions=True)
    for name in ("deepspeed", "fvcore", "ptflops", "burden"):
        assert profile.total("flops", name) == wanted.total("flops", name)


def test_the_command_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(profiled().save(tmp_path / "p.json"))
    assert run(["explain", path, "rasp", "fvcore"]) != 0
    assert "functions=True" in capsys.readouterr().err
    assert run(["stat", path, "--columns", "name,flops@thop", "-f", "csv"]) == 0
    assert list(csv.DictReader(io.StringIO(capsys.readouterr().out)))[-1]["flops@thop"] == "32"


# -- rasp explain ------------------------------------------------------------------------------------------------------


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, str]]:
    capsys.readouterr()
    assert run(["explain", "mobilenet_v2", *words, "-i", "1,3,64,64", "-f", "csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


@pytest.mark.parametrize("words", [[], ["--top", "2"], ["--everywhere"], ["--column", "params"]], ids=" ".join)
def test_lines_of_the_command_add_up(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    *lines, total = explained(capsys, "rasp-head", "thoplw", *words)
    assert lines
    for column in ("rasp-head", "thoplw", "difference"):
        sums = sum(int(line[column]) for line in lines)
        assert column != "difference" or sums == int(total[column])
    assert len(lines) <= 3 or "--top" not in words
    assert int(total["rasp-head"]) - int(total["thoplw"]) == int(total["difference"])


def test_nothing_to_explain(capsys: pytest.CaptureFixture[str]) -> None:
    (total,) = explained(capsys, "thop", "thop")
    assert total["difference"] == "0"
    (total,) = explained(capsys, "thoplw", "thoplw-2024")
    assert total["difference"] == "0"


def test_unknown_names_are_answered_with_close_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "mobilenet_v2", "rasp", "thopp"]) == 2
    assert "Did you mean 'thop'" in capsys.readouterr().err
    assert run(["explain", "mobilenet_v2", "rasp", "mac", "--column", "flop"]) == 2
    assert "'flops'" in capsys.readouterr().err
    assert run(["explain", "mobilenet_v2", "rasp", "mac", "-f", "docx"]) == 2
