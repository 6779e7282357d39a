"""CASES: every model of the catalogue that the installed libraries can build. Nothing here imports rasp.

>>> from oracle.catalogue import CASES
>>> case = CASES[0]
>>> model, (args, kwargs) = case.build(), case.inputs()
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from .case import Case

FILES = {
    "layer_cases": None,
    "torchvision_cases": "torchvision",
    "timm_cases": "timm",
    "transformers_cases": "transformers",
}


def load() -> list[Case]:
    """The cases of every file whose library is installed."""
    found: list[Case] = []
    for file, library in FILES.items():
        if library is None or find_spec(library):
            found += import_module(f"{__package__}.{file}").cases()
    return found


CASES: list[Case] = load()
BY_NAME: dict[str, Case] = {case.name: case for case in CASES}
