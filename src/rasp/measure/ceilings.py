"""What a device really reaches, the best of many runs: products of each type, a large copy, starting an operator."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import torch

from ..devices import Machine
from ..errors import InputError

MIB = 1 << 20
SHARE = 0.4  # of the memory that is free, at most, for the arrays of a copy
COPIED = {"cpu": 256 * MIB, "cuda": 2048 * MIB}
SIDES = {"cpu": (512, 1024, 2048), "cuda": (2048, 4096, 8192, 16384)}
TYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
OPERATORS = 2000
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
ROUNDS = 2
Say = Callable[[str], None]


def ceilings(device: str, seconds: float = 10.0, say: Say = lambda words: None) -> Machine:
    """Measure a device's ceilings, `seconds` in all or a little more."""
    if not seconds > 0:
        raise InputError(f"seconds={seconds!r} is no time to measure in; give a positive number.")
    at = _device(device)
    products = list(_products(at))
    share = seconds / ROUNDS / (len(products) + 1)
    peaks: dict[str, float] = {}
    bandwidth = 0.0
    for number in range(ROUNDS):  # apart in time, so that a busy moment does not decide
        for name, product in products:
            say(f"{name} products, round {number + 1} of {ROUNDS}")
            rate = _rate(product, at, share)
            if rate is not None:
                peaks[name] = max(rate, peaks.get(name, 0.0))
        say(f"copying, round {number + 1} of {ROUNDS}")
        bandwidth = max(bandwidth, _bandwidth(at, share))
    say("starting operators")
    launch = _launch(at)
    total = torch.cuda.get_device_properties(at).total_memory if at.type == "cuda" else _host_memory()
    day = datetime.now(UTC).date().isoformat()
    what = torch.cuda.get_device_name(at) if at.type == "cuda" else f"{_processor()}, {torch.get_num_threads()} threads"
    return Machine(
        name=str(at), memory=total, generation=_generation(at), bandwidth=bandwidth, vector=peaks["fp32"], peaks=peaks,
        cache=_cache(at), launch=launch, how="measured", source=f"measured on {what}, torch {torch.__version__}, {day}",
        host=platform.node(),
    )  # fmt: skip


def _device(name: str) -> torch.device:
    try:
        at = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"{name!r} is not a device of torch: 'cpu' or 'cuda:0'.") from error
    if at.type not in SIDES:
        raise InputError(f"Ceilings of {at.type!r} cannot be measured yet: 'cpu' and 'cuda' can.")
    if at.type == "cuda" and not torch.cuda.is_available():
        raise InputError("There is no CUDA device here that torch can use; calibrate 'cpu', or run this where one is.")
    return torch.device("cuda", at.index or 0) if at.type == "cuda" else torch.device("cpu")


Product = Callable[[int], Callable[[], object]]


def _products(at: torch.device) -> Iterator[tuple[str, Product]]:
    """For each type a function of a side that gives a product of two squares, ready to be run."""
    for name, dtype in TYPES.items():
        yield name, lambda side, dtype=dtype: _square(side, dtype, at)  # type: ignore[misc]
    if at.type == "cuda" and torch.cuda.get_device_capability(at) >= (8, 0):
        yield "tf32", lambda side: _tf32(_square(side, torch.float32, at))
    if at.type == "cuda" and torch.cuda.get_device_capability(at) >= (8, 9):
        yield "fp8", lambda side: _eights(side, at)
    if at.type == "cuda":
        yield "int8", lambda side: _integers(side, at)


def _square(side: int, dtype: torch.dtype, at: torch.device) -> Callable[[], object]:
    a, b = (torch.randn(side, side, device=at).to(dtype) for _ in range(2))
    out = torch.empty(side, side, dtype=dtype, device=at)
    return lambda: torch.mm(a, b, out=out)


def _tf32(product: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with _allowing_tf32():
            return product()

    return run


@contextmanager
def _allowing_tf32() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _eights(side: int, at: torch.device) -> Callable[[], object]:
    a, b = (torch.randn(side, side, device=at).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device=at)
    return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _integers(side: int, at: torch.device) -> Callable[[], object]:
    a, b = (torch.randint(-9, 9, (side, side), dtype=torch.int8, device=at) for _ in range(2))
    return lambda: torch._int_mm(a, b.t())


def _rate(product: Product, at: torch.device, seconds: float) -> float | None:
    """Operations a second of the best product, over sides; None where the device has no such product."""
    best, end = 0.0, perf_counter() + seconds
    for side in SIDES[at.type]:
        try:
            run = product(side)
            run()
        except (RuntimeError, NotImplementedError):
            return best or None  # no kernel for the type, or no memory for the side
        best = max(best, 2 * side**3 / _best(run, at, (end - perf_counter()) / 2))
        if perf_counter() > end:
            break
    return best


def _bandwidth(at: torch.device, seconds: float) -> float:
    """Bytes a second that a large copy reads and writes."""
    nbytes = COPIED[at.type]
    if at.type == "cuda":
        nbytes = min(nbytes, int(SHARE * torch.cuda.mem_get_info(at)[0] / 2))
    a = torch.ones(nbytes // 4, device=at)
    b = torch.empty_like(a)
    return 2 * nbytes / _best(lambda: b.copy_(a), at, seconds)


def _launch(at: torch.device) -> float:
    """Seconds that one operator costs which computes next to nothing, one after the other."""
    one = torch.zeros(1, device=at)

    def run() -> None:
        for _ in range(OPERATORS):
            one.add_(1)

    return _best(run, at, 0.5) / OPERATORS


def _best(run: Callable[[], object], at: torch.device, seconds: float) -> float:
    """The shortest of as many runs as fit, three at least."""
    best, end, times = float("inf"), perf_counter() + seconds, 0
    while times < 3 or perf_counter() < end:
        _wait(at)
        start = perf_counter()
        run()
        _wait(at)
        best = min(best, perf_counter() - start)
        times += 1
    return best


def _wait(at: torch.device) -> None:
    if at.type == "cuda":
        torch.cuda.synchronize(at)


def _generation(at: torch.device) -> str:
    if at.type != "cuda":
        return "cpu"
    names = {6: "pascal", 7: "volta", 8: "ampere", 9: "hopper", 10: "blackwell", 12: "blackwell"}
    major, minor = torch.cuda.get_device_capability(at)
    return {(7, 5): "turing", (8, 9): "ada"}.get((major, minor)) or names.get(major, "")


def _processor() -> str:
    """The processor's name, as the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return found or platform.processor() or platform.machine()


def _cache(at: torch.device) -> int | None:
    """Bytes of the cache before the memory, where the driver or the system tells."""
    if at.type == "cuda":
        return int(getattr(torch.cuda.get_device_properties(at), "L2_cache_size", 0)) or None
    found = [_bytes(path) for path in CACHES.glob("index*/size")]
    return max((size for size in found if size is not None), default=None)


def _bytes(path: Path) -> int | None:
    """'36608K' → bytes."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    scale = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 0)
    return int(text[:-1]) * scale if scale and text[:-1].isdecimal() else None


def _host_memory() -> int | None:
    """Bytes of main memory, where the system tells."""
    path = Path("/proc/meminfo")
    if not path.exists():
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("MemTotal")).split()[1]) * 1024
