"""Each convention beside the tool it is named for, on the same models: what the tool prints, and what rasp gives.

python benchmarks/peers.py                          the summary, on the screen
python benchmarks/peers.py --write docs/peers.md    the page
python benchmarks/peers.py --only resnet --tool fv  models and tools whose names contain these

The tools and the models are tests/peers. Exits with 1 where a number differs.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from peers import tools
from peers.comparing import compare
from peers.layers import LAYERS
from peers.models import MODELS

if TYPE_CHECKING:
    from peers.comparing import Found

TOOLS = tools()


def table(only: str, tool: str) -> dict[str, dict[str, Found]]:
    found = {}
    for name, build in {**MODELS, **LAYERS}.items():
        if only in name:
            found[name] = {item.convention: compare(item, build) for item in TOOLS if tool in item.convention}
            print(f"{name}: " + ", ".join(f"{k} {_word(v)}" for k, v in found[name].items()), flush=True)
    return found


def _word(found: Found) -> str:
    return {True: "same", False: f"DIFFERS {found.wrong}", None: f"fails ({found.failure})"}[found.same]


def page(found: dict[str, dict[str, Found]]) -> str:
    versions = {tool.library: metadata.version(tool.library) for tool in TOOLS}
    failures: list[str] = []
    heads = [f"`{tool.convention}` ({tool.library} {versions[tool.library]})" for tool in TOOLS]
    lines = [f"| model | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(TOOLS)}"]
    for name, row in found.items():
        lines.append(f"| {name} | {' | '.join(_cell(row[tool.convention], failures) for tool in TOOLS)} |")
    every = [item for row in found.values() for item in row.values()]
    same, ran = sum(item.same is True for item in every), sum(item.same is not None for item in every)
    notes = [f"[{number}] {text}  " for number, text in enumerate(failures, 1)]
    modules = sum(item.modules for item in every)
    head = INTRODUCTION.format(same=same, ran=ran, failed=len(every) - ran, modules=modules, models=len(found))
    return "\n".join([head, *lines, "", *notes, ""])


INTRODUCTION = """# Conventions beside the tools they are named for

Written by `make docs-tables`. Each cell is the tool's headline number for the model, run as its users run it on a
CPU; ✓: the convention gives the same integers, for every number the tool prints (its second number and its parameters
too), and for every module that the tool tells of: {modules:,} of them over {models} models. **{same} of {ran} runs
agree; {failed} times the tool stops with an error**, and the convention's number stands there in italics. Where a tool
is wrong (attention not seen, a shared layer counted once, an LSTM that is free), so is its convention; where tools
differ from each other, `rasp explain` tells why.

What a tool makes of values cannot be said from a run without them: torchinfo counts what a pruning mask leaves, the
convention all of it. Of a model with lazy layers thop and thoplw print 0 at first and the number of the convention the
second time.
"""


def _cell(found: Found, failures: list[str]) -> str:
    if found.theirs is None:
        if found.failure not in failures:
            failures.append(found.failure)
        note = failures.index(found.failure) + 1
        return f"*{found.ours.flops:,}* [{note}]"
    mark = "✓" if found.same else f"**≠ {found.ours.flops:,}**"
    return f"{int(found.theirs.flops):,} {mark}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--tool", default="", help="only tools whose convention contains this")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    found = table(options.only, options.tool)
    if options.write:
        options.write.write_text(page(found))
    if any(item.same is False for row in found.values() for item in row.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
