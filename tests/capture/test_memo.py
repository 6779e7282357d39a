"""The memo of operators changes how long a capture takes, and nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from equality_cases import MODELS
from rasp.capture import capture, clear_memo

from .comparing import Call, assert_same, assert_sound, names, run

BY_NAME = {case.name: case for case in MODELS}
CHOSEN = [
    name
    for name in (
        "own:Looped", "own:Branching", "own:Checkpointed", "own:convolutional", "own:spectral_norm", "own:Transformer",
        "own:LSTM", "own:EmbeddingBag", "torchvision:resnet18", "torchvision:shufflenet_v2_x0_5", "timm:levit_128s",
        "timm:mobilevitv2_050", "transformers:gpt2", "transformers:llama", "transformers:t5", "transformers:mamba",
        "transformers:bert with a mask",
    )
    if name in BY_NAME
]  # fmt: skip


def traced(case, model, **options):
    args, kwargs = case.inputs(batch=2)
    return capture(model, args, kwargs=kwargs, **options)[0]


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.parametrize("options", [{}, {"backward": True}], ids=["forward", "backward"])
def test_with_and_without_the_memo_cold_and_warm_the_trace_is_one(name, options):
    case = BY_NAME[name]
    model = case.build("cpu")
    without = traced(case, model, memo=False, **options)
    assert_sound(without)
    clear_memo()
    cold = traced(case, model, **options)
    warm = traced(case, model, **options)
    assert_same(without, cold)
    assert_same(cold, warm)


def test_captures_of_other_models_between_change_nothing():
    first, second = BY_NAME["own:convolutional"], BY_NAME["own:Looped"]
    model = first.build("cpu")
    clear_memo()
    before = traced(first, model)
    for mode in ("train", "eval"):
        traced(second, second.build("cpu"), mode=mode)
        traced(first, first.build("meta"), mode=mode)
    assert_same(before, traced(first, model))


def test_a_number_and_a_bool_of_equal_value_are_different_arguments():
    def types(value):
        trace, _ = run(lambda model, x: x.long() + value)
        return trace.specs[trace.ops[-1].spec].out.dtype

    assert [types(v) for v in (1, 1.0, True, 1)] == ["int64", "float32", "int64", "int64"]
    assert [types(v) for v in (True, 1.0, 1)] == ["int64", "float32", "int64"]


def test_the_default_dtype_is_part_of_what_is_remembered():
    def dtype():
        trace, _ = run(lambda model, x: x.long() + 1.5)
        return trace.specs[trace.ops[-1].spec].out.dtype

    assert dtype() == "float32"
    torch.set_default_dtype(torch.float64)
    try:
        assert dtype() == "float64"
    finally:
        torch.set_default_dtype(torch.float32)
    assert dtype() == "float32"


def test_layouts_of_one_shape_are_told_apart():
    conv = nn.Conv2d(3, 4, 3)
    x = torch.rand(2, 3, 8, 8)
    strides = [capture(conv, given)[0].outputs[0].stride for given in (x, x.to(memory_format=torch.channels_last), x)]
    assert strides == [(144, 36, 6, 1), (144, 1, 24, 4), (144, 36, 6, 1)]


def test_one_tensor_twice_is_not_two_tensors():
    same, _ = run(lambda model, x: x @ x.T + (x @ x.T) * (x @ x.T).clone())
    x = torch.rand(8, 8)
    squares = [run(lambda model, a, b: (a * a, a * b), x, torch.rand(8, 8))[0] for _ in range(2)]
    for trace in squares:
        first, second = (trace.specs[op.spec] for op in trace.ops)
        assert (first.same, second.same) == ((1,), ())
    assert names(same).count("mm") == 3


UNDECLARED = {
    "reshape that views": (lambda model, x: x.reshape(16), 0),
    "reshape that copies": (lambda model, x: x.t().reshape(16), 64),
    "contiguous that is": (lambda model, x: x.contiguous(), 0),
    "contiguous that copies": (lambda model, x: x.t().contiguous(), 64),
    "to the dtype it has": (lambda model, x: x.to(torch.float32), 0),
    "to another dtype": (lambda model, x: x.to(torch.float64), 128),
    "expand": (lambda model, x: x.expand(100, 2, 8), 0),
    "chunk": (lambda model, x: torch.cat(x.chunk(2, 1)), 64),
    "unsafe_split": (lambda model, x: torch.unsafe_split(x, 4, 1), 0),
    "unsafe_chunk": (lambda model, x: torch.unsafe_chunk(x, 2, 1), 0),
    "matmul of a batch": (lambda model, x: torch.matmul(x.reshape(1, 2, 8), model.weight), 64),
    "dropout that does nothing": (lambda model, x: F.dropout(x, 0.5, False), 0),
    "squeeze_": (lambda model, x: x.clone().unsqueeze_(0).squeeze_(0).t_(), 64),
    "view as complex": (lambda model, x: torch.view_as_real(torch.view_as_complex(x.view(2, 4, 2))), 0),
    "detach and data": (lambda model, x: x.detach().data, 0),
    "out=": (lambda model, x: torch.add(x, 1, out=torch.empty(2, 8)), 64),
    "a window of a larger block": (lambda model, x: x[:, 2:4][0:1], 0),
}


@pytest.mark.parametrize("name", UNDECLARED)
def test_what_shares_memory_makes_none(name):
    """Bytes of all storages born in the run, twice: the second comes from the memo where there is one."""
    function, expected = UNDECLARED[name]
    model = Call(function)
    for _ in range(2):
        trace, how = capture(model, torch.rand(2, 8))
        assert how["capture_mode"] == "meta"
        assert sum(s.nbytes for s in trace.storages if s.born >= 0) == expected


STEPS = {
    "relu": F.relu,
    "relu_": lambda x: F.relu_(x.clone()),
    "transpose": lambda x: x.t().reshape(x.shape),
    "half": lambda x: x.half().float(),
    "double": lambda x: x.double(),
    "slice": lambda x: torch.cat([x[:, :3], x[:, 3:]], 1),
    "softmax": lambda x: x.softmax(-1),
    "mean": lambda x: x - x.mean(-1, keepdim=True),
    "times one": lambda x: x * 1,
    "times one float": lambda x: x * 1.0,
    "mask": lambda x: x.masked_fill(x > 0.5, 0.0),
    "expand": lambda x: x[:, :1].expand(2, 8),
    "fill": lambda x: x.new_zeros(x.shape).copy_(x),
    "topk": lambda x: x.topk(8).values,
    "gather": lambda x: x[:, [7, 6, 5, 4, 3, 2, 1, 0]],
    "where": lambda x: torch.where(x > 0, x, 0.0),
}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=8), st.booleans())
def test_chains_of_operators_are_the_same_with_and_without_the_memo(chain, backward):
    def forward(model, x):
        x = model.linear(x)
        for step in chain:
            x = STEPS[step](x)
        return x

    model = Call(forward)
    traces = [capture(model, torch.rand(2, 8), memo=memo, backward=backward)[0] for memo in (False, True, True)]
    assert_sound(traces[0])
    assert_same(traces[0], traces[1])
    assert_same(traces[0], traces[2])


# -- a model that changes between two captures ------------------------------------------------------------------


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        self.register_buffer("steps", torch.tensor(2))
        self.register_buffer("gone", None)
        self.scale, self.sizes, self.table, self.twice = 1, [1, 2], {"times": 1}, False

    def forward(self, x):
        for _ in range(int(self.steps)):
            x = torch.cat([self.layers(x)] * 2, -1) * self.scale
        for _ in range(self.sizes[-1] + self.table["times"]):
            x = x + 1
        return self.layers(x) if self.twice else x


def shared(model):
    model.layers[2] = model.layers[0]
    model.layers[2].out_features = 8
    model.layers.append(nn.Linear(8, 4))


def reparametrised(model):
    nn.utils.parametrizations.weight_norm(model.layers[0])


def in_place(model):
    model.steps.fill_(3)


def resized(model):
    model.layers[0].weight.data = torch.rand(16, 8)
    model.layers[0].bias.data = torch.rand(16)
    model.layers[2].weight.data = torch.rand(4, 16)


def of_another_class(model):
    model.layers[1].__class__ = nn.Tanh


CHANGES = {
    "a module replaced": lambda m: m.layers.__setitem__(1, nn.GELU()),
    "a module added": lambda m: m.layers.append(nn.Softmax(-1)),
    "a module taken out": lambda m: m.layers.__delitem__(1),
    "a module shared": shared,
    "a module of another class": of_another_class,
    "a parameter replaced": lambda m: setattr(m.layers[0], "weight", nn.Parameter(torch.rand(8, 8))),
    "parameters tied": lambda m: setattr(m, "tied", m.layers[0].weight),
    "a parameter resized": resized,
    "a parameter removed": lambda m: setattr(m.layers[0], "bias", None),
    "another dtype": lambda m: m.double(),
    "another device": lambda m: m.to("meta").register_buffer("steps", torch.tensor(2)),
    "frozen": lambda m: m.requires_grad_(False),
    "a buffer of another value": lambda m: setattr(m, "steps", torch.tensor(1)),
    "a buffer written in place": in_place,
    "a buffer that was None": lambda m: setattr(m, "gone", torch.rand(3)),
    "a number": lambda m: setattr(m, "scale", torch.rand(())),
    "a number of another type": lambda m: setattr(m, "scale", 1.0),
    "a flag": lambda m: setattr(m, "twice", True),
    "a list in place": lambda m: m.sizes.append(5),
    "a dict in place": lambda m: m.table.update(times=3),
    "an attribute more": lambda m: setattr(m, "extra", nn.ReLU()),
    "a hook": lambda m: m.layers[0].register_forward_hook(lambda module, args, out: out.tanh()),
    "a hook before": lambda m: m.layers[0].register_forward_pre_hook(lambda module, args: args[0].tanh()),
    "parametrised": reparametrised,
    "a forward of its own": lambda m: setattr(m.layers[1], "forward", lambda x: x.tanh().tanh()),
    "in training": lambda m: m.train(),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("mode", ["eval", "as-is"])
def test_a_model_changed_between_two_captures_is_seen_as_it_is_now(name, mode):
    """The second capture must equal the first one ever made of an equal model."""
    x = torch.rand(2, 8, dtype=torch.float64 if name == "another dtype" else torch.float32)
    torch.manual_seed(0)
    fresh = Small().eval()
    CHANGES[name](fresh)
    torch.manual_seed(0)
    model = Small().eval()
    for _ in range(2):
        capture(model, torch.rand(2, 8), mode=mode)
    CHANGES[name](model)
    if name == "another device":
        x = x.to("meta")
    expected = capture(fresh, x, mode=mode, memo=False)
    got = [capture(model, x, mode=mode) for _ in range(2)]
    assert_same(expected[0], got[0][0])
    assert_same(expected[0], got[1][0])
    assert expected[1]["capture_mode"] == got[0][1]["capture_mode"]
    assert repr([m.hyper for m in expected[0].modules]) == repr([m.hyper for m in got[0][0].modules])


def test_a_parameter_replaced_by_one_at_the_same_address():
    model = nn.Linear(8, 8)
    before, _ = capture(model, torch.rand(2, 8))
    del model.weight
    model.weight = nn.Parameter(torch.rand(8, 8, dtype=torch.float32).t())
    after, _ = capture(model, torch.rand(2, 8))
    assert before.tensors[0].spec.stride == (8, 1)
    strides = {tuple(t.names): t.spec.stride for t in after.tensors}
    assert strides["weight",] == (1, 8)
