"""Least times of an H200's roofline beside times that were measured on one: no run may be faster than its least time.

    python benchmarks/roofline.py                          on the screen
    python benchmarks/roofline.py --write docs/roofline-check.md    the page

The measured times (tests/data/h200_latency.csv: one H200, torch 2.11; medians in ms; `graph` is the replay of a CUDA
graph, without what starting operators costs) are of torchvision's models at 224 x 224 and of transformers' gpt2 at 512
tokens. Exits with 1 where a run was faster.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "tests" / "data" / "h200_latency.csv"


class Held(NamedTuple):
    """One measured run and its least time, in milliseconds."""

    run: str
    least: float
    measured: float
    bound: str

    @property
    def share(self) -> float:
        return self.least / self.measured


def runs() -> list[dict[str, str]]:
    with MEASURED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def held(row: dict[str, str]) -> Held:
    """One row: the graph's time where there is one, else the eager time."""
    import rasp

    model, given = built(row["model"], int(row["batch"]))
    trains = row["mode"] == "train_adamw"
    how: dict[str, Any] = {"dtype": None if row["dtype"] == "float32" else row["dtype"], "roof": "h200"}
    if trains:
        import torch

        how |= {"backward": True, "optimizer": torch.optim.AdamW}
    found = rasp.profile(model, **given, **how)
    least = found.total("least_time_total" if trains else "least_time")
    run = f"{row['model']}, {'training' if trains else 'inference'}, batch {row['batch']}, {row['dtype']}"
    return Held(run, 1000 * least, float(row["graph_ms"] or row["eager_ms"]), found.total("bound"))


def built(name: str, batch: int) -> tuple[Any, dict[str, Any]]:
    """A model without weights, and its inputs."""
    import torch

    with torch.device("meta"):
        if name == "gpt2":
            from transformers import GPT2Config, GPT2LMHeadModel

            ids = {"input_shape": {"input_ids": (batch, 512)}, "dtypes": {"input_ids": torch.int64}}
            return GPT2LMHeadModel(GPT2Config()), ids
        import torchvision

        return torchvision.models.get_model(name), {"input_shape": (batch, 3, 224, 224)}


def page(found: list[Held]) -> Iterator[str]:
    yield "# Least times beside measured ones"
    yield ""
    yield "`python benchmarks/roofline.py --write docs/roofline-check.md` makes this page: the [roofline](roofline.md)"
    yield "of an H200 as published, beside medians measured on one with torch 2.11: for inference the replay of a CUDA"
    yield "graph, for training the eager step."
    yield ""
    below = sum(item.share <= 1 for item in found)
    yield f"**{below} of {len(found)} least times are below the measured time.**"
    yield ""
    yield "| run | least time, ms | measured, ms | share | bound by |"
    yield "| :-- | --: | --: | --: | :-- |"
    for item in found:
        yield f"| {item.run} | {item.least:.3f} | {item.measured:.3f} | {100 * item.share:.0f} % | {item.bound} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="write the page here")
    given = parser.parse_args()
    found = []
    for row in runs():
        found.append(held(row))
        print(f"{found[-1].run:58} {found[-1].least:9.3f} {found[-1].measured:9.3f} {100 * found[-1].share:5.0f} %")
    if given.write:
        given.write.write_text("\n".join(page(found)) + "\n", encoding="utf-8")
    return int(any(item.share > 1 for item in found))


if __name__ == "__main__":
    sys.exit(main())
