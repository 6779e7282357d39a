"""Whatever stops a capture, wherever, and however many run at once, the process is as it was."""

from __future__ import annotations

import gc
import random
import sys
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rasp
from process_state import differences, model_state, process_state
from rasp.capture import capture, clear_memo, propagate, realrun

from .comparing import Call, assert_same, macs, names, run

X = torch.rand(4, 8)
GETITEM, TOLIST, NUMPY = torch.Tensor.__getitem__, torch.Tensor.tolist, torch.Tensor.numpy


class Busy(nn.Module):
    """Some of everything a capture patches, routes or asks."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.lstm = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.LSTM(8, 8)
        self.register_buffer("order", torch.tensor([1, 0]))

    def forward(self, x):
        x = self.norm(self.linear(x))
        x = F.dropout(x, 0.5) + torch.rand_like(x)
        q = x.reshape(1, 1, 4, 8)
        x = F.scaled_dot_product_attention(q, q, q)[0, 0]
        x, _ = self.lstm(x)
        for i in self.order.tolist():
            x = x + i
        return x[:, [0, 1]] * (torch.arange(3).numpy().sum() + self.order.sum().item())


class Stop(Exception):
    pass


def break_at(monkeypatch, place, n, error):
    """Raise at the n-th operator that reaches a dispatch mode."""
    original = place.__torch_dispatch__
    count = 0

    def dispatch(self, func, types, args=(), kwargs=None):
        nonlocal count
        count += 1
        if count == n:
            raise error("stopped here")
        return original(self, func, types, args, kwargs)

    monkeypatch.setattr(place, "__torch_dispatch__", dispatch)
    return lambda: count


OPTIONS = {
    "on shapes": (propagate.Propagation, {"device": "meta"}),
    "on shapes, training": (
        propagate.Propagation,
        {"device": "meta", "mode": "train", "backward": True, "optimizer": torch.optim.AdamW},
    ),
    "on shapes, autocast": (propagate.Propagation, {"device": "meta", "autocast": "bfloat16"}),
    "for real": (realrun.RealRun, {"device": "cpu", "mode": "train"}),
    "for real, training": (
        realrun.RealRun,
        {"device": "cpu", "mode": "train", "backward": True, "optimizer": torch.optim.SGD},
    ),
}


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", OPTIONS)
def test_an_error_at_any_operator_leaves_everything_as_it_was(name, error, monkeypatch):
    place, options = OPTIONS[name]
    model = Busy().train()
    total = break_at(monkeypatch, place, -1, error)
    capture(model, X, **options)
    monkeypatch.undo()
    assert total() > 15
    steps = range(1, total() + 1, 1 if total() < 60 else 7)
    before = model_state(model)
    for n in steps:
        with monkeypatch.context() as patch:
            break_at(patch, place, n, error)
            with pytest.raises((rasp.RaspError, error)) as caught:
                capture(model, X, **options)
            assert error is Stop or caught.type is error
        assert differences(before, model_state(model)) == [], n
        assert torch.Tensor.__getitem__ is GETITEM
        assert torch.Tensor.tolist is TOLIST
        assert torch.Tensor.numpy is NUMPY
    assert_working_attention()


def assert_working_attention():
    q = torch.rand(1, 2, 3, 4)
    weights = (q @ q.transpose(-1, -2) / 2).softmax(-1)
    assert torch.allclose(F.scaled_dot_product_attention(q, q, q), weights @ q, atol=1e-6)
    assert nn.LSTM(4, 4)(q[0])[0].shape == (2, 3, 4)


def test_an_error_while_the_stand_ins_are_built(monkeypatch):
    class Refusing(nn.Module):
        @property
        def hidden(self):
            raise Stop

        def __setattr__(self, name, value):
            if getattr(self, "closed", False):
                raise Stop
            super().__setattr__(name, value)

        def forward(self, x):
            return x + 1

    model = nn.Sequential(Refusing(), nn.Linear(8, 8))
    object.__setattr__(model[0], "closed", True)
    before = model_state(model)
    capture(model, X)
    assert differences(before, model_state(model)) == []


def test_a_method_of_tensors_that_others_replaced_stays_replaced(monkeypatch):
    mine = lambda self: "mine"
    monkeypatch.setattr(torch.Tensor, "tolist", mine, raising=False)
    capture(Busy(), X)
    assert torch.Tensor.tolist is mine


def test_garbage_collection_is_as_it_was():
    gc.disable()
    try:
        capture(Busy(), X)
        assert not gc.isenabled()
    finally:
        gc.enable()
    capture(Busy(), X)
    assert gc.isenabled()


def unsettled(m, x):
    torch.manual_seed(5)
    random.seed(5)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("cpu")
    torch.use_deterministic_algorithms(True)
    torch.set_grad_enabled(True)
    torch.rand(3)
    torch.backends.mha.set_fastpath_enabled(True)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(5)
    return m.linear(x)


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_settings_a_forward_changes_are_put_back(device):
    model = Call(unsettled)
    before = model_state(model)
    state = process_state()
    capture(model, X, device=device)
    assert process_state() == state
    assert differences(before, model_state(model)) == []


def test_random_numbers_go_on_as_without_the_capture():
    torch.manual_seed(0)
    expected = torch.rand(4)
    torch.manual_seed(0)
    capture(Busy(), X, mode="train")
    capture(Busy(), X, mode="train", device="cpu")
    torch.manual_seed(0)
    capture(nn.Dropout(0.5), X, mode="train", device="cpu")
    assert torch.equal(torch.rand(4), expected)


# -- where a capture runs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_default_dtype_of_double(device):
    torch.set_default_dtype(torch.float64)
    try:
        trace, _ = run(lambda m, x: m.linear(x) * torch.rand(8) + 0.5, torch.rand(2, 8), device=device)
        shapes, _ = run(lambda m, x: m.linear(x), input_shape=None, device=device)
    finally:
        torch.set_default_dtype(torch.float32)
    for traced in (trace, shapes):
        assert {t.spec.dtype for t in traced.tensors} == {"float64"}
        assert traced.outputs[0].dtype == "float64"


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_model_and_inputs_made_in_inference_mode(device):
    with torch.inference_mode():
        model, x = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True)), torch.rand(4, 8)
    for options in ({}, {"mode": "train"}, {"backward": True})[: 3 if device == "meta" else 2]:
        before = {name: t.clone() for name, t in model.state_dict().items()}
        trace, how = capture(model, x, device=device, **options)
        assert how["capture_mode"] == ("meta" if device == "meta" else "real")
        assert macs(trace, 0) == {"0": 256}
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, before[name])


def test_a_capture_under_another_mode_is_not_seen_by_it():
    from torch.utils.flop_counter import FlopCounterMode

    model = nn.Linear(8, 8)
    with FlopCounterMode(display=False) as counter:
        clear_memo()
        trace, _ = capture(model, X)
        capture(model, X, device="cpu")
        model(X)
    assert macs(trace) == {"": 256}
    assert counter.get_total_flops() == 512


def test_a_capture_from_another_thread():
    expected, _ = capture(Busy(), X)
    found = []
    thread = threading.Thread(target=lambda: found.append(capture(Busy(), X)[0]))
    thread.start()
    thread.join(60)
    assert_same(found[0], expected)


def test_captures_of_several_threads_at_once():
    models = {
        "busy": Busy(),
        "call": Call(lambda m, x: m.linear(x)[[0, 1]].exp()),
        "conv": nn.Sequential(nn.Linear(8, 8), nn.GELU()),
    }
    expected = {
        (name, cast): capture(m, X, autocast=cast)[0] for name, m in models.items() for cast in (None, "bfloat16")
    }
    before = process_state()
    clear_memo()
    wrong, interval = [], sys.getswitchinterval()

    def repeat(name, cast):
        for _ in range(6):
            try:
                assert_same(capture(models[name], X, autocast=cast)[0], expected[name, cast])
            except BaseException as error:
                wrong.append(repr(error)[:300])

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=repeat, args=key) for key in expected]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []
    assert process_state() == before


def test_other_threads_compute_while_a_capture_runs():
    started, done, results = threading.Event(), threading.Event(), []

    def forward(m, x):
        started.set()
        assert done.wait(30)
        return m.linear(x)

    def work():
        started.wait(30)
        x = torch.arange(6.0).view(2, 3)
        q = torch.rand(1, 2, 3, 4)
        results.append(
            (
                x[:, [0, 2]].tolist(),
                x.numpy().sum(),
                F.scaled_dot_product_attention(q, q, q).shape,
                nn.LSTM(4, 4)(q[0])[0].shape,
            )
        )
        with torch.inference_mode():
            results.append((x + 1).is_inference())
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    trace, _ = run(forward)
    thread.join(30)
    assert results == [([[0.0, 2.0], [3.0, 5.0]], 15.0, (1, 2, 3, 4), (2, 3, 4)), True]
    assert names(trace) == ["addmm"]
