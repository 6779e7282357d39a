"""Calls of torch functions as the model spells them: F.linear, torch.matmul, x @ y. Recorded only when asked.

A mode above the operators hears of every call. Functions of torch written in Python would run with the mode switched
off; here they run as a twin whose own door is open, so that what they call inside is heard as well.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from torch.overrides import TorchFunctionMode, resolve_name

from ..records import FunctionCall
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

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        rec = self.rec
        name = spelling(func)
        if name is None or rec.closed or rec.phase != FORWARD:
            return func(*args, **kwargs)
        if name.startswith("torch.Tensor."):
            name = _operator(name, sys._getframe(1))
        index, start = len(self.found), len(rec.ops)
        given, named = structure(args), structure(kwargs)
        owner, parent = rec.stack[-1] if rec.stack else 0, self.inside[-1] if self.inside else -1
        self.found.append(FunctionCall(name, given, named, None, owner, parent, start, start))
        self.inside.append(index)
        try:
            twin = open_twin(func) if isinstance(func, FunctionType) else None
            if twin is None:
                out = func(*args, **kwargs)
            else:
                with self:
                    out = twin(*args, **kwargs)
        finally:
            self.inside.pop()
        self.found[index] = self.found[index]._replace(out=structure(out), end=len(rec.ops))
        return out


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
