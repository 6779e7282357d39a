"""Storages on shapes alone live as long as those of a real run, and hold as many bytes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from equality_cases import MODELS
from rasp.capture import capture

from .comparing import Call, assert_sound, names, run

# Attention and recurrent networks take different operators on each device, and are left out where they do.
OWN_ROUTES = ("Transformer", "LSTM", "GRU", "EmbeddingBag", "MultiheadAttention", "vit", "transformers:")
SAME = [case for case in MODELS if not any(part in case.name for part in OWN_ROUTES)]


def lives(trace):
    """For each operator its name, and size, kind, birth and death of what it writes; what holds nothing is left out."""
    rows = []
    for op in trace.ops:
        written = [trace.storages[i] for i in op.writes if trace.storages[i].nbytes]
        rows.append((trace.specs[op.spec].name, [tuple(s) for s in written]))
    return rows


@pytest.mark.parametrize("case", SAME, ids=str)
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_births_and_deaths_are_those_of_a_real_run(case, backward):
    model = case.build("cpu")
    args, kwargs = case.inputs(batch=2)
    shapes, _ = capture(model, args, kwargs=kwargs, backward=backward, device="meta")
    real, _ = capture(model, args, kwargs=kwargs, backward=backward, device="cpu")
    assert_sound(shapes)
    assert_sound(real)
    for i, (ours, theirs) in enumerate(zip(lives(shapes), lives(real))):
        assert ours == theirs, f"operator {i}"
    assert len(shapes.ops) == len(real.ops)
    assert sum(s.nbytes for s in shapes.storages) == sum(s.nbytes for s in real.storages)


def made_by(trace, name):
    """The storages written by the operators of a name, in order."""
    return [
        trace.storages[i] for op in trace.ops if trace.specs[op.spec].name == f"aten::{name}" for i in op.writes
    ]  # fmt: skip


def test_a_view_keeps_its_storage_alive():
    trace, _ = run(lambda m, x: [y := x.exp()[:1].t(), x.sin().cos(), y][2].sqrt())
    (exp,) = made_by(trace, "exp")
    assert names(trace) == ["exp", "sin", "cos", "sqrt"]
    assert (exp.born, exp.died) == (0, 4)


def test_a_result_nobody_holds_dies_before_the_next_operator():
    trace, _ = run(lambda m, x: [x.exp(), None][1] or x.sin())
    (exp,) = made_by(trace, "exp")
    assert (exp.born, exp.died) == (0, 1)
    trace, _ = run(lambda m, x: x.exp().sin().cos())
    assert [s.died for s in trace.storages if s.born >= 0] == [2, 3, None]


def test_writing_in_place_keeps_the_storage():
    trace, _ = run(lambda m, x: x.exp().add_(1).mul_(2))
    assert len([s for s in trace.storages if s.born >= 0]) == 1
    assert [op.writes for op in trace.ops] == [trace.ops[0].writes] * 3


def test_a_slice_written_in_place_writes_the_whole_storage():
    def forward(m, x):
        y = torch.zeros(4, 8)
        y[:2] = x
        y[2:].copy_(x)
        return y

    trace, _ = run(forward)
    assert len([s for s in trace.storages if s.born >= 0]) == 1


def test_what_autograd_saves_lives_until_its_backward():
    trace, _ = capture(Call(lambda m, x: m.linear(x).exp().sum()), torch.rand(2, 8), backward=True)
    (exp,) = made_by(trace, "exp")
    uses = [
        i
        for i, op in enumerate(trace.ops)
        if op.phase == 1 and trace.ops[names(trace).index("exp")].writes[0] in op.reads
    ]
    assert uses
    assert exp.died is not None
    assert exp.died > max(uses)


def test_checkpointing_saves_less_and_computes_again():
    block = lambda m, x: m.linear(m.linear(x).exp()).sin()

    def alive_after_forward(trace):
        end = next(i for i, op in enumerate(trace.ops) if op.phase)
        return sum(s.nbytes for s in trace.storages if 0 <= s.born < end and (s.died is None or s.died > end))

    plain, _ = capture(Call(lambda m, x: block(m, m.linear(x)).sum()), torch.rand(64, 8), backward=True)
    saved, _ = capture(
        Call(lambda m, x: checkpoint(block, m, m.linear(x), use_reentrant=False).sum()),
        torch.rand(64, 8),
        backward=True,
    )
    assert alive_after_forward(saved) < alive_after_forward(plain)


def test_kinds_of_a_training_step():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    trace, _ = capture(model, torch.rand(2, 8), backward=True, optimizer=lambda p: torch.optim.Adam(p, foreach=True))
    size: dict[str, int] = {}
    for storage in trace.storages:
        size[storage.kind] = size.get(storage.kind, 0) + storage.nbytes
    parameters = sum(p.nbytes for p in model.parameters())
    assert size["parameter"] == parameters
    assert size["gradient"] == parameters
    assert size["buffer"] == sum(b.nbytes for b in model.buffers())
    assert size["input"] == 64
    assert size["optimiser state"] == 2 * parameters + 4 * len(list(model.parameters()))
    assert size["temporary"] > 0
    assert all(s.died is None for s in trace.storages if s.kind in ("gradient", "optimiser state"))


def test_tensors_of_one_storage_are_one_storage():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            base = torch.rand(4, 8)
            self.register_buffer("low", base[:2])
            self.register_buffer("high", base[2:])

        def forward(self, x):
            return x + self.low + self.high

    for device in ("meta", "cpu"):
        trace, _ = capture(Shared(), torch.rand(2, 8), device=device)
        if device == "meta":
            assert {t.storage for t in trace.tensors} == {trace.tensors[0].storage}
            assert [s.nbytes for s in trace.storages if s.kind == "buffer"] == [128]
    x = torch.rand(4, 8)
    trace, _ = run(lambda m, a, b: a + b, x[:2], x[2:])
    assert [s.nbytes for s in trace.storages if s.kind == "input"] == [128]
    assert trace.ops[0].reads[0] == trace.ops[0].reads[1]


def test_an_output_lives_to_the_end():
    for device in ("meta", "cpu"):
        trace, _ = run(lambda m, x: {"a": x.exp(), "b": (x.sin(), [x.cos()])}, device=device)
        assert [s.died for s in trace.storages if s.born >= 0] == [None] * 3
        assert len(trace.outputs) == 3


def test_what_a_module_takes_and_returns_in_a_nest_dies_as_soon_as_nobody_holds_it():
    class Pair(nn.Module):
        def forward(self, x, y):
            return x + y, None

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = Pair()

        def forward(self, x):
            y = self.pair(x.exp(), x.exp())[0].cos()
            return y.tan().relu()

    trace, _ = capture(Chain(), input_shape=(4,))
    assert names(trace) == ["exp", "exp", "add", "cos", "tan", "relu"]
    assert [s.died for s in trace.storages if s.born >= 0] == [3, 3, 4, 6, 6, None]


def test_the_state_of_an_optimizer_and_gradients_live_to_the_end():
    trace, _ = capture(nn.Linear(4, 4), input_shape=(2, 4), backward=True, optimizer=torch.optim.AdamW)
    last = {"gradient", "optimiser state"}
    found = [s for s in trace.storages if s.kind in last]
    assert {s.kind for s in found} == last
    assert all(s.died is None for s in found)
