"""What is to be captured and how: checked, and in one form."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from ..errors import InputError
from . import inputs as given
from .autocast import ambient
from .routes import Ways
from .standin import unwrapped
from .stepping import optimizer_called

Tensor = torch.Tensor
MODES = ("eval", "train", "as-is")


class Probe(Protocol):
    """What reads a meter before and after each module call of a real run."""

    def watched(self, run: Callable[..., Any], opened: Callable[[], int]) -> Callable[..., Any]:
        """A module's forward, watched; `opened` tells the number of its call."""


@dataclass
class Request:
    """What is to be run and how; the same for a run on shapes and a real one."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    training: bool | None
    backward: bool = False
    optimizer: Any = None
    loss: Callable[[Any], Tensor] | None = None
    dtype: torch.dtype | None = None
    autocast: torch.dtype | None = None
    memo: bool = True
    scatters: bool = False  # a DataParallel moves its inputs to the GPU itself
    notes: list[str] = field(default_factory=list)
    lists: bool = False  # look up the values of lists of indices and numbers: a mode around every function
    functions: bool = False  # note calls of torch functions as they are spelled
    ways: Ways | None = None  # of the device that memory is asked for
    checkpointed: frozenset[str] = frozenset()  # modules that run as if checkpointed
    probe: Probe | None = None  # reads a meter at the door of every module

    @property
    def grad(self) -> bool:
        return self.backward


def make_request(
    model: Any, inputs: Any, input_shape: Any, kwargs: Any, dtypes: Any, mode: Any, backward: Any, optimizer: Any,
    loss: Any, dtype: Any, autocast: Any, memo: bool, functions: bool, ways: Ways | None,
    checkpointed: frozenset[str], probe: Probe | None,
) -> Request:  # fmt: skip
    """Check what was given and bring it into one form."""
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise InputError(f"{model.__name__} is a class; give an instance: {model.__name__}(...).")
    if not isinstance(model, nn.Module):
        raise InputError(f"The model must be a torch.nn.Module, not {type(model).__name__}.")
    mode = mode or ("train" if backward else "eval")
    if mode not in MODES:
        raise InputError(f"mode={mode!r} is not known. Use 'eval', 'train' or 'as-is' (keep the model's own flags).")
    if optimizer is not None and not backward:
        raise InputError("optimizer= needs backward=True: a step uses the gradients of a backward.")
    optimizer = optimizer_called(optimizer) if isinstance(optimizer, str) else optimizer
    for name, value in (("optimizer", optimizer), ("loss", loss)):
        if value is not None and not callable(value) and not (name == "optimizer" and hasattr(value, "step")):
            raise InputError(_CALLED[name] + f" Got {value!r}.")
    training = {"eval": False, "train": True, "as-is": None}[mode]
    inner = unwrapped(model)
    _check_callable(inner)
    args, named = given.arguments(inner, inputs, input_shape, kwargs, dtypes)
    _check_sizes(args, named)
    cast = ambient() if autocast is None else _lower(autocast)
    compiled = ways is not None and type(model).__name__ == "OptimizedModule"
    return Request(
        inner, args, named, training, bool(backward), optimizer, loss,
        None if dtype is None else _floating(dtype), cast, memo,
        scatters=isinstance(model, nn.DataParallel), functions=functions, ways=ways, notes=[EAGER] if compiled else [],
        checkpointed=checkpointed, probe=probe,
    )  # fmt: skip


EAGER = "The model is compiled; its memory is told as it runs eagerly (compiled, it may keep less for the backward)."
_CALLED = {
    "optimizer": "optimizer= takes a class (torch.optim.AdamW), its name ('adamw'), a function of the parameters "
    "(lambda p: torch.optim.SGD(p, lr=0.1)) or an optimizer of this model.",
    "loss": "loss= takes a function of the model's output that returns a tensor (lambda out: out.mean()).",
}


def _check_callable(model: nn.Module) -> None:
    """A container of nothing, or a module without a forward, has nothing to run."""
    name = type(model).__name__
    if isinstance(model, (nn.Sequential, nn.ModuleList, nn.ModuleDict)) and not len(model):
        raise InputError(f"The model is an empty {name}: there is nothing to count. Add layers to it.")
    if getattr(type(model), "forward", None) is nn.Module.forward and "forward" not in vars(model):
        raise InputError(f"{name} has no forward() to run. Give the module whose forward is to be counted.")


def _check_sizes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A floating input without elements (a batch of 0) would make every count 0."""
    tensors = given.tensors_in((args, kwargs))
    if tensors and all(t.numel() == 0 for _, t in tensors):
        name, tensor = tensors[0]
        shape = tuple(tensor.shape)
        raise InputError(
            f"Input {name.split('.', 1)[-1]} of shape {shape} has no elements, so every count would be 0. "
            "Give a batch of at least 1; the shape includes the batch."
        )


def _lower(autocast: Any) -> torch.dtype | None:
    """The dtype autocast computes in; None where it is switched off."""
    if autocast is False:
        return None
    found = given.as_dtype("bfloat16" if autocast is True else autocast)
    if found not in (torch.bfloat16, torch.float16):
        raise InputError(
            f"autocast={autocast!r}: autocast computes in bfloat16 or float16. Use 'bfloat16' or 'float16'."
        )
    return found


def _floating(dtype: Any) -> torch.dtype:
    """The dtype that stands in for the model's floating ones."""
    found = given.as_dtype(dtype)
    if not found.is_floating_point:
        raise InputError(
            f"dtype={dtype!r} is not a floating dtype: it says what the model's floating tensors would be, "
            "e.g. 'bfloat16'. Dtypes of inputs are given as dtypes=."
        )
    return found


def device_of(device: Any) -> torch.device | None:
    if device is None:
        return None
    try:
        where = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(
            f"device={device!r} is not a device. Use 'meta', 'cpu', 'cuda', 'cuda:0' or a torch.device."
        ) from error
    if where.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "device='cuda' was asked for, but torch sees no CUDA device here. Leave device out to count without one."
        )
    if where.type == "mps" and not torch.backends.mps.is_available():
        raise InputError(
            "device='mps' was asked for, but torch sees no MPS device here. Leave device out to count without one."
        )
    return where


def check_devices(request: Request, where: torch.device | None) -> None:
    """Inputs on another device than the model's would fail in the user's own call: say so."""
    if where is not None and where.type != "meta" and _hollow(request):
        raise InputError(
            f"device='{where}' was asked for, but the model is on the meta device and holds no data to run with. "
            "Leave device out to profile on shapes alone, or give the model data (model.to_empty(device=...))."
        )
    if where is not None or request.scatters:
        return
    home = home_of(request.model)
    for name, tensor in given.tensors_in((request.args, request.kwargs)):
        if home is None:
            return
        if given.is_made(tensor) or tensor.device == home or home.type == "meta":
            continue
        if tensor.device.type == "cpu" and tensor.dim() == 0:
            continue
        label = name.split(".", 1)[-1]
        raise InputError(
            f"Input {label} is on {tensor.device}, the model is on {home}. Move it (.to('{home}')), "
            f"or give input_shape={tuple(tensor.shape)} to profile without data."
        )


def _hollow(request: Request) -> bool:
    return any(t.is_meta for t in itertools.chain(request.model.parameters(), request.model.buffers()))


def home_of(model: nn.Module) -> torch.device | None:
    """The device of the first parameter or buffer."""
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        return tensor.device
    return None


def input_home(request: Request) -> torch.device:
    for _, tensor in given.tensors_in((request.args, request.kwargs)):
        if not given.is_made(tensor):
            return tensor.device
    return torch.device("cpu")
