"""Profiling leaves no trace in the model, the random states or the process, also when it fails."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import rasp
from equality_cases import MODELS
from process_state import differences, model_state


class Broken(Exception):
    """Raised by a layer in the middle of a forward."""


def lived_in(model: nn.Module) -> nn.Module:
    """A model as people hold it: training, one child in eval, a frozen parameter, a gradient, a hook."""
    model.train()
    children = list(model.children())
    if children:
        children[0].eval()
    parameters = list(model.parameters())
    if len(parameters) > 1:
        parameters[0].requires_grad_(False)
    if parameters and parameters[-1].requires_grad:
        parameters[-1].grad = torch.ones_like(parameters[-1])
    model.register_forward_hook(lambda *_: None)
    model.note = {"kept": [1, 2, 3]}
    return model


def called_leaves(case, model: nn.Module) -> list[nn.Module]:
    """Leaf modules in the order of their calls."""
    order: list[nn.Module] = []
    leaves = [module for module in model.modules() if not list(module.children())]
    handles = [leaf.register_forward_pre_hook(lambda module, _: order.append(module)) for leaf in leaves]
    args, kwargs = case.inputs(batch=2)
    with torch.no_grad():
        model.eval()(*args, **kwargs)
    for handle in handles:
        handle.remove()
    return order


def break_in_the_middle(case, model: nn.Module, error: type[BaseException]) -> nn.Module:
    """Make the layer in the middle of the forward raise."""
    order = called_leaves(case, model)
    if not order or order[len(order) // 2] is model:
        pytest.skip("no module inside this one is called")
    leaf = order[len(order) // 2]

    def forward(self, *args, **kwargs):
        raise error("in the middle")

    leaf.__class__ = type(leaf.__class__.__name__, (leaf.__class__,), {"forward": forward})
    return model


def assert_untouched(model: nn.Module, before: dict) -> None:
    changed = differences(before, model_state(model))
    assert changed == [], "\n".join(changed[:20])


@pytest.fixture(params=MODELS, ids=str)
def case(request):
    return request.param


RUNS = {
    "on shapes": {},
    "on shapes, training": {"mode": "train"},
    "as it is": {"mode": "as-is"},
    "on shapes, backward": {"backward": True},
    "for real": {"device": "cpu"},
    "for real, training": {"device": "cpu", "mode": "train"},
    "for real, backward": {"device": "cpu", "backward": True},
}


@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
def test_a_profile_leaves_the_model_as_it_was(case, options):
    model = lived_in(case.build("cpu"))
    args, kwargs = case.inputs(batch=2)
    before = model_state(model)
    rasp.profile(model, args, kwargs=kwargs, **options)
    assert_untouched(model, before)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_failure_in_the_middle_leaves_the_model_as_it_was(case, device):
    model = lived_in(break_in_the_middle(case, case.build("cpu"), Broken))
    args, kwargs = case.inputs(batch=2)
    before = model_state(model)
    with pytest.raises(rasp.ModelError) as caught:
        rasp.profile(model, args, kwargs=kwargs, device=device, mode="train")
    assert isinstance(caught.value.__cause__, Broken)
    assert_untouched(model, before)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_an_interrupt_leaves_the_model_as_it_was(case, device):
    model = lived_in(break_in_the_middle(case, case.build("cpu"), KeyboardInterrupt))
    args, kwargs = case.inputs(batch=2)
    before = model_state(model)
    with pytest.raises(KeyboardInterrupt):
        rasp.profile(model, args, kwargs=kwargs, device=device)
    assert_untouched(model, before)


def test_inputs_are_left_as_they_were(case):
    args, kwargs = case.inputs(batch=2)
    tensors = [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    before = [(t.clone(), t._version, t.requires_grad) for t in tensors]
    rasp.profile(case.build("cpu"), args, kwargs=kwargs, device="cpu")
    for tensor, (values, version, grad) in zip(tensors, before):
        assert torch.equal(tensor, values)
        assert (tensor._version, tensor.requires_grad) == (version, grad)


def test_an_optimiser_is_not_stepped():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    before = model_state(model)
    rasp.profile(model, input_shape=(3, 4), backward=True, optimizer=optimizer)
    assert optimizer.state == {}
    assert_untouched(model, before)


def test_a_profiled_model_can_be_freed():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LSTM(8, 3))
    parameter = weakref.ref(model[0].weight)
    profile = rasp.profile(model, input_shape=(5, 4), backward=True)
    del model
    gc.collect()
    assert parameter() is None
    assert profile.total("params") == 40 + 4 * 3 * (8 + 3 + 2)
