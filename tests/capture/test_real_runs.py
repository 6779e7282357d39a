"""A real run computes with the user's tensors and gives every one of them back as it was."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import rasp
from process_state import differences, model_state
from rasp.capture import capture

from .comparing import Call, assert_sound, names, run


def test_running_statistics_are_given_back():
    for norm in (
        nn.BatchNorm1d(8),
        nn.BatchNorm1d(8, momentum=None),
        nn.InstanceNorm1d(8, track_running_stats=True),
        nn.SyncBatchNorm(8),
    ):
        if isinstance(norm, nn.SyncBatchNorm):
            continue  # asks for CUDA
        x = torch.rand(4, 8, 3)
        model = nn.Sequential(norm)
        before = model_state(model)
        capture(model, x, mode="train", device="cpu")
        capture(model, x, mode="train", device="cpu", backward=norm.affine)
        assert differences(before, model_state(model)) == []


class Box:
    def __init__(self, layer):
        self.layer = layer


def test_statistics_out_of_reach_are_given_back():
    """A batch norm held by a plain object is the user's own: the run writes its statistics and puts them back."""
    norm = nn.BatchNorm1d(8).train()
    model = Call(lambda m, x: m.box.layer(x))
    model.box = Box(norm)
    before = {name: t.clone() for name, t in norm.state_dict().items()}
    capture(model, torch.rand(4, 8), device="cpu", mode="train")
    for name, tensor in norm.state_dict().items():
        assert torch.equal(tensor, before[name]), name


WRITES = {
    "a parameter clamped": lambda m, x: (m.weight.data.clamp_(0, 0.1), m.linear(x))[1],
    "a parameter under no_grad": torch.no_grad()(lambda m, x: (m.weight.mul_(2), x + 1)[1]),
    "a parameter copied into": torch.no_grad()(lambda m, x: (m.weight.copy_(torch.zeros(8, 8)), x + 1)[1]),
    "a view of a parameter": torch.no_grad()(lambda m, x: (m.weight[0].zero_(), x + 1)[1]),
    "parameters of a list": torch.no_grad()(
        lambda m, x: (torch._foreach_mul_([m.weight, m.linear.weight], 2.0), x + 1)[1]
    ),
    "a parameter by out=": torch.no_grad()(lambda m, x: (torch.add(x[0], 1, out=m.linear.bias.detach()), x + 1)[1]),
    "a buffer": lambda m, x: (m.table.add_(1), x + m.table)[1],
    "an input": lambda m, x: x.mul_(2) + 1,
    "a view of an input": lambda m, x: (x[:1].zero_(), x + 1)[1],
    "an input by index": lambda m, x: (x.__setitem__(0, 5.0), x + 1)[1],
    "a tensor from outside": lambda m, x: (OUTSIDE.add_(1), x + OUTSIDE)[1],
    "a parameter resized": lambda m, x: (setattr(m.weight, "data", torch.zeros(2, 2)), x + 1)[1],
    "a parameter replaced": lambda m, x: (setattr(m, "weight", nn.Parameter(torch.zeros(2))), x + 1)[1],
}  # fmt: skip
OUTSIDE = torch.ones(8)


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_what_a_forward_writes_is_given_back(name, device):
    model = Call(WRITES[name])
    model.register_buffer("table", torch.ones(8))
    x = torch.rand(2, 8)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers()), "input": x, "outside": OUTSIDE}
    before = {key: (t.clone(), t.shape) for key, t in tensors.items()}
    for _ in range(2):
        trace, how = capture(model, x, device=device)
        assert how["capture_mode"] == ("meta" if device == "meta" else "real")
        assert_sound(trace)
        for key, tensor in tensors.items():
            values, shape = before[key]
            assert tensor.shape == shape, key
            assert torch.equal(tensor, values), key
    assert model.weight is tensors["weight"]


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_an_input_written_by_the_first_layer(device):
    x = torch.rand(2, 8) - 0.5
    values, version = x.clone(), x._version
    trace, _ = capture(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 8)), x, device=device)
    assert torch.equal(x, values)
    assert x._version == version
    assert names(trace) == ["relu_", "addmm"]


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_large_buffers_and_inputs_are_given_back(device):
    model = Call(lambda m, x: (m.table.add_(1), x.add_(1))[1])
    model.register_buffer("table", torch.zeros(5 << 20))
    x = torch.zeros(5 << 20)
    capture(model, x, device=device)
    assert model.table.sum() == 0
    assert x.sum() == 0


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_gradients_there_are_stay_and_none_is_added(device):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    model[0].weight.grad = torch.ones(8, 8)
    x = torch.rand(2, 8, requires_grad=True)
    for optimizer in (None, torch.optim.SGD, torch.optim.Adam):
        capture(model, x, device=device, backward=True, optimizer=optimizer)
        assert torch.equal(model[0].weight.grad, torch.ones(8, 8))
        assert model[1].weight.grad is None
        assert x.grad is None


def test_an_input_with_a_history_keeps_it():
    leaf = torch.rand(2, 8, requires_grad=True)
    x = leaf * 2
    for device in ("meta", "cpu"):
        capture(nn.Linear(8, 4), x, device=device, backward=True)
    x.sum().backward()
    assert torch.equal(leaf.grad, torch.full((2, 8), 2.0))


def test_both_runs_see_the_same_inputs_that_were_given_as_shapes():
    class Ids(nn.Module):
        def forward(self, input_ids, attention_mask, x):
            assert not input_ids.any()
            assert attention_mask.all()
            return x + 1

    shapes = {"input_ids": (2, 3), "attention_mask": (2, 3), "x": (2, 3)}
    for device in ("meta", "cpu"):
        capture(Ids(), input_shape=shapes, device=device)


def test_operators_without_a_meta_form_are_run_for_real_at_once():
    questions = {
        "nms": lambda m, x: __import__("torchvision").ops.nms(torch.rand(4, 4), torch.rand(4), 0.5),
        "sparse": lambda m, x: torch.sparse.mm(torch.eye(2).to_sparse(), x),
        "nested": lambda m, x: torch.nested.nested_tensor([x, x]).to_padded_tensor(0),
    }
    for name, function in questions.items():
        if name == "nms":
            pytest.importorskip("torchvision")
        trace, how = run(function)
        assert how["capture_mode"] == "real", name
        assert how["capture_reason"]["why"]
        assert_sound(trace)


def test_inputs_keep_their_strides_and_the_memory_they_share():
    base = torch.rand(6, 8)
    whole, part = base[1:5], base[2:3].expand(4, 8)
    expected, _ = capture(Call(lambda m, x, y: x * y + 1), (whole, part))
    trace, _ = capture(Call(lambda m, x, y: x * y + 1), (whole, part), device="cpu")
    assert [spec for _, spec in trace.inputs] == [spec for _, spec in expected.inputs]
    assert [s.kind for s in trace.storages].count("input") == 1
    assert trace.specs[0].args == expected.specs[0].args
    quantised = torch.quantize_per_tensor(base, 0.1, 0, torch.qint8)
    assert names(capture(Call(lambda m, x: x.dequantize()), (quantised,), device="cpu")[0]) == ["dequantize"]


def test_nested_tensors_given_as_inputs():
    """Both layouts; three and five rows are eight."""
    for layout in (torch.strided, torch.jagged):
        ragged = torch.nested.nested_tensor([torch.rand(3, 8), torch.rand(5, 8)], layout=layout)
        model = nn.Sequential(nn.Linear(8, 6), nn.ReLU())
        profile = rasp.profile(model, ragged)
        assert (profile.capture_mode, profile.total("macs"), profile.uncounted) == ("real", 8 * 8 * 6, [])
        assert profile.total("flops", convention="fvcore") == 8 * 8 * 6
        with pytest.raises(rasp.ModelError, match="raised"):
            rasp.profile(Call(lambda m, x: x.unflatten(-1, [3, 4])), ragged)
