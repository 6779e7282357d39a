"""What a sweep costs besides its cells: processes, files, planning, taking up again.

    python benchmarks/sweep.py                              as a page on the screen
    python benchmarks/sweep.py --write docs/sweep-speed.md  the same, written to a page
    python benchmarks/sweep.py --quick                      a tenth of the cells, to see that it works

Exits with 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import rasp
from rasp.sweep.executors import cores

MODELS = [
    "alexnet", "convnext_tiny", "densenet121", "densenet169", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2",
    "efficientnet_b3", "efficientnet_v2_s", "googlenet", "mnasnet0_5", "mnasnet1_0", "mobilenet_v2",
    "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_400mf", "regnet_x_800mf", "regnet_y_400mf", "regnet_y_800mf",
    "resnet18", "resnet34", "resnet50", "resnet101", "resnext50_32x4d", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0",
    "squeezenet1_0", "vgg11", "vgg16", "wide_resnet50_2",
]  # fmt: skip
SIZES, BATCHES = [128, 192, 224, 256, 320], [1, 32]
SMALL = """
from torch import nn

def net():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
"""
SECONDS, RATIO, RESUMED = 90.0, 1.3, 30.0
DAMAGED = 20


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = action()
    return time.perf_counter() - began, found


def many_models(folder: Path, quick: bool) -> list[list[str]]:
    """30 models at 5 sizes and 2 batches, on all cores, from a cold start: the warm parent's imports are part of it."""
    models = [f"torchvision:{name}" for name in (MODELS[::10] if quick else MODELS)]
    seconds, found = timed(lambda: rasp.sweep(models, sizes=SIZES, batches=BATCHES, out=folder / "many"))
    ideal = found.seconds / cores(None)
    ok = sum(row["status"] == "ok" for row in found.rows)
    return [
        ["cells, all of them ok", f"{ok} of {len(found.rows)}", "all", held(ok == len(found.rows))],
        ["seconds", f"{seconds:.1f}", f"{SECONDS:g}", held(seconds <= SECONDS)],
        ["seconds of the cells themselves, added up", f"{found.seconds:.1f}", "", ""],
        [f"seconds over the cells' own / {cores(None)} cores", f"{seconds / ideal:.2f}", f"{RATIO}",
         held(seconds / ideal <= RATIO)],
    ]  # fmt: skip


def many_cells(folder: Path, quick: bool) -> list[list[str]]:
    """10,000 cells of a small network: run, taken up when all are done, and when some results are damaged."""
    file = folder / "small.py"
    file.write_text(SMALL)
    sizes, batches = range(32, 62 if quick else 132), range(1, 31 if quick else 101)
    run = lambda: rasp.sweep(f"{file}:net", sizes=sizes, batches=batches, out=folder / "cells")  # noqa: E731
    first, found = timed(run)
    again, same = timed(run)
    for victim in random.Random(0).sample(sorted((folder / "cells" / "cells").rglob("*.json")), DAMAGED):
        victim.write_bytes(victim.read_bytes()[:40])
    mended, last = timed(run)
    equal = found.rows == same.rows == last.rows
    return [
        ["cells run, seconds", f"{first:.1f} for {found.ran}", "", ""],
        ["all planned and found done, seconds", f"{again:.1f}", f"{RESUMED:g}", held(again <= RESUMED)],
        [f"{DAMAGED} results cut off, then taken up: cells run again", f"{last.ran}", f"{DAMAGED}",
         held(last.ran == DAMAGED)],
        ["seconds of that", f"{mended:.1f}", "", ""],
        ["the three tables are equal", str(equal), "True", held(equal)],
    ]  # fmt: skip


def held(is_held: bool) -> str:
    return "held" if is_held else "**missed**"


def table(rows: list[list[str]]) -> str:
    lines = [["what", "measured", "bound", ""], ["---"] * 4, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(quick: bool) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory() as name:
        models, cells = many_models(Path(name), quick), many_cells(Path(name), quick)
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in ("torch", "torchvision"))
    text = "\n\n".join([
        "# Speed of a sweep",
        f"Written by `make bench-sweep`. {date.today()}, {platform.machine()}, {cores(None)} cores; "
        f"Python {platform.python_version()}, {versions}.",
        "Every cell is a process of its own, forked from one that has imported torch; its result is on the disk, "
        "with its profile, before it counts as done. The seconds of a cell are its process's, from fork to exit.",
        f"## {len(MODELS)} models at {len(SIZES)} sizes and {len(BATCHES)} batches",
        table(models),
        "## 10,000 cells of a small network",
        table(cells),
    ])  # fmt: skip
    return text + "\n", not any("**missed**" in row for row in (*models, *cells) for row in row)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the cells")
    parser.add_argument("--write", type=Path, help="write the page here")
    given = parser.parse_args()
    text, is_held = page(given.quick)
    if given.write:
        given.write.write_text(text)
    else:
        print(text)
    return 0 if is_held else 1


if __name__ == "__main__":
    sys.exit(main())
