"""Times that rasp measures, beside a loop written by hand; what watching costs; whether it cries wolf, and finds one.

    python benchmarks/timing.py                               on the screen
    python benchmarks/timing.py --write docs/timing-check.md  the page
    python benchmarks/timing.py --only spread --threads 1     one part: hand, spread

Everything is compared within one run, so that a slow machine is slow for both. `hand`: a loop by hand, rasp, the loop
again, round by round (A/B/A …), on the CPU and, where there is one, on a CUDA device. `spread`: 40 comparisons of a
model with its own copy while another process computes, and 20 with 5 % of the whole planted in a layer drawn at random.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

import rasp
from rasp.spread import median

RUNS, ROUNDS = 60, 6
BLOCK = 500.0  # milliseconds of runs in a round, at least
LIMITS = {"cpu": 0.05, "cuda": 0.15}
EQUALS, PLANTS = 40, 20
SHARE = 0.05


def built(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """A model with random weights, and its inputs by shape."""
    torch.manual_seed(0)
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        return GPT2LMHeadModel(GPT2Config()).eval(), {"input_ids": torch.randint(0, 50257, (1, 128))}
    import torchvision

    return torchvision.models.get_model(name, weights=None).eval(), {"x": torch.rand(1, 3, 224, 224)}


def by_hand(model: nn.Module, inputs: dict[str, Any], runs: int, device: str) -> list[float]:
    """What a person would write: milliseconds of each run, after three to warm up."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    found = []
    with torch.no_grad():
        for number in range(runs + 3):
            wait()
            start = time.perf_counter()
            model(*inputs.values()) if "x" in inputs else model(**inputs)
            wait()
            if number >= 3:
                found.append(1e3 * (time.perf_counter() - start))
    return found


# -- rasp beside a loop by hand ----------------------------------------------------------------------------------------


def beside_hand(name: str, device: str, batch: int, runs: int, rounds: int) -> dict[str, Any]:
    """By hand, rasp, by hand, rasp … by hand: each of rasp's medians beside those of the loops around it."""
    model, inputs = built(name)
    model = model.to(device)
    inputs = {key: value.repeat(batch, *[1] * (value.dim() - 1)).to(device) for key, value in inputs.items()}
    given = tuple(inputs.values()) if "x" in inputs else inputs
    first = median(by_hand(model, inputs, 3, device))
    each = max(runs // rounds, 3, int(BLOCK / first))  # short runs: enough of them for a median that stays
    loops, found = [by_hand(model, inputs, each, device)], []
    for _ in range(rounds):
        found.append(rasp.profile(model, given, timing=True, batches=each, warmup=3))
        loops.append(by_hand(model, inputs, each, device))
    around = [median(before + after) for before, after in pairwise(loops)]
    ratios = [one.latency.median / by for one, by in zip(found, around)]
    noise = [abs(median(after) / median(before) - 1) for before, after in pairwise(loops)]
    ours = [sample for one in found for sample in one.latency.samples]
    watched = [sample for one in found for sample in one.samples.time.watched]
    return {
        "model": f"{name}, batch {batch}, {device}",
        "by hand": median([sample for loop in loops for sample in loop]),
        "rasp": median(ours),
        "ratio": median(ratios),
        "noise": median(noise),
        "within": abs(median(ratios) - 1) <= max(median(noise), 0.01),
        "watching": median(watched) / median(ours) - 1,
        "remainder": median([one.remainder / one.latency.median for one in found]),
        "exact": all(map(exact, found)),
        "limit": LIMITS[device.partition(":")[0]],
        "doors": doors(found[-1]),
        "remarks": sorted({remark.partition(":")[0] for one in found for remark in one.samples.remarks}),
    }


def doors(found: rasp.Profile) -> str:
    """How many clocks there are, and what they cost by themselves, where the host's clock can tell."""
    calls, each = len(found.samples.time.calls), found.samples.instrument.get("call")
    if each is None:
        return f"{calls}"
    return f"{calls} × {1e6 * each:.0f} ns = {calls * each / found.latency.median:.2%}"


def exact(found: rasp.Profile) -> bool:
    """Whether the rows, the remainder among them, sum to the whole without any rounding."""
    *rows, total = found.rows(columns=["net_lat"])
    return sum(row["net_lat"] or 0.0 for row in rows) == total["net_lat"] == found.latency.median


def hand(runs: int, rounds: int) -> list[str]:
    names = ("resnet50", "mobilenet_v2", "vit_b_16", "gpt2")
    cases = [(name, "cpu", 1) for name in names]
    if torch.cuda.is_available():
        cases += [(name, "cuda", batch) for name in names for batch in (1, 32)]
    lines = [
        "## Beside a loop by hand",
        "",
        f"Medians in milliseconds, of at least {runs} runs by rasp in {rounds} rounds, with a loop by hand",
        "before and after each, in one process.",
        "*rasp / hand*: the median over rounds of rasp's latency to that of the loops around;",
        "*noise*: how far loops one after the other lie apart; *within*: no further off than that, or than 1 %.",
        "*Watching*: how much longer runs take with a clock at every door; *clocks*: what those cost by themselves.",
        "*Remainder*: what no module accounts for.",
        "",
        "| model | by hand | rasp | rasp / hand | noise | within | watching | limit | clocks | remainder | exact sum |",
        "| :-- | --: | --: | --: | --: | :-- | --: | --: | :-- | --: | :-- |",
    ]
    said = []
    for name, device, batch in cases:
        say(f"{name} on {device}, batch {batch}")
        row = beside_hand(name, device, batch, runs, rounds)
        lines.append(
            f"| {row['model']} | {row['by hand']:.2f} | {row['rasp']:.2f} | {row['ratio']:.3f} | ±{row['noise']:.1%} | "
            f"{'yes' if row['within'] else 'NO'} | {row['watching']:+.1%} | {row['limit']:.0%} | "
            f"{row['doors']} | {row['remainder']:+.2%} | {'yes' if row['exact'] else 'NO'} |"
        )
        said += [f"- {row['model']}: {', '.join(row['remarks'])}"] if row["remarks"] else []
    return [*lines, "", *(["What rasp remarked on these runs:", "", *said, ""] if said else [])]


# -- wolves ------------------------------------------------------------------------------------------------------------


def spread(equals: int, plants: int) -> list[str]:
    model, size = built("resnet18")[0], (1, 3, 128, 128)
    with other_load():
        in_turns = sum(bool(alike(model, size, number, equals)) for number in range(equals))
        apart = sum(bool(one_after_the_other(model, size, number, equals)) for number in range(equals))
        loaded = [planted(model, size, seed) for seed in told(plants, "planted, under load")]
    quiet = [planted(model, size, seed) for seed in told(plants, "planted")]
    return [
        "## Whether it cries wolf",
        "",
        "resnet18 at 128 × 128 against its own copy, while another process multiplies matrices: `different` was",
        f"claimed in {in_turns} of {equals} comparisons in turns (`rasp.compare_times`), and in {apart} of {equals} of",
        "two profiles made one after the other (`latency.differs`).",
        "",
        f"A slowdown worth {SHARE:.0%} of the whole, planted in one layer drawn at random, was found and the layer",
        f"named first in {sum(quiet)} of {plants} comparisons in turns, and in {sum(loaded)} of {plants} under that",
        "load.",
        "",
    ]


def told(count: int, what: str) -> Iterator[int]:
    for number in range(count):
        say(f"{what}: {number + 1} of {count}")
        yield number


def alike(model: nn.Module, size: tuple[int, ...], number: int, of: int) -> rasp.Contrast:
    say(f"equal models in turns: {number + 1} of {of}")
    return rasp.compare_times(model, copy.deepcopy(model), input_shape=size, batches=40)


def one_after_the_other(model: nn.Module, size: tuple[int, ...], number: int, of: int) -> Any:
    say(f"equal models one after the other: {number + 1} of {of}")
    first, second = (rasp.profile(model, input_shape=size, timing="whole", seconds=1.0) for _ in range(2))
    return first.latency.differs(second.latency)


def planted(model: nn.Module, size: tuple[int, ...], seed: int) -> bool:
    """Whether a layer that wastes so much of the whole is found, and named before any other."""
    whole = rasp.profile(model, input_shape=size, timing="whole", batches=15).latency.median / 1e3
    slower = copy.deepcopy(model)
    leaves = [(path, module) for path, module in slower.named_modules() if not list(module.children())]
    path, layer = random.Random(seed).choice(leaves)
    layer.__class__ = wasting(type(layer), SHARE * whole)
    found = rasp.compare_times(model, slower, input_shape=size, batches=40)
    return found.different and bool(found.modules) and found.modules[0].path == path


def wasting(kind: type[nn.Module], seconds: float) -> type[nn.Module]:
    """A class of layers that compute as before, and then let time pass."""

    def wasteful(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = kind.forward(self, *args, **kwargs)
        if not any(isinstance(one, torch.Tensor) and one.is_meta for one in args):
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass
        return out

    return type(kind.__name__, (kind,), {"forward": wasteful})


@contextmanager
def other_load() -> Iterator[None]:
    """Another process that multiplies matrices in bursts, on one thread."""
    process = multiprocessing.get_context("spawn").Process(target=burn, daemon=True)
    process.start()
    try:
        time.sleep(3)
        yield
    finally:
        process.kill()
        process.join()


def burn() -> None:
    torch.set_num_threads(1)
    a, draw = torch.rand(512, 512), random.Random(0)
    while True:
        end = time.perf_counter() + draw.random()
        while time.perf_counter() < end:
            a @ a
        time.sleep(draw.random() / 4)


def say(words: str) -> None:
    print(f"  {words} …", file=sys.stderr, flush=True)


def page(parts: list[str], runs: int, equals: int, plants: int) -> str:
    about = rasp.devices.get("cuda" if torch.cuda.is_available() else "cpu").describe()
    machine = f"{about.get('gpu', about['processor'])}, {about['cores']} cores, torch threads: {about['threads']}"
    lines = [
        "# Measured times, checked",
        "",
        "Made by `python benchmarks/timing.py --write docs/timing-check.md` on",
        f"{machine}, torch {about['torch']}, {time.strftime('%Y-%m-%d')}.",
        "",
    ]
    lines += hand(runs, ROUNDS) if "hand" in parts else []
    lines += spread(equals, plants) if "spread" in parts else []
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="write the page here")
    parser.add_argument("--only", choices=["hand", "spread"], help="one part")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--equals", type=int, default=EQUALS)
    parser.add_argument("--plants", type=int, default=PLANTS)
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    text = page([asked.only] if asked.only else ["hand", "spread"], asked.runs, asked.equals, asked.plants)
    print(text)
    if asked.write:
        asked.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
