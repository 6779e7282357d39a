"""Traces as plain values that can be compared, what holds for every one of them, and a model that is one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from rasp.capture import capture
from rasp.records import Trace
from rasp.rules import work_of


class Call(nn.Module):
    """A model that is one function of itself and its inputs, with an 8 x 8 weight and a linear layer at hand."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.rand(8, 8))
        self.linear = nn.Linear(8, 8)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def run(function: Callable[..., Any], *inputs: Any, **options: Any) -> tuple[Trace, dict[str, Any]]:
    """Capture a function of (model, *inputs); a 2 x 8 input where none is given."""
    return capture(Call(function), inputs or (torch.rand(2, 8),), **options)


def names(trace: Trace) -> list[str]:
    """The operators in order, without their namespace."""
    return [trace.specs[op.spec].name.removeprefix("aten::") for op in trace.ops]


def operators(trace: Trace) -> list[tuple[Any, ...]]:
    """Every operator with all that is recorded of it."""
    rows = []
    for op in trace.ops:
        spec = trace.specs[op.spec]
        what = (spec.name, spec.overload, spec.args, spec.kwargs, spec.out, spec.same, spec.mutates)
        rows.append((*what, op.owner, op.phase, op.reads, op.writes))
    return rows


def story(trace: Trace) -> dict[str, Any]:
    """A whole trace as plain values."""
    return {
        "operators": operators(trace),
        "storages": [tuple(s) for s in trace.storages],
        "calls": [(c.module, c.parent, c.number, c.inputs, c.outputs, c.start, c.end) for c in trace.calls],
        "modules": [(m.path, m.type, m.parent, m.tensors, m.training, m.names) for m in trace.modules],
        "tensors": [(t.names, t.spec, t.kind, t.trainable, t.storage) for t in trace.tensors],
        "ends": (trace.inputs, trace.outputs, trace.notes, trace.untraced),
    }


def assert_same(one: Trace, other: Trace) -> None:
    """Two traces tell the same; the first difference is shown, not the whole of both."""
    a, b = story(one), story(other)
    for part, rows in a.items():
        for i, (x, y) in enumerate(zip(rows, b[part])):
            assert x == y, f"{part}[{i}]"
        assert len(rows) == len(b[part]), part


def assert_sound(trace: Trace) -> None:
    """What holds for every trace: calls nest, owners are active, storages are used only while they live."""
    assert_calls_nest(trace)
    assert_owners_are_active(trace)
    assert_storages_live(trace)


def assert_calls_nest(trace: Trace) -> None:
    numbers: dict[int, int] = {}
    assert trace.calls[0].parent == -1
    assert trace.calls[0].module == 0
    for index, call in enumerate(trace.calls):
        assert 0 <= call.module < len(trace.modules)
        assert call.number == numbers.get(call.module, 0)
        numbers[call.module] = call.number + 1
        assert 0 <= call.start <= call.end <= len(trace.ops)
        if index:
            parent = trace.calls[call.parent]
            assert 0 <= call.parent < index
            assert parent.start <= call.start <= call.end <= parent.end
    for index, module in enumerate(trace.modules):
        assert all(trace.modules[child].parent == index for child in module.children)
        assert all(0 <= tensor < len(trace.tensors) for tensor in module.tensors)


def assert_owners_are_active(trace: Trace) -> None:
    inner: dict[int, int] = {}
    for index, call in enumerate(trace.calls):  # later calls are deeper: the last one to claim an operator is innermost
        inner.update(dict.fromkeys(range(call.start, call.end), index))
    for at, op in enumerate(trace.ops):
        assert 0 <= op.spec < len(trace.specs)
        assert 0 <= op.owner < len(trace.calls)
        assert 0 <= op.phase <= 3
        if op.phase == 0:
            assert op.owner == inner[at]
    assert [op.phase for op in trace.ops if op.phase in (0, 3)] == sorted(
        op.phase for op in trace.ops if op.phase in (0, 3)
    )


def assert_storages_live(trace: Trace) -> None:
    for storage in trace.storages:
        assert storage.nbytes >= 0
        assert storage.died is None or -1 <= storage.born <= storage.died <= len(trace.ops)
        if storage.kind in ("parameter", "buffer", "input", "constant"):
            assert storage.born == -1
    for at, op in enumerate(trace.ops):
        for index in (*op.reads, *op.writes):
            storage = trace.storages[index]
            assert storage.born <= at, f"{trace.specs[op.spec].name} uses a storage before its birth"
            assert storage.died is None or storage.died > at, f"{trace.specs[op.spec].name} uses a dead storage"
    for tensor in trace.tensors:
        assert trace.storages[tensor.storage].nbytes >= tensor.spec.touched_bytes
        assert trace.storages[tensor.storage].kind == tensor.kind


def macs(trace: Trace, phase: int | None = None) -> dict[str, int]:
    """Multiply-accumulates by module path; of one phase, or of all."""
    found: dict[str, int] = {}
    for op in trace.ops:
        work = work_of(trace.specs[op.spec])
        if work is not None and work.mac and phase in (None, op.phase):
            path = trace.modules[trace.calls[op.owner].module].path
            found[path] = found.get(path, 0) + work.mac
    return found
