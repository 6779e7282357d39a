"""A convention beside the tool it is named for, on one model: the totals, and every module that the tool tells of."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

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
    modules: int = 0  # how many modules the tool told of

    @property
    def same(self) -> bool | None:
        return None if self.theirs is None else not self.wrong


def compare(tool: Tool, build: Callable[[], Built]) -> Found:
    """A fresh model for each side: some tools leave things on it."""
    torch.manual_seed(0)
    model, inputs = build()
    profile = rasp.profile(model, inputs, functions=True, mode="as-is")
    ours = Printed(*(profile.total(column, tool.convention) for column in ("flops", "macc", "params")))
    model, inputs = build()
    try:
        with _put_back(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            theirs = tool.run(model, inputs)
    except Exception as error:
        words = str(error).strip().splitlines()
        return Found(None, f"{type(error).__name__}: {words[0][:80] if words else ''}", ours)
    told = _by_first_name(theirs.layers, model)
    return Found(theirs, "", ours, {**_totals(theirs, ours), **_layers(told, profile, tool.convention)}, len(told))


@contextlib.contextmanager
def _put_back() -> Iterator[None]:
    """Functions of torch as they were: some tools leave theirs in their place, in any case after an error."""
    before = [(holder, dict(vars(holder))) for holder in (torch, torch.Tensor, torch.nn.functional)]
    try:
        yield
    finally:
        for holder, members in before:
            for name, value in list(vars(holder).items()):
                if name not in members and isinstance(holder, type):
                    delattr(holder, name)
                elif name in members and callable(members[name]) and members[name] is not value:
                    setattr(holder, name, members[name])


def _totals(theirs: Printed, ours: Printed) -> dict[str, Pair]:
    pairs = {name: (getattr(theirs, name), getattr(ours, name)) for name in ("flops", "macc", "params")}
    return {name: pair for name, pair in pairs.items() if pair[0] is not None and pair[0] != pair[1]}


def _by_first_name(layers: dict[str, int | float], model: nn.Module) -> dict[str, int | float]:
    """Modules by the first of their names: tools choose among several as it comes."""
    first = {id(module): path for path, module in model.named_modules()}
    found: dict[str, int | float] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        if path in layers:
            found[first[id(module)]] = layers[path]
    return found


def _layers(theirs: dict[str, int | float], profile: rasp.Profile, convention: str) -> dict[str, Pair]:
    """Modules whose cost differs; one that never ran costs nothing."""
    if not theirs:
        return {}
    sums: dict[str, Any] = {}
    for branch in Branch.root(profile.view(convention)):
        if branch.kind == "node":
            path = branch.name.strip(".")
            sums[path] = sums.get(path, 0) + (branch["flops"] or 0)
    return {path or ".": (v, sums.get(path, 0)) for path, v in theirs.items() if v != sums.get(path, 0)}
