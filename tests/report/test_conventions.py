"""The seam for conventions of other tools: weights of their own, and columns they count per module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rasp
from rasp.conventions import CONVENTIONS, Charge, Convention, convention
from rasp.ledger import Ledger
from rasp.profile import Profile
from traces import blocks


@pytest.fixture
def others() -> Iterator[None]:
    def params(ledger: Ledger) -> Iterator[Charge]:
        return (Charge(layer.module, layer.call, 10) for layer in ledger.layers() if layer.leaf)

    convention(Convention("macs_only", "MACs as flops", "a test", 2020, {"flops": {"mac": 1}}))
    convention(Convention("tens", "ten each", "a test", 2020, {"flops": {"add": 1}}, "module", {"params": params}))
    yield
    del CONVENTIONS._items["macs_only"], CONVENTIONS._items["tens"]


def test_weights_are_data(others: None) -> None:
    whole = Profile(blocks(3), {})
    assert whole.total("flops", "macs_only") == whole.total("macs")
    assert whole.total("flops@macs_only") == whole.total("macs")
    assert whole.total("macs", "macs_only") == whole.total("macs")
    assert whole.total("flops") != whole.total("macs")


def test_what_a_convention_does_not_count_is_not_available(others: None) -> None:
    assert Profile(blocks(3), {}).total("macc", "macs_only") is None


def test_a_convention_may_count_a_column_per_module(others: None) -> None:
    whole = Profile(blocks(3), {})
    rows = whole.rows(columns=["params", "flops"], convention="tens")
    assert [row["params"] for row in rows if row["kind"] == "call"] == [10] * 7
    assert rows[-1]["params"] == 70
    assert rows[-1]["flops"] == 3 * 32
    assert whole.total("params") == 6 * 64 + 24


def test_conventions_stand_side_by_side(others: None) -> None:
    names = [item.name for item in rasp.conventions()]
    assert {"rasp", "macs_only", "tens"} <= set(names)
    report = Profile(blocks(3), {}).table(columns=["name", "flops", "flops@macs_only", "flops%@macs_only"])
    notes = " ".join(report.notes)
    assert "'rasp'" in notes
    assert "'macs_only': MACs as flops" in notes
