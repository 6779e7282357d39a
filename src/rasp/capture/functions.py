"""Calls of torch functions as the model spells them: F.linear, torch.matmul, x @ y. Recorded only when asked.

A mode above the operators hears of every call. Functions of torch written in Python would run with the mode switched
off; here they run as a twin whose own door is open, so that what they call inside is heard as well.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from ..records import FunctionCall
from .places import ORIGINALS, heard
from .recorder import FORWARD, Recorder
from .specs import structure

DOORS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
OPERATORS = {  # the method torch names for an operator of Python → how the operator is spelled
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "true_divide": "__truediv__",
    "matmul": "__matmul__", "floor_divide": "__floordiv__", "remainder": "__mod__", "pow": "__pow__",
    "bitwise_and": "__and__", "bitwise_or": "__or__", "bitwise_xor": "__xor__",
    "add_": "__iadd__", "sub_": "__isub__", "mul_": "__imul__", "div_": "__itruediv__", "neg": "__neg__",
    "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__", "eq": "__eq__", "ne": "__ne__",
}  # fmt: skip
SPELLED = ("BINARY_OP", "UNARY_NEGATIVE", "COMPARE_OP")


class Functions(TorchFunctionMode):
    """Writes a FunctionCall for every call of a torch function in the forward; attributes of tensors are none."""

    def __init__(self, rec: Recorder) -> None:
        super().__init__()
        self.rec = rec
        self.found: list[FunctionCall] = []
        self.inside: list[int] = []
        self.coming: tuple[int, str] | None = None  # a call noted at its place that the mode is about to hear of
        self.modes = 0
        spelling(torch.add)  # torch's own list of names is made before anybody stands in its places

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear the model, but not the operators themselves: on meta some are written with functions of torch."""
        self.modes = torch._C._len_torch_dispatch_stack()
        with heard(self), self:
            yield

    @property
    def deaf(self) -> bool:
        inside = torch._C._len_torch_dispatch_stack() < self.modes
        return inside or self.rec.closed or self.rec.phase != FORWARD

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        func = ORIGINALS.get(func, func)
        name = spelling(func)
        if name is None or self.deaf:
            return func(*args, **kwargs)
        if name.startswith("torch.Tensor."):
            name = _operator(name, sys._getframe(1))
        if self._came(name):
            return self._call(func, args, kwargs)
        with self._noted(name, args, kwargs) as done:
            return done(self._call(func, args, kwargs))

    def through(self, place: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that came by way of a place in torch; most of them the mode hears of next."""
        if self.deaf:
            return func(*args, **kwargs)
        with self._noted(place, args, kwargs, place) as done:
            self.coming = len(self.found) - 1, place
            try:
                return done(func(*args, **kwargs))
            finally:
                self.coming = None

    def _came(self, name: str) -> bool:
        """Whether this call was noted at its place already; it then has the name that torch gives it."""
        coming, self.coming = self.coming, None
        if coming is None or _bare(coming[1]) != _bare(name):
            return False
        index, place = coming
        if not place.startswith("torch.Tensor."):  # x @ y arrives by way of a function, which is no operator
            self.found[index] = self.found[index]._replace(name=name)
        return True

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        twin = open_twin(func) if isinstance(func, FunctionType) else None
        if twin is None:
            return func(*args, **kwargs)
        with self:
            return twin(*args, **kwargs)

    @contextmanager
    def _noted(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], place: str = ""
    ) -> Iterator[Callable[[Any], Any]]:
        rec, index, start = self.rec, len(self.found), len(self.rec.ops)
        owner, parent = rec.stack[-1] if rec.stack else 0, self.inside[-1] if self.inside else -1
        given, named = structure(args), structure(kwargs)
        self.found.append(FunctionCall(name, given, named, None, owner, parent, start, start, place))
        self.inside.append(index)

        def done(out: Any) -> Any:
            self.found[index] = self.found[index]._replace(out=structure(out), end=len(rec.ops))
            return out

        try:
            yield done
        finally:
            self.inside.pop()


def _bare(name: str) -> str:
    return name.rpartition(".")[2].strip("_")


@cache
def spelling(func: Any) -> str | None:
    """'torch.nn.functional.linear', 'torch.Tensor.matmul'; None for what reads an attribute or is no function."""
    name = getattr(func, "__name__", "")
    if not name or name.startswith("_set_grad") or name in ("__get__", "__set__", "__delete__") or name in QUESTIONS:
        return None
    found = resolve_name(func) or f"{getattr(func, '__module__', None) or 'torch'}.{name}"
    return str(found).replace("torch.functional.", "torch.")


QUESTIONS = frozenset(
    ("dim", "size", "stride", "numel", "is_floating_point", "is_complex", "element_size", "storage_offset")
)


def _operator(name: str, frame: Any) -> str:
    """`x + y` arrives as Tensor.add: whether an operator was spelled is seen in the code that called."""
    method = name.rpartition(".")[2]
    if method in OPERATORS and _instruction(frame.f_code, frame.f_lasti) in SPELLED:
        return f"torch.Tensor.{OPERATORS[method]}"
    return name


@cache
def _code(code: CodeType) -> bytes:
    return code.co_code


def _instruction(code: CodeType, at: int) -> str:
    return dis.opname[_code(code)[at]]


@cache
def open_twin(func: FunctionType) -> Callable[..., Any] | None:
    """A function of torch that asks at its door whether a mode is on, with that question answered no."""
    doors = [name for name in DOORS if name in func.__code__.co_names]
    if not doors or func.__module__ not in ("torch.nn.functional", "torch.functional"):
        return None  # methods of Tensor call themselves by super()
    inner = {**func.__globals__, **dict.fromkeys(doors, _closed)}
    twin = FunctionType(func.__code__, inner, func.__name__, func.__defaults__, func.__closure__)
    twin.__kwdefaults__ = func.__kwdefaults__
    return twin


def _closed(*_: Any) -> bool:
    return False
