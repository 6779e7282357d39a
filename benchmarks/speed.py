"""How long profiling takes, as a share of one bare forward of the same model on the meta device.

    python benchmarks/speed.py                        everything, as a table on the screen
    python benchmarks/speed.py --write docs/speed.md  the same, written to a page
    python benchmarks/speed.py --only resnet50        models whose name contains this
    python benchmarks/speed.py --no-peers             rasp alone

One thread; every model and every other profiler in a process of its own; the times of one process are taken in turns
(bare, rasp with an empty memo, rasp again, …) and their medians compared, so that a busy machine slows all alike. Exits
with 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
ROUNDS, PEER_ROUNDS = 15, 5


# ---- inside one process --------------------------------------------------------------------------------


def timed(action: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def turns(actions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Every action once per round; the first round warms up and is left out.

    Garbage is collected between rounds, and the first action then runs once untimed: a collection empties the
    processor's caches.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds + 1):
        gc.collect()
        next(iter(actions.values()))()
        for name, action in actions.items():
            taken = timed(action)
            if number:
                times[name].append(taken)
    return times


def prepared(name: str) -> tuple[Any, Any, Any, Any]:
    """The model, its meta copy, and inputs for both."""
    import torch
    from torch.utils import _pytree as pytree

    from models import MODELS

    torch.set_num_threads(1)
    build, make_inputs, _ = MODELS[name]
    model = build().eval()
    ghost = copy.deepcopy(model).to("meta")
    inputs = make_inputs()
    return model, ghost, inputs, pytree.tree_map_only(torch.Tensor, lambda t: t.to("meta"), inputs)


def measure_rasp(name: str) -> dict[str, Any]:
    import rasp
    from models import bare
    from rasp.capture import clear_memo

    model, ghost, inputs, ghost_inputs = prepared(name)
    args, kwargs = inputs

    def cold() -> None:
        clear_memo()
        rasp.profile(model, args, kwargs=kwargs)

    times = turns(
        {
            "bare": lambda: bare(ghost, ghost_inputs),
            "cold": cold,
            "warm": lambda: rasp.profile(model, args, kwargs=kwargs),
            "totals": lambda: rasp.profile(model, args, kwargs=kwargs).total("flops"),
        },
        ROUNDS,
    )
    found = rasp.profile(model, args, kwargs=kwargs)
    medians = {key: statistics.median(values) for key, values in times.items()}
    return {**medians, "operators": len(found.trace.ops), "macs": found.total("macs")}


def measure_peer(name: str, peer: str) -> dict[str, Any]:
    """On the meta copy where the profiler can, else on the real model; each call on a fresh copy."""
    from models import PEERS, bare, quietly

    model, ghost, inputs, ghost_inputs = prepared(name)
    call = PEERS[peer]
    reasons = []
    for device, subject, given in (("meta", ghost, ghost_inputs), ("cpu", model, inputs)):
        if device == "cpu" and next(subject.parameters()).is_meta:
            continue
        try:
            quietly(call, copy.deepcopy(subject), given)
        except Exception as error:  # whatever another tool may raise is its result
            reasons.append(f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}")
            continue
        copies = [copy.deepcopy(subject) for _ in range(PEER_ROUNDS + 1)]
        times = turns(
            {"bare": lambda: bare(ghost, ghost_inputs), "peer": lambda c=copies, s=given: quietly(call, c.pop(), s)},
            PEER_ROUNDS,
        )
        return {key: statistics.median(values) for key, values in times.items()} | {"device": device}
    return {"failed": reasons[-1]}


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_large() -> dict[str, Any]:
    """A 405-billion-parameter Llama on 8192 tokens: the first profile in the process, and the next."""
    import torch

    import rasp
    from models import LLAMA_405B, llama

    torch.set_num_threads(1)
    model = llama(**LLAMA_405B).eval()
    ids = torch.randint(0, 20000, (1, 8192))
    result: dict[str, Any] = {"params": sum(p.numel() for p in model.parameters())}
    for call in ("first", "next"):
        gc.collect()
        before = max(resident(), peak() if call == "next" else resident())
        start = time.perf_counter()
        profile = rasp.profile(model, kwargs={"input_ids": ids})
        result[f"{call} s"] = time.perf_counter() - start
        result[f"{call} MB"] = max(0, max(peak(), resident()) - before) / 1e6
    return result | {"operators": len(profile.trace.ops), "macs": profile.total("macs")}


def measure_growth() -> dict[str, Any]:
    """Time and memory of a trace over the number of operators: the same block 400 to 3200 times.

    Not fewer: the first 256 integers cost nothing in Python, which flatters a short trace.
    """
    import tracemalloc

    import torch
    from torch import nn

    import rasp

    torch.set_num_threads(1)
    found = []
    for blocks in (400, 400, 800, 1600, 3200):  # the first warms up
        model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(blocks)])
        taken = statistics.median(timed(lambda m=model: rasp.profile(m, input_shape=(2, 8))) for _ in range(7))
        tracemalloc.start()
        profile = rasp.profile(model, input_shape=(2, 8))
        gc.collect()  # what the run left for the collector is not held by the profile
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        found.append({"operators": len(profile.trace.ops), "ms": taken, "kB": held / 1e3})
    return {"rows": found[1:]}


ONE: dict[str, Callable[..., dict[str, Any]]] = {
    "rasp": measure_rasp,
    "peer": measure_peer,
    "large": measure_large,
    "growth": measure_growth,
}


# ---- over processes -------------------------------------------------------------------------------------


def in_a_process(*what: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--one", *what],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:120]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def startup(rounds: int = 11) -> dict[str, float]:
    """Milliseconds of bare Python, of importing rasp, and of the help of the command, in turns."""
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "import": [sys.executable, "-c", "import rasp"],
        "help": [sys.executable, "-m", "rasp", "--help"],
    }
    times = turns(
        {name: lambda c=c: subprocess.run(c, capture_output=True, check=True) for name, c in commands.items()}, rounds
    )
    return {name: statistics.median(values) for name, values in times.items()}


class Bounds:
    """What was to be held, and whether it was."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, bool]] = []

    def check(self, what: str, value: float, bound: float, unit: str = "") -> str:
        self.rows.append((what, f"{value:.3g}{unit}", f"≤ {bound:g}{unit}", value <= bound))
        return f"{value:.2f}"

    @property
    def missed(self) -> list[str]:
        return [f"{what}: {value}, bound {bound}" for what, value, bound, held in self.rows if not held]


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows]]
    return "\n".join(lines)


def rasp_section(names: list[str], bounds: Bounds) -> tuple[str, dict[str, dict[str, Any]]]:
    from models import MODELS

    rows, results = [], {}
    for name in names:
        found = in_a_process("rasp", name)
        results[name] = found
        if "failed" in found:
            rows.append([name, found["failed"], *[""] * 6])
            continue
        cold, warm = MODELS[name][2]
        rows.append([
            name, str(found["operators"]), f"{found['bare']:.1f}", f"{found['cold']:.1f}", f"{found['warm']:.1f}",
            bounds.check(f"{name}, empty memo / bare", found["cold"] / found["bare"], cold),
            bounds.check(f"{name}, warm / bare", found["warm"] / found["bare"], warm),
            f"{found['totals'] / found['bare']:.2f}",
        ])  # fmt: skip
        print(rows[-1], file=sys.stderr)
    heads = [
        "model",
        "operators",
        "bare ms",
        "empty memo ms",
        "warm ms",
        "empty memo / bare",
        "warm / bare",
        "warm with totals / bare",
    ]
    return table(heads, rows), results


def peer_section(names: list[str], ours: dict[str, dict[str, Any]], bounds: Bounds) -> str:
    from models import PEERS

    rows = []
    notes: dict[str, str] = {}
    for name in names:
        if "failed" in ours[name]:
            continue
        own = ours[name]["cold"] / ours[name]["bare"]
        row = [name, f"{own:.2f}"]
        for peer in PEERS:
            found = in_a_process("peer", name, peer)
            if "failed" in found:
                row.append(f"fails [{notes.setdefault(peer + ': ' + found['failed'], str(len(notes) + 1))}]")
                continue
            ratio = found["peer"] / found["bare"]
            bounds.check(f"{name}: rasp with an empty memo / {peer}", own / ratio, 1.0)
            row.append(f"{ratio:.2f}" + ("" if found["device"] == "meta" else " (cpu)"))
        rows.append(row)
        print(row, file=sys.stderr)
    text = table(["model", "rasp, empty memo", *PEERS], rows)
    return text + "\n\n" + "\n".join(f"[{number}] {reason}" for reason, number in notes.items())


def large_section(bounds: Bounds) -> str:
    found = in_a_process("large")
    if "failed" in found:
        return found["failed"]
    bounds.check("405B: seconds of the first profile in a process", found["first s"], 1.0, " s")
    bounds.check("405B: memory growth of the first profile", found["first MB"], 100, " MB")
    heads = [
        "parameters",
        "operators",
        "MACs",
        "first profile",
        "its memory growth",
        "next profile",
        "its memory growth",
    ]
    row = [f"{found['params']:,}", str(found["operators"]), f"{found['macs']:,}"]
    for call in ("first", "next"):
        row += [f"{found[f'{call} s']:.2f} s", f"{found[f'{call} MB']:.0f} MB"]
    return table(heads, [row])


def growth_section(bounds: Bounds) -> str:
    found = in_a_process("growth")
    if "failed" in found:
        return found["failed"]
    small, large = found["rows"][0], found["rows"][-1]
    for unit in ("ms", "kB"):
        per_operator = (large[unit] / large["operators"]) / (small[unit] / small["operators"])
        bounds.check(
            f"{unit} per operator, {large['operators']} operators over {small['operators']}", per_operator, 1.3
        )
    rows = [
        [str(r["operators"]), f"{r['ms']:.1f}", f"{1000 * r['ms'] / r['operators']:.1f}", f"{r['kB']:.0f}"]
        for r in found["rows"]
    ]
    return table(["operators", "ms", "µs per operator", "kB held by the profile"], rows)


def startup_section(bounds: Bounds) -> str:
    found = startup()
    bounds.check("import rasp, over bare Python", found["import"] - found["python"], 50, " ms")
    bounds.check("rasp --help", found["help"], 600, " ms")
    return table(
        ["bare Python", "import rasp", "rasp --help"], [[f"{found[k]:.0f} ms" for k in ("python", "import", "help")]]
    )


def machine() -> str:
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("torch", "torchvision", "transformers")
    )
    where = f"{platform.machine()}, {os.cpu_count()} cores, one thread"
    return f"{date.today()}, {where}; Python {platform.python_version()}, {versions}."


def page(only: str, peers: bool) -> tuple[str, Bounds]:
    from models import MODELS

    names = [name for name in MODELS if only in name]
    bounds = Bounds()
    ours, results = rasp_section(names, bounds)
    parts = [
        "# Speed",
        "Written by `make bench`. " + machine(),
        "Times are medians. *Bare* is one forward of a copy of the model on the meta device, without gradients and "
        "without any profiler. *Empty memo*: the operators' memo was emptied before the call; *warm*: it was not. "
        "*With totals*: the FLOPs were asked for as well.",
        ours,
    ]
    if peers:
        parts += [
            "## Other profilers",
            "Each one's whole call over the bare forward on meta; on the meta device where it can, else (cpu) on the "
            "real model, whose forward it then computes.",
            peer_section(names, results, bounds),
        ]
    if not only:
        parts += [
            "## A model that fits on no machine",
            "A Llama with hidden size 16384 and 126 layers, 8192 tokens; the first profile in a process, and the next.",
            large_section(bounds),
            "## Growth with the model",
            growth_section(bounds),
            "## Starting",
            startup_section(bounds),
        ]
    rows = [[what, value, bound, "held" if held else "**missed**"] for what, value, bound, held in bounds.rows]
    parts += ["## Bounds", table(["what", "measured", "bound", ""], rows)]
    return "\n\n".join(parts) + "\n", bounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--no-peers", action="store_true", help="rasp alone")
    parser.add_argument("--write", type=Path, help="write the page here")
    given = parser.parse_args()
    sys.path.insert(0, str(HERE))
    if given.one:
        print(json.dumps(ONE[given.one[0]](*given.one[1:])))
        return 0
    text, bounds = page(given.only, not given.no_peers)
    if given.write:
        given.write.write_text(text)
    else:
        print(text)
    for line in bounds.missed:
        print("missed:", line, file=sys.stderr)
    return 1 if bounds.missed else 0


if __name__ == "__main__":
    sys.exit(main())
