"""The published pages of the zoo, or of any list of models."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..pages import Results, made, write
from . import REFERENCES, _measured, get, load
from ._published import tables

ZOO, OWN = "macs-against-parameters.svg", "scatter.svg"
THOPLW = "thoplw.svg"
OF_ZOO = "rasp's own count, of all models above."
OF_THOPLW = """The models of thoplw's README, counted as it does (convention thoplw: a BatchNorm takes four operations
an element and has four parameters a channel). The README's headings stand over the wrong columns, and its rows of the
two Wide ResNets are swapped; both are put right here. The picture leaves out the VGGs with BatchNorm: they lie on those
without."""


def report(
    models: Sequence[str] | None,
    out: str | Path,
    shape: Sequence[int] | None = None,
    said: Callable[[str], Any] = lambda name: None,
) -> tuple[list[Path], dict[str, str]]:
    """Write the pages; gives the files, the index first, and the models left out with the reason."""
    load()
    if models is not None and not models:
        raise InputError("There are no models to report on: name at least one, or leave them out for the whole zoo.")
    made(out)
    if models is None:
        subjects, failed = _measured.gathered(list(tables()), lambda name: _measured.of_reference(get(name)), said)
        return write(
            subjects, out, title="The zoo", results=_of_zoo(subjects, said), failed=failed, command=MADE
        ), failed
    subjects, failed = _measured.gathered(models, lambda name: _one(name, shape), said)
    if not subjects:
        raise InputError("No model could be run. " + " ".join(f"{name}: {why}" for name, why in failed.items()))
    picture = Results("MACs against parameters", "rasp's own count.", OWN, _measured.points(subjects))
    return write(subjects, out, title="Models", results=[picture], failed=failed), failed


MADE = "rasp zoo report --out docs/zoo"


def _one(name: str, shape: Sequence[int] | None) -> Any:
    if name in REFERENCES and shape is None:
        return _measured.of_reference(get(name))
    return _measured.of_words(name, shape)


def _of_zoo(subjects: Sequence[Any], said: Callable[[str], Any]) -> list[Results]:
    """The scatter of the zoo's models and, where torchvision is installed, thoplw's table with its scatter."""
    made = [Results("MACs against parameters", OF_ZOO, ZOO, _measured.points(subjects))]
    if importlib.util.find_spec("torchvision") is not None:
        said("thoplw's models")
        made.append(Results("Results of thoplw", OF_THOPLW, THOPLW, list(_measured.results())))
    return made
