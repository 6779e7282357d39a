"""What it costs to ask one recorded run under every convention, beside recording it.

python benchmarks/conventions.py                                   the table, on the screen
python benchmarks/conventions.py --write docs/conventions-cost.md  the page

Processor time of one thread, in turns, the least of several rounds, so that a busy machine changes little. Each round
records anew; nothing that a convention found is kept from the round before. Exits with 1 where asking costs more than
recording.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import rasp
from models import MODELS

ROUNDS = 9
NAMES = ("resnet50", "densenet201", "vit_b_16", "bert-base (128 tokens)")
HEAD = """# What conventions cost

Written by `make docs-tables`, on {machine}. One run of a model is recorded; then its headline number is asked under
every one of the {count} conventions. Milliseconds of processor time, the least of {rounds} rounds: the recording as
`rasp.profile` does it, with the function level that some conventions need, and all conventions together. A recording
before any other in a process costs more, and so does the first question, which loads the rules: neither is in here.
"""


def taken(action: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of processor time, and what came of it."""
    start = time.process_time()
    result = action()
    return 1000 * (time.process_time() - start), result


def asked(profile: rasp.Profile) -> list[Any]:
    """The headline number under every convention."""
    return [profile.total("flops", item.name) for item in rasp.conventions()]


def measure(name: str) -> dict[str, float]:
    """The least milliseconds of recording a model, and of asking every convention."""
    build, inputs, _ = MODELS[name]
    model, (args, kwargs) = build(), inputs()
    least: dict[str, float] = {}
    for number in range(ROUNDS + 1):
        gc.collect()
        plain, _ = taken(lambda: rasp.profile(model, args, kwargs=kwargs))
        functions, profile = taken(lambda: rasp.profile(model, args, kwargs=kwargs, functions=True))
        every, _ = taken(partial(asked, profile))
        if number:
            for key, value in (("plain", plain), ("functions", functions), ("every", every)):
                least[key] = min(value, least.get(key, value))
    return least


def page(found: dict[str, dict[str, float]]) -> str:
    head = HEAD.format(machine=platform.platform(), count=len(rasp.conventions()), rounds=ROUNDS)
    lines = [
        "| model | recorded | with functions | all conventions | of recording | with functions |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, least in found.items():
        shares = (f"{least['every'] / least[key]:.2f}" for key in ("plain", "functions"))
        cells = [f"{least[key]:.1f}" for key in ("plain", "functions", "every")]
        lines.append(f"| {name} | {' | '.join([*cells, *shares])} |")
    return "\n".join([head, *lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {name: measure(name) for name in NAMES}
    text = page(found)
    sys.stdout.write(text)
    if options.write:
        options.write.write_text(text)
    if any(least["every"] >= least["functions"] for least in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
