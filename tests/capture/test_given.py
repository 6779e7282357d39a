"""Every form in which inputs are given, and every form in which they are given wrongly."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rasp
from rasp.capture import capture

from .comparing import Call, assert_sound, macs, names

X = (2, 8)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x, ids=None, *, scale=1.0, flag=False):
        out = self.linear(x) * scale
        return out if ids is None else out + ids.sum() if flag else out + ids[:, :1]


def described(trace):
    return [(name, spec.shape, spec.dtype) for name, spec in trace.inputs]


x, ids = torch.rand(X), torch.zeros(2, 3, dtype=torch.long)
FORMS = {
    "a tensor": ({"inputs": x}, [("0", X, "float32")]),
    "a tuple of one": ({"inputs": (x,)}, [("0", X, "float32")]),
    "a tuple of two": ({"inputs": (x, ids)}, [("0", X, "float32"), ("1", (2, 3), "int64")]),
    "a dict of arguments": ({"inputs": {"ids": ids, "x": x}}, [("ids", (2, 3), "int64"), ("x", X, "float32")]),
    "keywords only": ({"kwargs": {"x": x, "scale": 2.0}}, [("x", X, "float32")]),
    "positions and keywords": (
        {"inputs": x, "kwargs": {"ids": ids, "flag": True}},
        [("0", X, "float32"), ("ids", (2, 3), "int64")],
    ),
    "None": ({"inputs": (x, None)}, [("0", X, "float32")]),
    "a scalar tensor": (
        {"inputs": x, "kwargs": {"scale": torch.tensor(2.0)}},
        [("0", X, "float32"), ("scale", (), "float32")],
    ),
    "a shape": ({"input_shape": X}, [("0", X, "float32")]),
    "a list as shape": ({"input_shape": [2, 8]}, [("0", X, "float32")]),
    "a torch.Size": ({"input_shape": torch.Size(X)}, [("0", X, "float32")]),
    "shapes": ({"input_shape": [X, (2, 3)]}, [("0", X, "float32"), ("1", (2, 3), "int64")]),
    "shapes by name": ({"input_shape": {"x": X, "ids": (2, 3)}}, [("x", X, "float32"), ("ids", (2, 3), "int64")]),
    "a shape and keywords": ({"input_shape": X, "kwargs": {"scale": 3}}, [("0", X, "float32")]),
    "dtypes in a list": (
        {"input_shape": [X, (2, 3)], "dtypes": [None, "int32"]},
        [("0", X, "float32"), ("1", (2, 3), "int32")],
    ),
    "dtypes by name": (
        {"input_shape": {"x": X, "ids": (2, 3)}, "dtypes": {"ids": torch.int16}},
        [("x", X, "float32"), ("ids", (2, 3), "int16")],
    ),
    "one dtype": ({"input_shape": X, "dtypes": "torch.float32"}, [("0", X, "float32")]),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_form_of_inputs(name, device):
    given, expected = FORMS[name]
    trace, how = capture(Two(), **given, device=device)
    got = described(trace)
    assert [(n.split(".")[-1], shape, dtype) for n, shape, dtype in got] == expected
    assert names(trace)[0] == "addmm"
    assert how["inputs"] == [{"name": n, "shape": list(s), "dtype": d} for n, s, d in got]
    assert_sound(trace)


def test_shapes_take_the_dtype_of_the_model():
    for dtype in (torch.float64, torch.bfloat16):
        trace, _ = capture(nn.Linear(8, 4, dtype=dtype), input_shape=X)
        assert trace.inputs[0][1].dtype == str(dtype).removeprefix("torch.")


# -- nests ----------------------------------------------------------------------------------------------------------


@dataclass
class Boxes:
    corners: Tensor
    scale: float = 1.0
    more: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Frozen:
    x: Tensor


@dataclass(slots=True)
class Slotted:
    x: Tensor
    more: tuple[Tensor, ...] = ()


class Slots:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


class Plain:
    def __init__(self, x):
        self.x, self.calls = x, []

    def get(self):
        self.calls.append(1)
        return self.x


class Record(dict):
    """A dict with attributes, as transformers' BatchEncoding."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Items(list):
    pass


Pair = namedtuple("Pair", "first second")
t = torch.rand(X)
NESTS = {
    "a list": ([t, t], lambda v: v[0] + v[1]),
    "a tuple in a list": ([(t,), t], lambda v: v[0][0] + v[1]),
    "a dict": ({"a": t}, lambda v: v["a"] + 1),
    "an ordered dict": (OrderedDict(a=t), lambda v: v["a"] + 1),
    "numbers as keys": ({0: t}, lambda v: v[0] + 1),
    "a dataclass": (Boxes(t, 2.0, {"m": t}), lambda v: v.corners * v.scale + v.more["m"]),
    "a frozen dataclass": (Frozen(t), lambda v: v.x + 1),
    "a dataclass with slots": (Slotted(t, (t,)), lambda v: v.x + v.more[0]),
    "a named tuple": (Pair(t, [t]), lambda v: v.first + v.second[0]),
    "a plain object": (Plain(t), lambda v: v.get() + 1),
    "a record": (Record(a=t), lambda v: v.a + v["a"]),
    "the same twice": ([t, t], lambda v: v[0] + (1 if v[0] is v[1] else v[1] * v[0])),
    "numbers and texts": ([1, "two", 3.0, t, None, True], lambda v: v[3] * v[0] + len(v[1])),
    "a list of a class of its own": (Items([t, t]), lambda v: v[0] + v[1].relu()),
    "an empty list": ([t, []], lambda v: v[0] + len(v[1])),
    "a set": ([t, {1, 2}], lambda v: v[0] + len(v[1])),
}


class One(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, value):
        return self.function(value)


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_nested_inputs(name, device):
    value, function = NESTS[name]
    trace, _ = capture(One(function), (value,), device=device)
    assert trace.outputs[0].shape == X
    assert "constant" not in {s.kind for s in trace.storages}
    assert any(s.kind == "input" for s in trace.storages)
    if name == "a plain object":
        assert value.x is t


def test_a_nest_that_holds_itself():
    value: dict[str, Any] = {"x": t}
    value["self"] = value
    trace, _ = capture(One(lambda v: v["self"]["self"]["x"] + 1), (value,))
    assert trace.outputs[0].shape == X
    assert value["x"] is t


def test_a_packed_sequence_given_as_input():
    packed = nn.utils.rnn.pack_sequence([torch.rand(3, 8), torch.rand(2, 8)])
    for device in ("meta", "cpu"):
        trace, _ = capture(nn.LSTM(8, 6), (packed,), device=device)
        assert macs(trace) == {"": 5 * 4 * 6 * 14}


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_dataclass_with_slots_is_left_as_it_was_and_may_come_out(device):
    value = Slotted(t)
    trace, _ = capture(One(lambda v: Slotted(v.x * 2, (v.x,))), (value,), device=device)
    assert value.x is t
    assert [out.shape for out in trace.outputs] == [X, X]


def test_an_object_with_slots_is_taken_as_it_is():
    trace, _ = capture(One(lambda v: v.x + 1), (Slots(t),))
    assert trace.outputs[0].shape == X


def test_a_cache_given_as_input_is_not_changed():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        cache = model(torch.zeros(1, 5, dtype=torch.long), use_cache=True).past_key_values
    before = [(layer.keys, layer.keys.clone(), layer.keys.shape) for layer in cache.layers]
    step = {"input_ids": torch.zeros(1, 1, dtype=torch.long), "past_key_values": cache, "use_cache": True}
    for device in ("meta", "cpu"):
        trace, how = capture(model, kwargs=step, device=device)
        assert how["capture_mode"] == ("real" if device == "cpu" else "meta")
        lengths = {
            s.shape[-2]
            for o in trace.ops
            for s in trace.specs[o.spec].outputs
            if trace.specs[o.spec].name == "aten::cat" and s.ndim == 4
        }
        assert 6 in lengths
        assert len(cache.layers) == 2
        for layer, (keys, values, shape) in zip(cache.layers, before):
            assert layer.keys is keys
            assert layer.keys.shape == shape
            assert torch.equal(layer.keys, values)


OUTPUTS = {
    "a dict": lambda x: {"a": x + 1, "b": [x + 2, None, 3]},
    "a dataclass": lambda x: Boxes(x + 1, 2.0, {"m": x + 2}),
    "a named tuple": lambda x: Pair(x + 1, (x + 2,)),
    "a record": lambda x: Record(a=x + 1, b=x + 2),
    "a generator made a list": lambda x: [x + i for i in (1, 2)],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_of_every_form(name):
    trace, _ = capture(One(OUTPUTS[name]), (x,))
    assert [o.shape for o in trace.outputs] == [X, X]
    assert [o.shape for o in trace.calls[0].outputs] == [X, X]


def test_what_is_no_tensor_comes_out_as_nothing():
    trace, _ = capture(One(lambda v: str(v.relu().shape)), (x,))
    assert trace.outputs == []


# -- wrong ----------------------------------------------------------------------------------------------------------

linear, embedding = nn.Linear(8, 4), nn.Embedding(10, 4)
WRONG = {
    "a class": (nn.Linear, {"inputs": x}, rasp.InputError, "instance"),
    "an empty model": (nn.Sequential(), {"inputs": x}, rasp.InputError, "nothing to count"),
    "no module": (lambda x: x, {"inputs": x}, rasp.InputError, "torch.nn.Module"),
    "both": (linear, {"inputs": x, "input_shape": X}, rasp.InputError, "not both"),
    "nothing": (linear, {}, rasp.InputError, "missing a required argument"),
    "too many": (linear, {"inputs": (x, x)}, (rasp.InputError, rasp.ModelError), ""),
    "too many shapes": (linear, {"input_shape": [X, X]}, rasp.InputError, "too many"),
    "an unknown name": (linear, {"input_shape": {"y": X}}, rasp.InputError, "'y'|missing"),
    "an unknown keyword": (linear, {"inputs": x, "kwargs": {"y": 1}}, rasp.InputError, "y"),
    "keywords that are no dict": (linear, {"inputs": x, "kwargs": [x]}, rasp.InputError, "dict"),
    "given twice": (linear, {"inputs": {"input": x}, "kwargs": {"input": x}}, rasp.InputError, "twice"),
    "a wrong width": (linear, {"input_shape": (2, 7)}, rasp.ModelError, r"\(2, 7\)"),
    "a wrong dtype": (linear, {"inputs": x.double()}, rasp.ModelError, "dtype"),
    "integers for a linear layer": (linear, {"input_shape": X, "dtypes": "int64"}, rasp.ModelError, "int64|dtype"),
    "floats for an embedding": (embedding, {"inputs": x}, rasp.ModelError, "float"),
    "a number as shape": (linear, {"input_shape": 8}, rasp.InputError, "input_shape=8"),
    "a text as shape": (linear, {"input_shape": "2,8"}, rasp.InputError, "input_shape='2,8'"),
    "a float in a shape": (linear, {"input_shape": (2, 8.0)}, rasp.InputError, "input_shape"),
    "a bool in a shape": (linear, {"input_shape": (True, 8)}, rasp.InputError, "input_shape"),
    "a batch of none": (linear, {"input_shape": (0, 8)}, rasp.InputError, "at least 1"),
    "a negative size": (linear, {"input_shape": (-1, 8)}, rasp.InputError, "-1"),
    "an unknown dtype": (linear, {"input_shape": X, "dtypes": "float31"}, rasp.InputError, "float31"),
    "a number as dtype": (linear, {"input_shape": X, "dtypes": 32}, rasp.InputError, "32"),
    "dtypes without shapes": (linear, {"inputs": x, "dtypes": "int64"}, rasp.InputError, "input_shape"),
    "a dtype for no input": (
        linear, {"input_shape": {"input": X}, "dtypes": {"inputs": "half"}}, rasp.InputError, "inputs",
    ),
    "more dtypes than shapes": (linear, {"input_shape": [X], "dtypes": ["half", "half"]}, rasp.InputError, "2"),
    "an unknown mode": (linear, {"inputs": x, "mode": "test"}, rasp.InputError, "'eval', 'train'"),
    "an unknown device": (linear, {"inputs": x, "device": "gpu"}, rasp.InputError, "gpu"),
    "an absent device": (linear, {"inputs": x, "device": "cuda"}, rasp.InputError, "no CUDA"),
    "an input elsewhere": (linear, {"inputs": x.to("meta")}, rasp.InputError, "Move it"),
    "an optimiser without backward": (
        linear, {"inputs": x, "optimizer": torch.optim.SGD}, rasp.InputError, "backward=True",
    ),
    "an unknown dtype to cast to": (linear, {"inputs": x, "dtype": "floaty"}, rasp.InputError, "floaty"),
    "an unknown autocast": (linear, {"inputs": x, "autocast": "fast"}, rasp.InputError, "fast"),
    "autocast to integers": (linear, {"inputs": x, "autocast": "int8"}, rasp.InputError, "bfloat16 or float16"),
    "a model cast to integers": (linear, {"inputs": x, "dtype": "int8"}, rasp.InputError, "not a floating dtype"),
    "a model without data to run": (
        nn.Linear(8, 4, device="meta"), {"inputs": x, "device": "cpu"}, rasp.InputError, "holds no data",
    ),
    "an optimiser by name": (
        linear, {"inputs": x, "backward": True, "optimizer": "adamx"}, rasp.UnknownName, "no optimizer named 'adamx'",
    ),
    "an optimiser that raises": (
        linear, {"inputs": x, "backward": True, "optimizer": lambda p: 1 / 0}, rasp.ModelError, "The optimizer raised",
    ),
    "a loss by name": (linear, {"inputs": x, "backward": True, "loss": "mse"}, rasp.InputError, "loss= takes"),
    "a loss that raises": (
        linear, {"inputs": x, "backward": True, "loss": lambda out: 1 / 0}, rasp.ModelError, "The loss or its backward",
    ),
    "a loss of no parameter": (
        linear, {"inputs": x, "backward": True, "loss": lambda out: torch.ones(())}, rasp.InputError, "loss= returned",
    ),
    "no backward in it": (nn.Flatten(), {"inputs": x, "backward": True}, rasp.InputError, "nothing to run backward"),
    "a frozen backward": (
        nn.Linear(8, 4).requires_grad_(False), {"inputs": x, "backward": True}, rasp.InputError, "Unfreeze",
    ),
    "a loss that is no tensor": (
        linear, {"inputs": x, "backward": True, "loss": lambda out: 1.0}, rasp.InputError, "loss",
    ),
    "an optimiser that cannot step": (
        linear, {"inputs": x, "backward": True, "optimizer": lambda p: list(p)}, rasp.InputError, r"step\(\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_given_wrongly_is_told(name):
    model, given, error, text = WRONG[name]
    if name == "an absent device" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with pytest.raises(error, match=text) as caught:
        capture(model, **given)
    assert "Traceback" not in str(caught.value)
    assert len(str(caught.value)) < 800


def test_the_models_own_error_is_the_cause_and_names_the_module():
    class Strict(nn.Module):
        def forward(self, x):
            raise ValueError("only on Mondays")

    for device in (None, "meta", "cpu"):
        with pytest.raises(rasp.ModelError, match=r"'1'.*only on Mondays") as caught:
            capture(nn.Sequential(nn.ReLU(), Strict()), x, device=device)
        assert isinstance(caught.value.__cause__, ValueError)


def test_an_error_of_a_library_names_the_module_and_the_inputs():
    with pytest.raises(rasp.ModelError, match=r"'2'.*\(2, 8\) float32") as caught:
        capture(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(7, 8)), x)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_an_error_a_model_handles_is_none():
    def forward(m, x):
        try:
            return x @ torch.rand(3, 3)
        except RuntimeError:
            return m.linear(x)

    for device in ("meta", "cpu"):
        trace, _ = capture(Call(forward), x, device=device)
        assert names(trace)[-1] == "addmm"


# -- lazy modules ---------------------------------------------------------------------------------------------------


def test_lazy_modules_stay_lazy():
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(5))
    for backward in (False, True):
        trace, _ = capture(model, input_shape=(2, 3, 6, 6), backward=backward)
        assert_sound(trace)
        shapes = {name: info.spec.shape for info in trace.tensors for name in info.names}
        assert shapes["0.weight"] == (4, 3, 3, 3)
        assert shapes["3.weight"] == (5, 64)
        assert trace.calls[0].outputs[0].shape == (2, 5)
    assert type(model[0]) is nn.LazyConv2d
    assert nn.parameter.is_lazy(model[3].weight)
    assert isinstance(model[3], nn.LazyLinear)
    assert model[0]._forward_pre_hooks
    model(torch.rand(2, 3, 6, 6))
    assert model[3].weight.shape == (5, 64)


@pytest.mark.parametrize("backward", [False, True])
def test_a_lazy_model_that_needs_data(backward):
    """A branch on a value: the shapes are found in a run for real, whose parameters go with it."""
    model = nn.Sequential(nn.LazyLinear(6), nn.LazyBatchNorm1d(), Branch())
    trace, how = capture(model, torch.rand(2, 8), backward=backward)
    assert how["capture_mode"] == "real"
    assert sum(macs(trace).values()) == 2 * 8 * 6 * (2 if backward else 1)
    assert all(nn.parameter.is_lazy(t) for t in [*model[0].parameters(), *model[1].parameters()])


class Branch(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() < 1e9 else x


def test_a_lazy_module_that_is_never_called():
    model = nn.Sequential(nn.LazyLinear(4))
    model.idle = nn.LazyLinear(3)
    model.forward = lambda x: model._modules["0"](x)
    with pytest.raises(rasp.CaptureError, match="lazy"):
        capture(model, x)
