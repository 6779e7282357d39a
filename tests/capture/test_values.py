"""Values that follow from shapes, constants and ids are known without data; anything else is asked of a real run."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_slices
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F

import rasp
from rasp.capture import capture

from .comparing import Call, assert_sound, macs, names, run

IDS = torch.tensor([[3, 1, 2, 0], [1, 1, 0, 0]])


def add_ones(x, count):
    """As many operators as a value says: the trace then shows what the value was."""
    for _ in range(int(count)):
        x = x + 1
    return x


def in_place(m, x):
    t = torch.zeros(4, dtype=torch.long)
    t[1] = 5
    t[2:] += 2
    t.add_(1)
    return add_ones(x, t.sum())


def aliases(m, x):
    t = torch.arange(6)
    view = t.view(2, 3)
    view[1].fill_(0)
    seen = int(t.sum())  # 0 + 1 + 2
    t[0] = 4
    return add_ones(x, seen + int(view.sum()))


def earlier_read(m, x):
    t = torch.arange(4)
    copy = t.clone()
    t.fill_(9)
    return add_ones(x, copy.sum())


def earlier_view(m, x):
    t = torch.arange(4)
    doubled = t * 2
    t.zero_()
    return add_ones(x, doubled[-1] + t[-1])


def swapped(m, x):
    a, b = torch.tensor(2), torch.tensor(7)
    a.data, b.data = b.data, a.data
    return add_ones(x, a)


def through_out(m, x):
    t = torch.empty(3, dtype=torch.long)
    torch.arange(3, out=t)
    return add_ones(x, t.numel())


def packed_mask(m, x):
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    return add_ones(x, (~mask).sum() + mask[0].long().argmax())


def scattered(m, x):
    t = torch.zeros(5, dtype=torch.long).scatter_(0, torch.tensor([1, 3]), 4)
    return add_ones(x, t.sum())


def assigned_mask(m, x):
    t = torch.arange(6)
    t[t % 2 == 0] = 0
    return add_ones(x, t.sum())


def assigned_mask_of_many(m, x):
    t = torch.zeros(6, dtype=torch.long)
    t[torch.arange(6) > 3] = torch.tensor([2, 1])
    return add_ones(x, t.sum())


def foreach(m, x):
    ts = [torch.tensor(1), torch.tensor(2)]
    torch._foreach_add_(ts, 3)
    return add_ones(x, sum(ts))


def buffer_counted(m, x):
    m.steps += 1
    m.steps.mul_(2)
    return add_ones(x, m.steps)


# what the model asks, and how many operators the answer makes
QUESTIONS = {
    "item": (lambda m, x: add_ones(x, torch.arange(4).max().item()), 3),
    "int": (lambda m, x: add_ones(x, int(torch.tensor(3))), 3),
    "float": (lambda m, x: add_ones(x, float(torch.tensor(2.0))), 2),
    "bool": (lambda m, x: x + 1 if torch.tensor([0, 1]).any() else x, 1),
    "all": (lambda m, x: x + 1 if (torch.arange(3) >= 0).all() else x, 1),
    "if not": (lambda m, x: x if not torch.tensor(False) else x + 1, 0),
    "and": (lambda m, x: x + 1 if torch.tensor(1) > 0 and torch.tensor(2) > 1 else x, 1),
    "range": (lambda m, x: add_ones(x, len(range(torch.tensor(3)))), 3),
    "in": (lambda m, x: x + 1 if 2 in torch.arange(3) else x, 1),
    "iteration": (lambda m, x: add_ones(x, sum(int(i) for i in torch.arange(3))), 3),
    "an index": (lambda m, x: add_ones(x, [4, 2, 1][torch.tensor(1)]), 2),
    "a slice": (lambda m, x: add_ones(x, x[:, : torch.tensor(3)].shape[1]), 3),
    "a shape": (lambda m, x: add_ones(x, torch.zeros(torch.tensor(2), 3).shape[0]), 2),
    "nonzero": (lambda m, x: add_ones(x, torch.tensor([0, 1, 1]).nonzero().shape[0]), 2),
    "nonzero as tuple": (lambda m, x: add_ones(x, torch.tensor([0, 1]).nonzero(as_tuple=True)[0]), 1),
    "where": (lambda m, x: add_ones(x, torch.where(torch.tensor([0, 0, 1]))[0]), 2),
    "where of three": (lambda m, x: add_ones(x, torch.where(torch.tensor([True, False]), 3, 1).sum()), 4),
    "unique": (lambda m, x: add_ones(x, torch.tensor([1, 1, 2]).unique().numel()), 2),
    "unique with counts": (lambda m, x: add_ones(x, torch.tensor([1, 1, 2]).unique(return_counts=True)[1].max()), 2),
    "unique_consecutive": (lambda m, x: add_ones(x, torch.tensor([1, 1, 2]).unique_consecutive().numel()), 2),
    "a mask": (lambda m, x: add_ones(x, torch.arange(5)[torch.arange(5) > 2].numel()), 2),
    "a mask of an activation": (lambda m, x: add_ones(x, x[torch.tensor([True, False])].shape[0]), 1),
    "masked_select": (lambda m, x: add_ones(x, torch.arange(5).masked_select(torch.arange(5) > 3).numel()), 1),
    "a tensor of tensors": (lambda m, x: add_ones(x, torch.tensor([torch.tensor(1), torch.arange(3).sum()]).sum()), 4),
    "a tensor on the device of another": (
        lambda m, x: add_ones(x, torch.tensor([1, 3], device=x.device).sum()), 4),
    "a new tensor": (lambda m, x: add_ones(x, torch.arange(2, device=x.device).new_tensor([1, 1]).sum()), 2),
    "masked_select of an activation": (lambda m, x: add_ones(x, x.masked_select(torch.arange(8) > 4).numel()), 6),
    "a list as index": (lambda m, x: add_ones(x, torch.arange(5)[[1, 2]].sum()), 3),
    "a list among slices": (lambda m, x: add_ones(x, torch.arange(6).view(2, 3)[:, [-1, 0]].sum()), 10),
    "a bool list as index": (lambda m, x: add_ones(x, torch.arange(3)[[True, False, True]].sum()), 2),
    "tolist": (lambda m, x: add_ones(x, sum(torch.arange(4).tolist())), 6),
    "numpy": (lambda m, x: add_ones(x, torch.arange(4).numpy().max()), 3),
    "cpu": (lambda m, x: add_ones(x, torch.arange(4).cpu().max()), 3),
    "repeat_interleave": (lambda m, x: add_ones(x, torch.arange(2).repeat_interleave(torch.tensor([2, 1])).numel()), 3),
    "bincount": (lambda m, x: add_ones(x, torch.tensor([0, 3]).bincount().numel()), 4),
    "equal": (lambda m, x: x + 1 if torch.equal(torch.arange(3), torch.tensor([0, 1, 2])) else x, 1),
    "allclose": (lambda m, x: x + 1 if torch.allclose(torch.ones(2), torch.ones(2)) else x, 1),
    "arithmetic of arange": (lambda m, x: add_ones(x, ((torch.arange(4) * 2 + 1) // 3 - 1).abs().sum()), 2),
    "cumsum": (lambda m, x: add_ones(x, torch.ones(3, dtype=torch.long).cumsum(0)[-1]), 3),
    "linspace": (lambda m, x: add_ones(x, torch.linspace(0, 3, 4)[-1]), 3),
    "full": (lambda m, x: add_ones(x, torch.full((2,), 2).sum()), 4),
    "zeros_like an activation": (lambda m, x: add_ones(x, (torch.zeros_like(x) + 1).sum() / 8), 2),
    "new_full of an activation": (lambda m, x: add_ones(x, x.new_full((1,), 3)), 3),
    "sort and searchsorted": (lambda m, x: add_ones(x, torch.searchsorted(torch.arange(4).sort().values, 2)), 2),
    "stack of items": (lambda m, x: add_ones(x, torch.stack([torch.tensor(1), torch.tensor(2)]).sum()), 3),
    "split": (lambda m, x: add_ones(x, torch.split(torch.arange(5), [2, 3])[1][0]), 2),
    "meshgrid": (lambda m, x: add_ones(x, torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")[1].max()), 2),
    "tril_indices": (lambda m, x: add_ones(x, torch.tril_indices(2, 2).shape[1]), 3),
    "shape as tensor": (lambda m, x: add_ones(x, torch.tensor(x.shape).min()), 2),
    "in-place writes": (in_place, 0 + 1 + 6 + 3 + 3),
    "aliases": (aliases, 3 + 4 + 1 + 2),
    "a read before a write": (earlier_read, 6),
    "a product before a write": (earlier_view, 6),
    "a packed mask": (packed_mask, 6),
    "scatter_": (scattered, 8),
    "a mask assigned": (assigned_mask, 9),
    "a mask assigned with many": (assigned_mask_of_many, 3),
    "foreach": (foreach, 9),
    "data swapped": (swapped, 7),
    "out=": (through_out, 3),
    "a buffer": (lambda m, x: add_ones(x, m.steps), 2),
    "a buffer that is written": (buffer_counted, 6),
    "a small float buffer": (lambda m, x: add_ones(x, m.ratio.sum() * 2), 3),
    "a constant outside": (lambda m, x: add_ones(x, IDS.max()), 3),
    "a numpy array outside": (lambda m, x: add_ones(x, torch.from_numpy(IDS.numpy()).max()), 3),
    "under no_grad": (torch.no_grad()(lambda m, x: add_ones(x, torch.arange(3).sum())), 3),
    "under inference_mode": (torch.inference_mode()(lambda m, x: add_ones(x, torch.arange(3).sum())), 3),
    "is finite": (lambda m, x: x + 1 if torch.isfinite(torch.ones(2)).all() else x, 1),
}  # fmt: skip


def with_buffers(function):
    model = Call(function)
    model.register_buffer("steps", torch.tensor(2))
    model.register_buffer("ratio", torch.tensor([1.0, 0.5]))
    return model


def ones_added(trace):
    """Additions of a number 1 to something of the input's shape."""
    count = 0
    for op in trace.ops:
        spec = trace.specs[op.spec]
        count += spec.name == "aten::add" and spec.args[0].shape == (2, 8) and spec.args[1] == 1
    return count


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_known_value_is_answered_without_data(name):
    function, expected = QUESTIONS[name]
    model = with_buffers(function)
    expected += name == "zeros_like an activation"
    for _ in range(2):  # the second answer must not come from the first one's state
        trace, how = capture(model, torch.rand(2, 8), device="meta")
        assert how["capture_mode"] == "meta"
        assert ones_added(trace) == expected
        assert_sound(trace)
    real, _ = capture(model, torch.rand(2, 8), device="cpu")
    assert ones_added(real) == expected
    assert model.steps == 2


def test_ids_given_are_known_and_ids_of_a_shape_are_zeros():
    function = lambda m, ids: add_ones(m.linear(torch.zeros(2, 8)), ids.max() - ids.min())
    assert ones_added(capture(Call(function), IDS)[0]) == 3
    by_shape, how = capture(Call(function), input_shape=(2, 4), dtypes="int64")
    assert ones_added(by_shape) == 0
    assert how["capture_mode"] == "meta"


def test_a_mask_given_as_a_shape_lets_everything_through():
    class Masked(nn.Module):
        def forward(self, ids, attention_mask):
            return ids * 2 if bool(attention_mask.all()) else ids

    trace, _ = capture(Masked(), input_shape={"ids": (2, 3), "attention_mask": (2, 3)})
    assert names(trace)[-1] == "mul"


def test_a_mask_that_selects_is_read_as_it_is():
    """Two masks of one shape select differently; each run shows the mask itself, as a real one does."""
    function = lambda m, x, mask: m.linear(x[mask] * 2)
    for mask in (torch.tensor([True, False, True]), torch.tensor([False, False, True])):
        for device in ("meta", "cpu"):
            trace, _ = capture(Call(function), (torch.rand(3, 8), mask), device=device)
            index = next(spec for spec in trace.specs if spec.name == "aten::index")
            assert index.args[1][0].dtype == "bool"
            assert index.out.shape == (int(mask.sum()), 8)
            assert names(trace) == ["index", "mul", "addmm"]


def test_a_scalar_input_is_known_and_a_vector_of_floats_is_not():
    function = lambda m, x, t: add_ones(x, t.sum())
    trace, how = capture(Call(function), (torch.rand(2, 8), torch.tensor(2.0)))
    assert (ones_added(trace), how["capture_mode"]) == (2, "meta")
    trace, how = capture(Call(function), (torch.rand(2, 8), torch.tensor([2.0, 1.0])))
    assert (ones_added(trace), how["capture_mode"]) == (3, "real")


def poisoned_by(change):
    def forward(m, x):
        t = torch.arange(4)
        change(m, t, x)
        return add_ones(x, t.sum() * 0 + 1)

    return forward


UNKNOWN = {
    "an activation": lambda m, x: add_ones(x, x.sum() * 0 + 1),
    "a parameter": lambda m, x: add_ones(x, m.weight.sum() * 0 + 1),
    "an activation's mask": lambda m, x: x[x > 0.5].sum() + x,
    "an activation's nonzero": lambda m, x: x.sum() + x.nonzero().sum() + x,
    "the order of an activation": lambda m, x: add_ones(x, x.sum(1).argsort()[0] * 0 + 1),
    "random numbers": lambda m, x: add_ones(x, torch.randint(5, (1,)) * 0 + 1),
    "a permutation": lambda m, x: add_ones(x, torch.randperm(4)[0] * 0 + 1),
    "bernoulli": lambda m, x: add_ones(x, torch.ones(1).bernoulli() * 0 + 1),
    "written by an activation": poisoned_by(lambda m, t, x: t.copy_(x[0, :4])),
    "written at an activation's place": poisoned_by(lambda m, t, x: t.__setitem__(x[0, :1].long(), 5)),
    "written by random numbers": poisoned_by(lambda m, t, x: t.random_(3)),
    "written through a view": poisoned_by(lambda m, t, x: t.view(2, 2)[1].copy_(x[0, :2])),
    "written through out=": poisoned_by(lambda m, t, x: torch.sum(x.long(), dtype=torch.long, dim=0, out=t.resize_(8))),
    "a list of an activation": lambda m, x: add_ones(x, sum(x[0].tolist()) * 0 + 1),
    "an array of an activation": lambda m, x: add_ones(x, x.detach().numpy().sum() * 0 + 1),
    "running statistics after training": lambda m, x: add_ones(
        F.batch_norm(x, m.mean, m.variance, training=True), m.mean.sum() * 0 + 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_question_about_data_is_answered_by_a_real_run_that_says_why_and_where(name):
    model = Call(UNKNOWN[name])
    model.register_buffer("mean", torch.zeros(8))
    model.register_buffer("variance", torch.ones(8))
    trace, how = capture(model, torch.rand(2, 8))
    assert how["capture_mode"] == "real"
    reason = how["capture_reason"]
    assert reason["op"] is not None
    assert reason["module"] == ""
    assert reason["where"].startswith(__file__)
    assert "activation" in reason["why"] or "value" in reason["why"]
    assert_sound(trace)


@pytest.mark.parametrize("name", UNKNOWN)
def test_without_data_to_look_at_the_question_is_a_clear_error(name):
    model = Call(UNKNOWN[name])
    model.register_buffer("mean", torch.zeros(8))
    model.register_buffer("variance", torch.ones(8))
    with pytest.raises(rasp.CaptureError, match="device='meta' was asked for"):
        capture(model, torch.rand(2, 8), device="meta")
    with pytest.raises(rasp.CaptureError, match="on the meta device"):
        capture(model.to("meta"), torch.rand(2, 8, device="meta"))


def test_the_module_that_asked_is_named():
    class Asks(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x

    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.ReLU(), Asks()))
    _, how = capture(model, torch.rand(2, 8))
    assert how["capture_reason"]["module"] == "1.1"
    assert how["capture_reason"]["op"] == "aten::_local_scalar_dense"


def test_a_handler_of_exceptions_does_not_hide_the_question():
    def forward(m, x):
        try:
            return x + 1 if x.sum() > -1 else x
        except Exception:
            return x * 2

    trace, how = run(forward)
    assert how["capture_mode"] == "real"
    assert names(trace)[-1] == "add"


def test_a_value_too_large_to_compute_beforehand_needs_a_real_run():
    with pytest.raises(rasp.CaptureError, match="too large"):
        run(lambda m, x: x + 1 if (torch.arange(1 << 25) >= 0).all() else x, device="meta")


def test_expert_routing_is_balanced_and_said_so():
    def forward(m, x):
        chosen = m.linear(x).topk(2).indices
        for expert in range(8):
            rows = torch.where(chosen == expert)[0]
            if rows.numel():
                x = x.index_add(0, rows, m.linear(x[rows]))
        return x

    trace, how = capture(Call(forward), torch.rand(16, 8))
    assert how["capture_mode"] == "meta"
    assert any("balanced" in note for note in trace.notes)
    products = [trace.specs[op.spec].args[1].shape[0] for op in trace.ops if trace.specs[op.spec].name == "aten::addmm"]
    assert products == [16, *[4] * 8]


def test_routing_nobody_asks_about_is_not_an_assumption():
    trace, _ = run(lambda m, x: x.gather(1, x.topk(2).indices))
    assert trace.notes == []


@pytest.mark.parametrize("check", [torch.isnan, torch.isinf, lambda x: ~torch.isfinite(x), lambda x: x != x])
def test_a_check_for_infinities_takes_the_activations_as_finite(check):
    trace, how = run(lambda m, x: x * 3 if check(x).any() else x + 1)
    assert how["capture_mode"] == "meta"
    assert names(trace)[-1] == "add"
    assert any("finite" in note for note in trace.notes)


def test_ids_out_of_range_are_an_error_of_the_input():
    with pytest.raises(rasp.InputError, match="9"):
        capture(nn.Embedding(8, 4), torch.tensor([[1, 9]]))
    with pytest.raises(rasp.InputError, match="-1"):
        capture(nn.Embedding(8, 4), torch.tensor([[-1]]))


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_values_are_known_under_a_default_device(device):
    with torch.device(device):
        model = with_buffers(lambda m, x: add_ones(x, torch.arange(3)[[0, 2]].sum() + torch.ones(())))
        with torch.device("cpu"):
            model = model.to("cpu") if device == "cpu" else model
        trace, how = capture(model, input_shape=(2, 8))
    assert how["capture_mode"] == "meta"
    assert ones_added(trace) == 3


# -- torch.cond and its kin -------------------------------------------------------------------------------------------


def whiles(m, x):
    steps, out = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, m.linear(y)), (torch.tensor(0), x))
    return out + steps


def scans(m, x):
    step = lambda state, item: ({"state": m.linear(state["state"]) + item}, (item * 2, item.sum()))
    end, (doubled, sums) = scan(step, {"state": torch.zeros(8)}, x, reverse=True)
    assert doubled.shape == x.shape
    assert sums.shape == x.shape[:1]
    return end["state"]


CONTROL = {
    "cond on a shape": (lambda m, x: torch.cond(x.shape[0] > 1, lambda y: m.linear(y), lambda y: y + 1, (x,)), 1),
    "cond on a known value": (
        lambda m, x: torch.cond(torch.tensor(1) < 0, lambda y: y + 1, lambda y: m.linear(y), (x,)), 1),
    "cond on an activation": (
        lambda m, x: torch.cond(x.sum() > -1, lambda y: m.linear(m.linear(y)), lambda y: y + 1, (x,)), 2),
    "while_loop": (whiles, 3),
    "scan": (scans, 1),  # a row each step
    "map": (lambda m, x: map_slices(lambda item: {"out": m.linear(item)}, x)["out"], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("backward", [False, True])
def test_control_flow_counts_what_it_runs(name, backward):
    function, times = CONTROL[name]
    x = torch.rand(2, 8, requires_grad=True)
    trace, how = capture(Call(function), (x,), backward=backward)
    assert macs(trace, 0) == {"linear": times * 2 * 8 * 8}
    assert how["capture_mode"] == ("real" if "activation" in name else "meta")
    real, _ = capture(Call(function), (x,), backward=backward, device="cpu")
    assert macs(real) == macs(trace)
    assert [n for n in names(real) if n != "lift_fresh"] == names(trace)


def test_tensors_are_no_sequences_afterwards():
    """A method in place of Tensor.__getitem__ would leave a slot behind, and torch.tensor([a tensor]) would fail."""
    capture(Call(lambda m, x: add_ones(x, torch.arange(6).view(2, 3)[:, [-1, 0]].sum())), (torch.rand(2, 8),))
    assert torch.tensor([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]


@pytest.mark.parametrize("ids", [[[0, 8]], [[-1, 2]]])
@pytest.mark.parametrize("layer", [nn.Embedding(8, 4), nn.EmbeddingBag(8, 4)])
def test_ids_out_of_range_are_told(layer, ids):
    with pytest.raises(rasp.InputError, match="between 0 and 7"):
        capture(layer, (torch.tensor(ids),))
