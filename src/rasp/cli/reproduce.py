"""rasp reproduce: the numbers that older tools published, computed again."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Annotated

from .. import render, reproduction
from ..errors import UncountedError
from . import say
from .stat import option

PAGE = Path("docs/reproduction.md")


def reproduce(
    *,
    output: Annotated[Path, option("The page of every value, in Markdown.", "-o", "--output")] = PAGE,
    only: Annotated[str, option("Tables whose name contains this; no page without -o.")] = "",
) -> None:
    """Compute every published number of the older tools again, compare it digit by digit, and write a page of it."""
    from ..reproduction import _page

    results = list(reproduction.reproduce(lambda name: say(f"{name} …"), only))
    render.show(_page.summary(results))
    if not only or output != PAGE:
        output.parent.mkdir(parents=True, exist_ok=True)
        say(f"written to {render.write(output, _page.page(results, _made_with()))}")
    wrong = [result for result in results if result.same < result.values]
    for result in wrong:
        for line in result.lines:
            for column in line.wrong:
                printed, ours = line.cells[column]
                say(f"{result.table.name}, {line.name}, {column}: printed {printed}, ours {ours}")
    if wrong:
        raise UncountedError(f"{sum(r.values - r.same for r in wrong)} printed values were not reproduced.")


def _made_with() -> str:
    names = ("torch", "torchvision")
    found = {name: metadata.version(name) for name in names if _has(name)}
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _has(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
