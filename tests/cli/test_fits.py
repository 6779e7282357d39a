"""rasp fits, and memory in rasp stat, from the command line."""

from __future__ import annotations

import pytest

from rasp import cli

MODEL = ("mobilenet_v2", "-i", "1,3,224,224")


def test_fits_tells_and_exits_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["fits", *MODEL, "--target", "24GiB", "--no-advice"]) == 0
    assert capsys.readouterr().out.startswith("fits: needs ")
    assert cli.run(["fits", *MODEL, "--target", "16MiB", "--no-advice"]) == 1
    assert capsys.readouterr().out.startswith("does not fit: needs ")


def test_fits_finds_the_largest_batch_of_a_training_step(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--train", "--optimizer", "sgd", "--max-batch", "--target", "1GiB", "--no-advice"]
    assert cli.run(["fits", *MODEL, *words]) == 0
    said = capsys.readouterr()
    largest = int(said.out.partition("largest batch: ")[2].split()[0])
    assert f"batch {largest}: " in said.err, "a real capture at the answer"
    assert f"batch {largest + 1}: " in said.err, "and at the next one"
    assert 2 < largest < 50


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fits", *MODEL, "--target", "h2000"], "Did you mean 'h200'"),
        (["fits", *MODEL, "--optimizer", "adamw"], "goes with training"),
        (["fits", *MODEL, "--train", "--optimizer", "adamx"], "There is no optimizer named 'adamx'. Did you mean"),
        (["fits", "saved.json"], "rasp fits runs a model"),
        (["fits", *MODEL, "--processes", "0"], "at least 1"),
        (["stat", *MODEL, "--target", "h200"], "goes with --memory"),
        (["stat", *MODEL, "--memory", "--by", "op"], "leave --by op out"),
    ],
)
def test_wrong_use_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words) == 2
    assert told in capsys.readouterr().err


def test_stat_shows_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["stat", *MODEL, "--memory", "-f", "csv"]) == 0
    header, first, *_ = capsys.readouterr().out.splitlines()
    assert "net_dev_mem,dev_mem_alloc,dev_max_mem_alloc" in header
    assert ",0,1605632,1605632" in first
    assert cli.run(["stat", *MODEL, "--memory", "--depth", "1", "--backward", "--optimizer", "adamw"]) == 0
    assert "predicted for h200" in capsys.readouterr().out
    assert cli.run(["stat", *MODEL, "--memory", "--style", "memory"]) == 0
    assert "at the peak" in capsys.readouterr().out
