"""Leave the process as it was found: random states, defaults, flags, also when the model raises or is interrupted."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn

from .controlflow import control_flow_as_python

_one_at_a_time = threading.RLock()  # what is saved and put back belongs to the process, not to a thread
FLEX, FLEX_DEVICE = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", "_validate_device"


def _any_device(*_: Any) -> None:
    """flex_attention refuses meta tensors before its operator is reached; while a capture runs it need not."""


@contextmanager
def untouched() -> Iterator[None]:
    """Save the state a forward may change outside of the model, and put it back; captures of other threads wait."""
    with _one_at_a_time, control_flow_as_python(), _eager():
        yield from _saved()


def _eager() -> AbstractContextManager[Any]:
    """Functions of torch.compile run as written: compiling them would compile the capture around them as well."""
    if "torch._dynamo" not in sys.modules:  # nothing was compiled yet
        return nullcontext()
    return torch.compiler.set_stance("force_eager")  # type: ignore[no-any-return]


def _saved() -> Iterator[None]:
    restore = [*_random_states(), *_defaults()]
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    if (
        flex is not None and hasattr(flex, FLEX) and hasattr(flex, FLEX_DEVICE)
    ):  # it compiles itself when called eagerly, which hides its operator
        restore += [(partial(setattr, flex, name), getattr(flex, name)) for name in (FLEX, FLEX_DEVICE)]
        setattr(flex, FLEX, True)
        setattr(flex, FLEX_DEVICE, _any_device)
    collecting = gc.isenabled()
    gc.disable()  # a collection in the middle of a capture costs up to hundreds of milliseconds
    torch.backends.mha.set_fastpath_enabled(
        False
    )  # fused encoder kernels exist on some devices only: count the same on all
    try:
        yield
    finally:
        for put_back, value in restore:
            put_back(value)
        if collecting:
            _settle()
            gc.enable()


def _settle() -> None:
    """What a capture leaves stays: count it as old, or the collector looks through all of it at once, as new, which
    takes up to a fifth of the capture. Where the program froze objects of its own, they must stay frozen.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


def _random_states() -> list[tuple[Callable[[Any], Any], Any]]:
    states: list[tuple[Callable[[Any], Any], Any]] = [
        (torch.set_rng_state, torch.get_rng_state()),
        (random.setstate, random.getstate()),
    ]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states.append((torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        states.append((numpy.random.set_state, numpy.random.get_state()))
    return states


def _defaults() -> list[tuple[Callable[[Any], Any], Any]]:
    return [
        (torch.set_default_dtype, torch.get_default_dtype()),
        (_set_default_device, torch._GLOBAL_DEVICE_CONTEXT.__dict__.get("device_context")),  # type: ignore[attr-defined]
        (torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled()),
        (torch.set_grad_enabled, torch.is_grad_enabled()),
        (
            _set_deterministic,
            (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        ),
    ]


def _set_default_device(before: Any) -> None:
    now = torch._GLOBAL_DEVICE_CONTEXT.__dict__.get("device_context")  # type: ignore[attr-defined]
    if now is not before:
        torch.set_default_device(None if before is None else before.device)


def _set_deterministic(before: tuple[bool, bool]) -> None:
    if torch.are_deterministic_algorithms_enabled() != before[0]:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@contextmanager
def training_flags(modules: list[nn.Module], training: bool | None) -> Iterator[None]:
    """Set the mode of TorchScript modules (they have no shadow) and put every flag back."""
    if training is None:
        yield
        return
    flags = [(m, m.training) for root in modules for m in root.modules()]
    try:
        for module, _ in flags:
            module.training = training
        yield
    finally:
        for module, flag in flags:
            module.training = flag


@contextmanager
def gradients_kept(loss: torch.Tensor, own: Set[int]) -> Iterator[None]:
    """The backward of a loss gives gradients to every leaf: put back those of leaves that are no stand-ins.

    TorchScript modules, and layers held by a closure or a plain object, compute with the user's own parameters.
    """
    before = [(leaf, leaf.grad) for leaf in leaves_of(loss) if id(leaf) not in own]
    for leaf, _ in before:
        leaf.grad = None  # a gradient that is there would be added to, in place
    try:
        yield
    finally:
        for leaf, gradient in before:
            leaf.grad = gradient


def leaves_of(loss: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors a backward accumulates gradients in."""
    todo: list[Any] = [loss.grad_fn]
    seen = set(todo)
    while todo:
        node = todo.pop()
        if type(node).__name__ == "AccumulateGrad":
            yield node.variable
        elif node is not None:
            new = {following for following, _ in node.next_functions} - seen
            seen |= new
            todo.extend(new)


@contextmanager
def process_kept() -> Iterator[None]:
    """Save random states and defaults, and put them back, with every fast path left as a user's own run has it."""
    with _one_at_a_time:
        restore = [*_random_states(), *_defaults()]
        try:
            yield
        finally:
            for put_back, value in restore:
                put_back(value)
