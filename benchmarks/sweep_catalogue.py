"""torchvision's whole classification list and 200 models of timm in one sweep: each a row, filled or with its reason.

    python benchmarks/sweep_catalogue.py --out FOLDER                                 as a page on the screen
    python benchmarks/sweep_catalogue.py --out FOLDER --write docs/sweep-catalogue.md  the same, written to a page

With --out it goes on where it was ended. Exits with 1 where a row has neither numbers nor a reason.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections import Counter
from datetime import date
from importlib import metadata
from pathlib import Path

import rasp
from rasp.sweep.executors import cores

os.environ.setdefault("HF_HUB_OFFLINE", "1")
TIMM = 200
COLUMNS = ["params", "macs", "flops", "mem_rw", "peak"]


def models() -> list[str]:
    """Every classifier of torchvision, and of timm's list, sorted, 200 at equal distances."""
    import timm
    from torchvision import models as torchvision

    classifiers = torchvision.list_models(module=torchvision)
    names = timm.list_models()
    chosen = [names[at * len(names) // TIMM] for at in range(TIMM)]
    return [f"torchvision:{name}" for name in classifiers] + [f"timm:{name}" for name in chosen]


def page(out: Path | None, timeout: float) -> tuple[str, bool]:
    found = rasp.sweep(models(), measures=["static", "memory"], columns=COLUMNS, timeout=timeout, out=out)
    counts = Counter(row["status"] for row in found.rows)
    is_whole = all(
        None not in (row["params"], row["macs"], row["peak"]) if row["status"] == "ok" else row["reason"]
        for row in found.rows
    )
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in ("torch", "torchvision", "timm"))
    text = "\n\n".join([
        "# A sweep over torchvision and timm",
        f"Written by `make sweep-catalogue`. {date.today()}, {cores(None)} cores; Python {platform.python_version()}, "
        f"{versions}.",
        f"All of torchvision's classifiers and {TIMM} models of timm, one image at each model's own size; `peak` is "
        f"the memory that it is predicted to take on an H200. {len(found.rows)} rows: "
        + ", ".join(f"{count} {status}" for status, count in counts.items()) + ".",
        found.report().render("md").strip(),
    ])  # fmt: skip
    return text + "\n", is_whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the folder of results")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that a model may take")
    parser.add_argument("--write", type=Path, help="write the page here")
    given = parser.parse_args()
    text, is_whole = page(given.out, given.timeout)
    if given.write:
        given.write.write_text(text)
    else:
        print(text)
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
