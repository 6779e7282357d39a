"""Running torch code and collecting the OpSpecs of what ran, to ask the rules about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo  # the first dispatch mode of a process imports it; here, so that no test is the one that does
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from rasp.capture.specs import op_spec
from rasp.conventions import get
from rasp.records import OpSpec
from rasp.rules import PRIMITIVES, Work, work_of

Run = Callable[[], Any]


class Recorder(TorchDispatchMode):
    """Notes down every operator that reaches the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.specs: list[OpSpec] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.specs.append(op_spec(func, args, kwargs or {}, out))
        return out


def specs_of(run: Run) -> list[OpSpec]:
    with Recorder() as recorder:
        run()
    return recorder.specs


def spec_of(op: Any, *args: Any, **kwargs: Any) -> OpSpec:
    """The OpSpec of one operator called as it stands, not as what it decomposes into."""
    return op_spec(op, args, kwargs, op(*args, **kwargs))


def known(spec: OpSpec) -> Work:
    work = work_of(spec)
    assert work is not None, f"no rule for {spec.name}"
    return work


def total(run: Run) -> Work:
    """All work of what ran; an operator without a rule is a failure."""
    return sum((known(spec) for spec in specs_of(run)), Work(read=0, write=0))


def weigh(work: Work, column: str) -> int:
    weights = get("rasp").weights[column]
    return sum(getattr(work, name) * weights.get(name, 0) for name in PRIMITIVES)


def flops(work: Work) -> int:
    return weigh(work, "flops")


def macc(work: Work) -> int:
    return weigh(work, "macc")


def primitives(work: Work) -> dict[str, int]:
    """What a Work counts, without bytes."""
    return {name: count for name in PRIMITIVES if (count := getattr(work, name))}


def torch_macs(run: Run) -> int:
    """MACs by torch's own counter, which counts two flops each."""
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2


def meta(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype, requires_grad=grad)


def backward(run: Callable[[], torch.Tensor]) -> Run:
    """The run followed by the backward of its result's sum."""
    return lambda: run().sum().backward()
