"""What a profiler could change in the process around it, and in the model it is given: read before, compare after."""

from __future__ import annotations

import gc
import inspect
import random
import sys
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as module_hooks
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

GLOBAL_HOOKS = [name for name in vars(module_hooks) if name.startswith("_global_") and name.endswith("hooks")]
PATCHABLE = {"torch.nn.functional": F, "torch": torch, "torch.Tensor": torch.Tensor, "nn.Module": nn.Module}


def functions() -> dict[str, int]:
    """Identity of every function that tools replace (transformers adds a method of its own when imported)."""
    found = {
        f"{where}.{name}": id(value)
        for where, holder in PATCHABLE.items()
        for name, value in vars(holder).items()
        if callable(value) and not str(getattr(value, "__module__", "")).startswith("transformers")
    }
    found |= {
        f"nn.{name}.forward": id(cls.__dict__.get("forward")) for name, cls in vars(nn).items() if inspect.isclass(cls)
    }
    return found


def python_kernels() -> frozenset[str]:
    """Kernels registered from Python on operators that capture is known to touch."""
    names = [
        "aten::scaled_dot_product_attention",
        "aten::lstm.input",
        "aten::gru.input",
        "aten::linear",
        "aten::dropout",
    ]
    return frozenset(
        f"{name}:{key}"
        for name in names
        for key in ("Meta", "AutogradMeta", "CPU", "AutogradCPU", "CompositeImplicitAutograd", "Python")
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    )


def random_states() -> dict[str, Any]:
    states: dict[str, Any] = {"torch": torch.get_rng_state().tolist(), "python": random.getstate()}
    if "numpy" in sys.modules:
        states["numpy"] = repr(sys.modules["numpy"].random.get_state(legacy=False))
    return states


def process_state() -> dict[str, Any]:
    """Settings and hooks of the process; random states are left out, as any test may draw numbers."""
    return {
        "global hooks": [list(getattr(module_hooks, name)) for name in GLOBAL_HOOKS],
        "dispatch modes": len(_get_current_dispatch_mode_stack()),
        "function modes": torch._C._len_torch_function_stack(),
        "functions": functions(),
        "kernels": python_kernels(),
        "default dtype": torch.get_default_dtype(),
        "default device": str(torch.get_default_device()),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "autocast": torch.is_autocast_enabled("cpu"),
        "garbage collection": gc.isenabled(),
        "threads": torch.get_num_threads(),
    }


HOOKS = [name for name in vars(nn.Module()) if name.endswith("hooks")]


def tensor_state(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Identity, version, place, flags and values of a tensor."""
    values = None if tensor.is_meta else tensor.detach().clone()
    hooks = tuple(tensor._backward_hooks or ()) if tensor.requires_grad else ()
    data = 0 if tensor.is_meta else tensor.data_ptr()
    return (id(tensor), tensor._version, str(tensor.device), tensor.dtype, tuple(tensor.shape), tensor.stride(), data,
            tensor.requires_grad, None if tensor.grad is None else id(tensor.grad), hooks, values)  # fmt: skip


def module_state(module: nn.Module) -> dict[str, Any]:
    """Everything a module holds itself: attribute names and identities, hooks, the training flag."""
    attributes = {
        name: id(value) for name, value in vars(module).items() if name not in ("training", "_modules", *HOOKS)
    }
    return {
        "class": type(module),
        "attributes": attributes,
        "training": module.training,
        "hooks": {name: list(vars(module).get(name) or ()) for name in HOOKS},
        "children": [(name, id(child)) for name, child in module._modules.items()],
        "call": id(type(module).__call__),
    }


def model_state(model: nn.Module) -> dict[str, Any]:
    """All that can be told of a model from outside, for comparison with `same_model`."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {
        "modules": {path: module_state(module) for path, module in model.named_modules(remove_duplicate=False)},
        "tensors": {name: tensor_state(tensor) for name, tensor in named if not nn.parameter.is_lazy(tensor)},
        "state dict": list(model.state_dict()),
        "random": random_states(),
        "process": process_state(),
    }


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Where two states differ, as paths; tensors are compared by value."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [*before, *(name for name in after if name not in before)]
        return [
            line
            for name in names
            for line in differences(before.get(name, "absent"), after.get(name, "absent"), f"{path}/{name}")
        ]
    if isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        return [line for i, pair in enumerate(zip(before, after)) for line in differences(*pair, f"{path}[{i}]")]
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        return [] if torch.equal(before, after) or _both_nan(before, after) else [f"{path}: values changed"]
    return [] if before == after else [f"{path}: {str(before)[:80]} -> {str(after)[:80]}"]


def _both_nan(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.is_floating_point() and torch.allclose(a, b, equal_nan=True, rtol=0, atol=0)
