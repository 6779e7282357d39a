"""Modules however they are held, called and decorated: the work is theirs, and the user's objects are not touched."""

from __future__ import annotations

import copy
import functools
import gc
import warnings
from collections import defaultdict, deque

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from process_state import differences, model_state
from rasp.capture import capture

from .comparing import Call, assert_sound, macs, names

X = torch.rand(2, 8)


def paths(trace):
    return [trace.modules[call.module].path for call in trace.calls]


def linear():
    return nn.Linear(8, 8)


# -- held somewhere else than in _modules -----------------------------------------------------------------------------


class Holder(nn.Module):
    """Two linear layers that parameters() knows, and one attribute that says how they are reached."""

    def __init__(self, hold, call):
        super().__init__()
        self.a, self.b = linear(), linear()
        self.held, self.call = hold(self), call

    def forward(self, x):
        return self.call(self.held, x)


HELD = {
    "a list": (lambda m: [m.a, m.b], lambda h, x: h[1](h[0](x))),
    "a tuple": (lambda m: (m.a, m.b), lambda h, x: h[1](h[0](x))),
    "a dict": (lambda m: {"one": m.a, 2: m.b}, lambda h, x: h[2](h["one"](x))),
    "a deque": (lambda m: deque([m.a, m.b]), lambda h, x: h[1](h[0](x))),
    "lists in dicts in tuples": (lambda m: ({"x": [m.a, (m.b,)]},), lambda h, x: h[0]["x"][1][0](h[0]["x"][0](x))),
    "a partial": (lambda m: functools.partial(m.a), lambda h, x: h(x)),
    "a partial of a function": (lambda m: functools.partial(lambda layer, x: layer(x), m.a), lambda h, x: h(x)),
    "a partial's keyword": (lambda m: functools.partial(lambda x, layer: layer(x), layer=m.a), lambda h, x: h(x)),
    "a bound method": (lambda m: m.a.__call__, lambda h, x: h(x)),
    "bound methods in a list": (lambda m: [m.a.__call__, m.b.__call__], lambda h, x: h[1](h[0](x))),
}


@pytest.mark.parametrize("name", HELD)
def test_a_module_held_elsewhere_owns_its_work(name):
    model = Holder(*HELD[name])
    trace, how = capture(model, X)
    assert how["capture_mode"] == "meta"
    assert trace.notes == []
    owners = set(macs(trace))
    assert owners <= {"a", "b"}
    assert owners
    assert {m.path for m in trace.modules} == {"", "a", "b"}


def hold_closure(m):
    layer = m.a
    return lambda x: layer(x)


class Box:
    def __init__(self, layer):
        self.layer = layer


OUT_OF_REACH = {
    "a closure": (hold_closure, lambda h, x: h(x)),
    "a plain object": (lambda m: Box(m.a), lambda h, x: h.layer(x)),
    "a default dict": (lambda m: defaultdict(list, {1: m.a}), lambda h, x: h[1](x)),
}


@pytest.mark.parametrize("name", OUT_OF_REACH)
def test_a_module_out_of_reach_is_counted_all_the_same(name):
    """Its work may go to the caller; none is lost and the layer is left alone."""
    model = Holder(*OUT_OF_REACH[name])
    before = model_state(model)
    trace, how = capture(model, X)
    assert how["capture_mode"] == "meta"
    assert sum(macs(trace).values()) == 2 * 8 * 8
    assert differences(before, model_state(model)) == []


def test_modules_never_registered_are_found():
    class Secret(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [linear(), linear()]

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    trace, _ = capture(Secret(), X)
    assert macs(trace) == {"layers.0": 128, "layers.1": 128}
    assert sum(t.spec.numel for t in trace.tensors) == 2 * 72


def test_a_reference_to_the_parent():
    class Child(nn.Module):
        def __init__(self, parent):
            super().__init__()
            self.parent = [parent]

        def forward(self, x):
            return self.parent[0].shared(x)

    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.shared = linear()
            self.child = Child(self)

        def forward(self, x):
            return self.child(x)

    trace, _ = capture(Parent(), X)
    assert paths(trace) == ["", "child", "shared"]
    assert trace.calls[2].parent == 1


# -- shared and tied ------------------------------------------------------------------------------------------------


def test_a_shared_module_is_one_module_called_twice():
    layer = linear()
    trace, _ = capture(nn.Sequential(layer, nn.ReLU(), layer), X)
    assert_sound(trace)
    assert [(c.module, c.number) for c in trace.calls] == [(0, 0), (1, 0), (2, 0), (1, 1)]
    assert trace.modules[1].names == ["0", "2"]
    assert len(trace.tensors) == 2


def test_tied_parameters_are_one_tensor_of_one_storage():
    model = nn.Sequential(nn.Embedding(8, 8), linear())
    model[1].weight = model[0].weight
    trace, _ = capture(model, torch.zeros(2, dtype=torch.long), backward=True)
    (tied,) = [t for t in trace.tensors if len(t.names) > 1]
    assert tied.names == ["0.weight", "1.weight"]
    reads = [op for op in trace.ops if tied.storage in op.reads and op.phase == 0]
    assert [trace.specs[op.spec].name for op in reads] == ["aten::embedding", "aten::addmm"]


def test_a_parameter_that_is_a_view_of_another():
    model = nn.Module()
    base = torch.rand(16, 8)
    model.a, model.b = nn.Parameter(base[:8]), nn.Parameter(base[8:])
    model.forward = lambda x: x @ model.a + x @ model.b
    trace, _ = capture(model, X)
    assert {t.storage for t in trace.tensors} == {trace.tensors[0].storage}


# -- hooks ----------------------------------------------------------------------------------------------------------


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = linear()
        self.seen, self.count = [], 0
        self.layer.register_forward_hook(self.after)
        self.layer.register_forward_pre_hook(self.before, with_kwargs=True)
        self.layer.register_forward_hook(self.always, always_call=True)
        self.layer.register_full_backward_hook(self.back)

    def after(self, module, args, out):
        self.count += 1
        self.seen.append(out.shape)
        return out * 2

    def before(self, module, args, kwargs):
        self.count += 1
        return (args[0] + 1,), kwargs

    def always(self, module, args, out):
        self.count += 1

    def back(self, module, grad_in, grad_out):
        self.count += 1

    def forward(self, x):
        out = self.layer(x)
        assert self.count == 3, "hooks must see the stand-in"
        return out


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("backward", [False, True])
def test_hooks_run_and_write_to_the_stand_in(device, backward):
    model = Hooked()
    trace, _ = capture(model, X, device=device, backward=backward)
    assert (model.count, model.seen) == (0, [])
    ops = [n for n, op in zip(names(trace), trace.ops) if op.phase == 0]
    assert ops[:2] == ["add", "addmm"]
    assert "mul" in ops
    owners = {n: trace.modules[trace.calls[op.owner].module].path for n, op in zip(ops, trace.ops)}
    assert owners["add"] == owners["mul"] == "layer"
    assert len(model.layer._forward_hooks) == 2


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_hook_registered_by_the_forward_goes_with_the_stand_in(device):
    def forward(m, x):
        seen = []
        m.linear.register_forward_hook(lambda module, args, out: seen.append(out))
        m.linear.register_forward_pre_hook(lambda module, args: seen.append(args), with_kwargs=False)
        m.register_full_backward_hook(lambda *_: None)
        m.linear(x)
        return seen[1] + 1

    model = Call(forward)
    for _ in range(2):
        trace, _ = capture(model, X, device=device)
        assert names(trace) == ["addmm", "add"]
    assert not model.linear._forward_hooks
    assert not model.linear._forward_pre_hooks
    assert not model._backward_hooks


# -- forwards that change their module ---------------------------------------------------------------------------------


class Restless(nn.Module):
    """Does to itself whatever a forward can do."""

    def __init__(self):
        super().__init__()
        self.layer = linear()
        self.calls, self.log, self.table, self.last, self.seen = 0, [], {}, None, set()
        self.stack = deque(maxlen=3)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.nested = {"log": [], "deep": {"log": []}}

    def forward(self, x):
        self.calls += 1
        self.log.append(x)
        self.table["x"] = x
        self.seen.add(self.calls)
        self.stack.append(x)
        self.nested["log"].append(1)
        self.nested["deep"]["log"].append(1)
        self.steps += 1
        self.last = self.layer(x)
        self.register_buffer("cache", x, persistent=False)
        self.extra = nn.ReLU()
        self.layer.bias.data.clamp_(0, 1)
        self.layer.weight.data.mul_(2)
        if self.calls > 1:
            self.layer.bias = None
        self.train(not self.training)
        return self.extra(self.last)


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("mode", ["eval", "train", "as-is"])
def test_a_forward_that_changes_its_module_changes_a_stand_in(device, mode):
    model = Restless()
    before = model_state(model)
    values = {name: t.clone() for name, t in model.state_dict().items()}
    for _ in range(3):
        capture(model, X, device=device, mode=mode)
    versions = [line for line in differences(before, model_state(model)) if "/tensors/" not in line]
    assert versions == []
    assert all(torch.equal(t, values[name]) for name, t in model.state_dict().items())
    assert (model.calls, model.log, model.table, model.last, model.seen) == (0, [], {}, None, set())
    assert not model.stack
    assert model.nested == {"log": [], "deep": {"log": []}}
    assert model._non_persistent_buffers_set == set()
    assert "extra" not in model._modules


def test_a_copy_made_in_the_forward_works():
    trace, how = capture(Call(lambda m, x: copy.deepcopy(m.linear)(x)), X)
    assert how["capture_mode"] == "meta"
    assert sum(macs(trace).values()) == 128


# -- kinds of modules -----------------------------------------------------------------------------------------------


def old_weight_norm(layer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(layer)


NORMS = {
    "weight_norm": nn.utils.parametrizations.weight_norm,
    "spectral_norm": nn.utils.parametrizations.spectral_norm,
    "orthogonal": nn.utils.parametrizations.orthogonal,
    "old weight_norm": old_weight_norm,
    "old spectral_norm": nn.utils.spectral_norm,
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_reparametrised_layers(name, mode, device):
    model = nn.Sequential(NORMS[name](linear()), nn.ReLU())
    before = model_state(model)
    trace, how = capture(model, X, mode=mode, device=device)
    assert how["capture_mode"] == ("meta" if device == "meta" else "real")
    assert_sound(trace)
    assert differences(before, model_state(model)) == []


def test_pruned_layers():
    from torch.nn.utils import prune

    model = nn.Sequential(prune.l1_unstructured(linear(), "weight", 0.5))
    before = model_state(model)
    trace, how = capture(model, X)
    assert how["capture_mode"] == "meta"
    assert macs(trace) == {"0": 128}
    assert differences(before, model_state(model)) == []


def plain():
    return nn.Sequential(linear(), nn.BatchNorm1d(8), nn.ReLU(), linear())


def wrapped(kind):
    model = plain()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "scripted": lambda: torch.jit.script(model),
            "traced": lambda: torch.jit.trace(model.eval(), X),
            "a scripted child": lambda: nn.Sequential(model[0], torch.jit.script(model[1:])),
            "a traced child": lambda: nn.Sequential(model[0], torch.jit.trace(model[1:].eval(), X)),
            "compiled": lambda: torch.compile(model),
            "compiled in place": lambda: [model.compile(), model][1],
            "a compiled child": lambda: nn.Sequential(model[0], torch.compile(model[1:])),
            "data parallel": lambda: nn.DataParallel(model),
            "data parallel of compiled": lambda: nn.DataParallel(torch.compile(model)),
        }[kind]()


WRAPPED = [
    "scripted", "traced", "a scripted child", "a traced child", "compiled", "compiled in place", "a compiled child",
    "data parallel", "data parallel of compiled",
]  # fmt: skip


@pytest.mark.parametrize("kind", WRAPPED)
def test_wrapped_models_count_what_the_plain_one_counts(kind):
    model = wrapped(kind)
    homes = {p.device for p in model.parameters()}  # where there is a GPU, DataParallel moves the model there
    trace, _ = capture(model, X)
    assert_sound(trace)
    assert sum(macs(trace).values()) == 256
    assert sum(t.spec.numel for t in trace.tensors if t.kind == "parameter") == 72 + 16 + 72
    assert {p.device for p in model.parameters()} == homes
    assert all(p.grad is None for p in model.parameters())


@torch.compile
def doubled(x):
    return x.relu() * 2


class CompiledForward(nn.Linear):
    @torch.compile
    def forward(self, x):
        return super().forward(x).relu()


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("model", [Call(lambda m, x: doubled(m.linear(x))), CompiledForward(8, 8)])
def test_compiled_functions_run_as_they_are_written(model, device):
    trace, _ = capture(model, X, device=device)
    assert sum(macs(trace).values()) == 128
    assert "relu" in names(trace)


@pytest.mark.parametrize("kind", ["scripted", "a scripted child"])
def test_a_scripted_model_keeps_its_flags_and_statistics(kind):
    model = wrapped(kind).train()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    for device in ("meta", "cpu", None):
        for mode in ("eval", "train"):
            capture(model, X, mode=mode, device=device)
    assert all(m.training for m in model.modules())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize("backward", [False, True])
def test_a_model_prepared_for_quantisation_aware_training(backward):
    """Its fused observers write scale and range, and return fresh tensors."""
    quantisation = pytest.importorskip("torch.ao.quantization")
    model = plain().train()
    model.qconfig = quantisation.get_default_qat_qconfig("fbgemm")
    model = quantisation.prepare_qat(model)
    before = model_state(model)
    trace, how = capture(model, X, backward=backward)
    assert how["capture_mode"] == "meta"
    assert sum(macs(trace, 0).values()) == 256
    assert "_fused_moving_avg_obs_fq_helper" in names(trace)
    assert differences(before, model_state(model)) == []


def test_what_a_generator_gives_is_counted():
    def halves(m, x):
        for half in x.split(1):
            yield m.linear(half)

    for device in ("meta", "cpu"):
        trace, _ = capture(Call(halves), X, device=device)
        assert macs(trace) == {"linear": 128}
        assert [spec.shape for spec in trace.outputs] == [(1, 8), (1, 8)]


def test_a_call_of_its_own():
    class Eager(nn.Linear):
        def __call__(self, x):
            return super().__call__(x) * 2

    trace, _ = capture(nn.Sequential(Eager(8, 8)), X)
    assert paths(trace) == ["", "0"]
    assert macs(trace) == {"0": 128}


def test_a_forward_called_directly_belongs_to_the_caller():
    trace, _ = capture(Call(lambda m, x: m.linear.forward(x)), X)
    assert macs(trace) == {"": 128}


def test_modules_with_getattr_setattr_and_slots_of_their_own():
    class Proxy(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        def __setattr__(self, name, value):
            super().__setattr__(name, value)

        def forward(self, x):
            return F.linear(x, self.weight, self.bias)

    trace, _ = capture(Proxy(linear()), X)
    assert sum(macs(trace).values()) == 128


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_what_a_module_keeps_in_slots_is_there(device):
    class Slotted(nn.Module):
        __slots__ = ("__hidden", "layer", "never", "scale")

        def __init__(self):
            super().__init__()
            self.inner = linear()
            for name, value in (("scale", torch.ones(8)), ("layer", self.inner), ("_Slotted__hidden", 3.0)):
                object.__setattr__(self, name, value)

        def forward(self, x):
            return self.layer(x) * self.scale * self.__hidden

    model = Slotted()
    for _ in range(2):
        trace, _ = capture(model, X, device=device)
        assert macs(trace) == {"inner": 128}
        assert names(trace) == ["addmm", "mul", "mul"]
    object.__setattr__(model, "scale", torch.ones(2, 1))
    trace, _ = capture(model, X, device=device)
    assert trace.specs[1].args[1].shape == (2, 1)


def test_a_train_method_that_freezes():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(8)

        def train(self, mode=True):
            super().train(mode)
            self.norm.eval()
            return self

        def forward(self, x):
            return self.norm(x)

    model = Frozen().train()
    trace, _ = capture(model, X, mode="train")
    (op,) = [trace.specs[o.spec] for o in trace.ops if "batch_norm" in trace.specs[o.spec].name]
    assert op.args[5] is False
    assert model.training
    assert not model.norm.training


def test_as_is_keeps_the_flag_of_every_module():
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(8))
    model[0].train()
    model[1].eval()
    model.training = True
    trace, _ = capture(model, X, mode="as-is")
    assert [m.training for m in trace.modules] == [True, True, False]
    assert len(names(trace)) > 2


def test_a_model_with_locks_generators_and_modules_as_attributes():
    import threading

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.lock, self.numbers = threading.Lock(), (i for i in range(3))
            self.generator = torch.Generator().manual_seed(3)
            self.function, self.library, self.kind = F.relu, torch, nn.ReLU
            self.layer = linear()

        def forward(self, x):
            with self.lock:
                return self.function(self.layer(x)) + torch.rand(8, generator=self.generator)

    model = Odd()
    for _ in range(2):
        _, how = capture(model, X)
        assert how["capture_mode"] == "meta"
    assert not model.lock.locked()
    assert torch.equal(
        torch.rand(2, generator=model.generator), torch.rand(2, generator=torch.Generator().manual_seed(3))
    )


def test_nothing_of_a_capture_stays_alive():
    model = plain()
    capture(model, X)
    gc.collect()

    def metas():
        return sum(isinstance(o, torch.Tensor) and o.is_meta for o in gc.get_objects())

    held = metas()
    for _ in range(3):
        capture(model, X, backward=True)
        capture(model, X)
    gc.collect()
    assert metas() <= held + 8


def test_what_the_program_froze_stays_frozen():
    gc.collect()
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        capture(plain(), X)
        assert gc.get_freeze_count() >= frozen - 100  # some of it may have been freed since
    finally:
        gc.unfreeze()
    capture(plain(), X)
    assert gc.get_freeze_count() == 0


def test_a_profile_inside_a_forward():
    inner = nn.Linear(8, 4)

    def forward(m, x):
        trace, _ = capture(inner, input_shape=(3, 8))
        assert sum(macs(trace).values()) == 96
        trace, _ = capture(inner, input_shape=(3, 8), device="cpu")
        assert sum(macs(trace).values()) == 96
        return m.linear(x)[:, [0, 1]]

    for device in ("meta", "cpu"):
        trace, _ = capture(Call(forward), X, device=device)
        assert macs(trace) == {"linear": 128}
        assert_sound(trace)
