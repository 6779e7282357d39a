"""An independent count of a model's contraction MACs: torch's FlopCounterMode, and closed forms for what it lacks.

FlopCounterMode counts two operations per MAC. Here it runs the unfused routes (no fused attention, no fused recurrent
kernels, no fast path of nn.TransformerEncoder), so that every product shows as an operator it has a formula for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from .case import Case

aten = torch.ops.aten


class Counts(NamedTuple):
    macs: int
    macs_bwd: int


def _matrix_vector(matrix: Any, vector: Any, *_: Any, **__: Any) -> int:
    return 2 * prod(matrix)


def _add_matrix_vector(_: Any, matrix: Any, vector: Any, *__: Any, **___: Any) -> int:
    return 2 * prod(matrix)


def _grouped(a: Any, b: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """Rows of `a`, each through one (k, n) matrix of `b`; in the backward both are 2-D and rows are grouped along k."""
    return 2 * prod(a) * b[-1]


def _add_batched(_: Any, a: Any, b: Any, *__: Any, **___: Any) -> int:
    return 2 * prod(a) * b[-1]


def _convolution_backward(grad: Any, x: Any, weight: Any, *rest: Any, **_: Any) -> int:
    """Each of the two products has as many MACs as the forward: every weight meets every position once per sample.

    torch's own formula multiplies the weight gradient of a grouped convolution by the number of groups.
    """
    transposed, mask = rest[4], rest[7]
    positions = prod((x if transposed else grad)[2:])
    return 2 * x[0] * positions * prod(weight) * (bool(mask[0]) + bool(mask[1]))


EXTRA = {
    aten.mv: _matrix_vector,
    aten.dot: _matrix_vector,
    aten.vdot: _matrix_vector,
    aten.addmv: _add_matrix_vector,
    aten.addbmm: _add_batched,
    aten._grouped_mm: _grouped,
    aten.convolution_backward: _convolution_backward,
}


@contextmanager
def unfused() -> Iterator[None]:
    """Attention, recurrent layers and the Transformer encoder take the routes that are made of plain products."""
    fast = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.enter_context(torch.backends.mkldnn.flags(enabled=False))
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast)
        yield


def scalar_loss(output: Any) -> torch.Tensor:
    """The sum of the means of every floating output that has a gradient."""
    floats = [
        t
        for t in pytree.tree_leaves(output)
        if isinstance(t, torch.Tensor) and t.is_floating_point() and t.requires_grad
    ]
    total: torch.Tensor = sum((t.float().mean() for t in floats), torch.zeros((), device=floats[0].device))
    return total


def _macs(counter: FlopCounterMode) -> int:
    flops = counter.get_total_flops()
    assert flops % 2 == 0
    return flops // 2


def count(case: Case, backward: bool = False) -> Counts:
    """Forward MACs in eval mode; with `backward`, forward and backward MACs of a training step (batch of two)."""
    if case.macs is not None:
        return Counts(case.macs, case.macs_bwd or 0)
    device = "meta" if case.meta else "cpu"
    model = case.build(device)
    args, kwargs = case.inputs(device, batch=2 if backward else None)
    counter = FlopCounterMode(display=False, custom_mapping=EXTRA)
    with unfused():
        if not backward:
            with torch.no_grad(), counter:
                model.requires_grad_(False)(*args, **kwargs)
            return Counts(_macs(counter), 0)
        model.train(case.training)
        with counter:
            loss = scalar_loss(model(*args, **kwargs))
        forward = _macs(counter)
        return Counts(forward, _backward(model, loss))


def _backward(model: nn.Module, loss: torch.Tensor) -> int:
    counter = FlopCounterMode(display=False, custom_mapping=EXTRA)
    with counter:
        loss.backward()
    return _macs(counter)
