"""Layouts of a whole profile as text."""

from __future__ import annotations

import pytest
from torch import nn

import rasp
from rasp.styles import STYLES, style


@pytest.fixture(scope="module")
def profile() -> rasp.Profile:
    return rasp.profile(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), input_shape=(2, 4))


def test_tree_and_table_are_the_reports(profile: rasp.Profile):
    assert profile.text() == profile.text("tree") == str(profile.tree())
    assert profile.text("table", columns=["name", "macs"]) == str(profile.table(columns=["name", "macs"]))


def test_a_style_is_one_function(profile: rasp.Profile):
    @style("paths")
    def paths(profile: rasp.Profile, sep: str = " ") -> str:
        return sep.join(module.path for module in profile.trace.modules)

    try:
        assert profile.text("paths", sep="/") == "/0/1"
    finally:
        del STYLES._items["paths"]


def test_unknown_styles_and_options_are_said(profile: rasp.Profile):
    with pytest.raises(rasp.UnknownName, match="tree"):
        profile.text("treee")
    with pytest.raises(rasp.InputError, match="no option 'deep'; it has: depth"):
        profile.text("tree", deep=2)
