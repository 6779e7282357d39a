"""rasp fits: will it fit, by how much, with which batch, and what would help."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from .. import api
from ..errors import InputError
from . import say, words, write
from .model import origin_of, run
from .stat import option


def fits(
    model: Annotated[str, option("What to run; see rasp --help.")],
    /,
    *,
    input: Annotated[
        list[str] | None, option("Shape with its batch: 1,3,224,224 or ids:int64=1,128.", "-i", "--input")
    ] = None,
    batch: Annotated[int | None, option("Batch size, in place of that of -i or of the default inputs.")] = None,
    kw: Annotated[list[str] | None, option("An argument of the model's factory: depth=4.")] = None,
    target: Annotated[str, option("A machine (see rasp machines) or a size: 24GiB.")] = "h200",
    train: Annotated[
        bool, option("A training step: forward, backward, and the optimiser's where one is named.")
    ] = False,
    optimizer: Annotated[str | None, option("A step's optimiser (adamw), with --train.")] = None,
    max_batch: Annotated[bool, option("Look for the largest batch that fits.")] = False,
    advice: Annotated[bool, Parameter(help="Try what would help: bfloat16, checkpointing.")] = True,
    processes: Annotated[int, option("So many processes share the machine.")] = 1,
    dtype: Annotated[str | None, option("What if the model were of this dtype.")] = None,
    autocast: Annotated[str | None, option("Under autocast to this dtype.")] = None,
    allocator_settings: Annotated[str, option("As in PYTORCH_CUDA_ALLOC_CONF.")] = "",
) -> int:
    """Will it fit? Exits with 1 where it does not."""
    if model.endswith(".json") and not model.startswith("hf:"):
        raise InputError(f"{model} is a saved profile, of one batch: rasp fits runs a model. Name the model itself.")
    origin, taken = origin_of(model, input, batch)
    how: dict[str, Any] = {"target": target, "train": train, "optimizer": optimizer, "max_batch": max_batch}
    how |= {"advice": advice, "processes": processes, "dtype": dtype, "autocast": autocast}
    how |= {"allocator_settings": allocator_settings, "said": say}
    found = run(origin, taken, words.keywords(kw or ()), how, api.fits)
    write(f"{found}\n")
    return 0 if found else 1
