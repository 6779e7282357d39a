"""A convention beside the tool it is named for, on one model: the totals, and every module that the tool tells of."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import rasp
from rasp.branch import Branch

from . import Printed, Tool
from .models import Built

Pair = tuple[int | float, int | float | None]


@dataclass(frozen=True)
class Found:
    """What a tool printed (or why it failed), what its convention gives, and where they differ: (theirs, ours)."""

    theirs: Printed | None
    failure: str
    ours: Printed
    wrong: dict[str, Pair] = field(default_factory=dict)

    @property
    def same(self) -> bool | None:
        return None if self.theirs is None else not self.wrong


def compare(tool: Tool, build: Callable[[], Built]) -> Found:
    """A fresh model for each side: some tools leave things on it."""
    torch.manual_seed(0)
    model, inputs = build()
    profile = rasp.profile(model, inputs, functions=True)
    ours = Printed(*(profile.total(column, tool.convention) for column in ("flops", "macc", "params")))
    model, inputs = build()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            theirs = tool.run(model, inputs)
    except Exception as error:
        words = str(error).strip().splitlines()
        return Found(None, f"{type(error).__name__}: {words[0][:80] if words else ''}", ours)
    return Found(theirs, "", ours, {**_totals(theirs, ours), **_layers(theirs, profile, tool.convention)})


def _totals(theirs: Printed, ours: Printed) -> dict[str, Pair]:
    pairs = {name: (getattr(theirs, name), getattr(ours, name)) for name in ("flops", "macc", "params")}
    return {name: pair for name, pair in pairs.items() if pair[0] is not None and pair[0] != pair[1]}


def _layers(theirs: Printed, profile: rasp.Profile, convention: str) -> dict[str, Pair]:
    """Modules whose cost differs; one that never ran costs nothing."""
    if not theirs.layers:
        return {}
    sums: dict[str, Any] = {}
    for branch in Branch.root(profile.view(convention)):
        if branch.kind == "node":
            path = branch.name.strip(".")
            sums[path] = sums.get(path, 0) + (branch["flops"] or 0)
    return {path or ".": (v, sums.get(path, 0)) for path, v in theirs.layers.items() if v != sums.get(path, 0)}
