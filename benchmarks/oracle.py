"""Counts of every model of the catalogue beside an independent count, as a page.

    python benchmarks/oracle.py                                  the summary, on the screen
    python benchmarks/oracle.py --write docs/verified-models.md  the page
    python benchmarks/oracle.py --only timm:                     models whose name or family contains this

The catalogue and the independent count are tests/oracle. Exits with 1 where a count differs or an operator has no rule.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import sys
import warnings
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

if TYPE_CHECKING:
    from oracle.agreement import Agreement
    from oracle.case import Case

LIBRARIES = ("torch", "torchvision", "timm", "transformers")
Pair = tuple["Agreement", "Agreement | None"]


def agreement(case: Case, backward: bool) -> Agreement:
    """What came of one case; an exception is a result too."""
    from oracle.agreement import Agreement, backward_agreement, forward_agreement

    try:
        return (backward_agreement if backward else forward_agreement)(case)
    except Exception as error:
        return Agreement(case, error=f"{type(error).__name__}: {str(error).splitlines()[0][:100]}")


def measured(only: str) -> Iterator[Pair]:
    from oracle.catalogue import CASES

    for case in CASES:
        if only in case.name or only in case.family:
            found = agreement(case, backward=False), agreement(case, backward=True) if case.backward else None
            if not (found[0].exact and (found[1] is None or found[1].exact)):
                print("differs:", case.name, *found, file=sys.stderr, flush=True)
            yield found
            gc.collect()


def number(count: tuple[int, int] | None) -> str:
    """A count on which both agree, or both counts."""
    if count is None:
        return "–"
    ours, theirs = count
    return f"{ours:,}" if ours == theirs else f"**{ours:,}, not {theirs:,}**"


def row(forward: Agreement, backward: Agreement | None) -> str:
    problems = [forward.error, *forward.uncounted, *([backward.error, *backward.uncounted] if backward else [])]
    cells = [
        forward.case.name.partition(":")[2],
        f"{forward.params:,}",
        number(forward.forward),
        number(backward.backward if backward else None),
        {"meta": "shapes", "real": "real"}.get(forward.capture_mode, "") + "; ".join(["", *filter(None, problems)]),
    ]
    return "| " + " | ".join(cells) + " |"


def group(family: str) -> str:
    """timm has a family per module: one section for all of them."""
    return "timm" if family.startswith("timm ") else family


def page(pairs: list[Pair]) -> str:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(group(pair[0].case.family), []).append(pair)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    lines = [
        "# Verified models",
        "",
        f"Written by `make docs-tables` on {date.today()} with {versions}.",
        "",
        "Multiply-accumulates of contractions (matrix products and convolutions), counted by rasp and by an",
        "independent count: torch's FlopCounterMode on unfused routes, completed by closed forms, and for layers",
        "the closed form alone ([tests/oracle](../tests/oracle/counter.py)). A number that stands once is that of",
        "both, an exact integer. *Forward* is a forward in evaluation mode; *backward* the backward of a training",
        "step on twice the batch, from the mean of every floating output. *Run*: on shapes alone, or for real where",
        "model cannot do without data. The transformers models are shrunk to a few thousand weights.",
        "",
        "| family | models | forward exact | backward exact | operators without a rule |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [summary(name, found) for name, found in groups.items()]
    lines.append(summary("**all**", pairs))
    for name, found in groups.items():
        lines += [
            "",
            f"## {name}",
            "",
            "| model | parameters | forward MACs | backward MACs | run |",
            "| --- | --- | --- | --- | --- |",
        ]
        lines += [row(*pair) for pair in found]
    return "\n".join(lines) + "\n"


def summary(name: str, pairs: list[Pair]) -> str:
    backward = [pair[1] for pair in pairs if pair[1] is not None]
    gaps = {op for pair in pairs for found in pair if found is not None for op in found.uncounted}
    exact = [sum(found.exact for found in half) for half in ([pair[0] for pair in pairs], backward)]
    return f"| {name} | {len(pairs)} | {exact[0]} of {len(pairs)} | {exact[1]} of {len(backward)} | {len(gaps)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name or family contains this")
    parser.add_argument("--write", type=Path, help="write the page here")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    pairs = list(measured(given.only))
    text = page(pairs)
    if given.write:
        given.write.write_text(text)
    else:
        print(text.partition("\n## ")[0])
    return 0 if all(found.exact for pair in pairs for found in pair if found is not None) else 1


if __name__ == "__main__":
    sys.exit(main())
