"""Settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rasp


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = rasp.get_config()
    yield
    rasp.set_config(before)


def test_a_setting_is_changed_by_assignment() -> None:
    rasp.CFG.profile.num_batches = 200
    rasp.CFG.profile.warmup_batches = 20
    assert rasp.get_config()["profile"] == {"num_batches": 200, "warmup_batches": 20}


def test_set_config_goes_deep() -> None:
    rasp.set_config({"profile": {"num_batches": 7}})
    assert rasp.CFG.profile.num_batches == 7
    assert rasp.CFG.profile.warmup_batches == 10
    rasp.set_config(profile={"warmup_batches": 3})
    assert rasp.get_config()["profile"] == {"num_batches": 7, "warmup_batches": 3}


def test_unknown_settings_are_refused_with_a_suggestion_and_nothing_changes() -> None:
    with pytest.raises(rasp.UnknownName, match=r"Did you mean 'profile\.num_batches'"):
        rasp.CFG.profile.num_batch = 5
    with pytest.raises(rasp.UnknownName, match="profil"):
        rasp.set_config({"profil": {}})
    with pytest.raises(rasp.UnknownName):
        rasp.set_config({"profile": {"num_batches": 1, "nothing": 2}})
    with pytest.raises(AttributeError):
        rasp.CFG.nothing  # noqa: B018
    assert rasp.CFG.profile.num_batches == 100


@pytest.mark.parametrize("value", ["many", -1, 2.5, True, None])
def test_values_of_another_kind_are_refused(value: object) -> None:
    with pytest.raises(rasp.InputError, match="whole number"):
        rasp.CFG.profile.num_batches = value
    with pytest.raises(rasp.InputError, match="given as a dict"):
        rasp.CFG.profile = value
    assert rasp.CFG.profile.num_batches == 100
