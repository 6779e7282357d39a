"""The function level: torch functions as the model spells them, with what they call inside."""

from __future__ import annotations

import gc
import operator
import pkgutil

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rasp
from rasp.capture.places import PLACES
from rasp.conventions import CONVENTIONS, Charge, Convention, convention


class Spelled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        y = self.layer(x)
        y = y + x
        y = y.add(x)
        y = torch.add(y, x)
        y += x
        y = y @ x.mT
        y = torch.matmul(y, x) * scale
        y = F.softmax(y, dim=-1) - x.shape[0]
        return self.attention(y, y, y)[0]


def recorded(model: nn.Module, *inputs: torch.Tensor) -> list:
    return rasp.profile(model, inputs, functions=True).trace.functions


def short(name: str) -> str:
    return name.removeprefix("torch.").replace("nn.functional", "F")


def test_operators_methods_and_functions_are_told_apart() -> None:
    names = [short(call.name) for call in recorded(Spelled(), torch.rand(2, 4, 4)) if call.parent < 0]
    assert names[:8] == [
        "F.linear", "Tensor.__add__", "Tensor.add", "add", "Tensor.__iadd__", "Tensor.__matmul__", "matmul",
        "Tensor.__mul__",
    ]  # fmt: skip


def test_what_a_function_of_torch_calls_inside_is_recorded_below_it() -> None:
    calls = recorded(Spelled(), torch.rand(2, 4, 4))
    outer = next(i for i, call in enumerate(calls) if call.name.endswith("multi_head_attention_forward"))
    inside = [short(call.name) for call in calls if call.parent == outer]
    assert inside.count("F.linear") == 2
    assert "bmm" in inside
    softmax = next(i for i, call in enumerate(calls) if call.name.endswith("functional.softmax"))
    assert [short(call.name) for call in calls if call.parent == softmax] == ["Tensor.softmax"]


def test_calls_know_their_module_arguments_and_operators() -> None:
    profile = rasp.profile(Spelled(), torch.rand(2, 4, 4), functions=True)
    trace = profile.trace
    linear = trace.functions[0]
    assert trace.modules[trace.calls[linear.owner].module].path == "layer"
    assert [spec.shape for spec in linear.args] == [(2, 4, 4), (4, 4), (4,)]
    assert linear.out.shape == (2, 4, 4)
    assert [trace.specs[op.spec].name for op in trace.ops[linear.start : linear.end]] == ["aten::addmm"]


@pytest.mark.filterwarnings("ignore:.*upsample. is deprecated")
def test_calls_know_the_place_they_came_by() -> None:
    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = F.gelu

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.gelu(self.act(x))
            x = x @ x.mT + x.add(x) + torch.add(x, 1)
            x = sum([x, x]) * operator.mul(x, x)
            x = F.conv1d(x, x) + torch.conv1d(x, x)
            return F.max_pool1d(F.upsample(x, scale_factor=2), 2)

    calls = recorded(Held(), torch.rand(3, 3, 3))
    heard = [short(call.place) for call in calls if call.place]
    assert heard == [
        "F.gelu", "Tensor.__matmul__", "Tensor.add", "add", "F.conv1d", "F.upsample", "F.interpolate", "F.max_pool1d",
    ]  # fmt: skip
    assert [short(call.name) for call in calls].count("F.gelu") == 2
    inner = next(call for call in calls if call.place.endswith("interpolate"))
    assert calls[inner.parent].place.endswith("upsample")


def test_places_are_left_as_they_were() -> None:
    homes = {home: names.split() for home, names in PLACES.items() if home.startswith("torch")}

    def standing() -> dict[str, object]:
        return {f"{h}.{n}": getattr(pkgutil.resolve_name(h), n) for h, names in homes.items() for n in names}

    before = standing()
    own = dict(vars(torch.Tensor))
    recorded(Spelled(), torch.rand(2, 4, 4))
    assert before == standing()
    assert own == dict(vars(torch.Tensor))


def test_recording_functions_changes_nothing_else() -> None:
    model, x = Spelled(), torch.rand(2, 4, 4)
    plain, spelled = (rasp.profile(model, x, functions=how) for how in (False, True))
    assert plain.trace.functions is None
    assert plain.rows() == spelled.rows()
    assert plain.trace.ops == spelled.trace.ops
    assert torch._C._len_torch_function_stack() == 0
    assert [m.extra for m in spelled.trace.modules][1] == "in_features=4, out_features=4, bias=True"


def test_a_forward_that_raises_leaves_no_mode_behind() -> None:
    class Raises(nn.Module):
        def forward(self, x):
            return F.relu(x) + torch.nonexistent

    with pytest.raises(rasp.ModelError):
        rasp.profile(Raises(), torch.rand(2), functions=True)
    assert torch._C._len_torch_function_stack() == 0


@pytest.fixture
def counted():
    def each(ledger):
        for call in ledger.functions:
            yield Charge(ledger.trace.calls[call.owner].module, call.owner, 1, call.name)

    convention(Convention("each", "one a function", "a test", 2020, level="function", charges={"flops": each}))
    yield "each"
    del CONVENTIONS._items["each"]


def test_a_convention_asks_for_functions_itself(counted) -> None:
    model = Spelled()
    profile = rasp.profile(model, torch.rand(2, 4, 4))
    expected = len(recorded(model, torch.rand(2, 4, 4)))
    assert profile.total("flops", counted) == profile.total(f"flops@{counted}") == expected
    assert sum(row["flops"] for row in profile.rows(columns=["flops"], convention=counted)[:-1]) == expected
    assert rasp.profile(model, torch.rand(2, 4, 4), convention=counted).total("flops") == expected


def test_a_saved_profile_answers_conventions_of_functions(counted, tmp_path) -> None:
    profile = rasp.profile(Spelled(), torch.rand(2, 4, 4))
    with pytest.raises(rasp.NotRecorded, match="functions=True"):
        profile.total("flops", counted)  # the model is gone
    model = Spelled()
    profile = rasp.profile(model, torch.rand(2, 4, 4))
    profile.save(tmp_path / "spelled.json")
    again = rasp.load(tmp_path / "spelled.json")
    assert again.trace.functions == profile.trace.functions
    assert again.trace.modules == profile.trace.modules
    assert again.trace.calls == profile.trace.calls
    assert again.total("flops", counted) == profile.total("flops", counted)


def test_a_profile_does_not_keep_its_model_or_inputs_alive() -> None:
    import weakref

    model, x = Spelled(), torch.rand(2, 4, 4)
    refs = weakref.ref(model), weakref.ref(x)
    profile = rasp.profile(model, x)
    del model, x
    gc.collect()
    assert [ref() for ref in refs] == [None, None]
    assert profile.total("macs")


def test_a_model_that_changed_is_not_taken_for_the_one_that_was_profiled(counted) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    profile = rasp.profile(model, input_shape=(1, 4))
    model.append(nn.ReLU())
    with pytest.raises(rasp.NotRecorded):
        profile.total("flops", counted)
