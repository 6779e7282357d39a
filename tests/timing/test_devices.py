"""Devices one runs on: names, reasons, scripted clocks, counters that wrap, what states tell."""

from __future__ import annotations

import doctest
import importlib

import pytest
import torch

from rasp import InputError, MeterError, UnknownName, devices
from rasp.devices import Meter, Stopwatch, advanced
from rasp.devices.fake import Counter, Fake


def test_the_docs_of_the_fake_run():
    found = doctest.testmod(importlib.import_module("rasp.devices.fake"))
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize(
    ("given", "name", "place"),
    [
        ("cpu", "cpu", "cpu"),
        ("cpu:0", "cpu", "cpu"),
        (torch.device("cpu"), "cpu", "cpu"),
        ("CUDA:3", "cuda:3", "cuda:3"),
        (torch.device("cuda", 1), "cuda:1", "cuda:1"),
        ("cuda", "cuda", "cuda"),
        ("xpu:1", "xpu:1", "xpu:1"),
        ("mps", "mps", "mps"),
        ("fake", "fake", "cpu"),
    ],
)
def test_devices_are_found_by_any_spelling(given, name, place):
    found = devices.get(given)
    assert (found.name, found.place) == (name, place)
    assert devices.get(found) is found


def test_a_device_that_does_not_exist_is_refused():
    with pytest.raises(UnknownName, match="cuda"):
        devices.get("cudda:0")
    with pytest.raises(InputError, match="number"):
        devices.get("cuda:first")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_here_says_why():
    assert not devices.get("cuda").available()
    with pytest.raises(InputError, match="no CUDA device"):
        devices.usable("cuda:0")


def test_the_processor_describes_itself_in_plain_data():
    found = devices.get("cpu").describe()
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert all(isinstance(value, (str, int, float)) for value in found.values())


def test_a_scripted_clock_gives_exact_times():
    fake = Fake(script=[0.5, 0.25], reading=0.125)
    watch = Stopwatch(fake)
    assert isinstance(watch, Meter)
    watch.start()
    fake.spend()
    fake.spend()
    fake.spend()
    assert watch.stop() == 0.875


def test_counters_wrap_once_and_no_more():
    assert advanced(3, 10) == 7
    assert advanced(90, 10, wraps_at=100) == 20
    with pytest.raises(MeterError, match="reset"):
        advanced(90, 10)
    with pytest.raises(MeterError, match="reset"):
        advanced(190, 10, wraps_at=100)


def test_a_meter_that_fails_midway_says_why():
    meter = Counter("joules", "J", [1.0, MeterError("the sensor was unplugged"), 5.0, 8.0])
    meter.start()
    with pytest.raises(MeterError, match="unplugged"):
        meter.stop()
    meter.start()
    assert meter.stop() == 3.0
    with pytest.raises(MeterError, match="nothing more"):
        meter.start()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"busy_seconds": 0, "own_seconds": 0}, {"busy_seconds": 20, "own_seconds": 10}, "other load"),
        ({"withheld_seconds": 0}, {"withheld_seconds": 1}, "throttled"),
        ({"steal_seconds": 0}, {"steal_seconds": 2}, "hypervisor"),
        ({"clock_mhz": 3000}, {"clock_mhz": 2000}, "clock change"),
        ({"gpu_slowed": 0}, {"gpu_slowed": 0x4}, "power limit"),
        ({"gpu_clock_mhz": 1980}, {"gpu_clock_mhz": 1200}, "clock change"),
        ({"gpu_programs": 1}, {"gpu_programs": 3}, "2 other programs"),
    ],
)
def test_two_states_tell_what_happened_between_them(before, after, words):
    devices.load()
    [said] = devices.remarks(before, after, seconds=10)
    assert words in said
    assert devices.remarks(before, before, seconds=10) == [] or "power limit" not in said
