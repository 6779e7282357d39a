"""Meters on made-up files, NVML and power: wrap-around, failures midway, permission, no counter."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rasp import devices
from rasp.errors import MeterError
from rasp.meters import Absent, Meter, hwmon, is_counted, nvml, rapl, shortest
from rasp.meters._libnvml import Direct, NVMLError
from rasp.meters.sampled import Sampled, trapezoid

# -- RAPL --------------------------------------------------------------------------------------------------------------


def zone(root: Path, folder: str, name: str, joules: float = 0.0, wraps_at: float | None = 262143.328850) -> Path:
    path = root / folder
    path.mkdir(parents=True)
    (path / "name").write_text(f"{name}\n")
    (path / "energy_uj").write_text(f"{round(joules * 1e6)}\n")
    if wraps_at is not None:
        (path / "max_energy_range_uj").write_text(f"{round(wraps_at * 1e6)}\n")
    return path


def show(path: Path, joules: float) -> None:
    (path / "energy_uj").write_text(f"{round(joules * 1e6)}\n")


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Two sockets with memory, as a server has them, seen a second time through mmio, and cores below a package."""
    for socket in (0, 1):
        zone(tmp_path, f"intel-rapl:{socket}", f"package-{socket}", 100 + socket)
        zone(tmp_path, f"intel-rapl:{socket}:0", "dram", 10)
    zone(tmp_path, "intel-rapl:0:1", "core", 50)
    zone(tmp_path, "intel-rapl:2", "psys", 500)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 7)
    (tmp_path / "intel-rapl").mkdir()
    return tmp_path


def test_every_zone_that_holds_no_other_once(server: Path) -> None:
    found = rapl.meters(server)
    assert [meter.name for meter in found] == [
        f"RAPL {name}" for name in ("dram-0", "dram-1", "package-0", "package-1", "psys")
    ]
    assert [is_counted(meter) for meter in found] == [True] * 4 + [False]
    assert all(isinstance(meter, Meter) and meter.unit == "J" for meter in found)
    first = next(meter for meter in found if meter.name == "RAPL package-0")
    first.start()
    show(server / "intel-rapl:0", 123.456789)
    show(server / "intel-rapl-mmio:0", 9999)
    assert first.stop() == pytest.approx(23.456789, abs=1e-9)


def test_the_platform_counts_where_no_package_does(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:1", "psys")
    assert [is_counted(meter) for meter in rapl.meters(tmp_path)] == [True]


@pytest.mark.parametrize(("before", "after", "joules"), [(262000, 100, 243.32885), (5, 5, 0), (0, 262143, 262143)])
def test_a_counter_that_starts_again_at_0(tmp_path: Path, before: float, after: float, joules: float) -> None:
    path = zone(tmp_path, "intel-rapl:0", "package-0", before)
    (meter,) = rapl.meters(tmp_path)
    meter.start()
    show(path, after)
    assert meter.stop() == pytest.approx(joules, abs=1e-5)


def test_a_window_in_which_it_may_have_wrapped_twice(tmp_path: Path) -> None:
    clock = iter([0.0, 66.0, 66.0])
    path = zone(tmp_path, "intel-rapl:0", "package-0", 1, 65_000)
    meter = rapl.Zone(path, "package-0", counted=True, clock=clock.__next__)
    meter.start()
    with pytest.raises(MeterError, match=r"more than once in 66 s.*less than 65 s"):
        meter.stop()


def test_a_counter_that_goes_back_and_tells_no_range(tmp_path: Path) -> None:
    path = zone(tmp_path, "intel-rapl:0", "package-0", 10, wraps_at=0)
    (meter,) = rapl.meters(tmp_path)
    meter.start()
    show(path, 9)
    with pytest.raises(MeterError, match="reset, or is broken"):
        meter.stop()


def test_a_zone_that_vanishes_midway(server: Path) -> None:
    meter = rapl.meters(server)[0]
    meter.start()
    (server / "intel-rapl:0:0" / "energy_uj").unlink()
    with pytest.raises(MeterError, match=r"energy_uj could not be read"):
        meter.stop()


def test_without_permission_it_says_what_to_do(server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, *args: Any, **kwargs: Any) -> str:
        if self.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **kwargs)

    real = Path.read_text
    monkeypatch.setattr(Path, "read_text", refused)
    for meter in rapl.meters(server):
        with pytest.raises(MeterError, match=r"chmod a\+r .*energy_uj"):
            meter.start()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_without_permission_for_real(server: Path) -> None:
    (server / "intel-rapl:0" / "energy_uj").chmod(0)
    with pytest.raises(MeterError, match="chmod"):
        next(meter for meter in rapl.meters(server) if meter.name == "RAPL package-0").start()


def test_stopped_before_started(server: Path) -> None:
    meter = rapl.meters(server)[0]
    with pytest.raises(MeterError, match="before it was started"):
        meter.stop()


@pytest.mark.parametrize("there", [False, True])
def test_no_rapl_is_a_reason(tmp_path: Path, there: bool) -> None:
    root = tmp_path / "powercap"
    if there:
        root.mkdir()
    (meter,) = rapl.meters(root)
    for read in (meter.start, meter.stop):
        with pytest.raises(MeterError, match=r"no RAPL.*intel_rapl_msr"):
            read()


# -- NVML --------------------------------------------------------------------------------------------------------------


class Library:
    """nvidia-ml-py as far as it is asked, with a counter that advances every so many readings."""

    class NVMLError(Exception):
        pass

    def __init__(self, joules: Any = None, watts: Any = None) -> None:
        self.joules, self.watts = joules, watts
        self.asked: list[Any] = []

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        self.asked.append(index)
        if index > 7:
            raise self.NVMLError("Invalid Argument")
        return f"board {index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.asked.append(uuid)
        return f"board {uuid}"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        if self.joules is None:
            raise self.NVMLError("Not Supported")
        return self._next(self.joules)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        if self.watts is None:
            raise self.NVMLError("Not Supported")
        return self._next(self.watts)

    def _next(self, values: Any) -> int:
        found = next(values)
        if isinstance(found, Exception):
            raise found
        return int(found)


def test_the_counter_is_in_millijoules_and_starts_on_a_change() -> None:
    library = Library(iter([1, 100, 100, 100, 5_000, 905_000]))  # the first is that of looking whether there is one
    (meter,) = nvml.meters(0, library=library)
    assert (meter.unit, shortest(meter)) == ("J", 2.0)
    meter.start()
    assert meter.stop() == 900.0


def test_a_counter_that_stands_still_is_started_nevertheless() -> None:
    (meter,) = nvml.meters(0, library=Library(itertools.repeat(7)))
    meter.start()
    assert meter.stop() == 0  # told as 'stood still' by what measures with it


def test_a_counter_that_fails_midway_or_goes_back() -> None:
    library = Library(iter([0, 1, 2, Library.NVMLError("GPU is lost")]))
    (meter,) = nvml.meters(0, library=library)
    meter.start()
    with pytest.raises(MeterError, match="GPU is lost"):
        meter.stop()
    (meter,) = nvml.meters(0, library=Library(iter([0, 10, 20, 5])))
    meter.start()
    with pytest.raises(MeterError, match="reset"):
        meter.stop()


def test_power_where_there_is_no_counter() -> None:
    (meter,) = nvml.meters(0, library=Library(watts=itertools.repeat(250_000)))
    assert "power" in meter.name
    assert meter.how.startswith("power read every")
    began = time.monotonic()
    meter.start()
    time.sleep(0.05)
    joules, lasted = meter.stop(), time.monotonic() - began
    assert 0 < joules <= 250 * lasted


def test_neither_is_a_reason_and_no_zero() -> None:
    (meter,) = nvml.meters(0, library=Library())
    with pytest.raises(MeterError, match=r"energy counter.*Not Supported.*power.*Not Supported"):
        meter.start()


def test_no_such_gpu_and_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    (meter,) = nvml.meters(9, library=Library())
    with pytest.raises(MeterError, match="GPU 9: Invalid Argument"):
        meter.start()

    def missing(*_: Any) -> Any:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr("rasp.meters._libnvml.ctypes.CDLL", missing)
    (meter,) = nvml.meters(0)
    with pytest.raises(MeterError, match="NVIDIA's driver"):
        meter.start()


@pytest.mark.parametrize(
    ("visible", "index", "uuid", "asked"),
    [
        ("", 1, None, 1),
        ("3,5", 1, None, 5),
        ("GPU-aa,GPU-bb", 1, None, "GPU-bb"),
        ("3,5", 0, "1234-5678", "GPU-1234-5678"),
        ("MIG-cc", 0, None, "MIG-cc"),
        ("3", 2, None, 2),
    ],
)
def test_which_board_is_meant(
    monkeypatch: pytest.MonkeyPatch, visible: str, index: int, uuid: str | None, asked: int | str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    library = Library(itertools.count())
    nvml.meters(index, uuid, library)
    assert library.asked == [asked]


class CLibrary:
    """What ctypes loads, by hand: functions that write through a reference and give a code."""

    def __init__(self) -> None:
        self.nvmlErrorString = lambda code: f"error {code}".encode()
        self.given: list[Any] = []

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, out: Any) -> int:
        self.given.append(uuid)
        out._obj.value = 77
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, out: Any) -> int:
        self.given.append(handle.value)
        out._obj.value = 2**40 + 1
        return 0

    def nvmlDeviceGetPowerUsage(self, handle: Any, out: Any) -> int:
        return 3

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, room: Any) -> int:
        count._obj.value = 3
        return 7


def test_the_drivers_library_without_a_binding() -> None:
    library = CLibrary()
    direct = Direct(library)
    (meter,) = nvml.meters(0, "ab", direct)
    assert meter.reading() == 2**40 + 1
    assert library.given[:2] == [b"GPU-ab", 77]
    with pytest.raises(NVMLError, match="error 3"):
        direct.nvmlDeviceGetPowerUsage(None)
    assert len(direct.nvmlDeviceGetComputeRunningProcesses(None)) == 3
    with pytest.raises(AttributeError):
        _ = direct.nvmlDeviceSetPowerManagementLimit


# -- power that is sampled ---------------------------------------------------------------------------------------------


def test_the_trapezoid_rule() -> None:
    assert trapezoid([(0, 0), (2, 100)]) == 100
    assert trapezoid([(5, 40)]) == 0


def test_sampled_power_is_summed_over_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Sampled("lamp", lambda: 60.0, shortest=0.0, every=0.001)
    meter.start()
    time.sleep(0.02)
    joules = meter.stop()
    (begin, _), (end, _) = meter.readings[0], meter.readings[-1]
    assert joules == pytest.approx(60 * (end - begin))
    assert end - begin >= 0.02
    assert len(meter.readings) > 2


def test_power_that_fails_midway_ends_its_thread() -> None:
    readings = iter([50.0, 50.0])
    before = threading.active_count()
    meter = Sampled("lamp", lambda: next(readings), shortest=0.0, every=0.001)
    meter.start()
    time.sleep(0.05)
    with pytest.raises(MeterError, match="midway"):
        meter.stop()
    assert threading.active_count() == before
    with pytest.raises(MeterError, match="before it was started"):
        meter.stop()


# -- graphics cards' files ---------------------------------------------------------------------------------------------


def card(root: Path, number: int, driver: str, **files: int) -> Path:
    folder = root / f"card{number}" / "device" / "hwmon" / "hwmon3"
    folder.mkdir(parents=True)
    (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    (folder.parents[1] / "driver").symlink_to(root / "drivers" / driver)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def test_cards_are_numbered_by_driver(tmp_path: Path) -> None:
    card(tmp_path, 0, "ast")
    folder = card(tmp_path, 1, "xe", energy1_input=5_000_000)
    card(tmp_path, 2, "amdgpu", power1_average=120_000_000)
    (tmp_path / "card1-DP-1").mkdir()
    (meter,) = hwmon.meters("xe", 0, tmp_path)
    meter.start()
    (folder / "energy1_input").write_text("7500000\n")
    assert meter.stop() == 2.5
    (meter,) = hwmon.meters("amdgpu", 0, tmp_path)
    meter.start()
    time.sleep(0.01)
    assert meter.stop() > 0
    assert meter.readings[0][1] == 120.0
    for driver, index, words in (("amdgpu", 1, "no card 1"), ("ast", 0, "neither energy nor power")):
        (meter,) = hwmon.meters(driver, index, tmp_path)
        with pytest.raises(MeterError, match=words):
            meter.start()


def test_every_device_names_its_meters_or_says_why() -> None:
    for name in ("cpu", "mps", "xpu"):
        found = devices.get(name).meters()
        assert found
        assert all(isinstance(meter, Meter) for meter in found)
    (meter,) = devices.get("mps").meters()
    assert isinstance(meter, Absent)
    with pytest.raises(MeterError, match="powermetrics"):
        meter.start()


class Board(Library):
    """An NVML that tells the rest as well, as the CUDA device asks for it."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __getattr__(self, name: str) -> Any:
        told = {"nvmlDeviceGetEnforcedPowerLimit": 700_000, "nvmlDeviceGetCurrentClocksThrottleReasons": 4}
        if name == "nvmlDeviceGetComputeRunningProcesses":
            return self.nvmlDeviceGetPowerUsage  # not supported here
        return lambda *given: told.get(name, "580.1" if name.endswith("Version") else 42)


def test_the_cuda_device_reads_its_board(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(name="NVIDIA H200", total_memory=1 << 37, multi_processor_count=132, uuid="abc")
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda index: properties)
    library = Board(itertools.count())
    monkeypatch.setattr("rasp.meters.nvml.load", lambda: library)
    gpu = devices.get("cuda:0")
    told = gpu.describe()
    assert (told["gpu"], told["driver"], told["power_limit_watts"]) == ("NVIDIA H200", "580.1", 700.0)
    state = gpu.state()
    assert state["gpu_slowed"] == 4
    assert "gpu_programs" not in state
    assert any("power limit" in words for words in devices.remarks(state, state, 1.0))
    (meter,) = gpu.meters()
    assert meter.name == "NVML energy counter of GPU 0"
    assert set(library.asked) == {"GPU-abc"}
    monkeypatch.setattr("rasp.meters.nvml.load", lambda: (_ for _ in ()).throw(MeterError("no driver")))
    assert "driver" not in gpu.describe()
    assert isinstance(gpu.meters()[0], Absent)
