"""The backward and the optimiser step: who owns which work, what is computed again, what is kept."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import rasp
from rasp.capture import capture
from rasp.errors import InputError

from .comparing import Call, assert_same, assert_sound, macs, names

FORWARD, BACKWARD, RECOMPUTE, OPTIMISER = range(4)
X = torch.rand(2, 8)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


def blocks(n=3):
    return nn.Sequential(*[Block() for _ in range(n)])


def assert_twice(trace, *, once=(), none=()):
    """Every module's backward is twice its forward; once where its input or its weight needs no gradient."""
    forward, backward = macs(trace, FORWARD), macs(trace, BACKWARD)
    for path, work in forward.items():
        times = 0 if path in none else 1 if path in once else 2
        assert backward.get(path, 0) == times * work, path
    assert set(backward) <= set(forward)


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_each_module_owns_twice_its_forward(device):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), blocks(2))
    trace, _ = capture(model, torch.rand(2, 3, 6, 6), backward=True, device=device)
    assert_sound(trace)
    assert_twice(trace, once={"0"})


def test_an_input_that_wants_a_gradient_costs_its_product():
    trace, _ = capture(blocks(1), X.clone().requires_grad_(), backward=True)
    assert_twice(trace)


def test_frozen_parts():
    model = blocks(3)
    model[0].requires_grad_(False)
    trace, _ = capture(model, X, backward=True)
    assert_twice(trace, once={"1.up"}, none={"0.up", "0.down"})
    model.requires_grad_(True)
    model[1].requires_grad_(False)
    trace, _ = capture(model, X, backward=True)
    assert_twice(trace, once={"0.up", "1.up", "1.down"})


def test_a_shared_module_owns_both_its_backwards():
    layer = nn.Linear(8, 8)
    trace, _ = capture(nn.Sequential(layer, nn.Tanh(), layer), X, backward=True)
    calls = [op.owner for op in trace.ops if op.phase == BACKWARD and trace.specs[op.spec].name == "aten::mm"]
    assert [calls.count(i) for i, c in enumerate(trace.calls) if c.module == 1] == [1, 2]


def test_attention_and_recurrent_layers_own_their_backward():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            x = self.first(x)
            return self.attention(x, x, x, need_weights=False)[0]

    trace, how = capture(Net(), torch.rand(2, 5, 8), backward=True)
    assert how["capture_mode"] == "meta"
    assert_twice(trace, once={"first"})


# -- checkpointing --------------------------------------------------------------------------------------------------


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.first, self.blocks, self.reentrant = nn.Linear(8, 8), blocks(2), reentrant

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_checkpointed_blocks_run_again_and_are_called_once(reentrant, device):
    trace, how = capture(Checkpointed(reentrant), X, backward=True, device=device)
    assert how["capture_mode"] == ("meta" if device == "meta" else "real")
    assert_sound(trace)
    assert_twice(trace, once={"first"})
    again, forward = macs(trace, RECOMPUTE), macs(trace, FORWARD)
    assert "first" not in again
    for i in (0, 1):
        assert again[f"blocks.{i}.up"] == forward[f"blocks.{i}.up"]
        # without re-entry the recomputation stops once all that is needed is there: before the last product
        assert again.get(f"blocks.{i}.down", 0) == (forward[f"blocks.{i}.down"] if reentrant else 0)
    assert len(trace.calls) == 1 + 1 + 2 * 3


def test_checkpointing_does_not_change_the_forward():
    model = Checkpointed(False)
    plain, _ = capture(model, X)
    trained, _ = capture(model, X, backward=True)
    forward = [n for n, op in zip(names(trained), trained.ops) if op.phase == FORWARD]
    assert forward == names(plain)


# -- losses and outputs ---------------------------------------------------------------------------------------------


def test_every_floating_output_is_trained():
    model = Call(lambda m, x: {"a": m.linear(x), "b": (x @ m.weight, x.argmax(-1), None)})
    trace, _ = capture(model, X, backward=True)
    assert_twice(trace, once={"", "linear"})


def test_a_loss_of_ones_own():
    model = Call(lambda m, x: (m.linear(x), x @ m.weight))
    trace, _ = capture(model, X, backward=True, loss=lambda out: out[0].square().sum())
    assert_twice(trace, once={"linear"}, none={""})
    trace, _ = capture(model, X, backward=True, loss=lambda out: out[1])
    assert_twice(trace, once={""}, none={"linear"})


def test_a_loss_of_labels_known_outside():
    labels = torch.tensor([1, 0])
    trace, how = capture(nn.Linear(8, 4), X, backward=True, loss=lambda out: nn.functional.cross_entropy(out, labels))
    assert how["capture_mode"] == "meta"
    assert_twice(trace, once={""})


def test_a_loss_computed_by_the_model():
    def forward(m, x, labels=None):
        out = m.linear(x)
        return {"loss": nn.functional.cross_entropy(out, labels), "logits": out.detach()}

    trace, _ = capture(Call(forward), X, kwargs={"labels": torch.tensor([1, 0])}, backward=True)
    assert_twice(trace, once={"linear"})


def test_complex_parameters_have_a_backward():
    model = Call(lambda m, x: (x.to(torch.complex64) @ m.matrix).abs())
    model.matrix = nn.Parameter(torch.rand(8, 8, dtype=torch.complex64))
    trace, how = capture(model, X, backward=True)
    assert how["capture_mode"] == "meta"
    assert any(op.phase == BACKWARD for op in trace.ops)


def test_a_custom_function_has_its_own_backward():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return grad @ weight.T, x.T @ grad

    trace, how = capture(Call(lambda m, x: Double.apply(m.linear(x), m.weight)), X, backward=True)
    assert how["capture_mode"] == "meta"
    assert_twice(trace, once={"linear"})


def test_a_gradient_taken_inside_the_forward():
    def forward(m, x):
        with torch.enable_grad():
            inner = m.linear(x.detach().requires_grad_()).sum()
            (grad,) = torch.autograd.grad(inner, [m.linear.weight])
        return m.linear(x) + grad.sum()

    for backward in (False, True):
        trace, how = capture(Call(forward), X, backward=backward)
        assert how["capture_mode"] == "meta"
        assert_sound(trace)


# -- the optimiser step ---------------------------------------------------------------------------------------------

OPTIMISERS = {
    "a class": (torch.optim.SGD, 0),
    "a factory": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 1),
    "AdamW": (lambda p: torch.optim.AdamW(p), 2),
    "Adagrad": (lambda p: torch.optim.Adagrad(p), 1),
    "RMSprop": (lambda p: torch.optim.RMSprop(p, momentum=0.9), 2),
    "Adam foreach": (lambda p: torch.optim.Adam(p, foreach=True), 2),
    "Adam one by one": (lambda p: torch.optim.Adam(p, foreach=False), 2),
    "NAdam": (lambda p: torch.optim.NAdam(p, foreach=True), 2),
}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_an_optimiser_keeps_its_state(name, device):
    make, copies = OPTIMISERS[name]
    model = blocks(1)
    trace, how = capture(model, X, backward=True, optimizer=make, device=device)
    assert how["capture_mode"] == ("meta" if device == "meta" else "real")
    assert_sound(trace)
    parameters = sum(p.nbytes for p in model.parameters())
    state = sum(s.nbytes for s in trace.storages if s.kind == "optimiser state" and s.nbytes > 8)
    assert state == copies * parameters
    assert sum(s.nbytes for s in trace.storages if s.kind == "gradient") == parameters
    written = {i for op in trace.ops if op.phase == OPTIMISER for i in op.writes}
    assert {t.storage for t in trace.tensors} <= written


def test_an_optimiser_object_is_made_again_with_its_groups_and_options():
    model = blocks(1)
    optimizer = torch.optim.SGD(
        [{"params": model[0].up.parameters(), "momentum": 0.9}, {"params": model[0].down.parameters(), "lr": 0.5}],
        lr=0.1,
    )
    trace, _ = capture(model, X, backward=True, optimizer=optimizer)
    state = sum(s.nbytes for s in trace.storages if s.kind == "optimiser state")
    assert state == sum(p.nbytes for p in model[0].up.parameters())
    assert len(optimizer.state) == 0
    assert optimizer.param_groups[0]["params"][0] is model[0].up.weight
    assert_same(trace, capture(model, X, backward=True, optimizer=optimizer)[0])


def test_an_optimiser_steps_only_what_has_a_gradient():
    model = blocks(2)
    model[0].requires_grad_(False)
    trace, _ = capture(model, X, backward=True, optimizer=torch.optim.AdamW)
    state = sum(s.nbytes for s in trace.storages if s.kind == "optimiser state" and s.nbytes > 8)
    assert state == 2 * sum(p.nbytes for p in model[1].parameters())


@pytest.mark.parametrize("how", ["by a closure", "by TorchScript"])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_gradients_of_layers_out_of_reach_are_given_back(how, device):
    layer = nn.Linear(8, 8)
    gradient = layer.weight.grad = torch.ones(8, 8)
    if how == "by a closure":
        model = Call(lambda m, x: layer(m.linear(x)))
    else:
        model = nn.Sequential(nn.Linear(8, 8), torch.jit.script(layer))
    trace, _ = capture(model, X, backward=True, device=device)
    assert layer.weight.grad is gradient
    assert torch.equal(gradient, torch.ones(8, 8))
    assert layer.bias.grad is None
    assert sum(macs(trace, BACKWARD).values()) == 3 * 2 * 8 * 8
    assert "add_" not in names(trace)  # nothing is added to a gradient that was there


FUSED = {
    "AdamW": lambda p, **how: torch.optim.AdamW(p, **how),
    "Adam with amsgrad": lambda p, **how: torch.optim.Adam(p, amsgrad=True, **how),
    "SGD with momentum": lambda p, **how: torch.optim.SGD(p, lr=0.1, momentum=0.9, **how),
    "Adagrad": lambda p, **how: torch.optim.Adagrad(p, **how),
}


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_step_is_counted_on_shapes_and_does_the_same_work(name):
    """Fused or not, the arithmetic is the same; fused, every state is read and written once."""
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
    how = {"input_shape": (4, 8), "backward": True}
    fused = rasp.profile(model, optimizer=lambda p: FUSED[name](p, fused=True), **how)
    several = rasp.profile(model, optimizer=lambda p: FUSED[name](p, foreach=True), **how)
    assert (fused.capture_mode, fused.uncounted) == ("meta", [])
    assert fused.total("flops_opt") == several.total("flops_opt") > 0
    assert fused.total("read_opt") <= several.total("read_opt")
    real = rasp.profile(model, device="cpu", optimizer=lambda p: FUSED[name](p, fused=True), **how)
    assert fused.total("flops_opt") == real.total("flops_opt")
    users = FUSED[name](model.parameters(), fused=True)
    assert rasp.profile(model, optimizer=users, **how).total("flops_opt") == fused.total("flops_opt")


def test_an_optimizer_that_needs_a_closure_is_told():
    with pytest.raises(InputError, match="needs closure"):
        rasp.profile(nn.Linear(2, 2), input_shape=(1, 2), backward=True, optimizer=torch.optim.LBFGS)
