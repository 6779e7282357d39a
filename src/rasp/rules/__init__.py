"""Rules: what one operator computes, as a small additive Work. One family of operators per file.

To add an operator, add a function to the file of its family (or to a new file here: it is found by itself;
files whose name starts with _ hold what families share):

>>> from rasp.rules import rule, Work
>>> @rule("mylib::scale_shift")
... def scale_shift(call):
...     x, scale, shift = call.args[:3]
...     return Work(fma=x.numel)

`call` is an OpSpec: `.args` (positional, defaults filled in), `.kwargs`, `.out`, all tensors as TensorSpec.
A rule that cannot tell (a packed weight whose shape is hidden) returns None, and the call is listed as unknown.
A Work without `read`/`write` is completed with the bytes of every distinct input and of every output.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from ..errors import RuleError
from ..records import OpSpec, leaves
from ..registry import once

Rule = Callable[[OpSpec], "Work | None"]
R = TypeVar("R", bound=Callable[..., Any])
Count = int  # the type behind a name: Work has a field called int


@dataclass(slots=True)
class Work:
    """Counted primitives of one operator. Neutral facts: a Convention decides what each weighs.

    mac    multiply-accumulates of a contraction (m·k·n for a matrix product)
    dot    dot products those form: each saves one addition (m·n)
    bias   additions of a bias to a contraction's output
    fma    multiply-adds that are no contraction (normalisation: x·scale + shift)
    add, mul, div, sqrt, exp, log, tanh, erf, trig, pow   one operation on floats each, by kind
    cmp    comparisons of floats, and what is decided per element alike: bounds, signs, rounding
    int    operations on integers and booleans (index arithmetic, masks)
    rand   random numbers drawn
    causal   MACs a causal kernel may skip (they are included in mac)
    recompute  MACs done a second time (flash backward, checkpointing); NOT included in mac
    read, write   bytes; None = every distinct input, every output
    """

    mac: Count = 0
    dot: Count = 0
    bias: Count = 0
    fma: Count = 0
    add: Count = 0
    mul: Count = 0
    div: Count = 0
    cmp: Count = 0
    sqrt: Count = 0
    exp: Count = 0
    log: Count = 0
    tanh: Count = 0
    erf: Count = 0
    trig: Count = 0
    pow: Count = 0
    int: Count = 0
    rand: Count = 0
    causal: Count = 0
    recompute: Count = 0
    read: Count | None = None
    write: Count | None = None

    def __add__(self, other: Work) -> Work:
        return Work(**{f: _plus(getattr(self, f), getattr(other, f)) for f in FIELDS})

    def __mul__(self, times: Count) -> Work:
        return Work(**{f: _times(getattr(self, f), times) for f in FIELDS})

    __rmul__ = __mul__


def _plus(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


def _times(a: Any, n: int) -> Any:
    return None if a is None else a * n


FIELDS: tuple[str, ...] = tuple(f.name for f in fields(Work))
PRIMITIVES: tuple[str, ...] = FIELDS[: FIELDS.index("causal")]
TRANSCENDENTAL: tuple[str, ...] = ("exp", "log", "tanh", "erf", "trig", "pow")

RULES: dict[str, Rule] = {}
MODULE_RULES: dict[str, Callable[..., Work]] = {}
FREE: set[str] = set()


def rule(*names: str, replace: bool = False) -> Callable[[R], R]:
    """Register a function of an OpSpec as the rule of the operators named ("aten::mm"; an overload may follow a
    dot).
    """

    def register(function: R) -> R:
        for name in names:
            if "::" not in name:
                raise RuleError(f"An operator's name has a namespace, like 'aten::mm'; {name!r} has none.")
            if name in RULES and not replace:
                raise RuleError(
                    f"{name} has a rule already ({RULES[name].__module__}); pass replace=True to take its place."
                )
            RULES[name] = function
        return function

    return register


def free(*names: str) -> None:
    """Declare operators that neither compute nor move anything (views)."""
    FREE.update(names)


def module_rule(cls: type | str, *, replace: bool = False) -> Callable[[Callable[..., Work]], Callable[..., Work]]:
    """Register a function of a ModuleCall view that stands for ALL work inside modules of this class."""
    name = cls if isinstance(cls, str) else cls.__name__

    def register(function: Callable[..., Work]) -> Callable[..., Work]:
        if name in MODULE_RULES and not replace:
            raise RuleError(f"Modules of class {name} have a rule already; pass replace=True to take its place.")
        MODULE_RULES[name] = function
        return function

    return register


def find(spec: OpSpec) -> Rule | None:
    """The rule for this operator: by name and overload first, then by name."""
    load()
    return RULES.get(f"{spec.name}.{spec.overload}") or RULES.get(spec.name)


@once
def load() -> None:
    """Import every file of this folder once."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def work_of(spec: OpSpec) -> Work | None:
    """The Work of one operator call with bytes filled in; None when there is no rule or it cannot tell."""
    if spec.name in FREE:
        return Work(read=0, write=0)
    function = find(spec)
    if function is None:
        return None
    work = function(spec)
    if work is None:
        return None
    if not isinstance(work, Work):
        raise RuleError(f"The rule for {spec.name} returned {type(work).__name__}; it must return rasp.Work.")
    if work.read is None:
        work.read = bytes_read(spec)
    if work.write is None:
        work.write = bytes_written(spec)
    return work


def bytes_read(spec: OpSpec, skip: Iterable[int] = ()) -> int:
    """Bytes of every distinct input: a tensor given twice is read once, the targets of an out= form are not read."""
    tensors = [*leaves(spec.args)] if _writes_keywords(spec) else spec.tensors
    left_out = {*spec.same, *skip}
    return sum(t.touched_bytes for i, t in enumerate(tensors) if i not in left_out)


def _writes_keywords(spec: OpSpec) -> bool:
    """Whether this is an out= form: it writes tensors given by keyword."""
    return spec.mutates and bool(spec.kwargs) and not spec.name.endswith("_")


def bytes_written(spec: OpSpec) -> int:
    return sum(t.touched_bytes for t in spec.outputs)


def bound(spec: OpSpec) -> int:
    """An upper bound for an operator without a rule: every output element combined once with every input element."""
    outs = sum(t.numel for t in spec.outputs) or max((t.numel for t in spec.tensors), default=0)
    return max(outs * sum(t.numel for t in spec.tensors), outs)
