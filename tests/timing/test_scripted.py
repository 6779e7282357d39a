"""Models on the device whose clock is scripted: every number is known beforehand."""

from __future__ import annotations

import json
import platform

import pytest
import torch
from torch import nn

import rasp
from rasp import devices
from rasp.devices import Machine
from rasp.devices.fake import Fake


class Layer(nn.Module):
    """Takes so long, or as the device's script says; nothing while it is captured."""

    def __init__(self, device: Fake, seconds: float | None = None) -> None:
        super().__init__()
        self.linear_weight = nn.Parameter(torch.ones(4, 4))
        self.device, self.seconds = device, seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_meta:
            self.device.spend(self.seconds)
        return x @ self.linear_weight


class Two(nn.Module):
    """Two layers, one of them called twice, and work of its own."""

    def __init__(self, device: Fake, first: float = 0.002, second: float = 0.003, own: float = 0.001) -> None:
        super().__init__()
        self.device, self.own = device, own
        self.first, self.second = Layer(device, first), Layer(device, second)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(self.first(x)))
        if not x.is_meta:
            self.device.spend(self.own)
        return x + y


def timed(model: nn.Module, device: Fake, **how: object) -> rasp.Profile:
    return rasp.profile(model, input_shape=(2, 4), timing=True, device=device, **how)


def test_statistics_are_those_of_the_script():
    fake = Fake(script=[0.9, 0.8, 0.004, 0.001, 0.003, 0.002, 0.005])
    found = rasp.profile(
        Layer(fake), input_shape=(2, 4), timing="whole", device=fake, batches=5, warmup=2
    )  # fmt: skip
    latency = found.latency
    assert latency.samples == pytest.approx((4, 1, 3, 2, 5), abs=1e-6)
    assert (latency.n, latency.warmup) == (5, 2)
    assert latency.median == pytest.approx(3, abs=1e-6)
    assert latency.p95 == pytest.approx(4.8, abs=1e-6)
    assert found.samples.time.warmup == pytest.approx((900, 800), abs=1e-6)
    assert found.total("lat") == latency.median
    assert found.rows(columns=["name", "net_lat"])[0]["net_lat"] is None  # modules were not timed


def test_each_module_has_its_time_and_the_container_its_own():
    fake = Fake()
    found = timed(Two(fake), fake, batches=6, warmup=1)
    rows = {(row["name"], row["kind"]): row for row in found.rows(columns=["name", "lat", "net_lat", "calls"])}
    tape = [(row["name"], row["net_lat"]) for row in found.rows(columns=["name", "net_lat"])]
    near = pytest.approx
    assert [time for name, time in tape if name == ".first"] == near([2.0, 2.0], abs=1e-5)
    assert rows[".second", "call"]["lat"] == near(3.0, abs=1e-5)
    assert rows[".", "own"]["net_lat"] == near(1.0, abs=1e-5)
    assert rows[".", "own"]["lat"] == near(8.0, abs=1e-5)
    assert found.latency.median == near(8.0, abs=1e-5)
    leaves = {row["name"]: row for row in found.rows("leaves", ["name", "net_lat", "median", "samples"])}
    assert leaves[".first"]["net_lat"] == near(4.0, abs=1e-5)
    assert leaves[".first"]["median"] == near(4.0, abs=1e-5)
    assert leaves[".first"]["samples"] == 6


class Passing(nn.Module):
    """A container without an operator of its own, which takes time between the layers in it."""

    def __init__(self, device: Fake) -> None:
        super().__init__()
        self.device, self.layer = device, Layer(device, 0.002)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if not x.is_meta:
            self.device.spend(0.005)
        return self.layer(y)


class Around(nn.Module):
    def __init__(self, device: Fake) -> None:
        super().__init__()
        self.body = nn.Sequential(Passing(device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


def test_time_between_layers_is_that_of_the_nearest_container_with_a_row():
    fake = Fake(reading=1e-5)
    found = timed(Around(fake), fake, batches=6, warmup=0)
    rows = [(row["name"], row["net_lat"]) for row in found.rows(columns=["name", "net_lat"])]
    assert [name for name, _ in rows] == [".body.0.layer", ".body.0.layer", ".", "(remainder)", "total"]
    assert [time for _, time in rows[:3]] == pytest.approx([2.0, 2.0, 5.0], abs=1e-3)
    assert abs(found.remainder) <= 0.03  # three readings of the clock
    alone = timed(Passing(fake), fake, batches=6, warmup=0)
    assert alone.remainder == pytest.approx(5.0, abs=0.05)  # no container has a row that it could stand in


@pytest.mark.parametrize("reading", [0.0, 1e-6, 3.3e-5])
@pytest.mark.parametrize("kind", ["tape", "leaves"])
def test_rows_and_the_remainder_sum_to_the_whole_exactly(reading, kind):
    fake = Fake(reading=reading)
    found = timed(Two(fake, 0.0020017, 0.0031, 0.00013), fake, batches=7, warmup=0)
    rows = found.rows(kind, ["net_lat", "lat[%]"])
    assert rows[-2]["kind"] == "remainder"
    assert sum(row["net_lat"] for row in rows[:-1]) == rows[-1]["net_lat"] == found.latency.median
    assert found.remainder == rows[-2]["net_lat"]
    assert sum(row["lat[%]"] for row in rows[:-1]) == pytest.approx(100)
    assert abs(found.remainder) <= 2 * reading * 1e3 + 1e-4  # what reading the clock costs is taken off


def test_what_watching_costs_is_measured_and_told():
    fake = Fake(reading=1e-5)
    found = timed(Two(fake), fake, batches=5, warmup=0)
    assert found.samples.instrument["call"] == pytest.approx(0.02, rel=1e-3)  # two readings a call
    assert found.samples.watching == pytest.approx(8 * 1e-5 / 8.02e-3, rel=0.01)
    assert "clock at every door" in str(found.table())


def test_achieved_rates_and_columns_as_rasp_has_them():
    pytest.importorskip("pandas")
    fake = Fake()
    table = rasp.stat(
        Two(fake), input_shape=(2, 4), device=fake, timing=True, batches=5, warmup=1, print_stat=False, returns="data"
    )
    assert list(table.columns[:11]) == [
        "name", "type", "in_shape", "out_shape", "params", "lat", "net_lat", "lat[%]", "flops", "FLOPS", "mem_r",
    ]  # fmt: skip
    second = table[table["name"] == ".second"].iloc[0]
    assert second["FLOPS"] == round(1000 * second["flops"] / second["net_lat"])
    assert second["lat[%]"] == pytest.approx(100 * 3 / 8, rel=1e-4)


def test_an_uncalled_module_has_no_time():
    fake = Fake()
    model = Two(fake)
    model.idle = nn.Linear(4, 4)
    rows = timed(model, fake, batches=3, warmup=0).rows(columns=["name", "lat", "net_lat", "samples"])
    idle = next(row for row in rows if row["kind"] == "uncalled")
    assert (idle["lat"], idle["net_lat"], idle["samples"]) == (None, None, None)


def test_settings_of_the_process_are_obeyed(monkeypatch):
    fake = Fake()
    monkeypatch.setattr(rasp.CFG.profile, "num_batches", 4)
    monkeypatch.setattr(rasp.CFG.profile, "warmup_batches", 2)
    found = timed(Two(fake), fake)
    assert (found.latency.n, found.latency.warmup, len(found.samples.time.watched)) == (4, 2, 4)
    assert timed(Two(fake), fake, batches=3).latency.n == 3


def test_a_setting_put_back_counts_as_not_given():
    rasp.CFG.profile.num_batches = 100
    assert rasp.CFG.profile.given("num_batches")
    del rasp.CFG.profile.num_batches
    rasp.CFG.profile.warmup_batches = 20
    rasp.set_config({"profile": {"num_batches": 100, "warmup_batches": 10}})
    assert rasp.get_config() == {"profile": {"num_batches": 100, "warmup_batches": 10}}
    assert not rasp.CFG.profile.given("num_batches")
    assert not rasp.CFG.profile.given("warmup_batches")


def test_runs_go_on_until_the_interval_is_narrow_or_time_is_over():
    steady = Fake()
    found = timed(Two(steady), steady, precision=0.01)
    assert 10 <= found.latency.n < 60
    restless = Fake(script=[0.01, 0.05] * 10_000)
    found = rasp.profile(Layer(restless), input_shape=(2, 4), timing=True, device=restless, seconds=3)
    assert 40 <= found.latency.n <= 75  # three seconds of 30 ms, the watched runs in between
    assert any("noisy" in remark for remark in found.samples.remarks)


def test_a_step_tells_its_parts():
    fake = Fake()
    found = timed(Two(fake), fake, batches=4, warmup=1, backward=True, optimizer=torch.optim.SGD)
    parts = found.samples.time.parts
    assert parts["forward"] == pytest.approx([8.0] * 4, abs=1e-5)
    assert set(parts) == {"forward", "backward", "optimiser"}
    assert all(value == pytest.approx(0, abs=1e-6) for value in (*parts["backward"], *parts["optimiser"]))
    rows = found.rows(columns=["net_lat"])
    assert sum(row["net_lat"] or 0 for row in rows[:-1]) == rows[-1]["net_lat"]


def test_an_interruption_leaves_what_was_measured():
    fake = Fake()

    class Impatient(Two):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not x.is_meta:
                Impatient.calls += 1
                if Impatient.calls == 12:
                    raise KeyboardInterrupt
            return super().forward(x)

    found = timed(Impatient(fake), fake, batches=100, warmup=1)
    assert found.samples.partial
    assert 1 <= found.latency.n < 12
    assert any("interrupted" in remark for remark in found.samples.remarks)
    assert "PARTIAL" in str(found.table())
    Impatient.calls = 11
    with pytest.raises(KeyboardInterrupt):  # nothing was measured: there is nothing to give back
        timed(Impatient(fake), fake, batches=100, warmup=1)


def test_states_of_the_device_are_told():
    fake = Fake(states=[{"clock_mhz": 3000.0}, {"clock_mhz": 1500.0}])
    assert any("clock change" in remark for remark in timed(Two(fake), fake, batches=3).samples.remarks)


def test_samples_are_saved_with_the_profile(tmp_path):
    fake = Fake(script=[0.001 * i for i in range(1, 60)])
    found = rasp.profile(Layer(fake), input_shape=(2, 4), timing=True, device=fake, batches=9)
    again = rasp.load(found.save(tmp_path / "timed.json"))
    assert again.latency == found.latency
    assert again.samples == found.samples
    assert again.rows(columns=["net_lat", "ci_low", "p95"]) == found.rows(columns=["net_lat", "ci_low", "p95"])
    assert json.loads((tmp_path / "timed.json").read_text())["info"]["samples"]["environment"]["clock"] == "scripted"
    assert str(again.verdict) == str(found.verdict)


def test_nothing_was_timed_says_so():
    found = rasp.profile(nn.Linear(4, 4), input_shape=(2, 4))
    assert (found.latency, found.samples, found.verdict, found.remainder) == (None, None, None, None)
    table = found.table(columns=["name", "lat", "FLOPS", "median", "verdict"])
    assert all(row["lat"] is None and row["FLOPS"] is None and row["median"] is None for row in table.dicts())
    assert any("timing=True" in note for note in table.notes)


def test_a_planted_difference_is_named_and_equals_are_not_told_apart():
    fake = Fake()
    found = rasp.compare_times(Two(fake), Two(fake, second=0.0035), input_shape=(2, 4), device=fake, batches=20)
    assert found.different
    assert [changed.path for changed in found.modules] == ["second"]
    assert found.modules[0].difference == pytest.approx(0.5, abs=1e-5)
    assert found.whole.ratio == pytest.approx(8.5 / 8)
    assert "second" in str(found)
    same = rasp.compare_times(Two(fake), Two(fake), input_shape=(2, 4), device=fake, batches=20)
    assert not same.different
    assert "no module differs" in str(same)


def test_a_wrapped_layer_is_named_by_its_own_path():
    fake = Fake()

    class Wrapped(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not x.is_meta:
                fake.spend(0.001)
            return self.inner(x)

    slower = Two(fake)
    slower.second = Wrapped(slower.second)
    found = rasp.compare_times(Two(fake), slower, input_shape=(2, 4), device=fake, batches=15)
    assert [changed.path for changed in found.modules] == ["second"]


class Ahead(Fake):
    """A device that the host runs ahead of: what is spent is queued, and waiting for it takes the rest."""

    asynchronous = True

    def __init__(self, launch: float) -> None:
        super().__init__()
        self.launch, self.host = launch, 0.0

    def now(self) -> float:
        return self.host

    def mark(self) -> float:
        return max(self.time, self.host)

    def spend(self, seconds: float | None = None) -> None:
        self.host += self.launch
        self.time = max(self.time, self.host) + (seconds or 0.0)

    def synchronize(self) -> None:
        self.host = max(self.host, self.time)


@pytest.mark.parametrize(
    ("launch", "kind", "host"),
    [(0.0001, "unclear", 0.4), (0.004, "launch-bound", 16.0)],
    ids=["device slower", "host slower"],
)
def test_a_device_behind_the_host(launch, kind, host):
    device = Ahead(launch)
    found = timed(Two(device), device, batches=4, warmup=1)
    assert found.verdict.kind == kind
    assert found.samples.time.parts["host"] == pytest.approx([host] * 4, abs=1e-5)
    whole = 8.1 if kind == "unclear" else 17.0
    assert found.latency.median == pytest.approx(whole, abs=1e-5)
    rows = found.rows(columns=["name", "net_lat"])
    assert sum(row["net_lat"] or 0 for row in rows[:-1]) == rows[-1]["net_lat"]
    if kind == "launch-bound":
        assert "the host needs 16.00 ms of 17.00 ms" in found.verdict.evidence


def test_inputs_copied_each_time_are_a_row_of_their_own():
    fake = Fake(reading=0.001)
    found = timed(Two(fake, 0, 0, 0), fake, batches=4, warmup=0, copy_inputs=True)
    assert found.samples.time.parts["copy"] == pytest.approx([1.0] * 4, abs=1e-5)
    assert found.latency.median == pytest.approx(3.0, abs=1e-5)
    assert "(copy)" in [row["name"] for row in found.rows(columns=["name", "net_lat"])]


CEILINGS = {"name": "fake", "memory": None, "generation": "cpu", "how": "measured", "source": "a test", "vector": 1e9}


@pytest.mark.parametrize(
    ("ceilings", "kind", "words"),
    [
        ({"peaks": {"fp32": 1e5}, "bandwidth": 1e12}, "compute-bound", "peaks of arithmetic"),
        ({"peaks": {"fp32": 1e12}, "bandwidth": 2e5}, "memory-bound", "bandwidth"),
        ({"peaks": {"fp32": 1e12}, "bandwidth": 1e12, "launch": 0.002}, "launch-bound", "one by one"),
        ({"peaks": {"fp32": 1e12}, "bandwidth": 1e12}, "unclear", "far from both"),
        ({"peaks": {"fp32": 1e3}, "bandwidth": 1e12}, "unclear", "calibrate"),
    ],
)
def test_verdicts_by_ceilings(ceilings, kind, words, monkeypatch, tmp_path):
    monkeypatch.setenv("RASP_HOME", str(tmp_path))
    devices.keep(Machine(**{**CEILINGS, **ceilings, "host": platform.node()}))
    fake = Fake()
    found = timed(Two(fake, 0.001, 0.0016, 0.0001), fake, batches=4, warmup=0)
    assert found.verdict.kind == kind
    assert words in found.verdict.evidence
    assert found.rows(columns=["roof%"])[-1]["roof%"] > 0
    assert kind in str(found.verdict)


def test_without_ceilings_the_verdict_says_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("RASP_HOME", str(tmp_path))
    fake = Fake()
    found = timed(Two(fake), fake, batches=4, warmup=0)
    assert found.verdict.kind == "unclear"
    assert "rasp calibrate" in found.verdict.evidence
    assert found.rows(columns=["roof%", "verdict"])[-1] == {
        "roof%": None, "verdict": None, "kind": "total", "shared": False,
    }  # fmt: skip
