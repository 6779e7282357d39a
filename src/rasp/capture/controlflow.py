"""torch.cond, while_loop, scan and map as the Python they stand for: torch would compile them, and hide what they run.

Called eagerly, each of them hands one function and its arguments to a compiler; while a capture runs they come here.
A branch taken by a value asks for it like any other branch. Meaning: the pages of torch.cond and its kin.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

UTILITIES, COMPILED = "torch._higher_order_ops.utils", "_hop_compile_and_call"
Tensor = torch.Tensor


def _cond(pred: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: Sequence[Any]) -> Any:
    return (yes if pred else no)(*operands)


def _while_loop(
    go_on: Callable[..., Any], body: Callable[..., Any], carried: Sequence[Any], fixed: Sequence[Any]
) -> Any:
    """Torch's two functions take what is carried flat, and the body gives it back nested."""
    found: Any = tuple(carried)
    while go_on(*carried, *fixed):
        found = body(*carried, *fixed)
        carried = pytree.tree_leaves(found)
    return found


def _scan(combine: Callable[..., Any], start: Sequence[Tensor], along: Sequence[Tensor]) -> tuple[Any, Any]:
    """What is carried in the end, and what each step gave, stacked."""
    carried: Any = list(start)
    given = []
    for items in zip(*(tensor.unbind(0) for tensor in along)):
        carried, found = combine(*pytree.tree_leaves(carried), *items)
        given.append(found)
    return carried, _stacked(given)


def _map(function: Callable[..., Any], along: Sequence[Tensor], others: Sequence[Any], *, nests: Any) -> Any:
    """The function of each slice, its results stacked."""
    rest = pytree.tree_unflatten(others, nests["args_spec"])
    slices = zip(*(tensor.unbind(0) for tensor in along))
    return _stacked([function(pytree.tree_unflatten(items, nests["xs_spec"]), *rest) for items in slices])


def _stacked(results: Sequence[Any]) -> Any:
    """Results of one nest as that nest of stacks."""
    return pytree.tree_map(lambda *column: None if column[0] is None else torch.stack(column), *results)


def _switch(index: Any, branches: Sequence[Callable[..., Any]], operands: Sequence[Any]) -> Any:
    return branches[max(0, min(int(index), len(branches) - 1))](*operands)


AS_PYTHON: dict[str, Callable[..., Any]] = {  # by the name of the function that torch would compile
    "_cond_op_wrapper": _cond,
    "_while_loop_op_wrapper": _while_loop,
    "run_flattened_scan": _scan,
    "run_switch": _switch,
}


@contextmanager
def control_flow_as_python() -> Iterator[None]:
    """Replace the one place where torch compiles control flow; a torch that has no such place is left alone."""
    place = sys.modules.get(UTILITIES)
    torchs = getattr(place, COMPILED, None)
    if torchs is None:
        yield
        return

    def run(function: Any, args: Any, kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name == "run_flattened_map":
            return _map(*args, nests=inspect.getclosurevars(function).nonlocals)
        ours = AS_PYTHON.get(name)
        return torchs(function, args, kwargs) if ours is None or kwargs else ours(*args)

    setattr(place, COMPILED, run)
    try:
        yield
    finally:
        setattr(place, COMPILED, torchs)
