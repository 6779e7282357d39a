"""Energy of a run, on a scripted clock with scripted meters: exact sums, idle power, failures midway, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

import rasp
from rasp.addons import energy as addon
from rasp.devices.fake import Counter, Fake
from rasp.energy import Energy
from rasp.errors import InputError, MeterError
from rasp.measure.energy import ROUNDS, measured_energy
from rasp.meters import Absent
from rasp.shares import rounded, split

PASS = 0.01  # seconds


def steady(watts_idle: float, joules_per_pass: float, fake: Fake, passes: list[int], **how: Any) -> Any:
    """A counter that goes with the clock and with every pass."""

    class Steady:
        name, unit = "steady", "J"
        counted = how.get("counted", True)

        def shown(self) -> float:
            return watts_idle * fake.time + joules_per_pass * passes[0]

        def start(self) -> None:
            self.before = self.shown()

        def stop(self) -> float:
            return self.shown() - self.before

    return Steady()


def measure(fake: Fake, meters: list[Any], passes: list[int], seconds: float = 3.0) -> Energy:
    def run() -> None:
        fake.spend(PASS)
        passes[0] += 1

    return Energy.of({**measured_energy(run, fake, meters, seconds), "batch": 4, "device": "fake"})


def test_gross_idle_and_net() -> None:
    fake, passes = Fake(), [0]
    found = measure(fake, [steady(50.0, 2.0, fake, passes)], passes)
    assert found.available
    assert found.reason is None
    assert len(found.windows) == ROUNDS
    assert found.seconds == pytest.approx(PASS * found.passes)
    assert 3.0 <= found.seconds < 3.0 + ROUNDS * 0.06
    assert found.idle_power == pytest.approx(50.0)
    assert found.gross == pytest.approx(50 * found.seconds + 2 * found.passes)
    assert found.net == pytest.approx(2.0 * found.passes)
    assert found.per_pass == pytest.approx(2.0)
    assert found.gross_per_pass == pytest.approx(2.0 + 50 * PASS)
    assert found.per_sample == pytest.approx(0.5)
    assert found.power == pytest.approx(50 + 2 / PASS)
    assert found.spread == pytest.approx(0, abs=1e-9)
    assert found.co2() is None
    assert found.co2(360) == pytest.approx(2.0 / 3.6e6 * 360)
    words = str(found)
    for word in ("idle", "net", "steady (counter)", "50 W"):
        assert word in words


def test_counters_of_the_fake_device_exactly() -> None:
    fake = Fake()
    counter = Counter("joules", "J", [0, 10, 10, 90, 95, 25], wraps_at=100)
    passes = [0]
    found = measure(fake, [counter], passes, seconds=1.0)
    assert found.idle == pytest.approx(10 * found.seconds)
    assert [reading.windows for reading in found.meters] == [[80.0, 30.0]]
    assert found.gross == 110.0


def test_a_meter_that_fails_midway_is_no_zero_and_leaves_the_others() -> None:
    fake, passes = Fake(), [0]
    broken = Counter("dram", "J", [0, 1, 1, 2, MeterError("the sensor was unplugged")])
    found = measure(fake, [steady(5, 1, fake, passes), broken], passes)
    assert found.per_pass == pytest.approx(1.0)
    assert "unplugged" in str(found)
    alone = measure(fake, [Counter("dram", "J", [0, 1, 1, MeterError("the sensor was unplugged")])], passes)
    assert not alone.available
    for value in (alone.gross, alone.net, alone.per_pass, alone.per_sample, alone.power, alone.idle, alone.spread):
        assert value is None
    assert alone.co2(300) is None
    assert "unplugged" in str(alone.reason)


def test_no_meter_and_meters_that_are_absent() -> None:
    passes = [0]
    found = measure(Fake(), [], passes)
    assert found.gross is None
    assert "no meter" in str(found.reason)
    found = measure(Fake(), [Absent("RAPL", "J", "There is no RAPL here: buy a processor.")], passes)
    assert found.per_pass is None
    assert "buy a processor" in str(found.reason)
    assert passes[0] <= 2, "nothing to read, so nothing to run for"


def test_a_counter_that_stands_still_counts_nothing() -> None:
    fake = Fake()
    found = measure(fake, [Counter("dead", "J", itertools.repeat(7.0))], [0])
    assert found.gross is None
    assert "stood still" in str(found.reason)


def test_a_counter_that_tells_nonsense() -> None:
    class Mad:
        name, unit = "mad", "J"

        def start(self) -> None: ...

        def stop(self) -> float:
            return float("nan")

    found = measure(Fake(), [Mad()], [0])
    assert "nan" in str(found.reason)


def test_what_holds_another_is_not_added() -> None:
    fake, passes = Fake(), [0]
    package, platform = steady(10, 1, fake, passes), steady(40, 2, fake, passes, counted=False)
    found = measure(fake, [package, platform], passes)
    assert found.per_pass == pytest.approx(1.0)
    assert found.idle_power == pytest.approx(10.0)
    assert "not part of the sum" in str(found)


def test_seconds_and_bytes_are_no_joules() -> None:
    found = measure(Fake(), [Counter("clock", "s", itertools.count()), Counter("memory", "B", itertools.count())], [0])
    assert not found.available


@pytest.mark.parametrize("seconds", [0, -1, "3", None, True, float("nan"), float("inf")])
def test_windows_that_are_no_time(seconds: Any) -> None:
    with pytest.raises(InputError, match="seconds"):
        measured_energy(lambda: None, Fake(), [], seconds)


def test_a_window_too_short_for_a_meter_is_refused() -> None:
    fake, passes = Fake(), [0]
    meter = steady(1, 1, fake, passes)
    meter.shortest = 2.0
    with pytest.raises(InputError, match=r"seconds=0.5 is too short for steady: give at least 2"):
        measure(fake, [meter], passes, seconds=0.5)
    assert passes == [0]
    found = measure(fake, [meter], passes, seconds=3.0)
    assert len(found.windows) == 1
    assert found.spread is None
    assert found.idle_seconds == pytest.approx(2.0)
    assert "one window" in str(found)


def test_a_window_ends_on_a_change_of_a_slow_counter() -> None:
    fake, passes = Fake(), [0]
    meter = steady(0, 1, fake, passes)
    meter.reading = lambda: int(fake.time / 0.1)  # a new value every tenth of a second
    found = measure(fake, [meter], passes, seconds=0.55)
    began = fake.time - found.seconds
    assert found.per_pass == pytest.approx(1.0)
    assert found.seconds > 0.55
    assert int((began + found.seconds) / 0.1) != int((began + found.seconds - PASS) / 0.1)


def test_interrupted() -> None:
    fake, passes = Fake(), [0]
    meter = steady(5, 1, fake, passes)

    def run() -> None:
        fake.spend(PASS)
        passes[0] += 1
        if fake.time > 2.5:
            raise KeyboardInterrupt

    found = Energy.of({**measured_energy(run, fake, [meter], 3.0), "batch": None, "device": "fake"})
    assert found.partial
    assert len(found.windows) == 2
    assert found.per_pass == pytest.approx(1.0)
    assert found.per_sample is None
    assert "ended early" in str(found)


def test_a_model_that_raises_stops_the_meters() -> None:
    fake, stopped = Fake(), []

    class Watch:
        name, unit = "watch", "J"

        def start(self) -> None:
            stopped.append(False)

        def stop(self) -> float:
            stopped[-1] = True
            return 1.0

    def run() -> None:
        fake.spend(PASS)
        if fake.time > 1.2:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        measured_energy(run, fake, [Watch()], 3.0)
    assert stopped
    assert all(stopped)


@pytest.mark.parametrize("total", [1e-9, 0.1, 3.0, 123456.789, -2.5])
def test_shares_add_up_exactly(total: float) -> None:
    weights = [0.3, 0.0, 1e-7, 5.0, 2.2, 0.0]
    found = split(total, weights)
    assert sum(found) == sum(reversed(found)) == rounded(total) == pytest.approx(total, rel=1e-12)
    assert found[1] == found[5] == 0
    assert found[3] == pytest.approx(total * 5 / sum(weights))
    assert split(total, [0.0, 0.0]) == []


# -- in a profile ------------------------------------------------------------------------------------------------------


def kept(per_pass: float = 2.0, **more: Any) -> dict[str, Any]:
    meter = {"name": "m", "how": "counter", "counted": True, "idle_watts": 10.0, "windows": [110.0], "why": None}
    found = {
        "seconds_asked": 1.0, "idle_seconds": 1.0, "windows": [[1.0, round(100 / per_pass)]], "partial": False,
        "meters": [meter], "batch": 2, "device": "fake", "grid_intensity": None,
    }  # fmt: skip
    return {**found, **more}


def measured_profile(**more: Any) -> rasp.Profile:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
    found = rasp.profile(model, input_shape=(2, 3, 8, 8))
    found.info["measured_energy"] = kept(**more)
    return rasp.Profile(found.trace, found.info)


COLUMNS = ["energy_measured", "energy_gross", "energy_per_sample", "co2"]


def test_rows_share_the_measured_total_exactly(tmp_path: Any) -> None:
    found = measured_profile(grid_intensity=400.0)
    found = rasp.load(found.save(tmp_path / "kept.json"))
    expected = {"energy_measured": 2.0, "energy_gross": 2.2, "energy_per_sample": 1.0, "co2": 2 / 3.6e6 * 400}
    for report_type in ("tape", "leaves"):
        *rows, total = found.rows(report_type, [*COLUMNS, "power"])
        for name in COLUMNS:
            assert sum(row[name] for row in rows) == total[name] == pytest.approx(expected[name])
        assert total["power"] == 110.0
        assert {row["power"] for row in rows} == {None}
    by_estimate = [addon.estimate(found.view().part(entry), found.view()) for entry in found.view().ledger.entries]
    shares = [row["energy_measured"] / 2.0 for row in found.rows(columns=["energy_measured"])[:-1]]
    assert shares == pytest.approx([value / sum(by_estimate) for value in by_estimate])
    words = str(found.table(columns=["name", *COLUMNS]))
    for word in ("estimates", "RASP's estimate", "400 g", "idle"):
        assert word in words


def test_co2_without_an_intensity_says_what_is_missing() -> None:
    found = measured_profile()
    assert found.total("co2") is None
    assert "grid_intensity" in str(found.table(columns=["name", "co2"]))
    assert found.energy.co2(100) == pytest.approx(2 / 3.6e6 * 100)
    with pytest.raises(InputError, match="grid_intensity=-1"):
        found.energy.co2(-1)


def test_what_was_not_measured_is_not_available() -> None:
    found = rasp.profile(nn.Linear(4, 4), input_shape=(1, 4))
    assert not found.energy.available
    assert "energy=True" in str(found.energy.reason)
    for name in (*COLUMNS, "power"):
        assert found.total(name) is None
    assert "energy=True" in str(found.table(columns=["name", "energy_measured"]))
    assert torch.is_grad_enabled()


class Draws(nn.Module):
    """Takes time on a scripted clock, and counts its runs."""

    def __init__(self, fake: Fake, passes: list[int]) -> None:
        def work() -> None:
            passes[0] += 1
            fake.spend(PASS)

        super().__init__()
        self.layer, self.other = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.work = work

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.work()
        return self.other(self.layer(x)) + 1


def drawn(**how: Any) -> rasp.Profile:
    fake, passes = Fake(), [0]
    fake._meters = [steady(20.0, 3.0, fake, passes)]
    return rasp.profile(Draws(fake, passes), input_shape=(6, 4), energy=True, device=fake, **how)


def test_a_profile_measures_what_the_device_meters() -> None:
    found = drawn(seconds=1.0, grid_intensity=50)
    assert found.energy.per_pass == pytest.approx(3.0)
    assert found.energy.batch == 6
    assert found.total("energy_per_sample") == pytest.approx(0.5)
    assert found.total("co2") == pytest.approx(3 / 3.6e6 * 50)
    assert found.total("power") == pytest.approx(20 + 3 / PASS)
    assert found.energy.seconds >= 1.0
    assert found.latency is None
    assert "RASP's estimate" in str(found.table(columns=["name", "energy_measured"]))


def test_time_that_was_measured_shares_the_energy() -> None:
    found = drawn(seconds=1.0, timing=True, batches=4, warmup=0)
    *rows, total = [row for row in found.rows(columns=["name", "energy_measured"]) if row["kind"] != "remainder"]
    shares = {row["name"]: row["energy_measured"] for row in rows}
    assert sum(shares.values()) == total["energy_measured"] == pytest.approx(3.0)
    assert shares["."] == pytest.approx(3.0), "all the time is spent in the outermost module itself"
    assert "measured time" in str(found.table(columns=["name", "energy_measured"]))


def test_on_this_machine_every_figure_says_what_it_is() -> None:
    found = rasp.profile(nn.Linear(8, 8), input_shape=(4, 8), energy=True, seconds=0.5)
    if found.energy.available:
        assert found.total("energy_measured") is not None
        return
    assert found.total("energy_measured") is None
    assert found.energy.reason
    text = str(found.table(columns=["name", "energy_measured", "energy"]))
    assert "not available" in text
    assert "estimated" in text


@pytest.mark.parametrize("how", [{"grid_intensity": "low"}, {"grid_intensity": -5}, {"seconds": 0}])
def test_wrong_use_is_told_before_anything_runs(how: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(how))):
        rasp.profile(nn.Linear(2, 2), input_shape=(1, 2), energy=True, **how)


def test_stat_shows_it_beside_the_rest() -> None:
    pytest.importorskip("pandas")
    fake, passes = Fake(), [0]
    fake._meters = [steady(20.0, 3.0, fake, passes)]
    model = Draws(fake, passes)
    frame = rasp.stat(
        model, input_shape=(6, 4), energy=True, seconds=0.6, device=fake, returns="data", print_stat=False
    )
    assert frame["energy_measured"].iloc[-1] == pytest.approx(3.0)
    assert frame["energy_measured"].iloc[:-1].sum() == frame["energy_measured"].iloc[-1]
