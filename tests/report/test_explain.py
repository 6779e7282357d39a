"""Two conventions on one run: lines that add up to the difference of the totals, each with a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import rasp
from rasp.conventions import CONVENTIONS, Charge, Convention, convention
from rasp.ledger import Ledger


class Tied(nn.Module):
    """A residual, a matrix product and a softmax of the container's own, and one layer called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(self.linear(x)) + x
        return self.norm(torch.softmax(y @ y.transpose(-1, -2), -1) @ y)


@pytest.fixture
def per_layer() -> Iterator[str]:
    def flops(ledger: Ledger) -> Iterator[Charge]:
        for layer in ledger.layers():
            if layer.is_a("torch.nn.Linear") and layer.last:
                yield Charge(layer.module, layer.call, 7, "Linear", "seven, once")

    convention(Convention("sevens", "seven for a Linear", "a test", 2020, level="module", charges={"flops": flops}))
    yield "sevens"
    del CONVENTIONS._items["sevens"]


@pytest.fixture
def profile() -> rasp.Profile:
    return rasp.profile(Tied(), input_shape=(2, 3, 8))


def test_lines_by_operator_add_up(profile: rasp.Profile) -> None:
    found = rasp.explain(profile, "rasp", "mac")
    assert found.difference == profile.total("flops", "rasp") - profile.total("flops", "mac") > 0
    assert sum(line["difference"] for line in found.lines) == found.difference
    assert all(line["difference"] == line["a"] - line["b"] != 0 for line in found.lines)
    assert {line["op"] for line in found.lines} == {"addmm", "add", "bmm", "softmax", "layer_norm"}
    norm = next(line for line in found.lines if line["op"] == "layer_norm")
    assert norm["where"] == ".norm"
    assert norm["b"] == 0
    assert norm["why"].endswith("; mac: not counted")


def test_lines_by_layer_add_up_where_a_convention_counts_layers(profile: rasp.Profile, per_layer: str) -> None:
    found = rasp.explain(profile, per_layer, "rasp")
    assert found.totals == (7, profile.total("flops"))
    assert sum(line["difference"] for line in found.lines) == found.difference == 7 - profile.total("flops")
    linear = next(line for line in found.lines if line["where"] == ".linear")
    assert (linear["op"], linear["a"]) == ("Linear", 7)
    assert linear["b"] == 2 * 6 * 8 * (2 * 8)
    assert linear["why"].startswith("sevens: seven, once; rasp: 2 per multiply-accumulate")
    own = [line for line in found.lines if line["where"] == "."]
    assert own
    assert all(line["why"].startswith("sevens: not counted; rasp: ") for line in own)


def test_a_convention_and_itself_do_not_differ(profile: rasp.Profile) -> None:
    found = rasp.explain(profile, "rasp", "rasp")
    assert (found.lines, found.difference) == ([], 0)
    assert "add up" in str(found)


def test_lines_of_one_kind_are_gathered_and_lose_nothing(profile: rasp.Profile) -> None:
    found = rasp.explain(
        rasp.profile(nn.Sequential(*[nn.Linear(4, 4) for _ in range(5)]), input_shape=(1, 4)), "rasp", "mac"
    )
    gathered = found.gathered()
    assert len(found.lines) == 5
    assert [line["where"] for line in gathered.lines] == [".0 and 4 more"]
    assert gathered.difference == found.difference
    assert str(found).count("2 per multiply-accumulate") == 1


def test_another_column_may_be_compared(profile: rasp.Profile) -> None:
    found = profile.explain("rasp", "mac", "macc")
    assert found.difference == profile.total("macc") - profile.total("macs")
    with pytest.raises(rasp.InputError, match=r"has no .*name"):
        profile.explain("rasp", "mac", "name")
    with pytest.raises(rasp.UnknownName, match="Did you mean 'mac'"):
        rasp.explain(profile, "rasp", "macs")


@pytest.mark.parametrize("format", ["csv", "md", "json"])
def test_an_explanation_has_every_format(profile: rasp.Profile, format: str) -> None:
    text = str(rasp.explain(profile, "rasp", "mac").report().render(format))
    assert "softmax" in text
    assert "2 per multiply-accumulate" in text
    if format == "json":
        assert json.loads(text)


def test_a_saved_profile_explains_as_well(profile: rasp.Profile, tmp_path) -> None:
    profile.save(tmp_path / "tied.json")
    again = rasp.load(tmp_path / "tied.json")
    assert rasp.explain(again, "rasp", "flop").lines == rasp.explain(profile, "rasp", "flop").lines
