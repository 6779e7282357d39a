"""Who holds memory at the peak, in models where it is known by construction; and that the sums agree."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import rasp
from rasp.memory.face import Memory

MIB = 1 << 20
ROWS = 4096  # of 64 floats: 1 MiB


def memory(model: nn.Module, shape: Any, **how: Any) -> Memory:
    return rasp.profile(model, input_shape=shape, memory=True, **{"allocator": "none", **how}).memory


def owner(found: Memory, but: tuple[str, ...] = ("parameters", "inputs", "workspace")) -> dict[str, Any]:
    """The largest at the peak that the run made and keeps."""
    return next(row for row in found.at_peak(None) if row["kind"] not in but)


class Wrapped(nn.Module):
    """Layers by name, and a forward that is given."""

    def __init__(self, forward: Any, **layers: nn.Module) -> None:
        super().__init__()
        self.run = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Any) -> Any:
        return self.run(self, x)


# -- the owner is named ------------------------------------------------------------------------------------------------


def test_a_reused_layer_saves_its_input_at_every_call() -> None:
    def hundred_times(self: Any, x: Tensor) -> Tensor:
        for _ in range(100):
            x = self.fc(x)
        return x

    profile = rasp.profile(
        Wrapped(hundred_times, fc=nn.Linear(1024, 1024)), input_shape=(10_240, 1024), backward=True, memory=True
    )
    found = profile.memory
    one = 40 * MIB
    assert profile.total("saved") == pytest.approx(99 * one, rel=1e-4), "the first input is an input, not saved anew"
    assert found.by_kind()["saved for backward"] + found.by_kind()["inputs"] == pytest.approx(100 * one, rel=1e-3)
    assert 4000 * MIB < found.peak < 4200 * MIB
    assert owner(found) == {
        "module": "fc",
        "op": "aten::addmm",
        "shape": (10_240, 1024),
        "bytes": one,
        "kind": "saved for backward",
        "why": "saved for the backward of fc (mm)",
    }
    row = profile.table("leaves", ["name", "saved", "peak"]).dicts()[0]
    assert (row["name"], row["saved"]) == (".fc", 99 * one)
    assert row["peak"] == found.peak, "of all its calls, not the first alone"


def layers(count: int = 8) -> dict[str, nn.Module]:
    return {f"l{number}": nn.Linear(64, 64) for number in range(count)}


def test_a_list_of_a_forward_holds_every_layer() -> None:
    def listed(self: Any, x: Tensor) -> Tensor:
        kept = []
        for layer in self.children():
            x = layer(x)
            kept.append(x)
        return x.sum()

    found = memory(Wrapped(listed, **layers()), (ROWS, 64))
    rows = [row for row in found.at_peak(None) if row["bytes"] == MIB and row["kind"] == "activations"]
    assert [row["module"] for row in rows] == [f"l{number}" for number in range(8)]
    assert all("held by a variable in the forward of the model itself" in row["why"] for row in rows[:-1])


def test_a_leak_in_an_attribute_is_held_to_the_end() -> None:
    class Leaking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(*layers().values())
            self.kept: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
                self.kept.append(x)
            return x.sum()

    found = memory(Leaking(), (ROWS, 64))
    assert found.by_kind()["activations"] == 8 * MIB + 4
    assert owner(found)["why"] == "held to the end, though nothing reads it again: by an attribute, a list or a hook"


def test_a_long_skip_is_held_until_it_is_joined() -> None:
    def skipping(self: Any, x: Tensor) -> Tensor:
        skip = self.up(x)
        return self.out(self.mid(skip) + skip)

    narrow = nn.Sequential(nn.Linear(512, 64), nn.Linear(64, 256), nn.Linear(256, 512))
    found = memory(Wrapped(skipping, up=nn.Linear(64, 512), mid=narrow, out=nn.Linear(512, 8)), (ROWS, 64))
    rows = {row["module"]: row for row in found.at_peak(None) if row["kind"] == "activations"}
    assert rows["up"]["bytes"] == 8 * MIB
    assert rows["up"]["why"] in ("read now by add in the model itself", "read again by add in the model itself")


def attention(self: Any, x: Tensor) -> Tensor:
    return (self.q(x) @ self.k(x).transpose(1, 2)).softmax(-1) @ self.v(x)


@pytest.mark.parametrize("backward", [False, True])
def test_a_softmax_over_pairs_is_larger_than_all_else(backward: bool) -> None:
    model = Wrapped(attention, q=nn.Linear(64, 64), k=nn.Linear(64, 64), v=nn.Linear(64, 64))
    found = memory(model, (4, 1024, 64), backward=backward)
    top = found.at_peak(3 if backward else 2)
    assert {row["shape"] for row in top} == {(4, 1024, 1024)}
    assert "aten::_softmax" in {row["op"] for row in top}
    assert ("saved for backward" in {row["kind"] for row in top}) == backward


def blocks(run: Any) -> Any:
    def forward(self: Any, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = run(block, x)
        return self.out(x)

    wide = [nn.Sequential(nn.Linear(64, 1024), nn.GELU(), nn.Linear(1024, 64)) for _ in range(4)]
    return Wrapped(forward, blocks=nn.Sequential(*wide), out=nn.Linear(64, 1))


def test_a_checkpointed_block_holds_its_insides_only_while_it_is_computed_again() -> None:
    found = memory(blocks(lambda block, x: checkpoint(block, x, use_reentrant=False)), (ROWS, 64), backward=True)
    plain = memory(blocks(lambda block, x: block(x)), (ROWS, 64), backward=True)
    top = found.at_peak(3)
    assert {row["bytes"] for row in top} == {16 * MIB}
    assert {row["module"] for row in top} <= {"blocks.3.0", "blocks.3.1", "blocks.3.2"}
    assert {row["kind"] for row in top} == {"temporaries"}, "made again in the backward, not saved by the forward"
    assert found.by_kind()["saved for backward"] == pytest.approx(3 * MIB, rel=0.01), "blocks' outputs"
    assert plain.peak - found.peak > 5 * 16 * MIB


def test_the_backward_that_something_is_saved_for_is_named() -> None:
    model = nn.Sequential(nn.Linear(8, 1024), nn.GELU(), nn.Linear(1024, 8))
    row = memory(model, (ROWS, 8), backward=True).at_peak(1)[0]
    assert (row["module"], row["why"]) == ("0", "saved for the backward of 1 (gelu_backward)")


@pytest.mark.parametrize(("inplace", "expected"), [(True, 1), (False, 2)])
def test_work_in_place_takes_nothing(inplace: bool, expected: int) -> None:
    model = nn.Sequential(nn.Linear(8, 1024), nn.ReLU(inplace), nn.Linear(1024, 1))
    found = memory(model, (ROWS, 8))
    assert found.by_kind()["activations"] // (16 * MIB) == expected


def test_a_view_keeps_all_of_its_base() -> None:
    def first_column(self: Any, x: Tensor) -> Tensor:
        first = self.big(x)[:, :1]
        return self.out(self.mid(x)) + first

    model = Wrapped(first_column, big=nn.Linear(64, 1024), mid=nn.Linear(64, 128), out=nn.Linear(128, 1))
    row = owner(memory(model, (ROWS, 64)))
    assert (row["module"], row["bytes"], row["shape"]) == ("big", 16 * MIB, (ROWS, 1024))
    assert row["why"] == "read again by add in the model itself, a view 4096×1 that keeps all of it"


def test_the_optimisers_state_is_twice_the_parameters() -> None:
    found = memory(nn.Linear(1024, 1024, bias=False), (2, 1024), backward=True, optimizer=torch.optim.Adam)
    kinds = found.by_kind()
    assert kinds["optimiser state"] == pytest.approx(2 * kinds["parameters"], abs=8)
    top = [row for row in found.at_peak(None) if row["kind"] == "optimiser state"]
    assert {row["why"] for row in top[:2]} == {"kept from step to step by the optimiser for weight"}
    assert found.peak_first <= found.peak


def test_gradients_are_named_after_their_parameters() -> None:
    model = nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.Linear(1024, 1024, bias=False))
    found = memory(model, (2, 1024), backward=True, optimizer=torch.optim.SGD)
    rows = [row for row in found.at_peak(None) if row["kind"] == "gradients"]
    assert sorted(row["why"].partition(",")[0] for row in rows) == ["gradient of 0.weight", "gradient of 1.weight"]
    assert found.by_kind()["gradients"] == found.by_kind()["parameters"]


def test_tied_weights_are_one_parameter_and_one_gradient() -> None:
    model = Wrapped(
        lambda self, ids: self.head(self.embed(ids)), embed=nn.Embedding(4096, 256), head=nn.Linear(256, 4096, False)
    )
    model.head.weight = model.embed.weight
    found = memory(model, (2, 8), backward=True, dtypes="int64")
    assert found.by_kind()["parameters"] == found.by_kind()["gradients"] == 4 * MIB
    row = next(row for row in found.at_peak(None) if row["kind"] == "parameters")
    assert row["why"] == "parameter embed.weight (tied to head.weight)"
    assert memory(model, (2, 8), backward=True, dtypes="int64", optimizer=torch.optim.SGD).peak == found.peak


def test_a_local_variable_holds_what_nothing_reads() -> None:
    def careless(self: Any, x: Tensor) -> Tensor:
        wide = self.a(x)
        narrow = self.b(wide)
        return self.c(narrow)

    layers = {"a": nn.Linear(8, 2048), "b": nn.Linear(2048, 8), "c": nn.Linear(8, 1024)}
    row = owner(memory(Wrapped(careless, **layers), (ROWS, 8)))
    assert (row["module"], row["bytes"]) == ("a", 32 * MIB)
    assert row["why"] == "held by a variable in the forward of the model itself, though nothing reads it again"
    assert owner(memory(nn.Sequential(*layers.values()), (ROWS, 8)))["module"] in ("a", "0"), "the call itself holds it"


def test_a_cache_of_keys_and_values_is_an_output() -> None:
    def caching(self: Any, x: Tensor) -> dict[str, Any]:
        return {"logits": x.sum(-1), "past": [layer(x).chunk(2, -1) for layer in self.children()]}

    found = memory(Wrapped(caching, **{f"kv{n}": nn.Linear(64, 512) for n in range(6)}), (ROWS, 64))
    rows = found.at_peak(6)
    assert {row["why"] for row in rows} == {"output of the run"}
    assert sum(row["bytes"] for row in rows) == 6 * 8 * MIB


def test_a_large_output_is_said_to_be_one() -> None:
    row = memory(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4096)), (ROWS, 8)).at_peak(1)[0]
    assert (row["module"], row["bytes"], row["why"]) == ("1", 64 * MIB, "output of the run")


def test_what_a_loss_saves_is_saved_and_what_it_reads_is_not() -> None:
    model = nn.Linear(64, 4096)
    target = torch.zeros(ROWS, dtype=torch.int64)
    profile = rasp.profile(
        model,
        input_shape=(ROWS, 64),
        backward=True,
        memory=True,
        allocator="none",
        loss=lambda out: F.cross_entropy(out, target),
    )
    found = profile.memory
    row = next(row for row in found.at_peak(None) if row["op"] == "aten::_log_softmax")
    assert (row["kind"], row["bytes"]) == ("saved for backward", 64 * MIB)
    assert 64 * MIB <= profile.total("saved") < 65 * MIB, "the logits themselves are not needed again"


def test_an_input_is_told_by_its_name_and_shape() -> None:
    class Two(nn.Module):
        def forward(self, image: Tensor, mask: Tensor) -> Tensor:
            return image * mask

    found = rasp.profile(Two(), input_shape={"image": (64, 64), "mask": (1, 64)}, memory=True, allocator="none").memory
    rows = {row["why"]: row["shape"] for row in found.at_peak(None) if row["kind"] == "inputs"}
    assert rows == {"input image": (64, 64), "input mask": (1, 64)}


# -- the sums agree ----------------------------------------------------------------------------------------------------

MODELS = {
    "eval": (lambda: blocks(lambda block, x: block(x)), {}),
    "train": (lambda: blocks(lambda block, x: block(x)), {"backward": True}),
    "adam": (lambda: blocks(lambda block, x: block(x)), {"backward": True, "optimizer": torch.optim.Adam}),
    "checkpointed": (
        lambda: blocks(lambda block, x: checkpoint(block, x, use_reentrant=False)),
        {"backward": True, "optimizer": torch.optim.AdamW},
    ),
    "convolutions": (
        lambda: nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(True)),
        {"backward": True, "optimizer": torch.optim.SGD},
    ),
    "accumulated": (lambda: blocks(lambda block, x: block(x)), {"backward": True, "keep_gradients": True}),
}


@pytest.mark.parametrize("allocator", ["none", "cuda", "cpu"])
@pytest.mark.parametrize("name", MODELS)
def test_kinds_add_up_to_what_is_allocated(name: str, allocator: str) -> None:
    build, how = MODELS[name]
    profile = rasp.profile(build(), input_shape=(512, 64), memory=True, allocator=allocator, **how)
    found = profile.memory
    line = found.timeline()
    assert [number for number, _ in line] == list(range(len(profile.trace.ops)))
    assert max(sum(kinds.values()) for _, kinds in line) == found.peak
    assert all(nbytes >= 0 for _, kinds in line for nbytes in kinds.values())
    assert sum(found.by_kind().values()) == found.peak
    assert sum(row["bytes"] for row in found.at_peak(None)) == found.peak
    assert line[found.plan.steady.at][1] == found.by_kind()
    assert any(kinds["gradients"] for _, kinds in line) == ("backward" in how)
    assert found.base <= found.peak <= found.reserved or allocator != "cuda"
    assert found.base <= found.peak_first
    assert len(found.at_peak(3)) == 3
    assert [row["bytes"] for row in found.at_peak(None)] == sorted(
        (row["bytes"] for row in found.at_peak(None)), reverse=True
    )


def test_the_base_is_the_model_and_its_inputs() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64))
    own = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    assert memory(model, (32, 64)).base == own + 32 * 64 * 4


def test_gradients_that_are_kept_are_there_from_the_start() -> None:
    model = nn.Linear(1024, 1024, bias=False)
    freed = memory(model, (2, 1024), backward=True)
    kept = memory(model, (2, 1024), backward=True, keep_gradients=True)
    assert kept.peak >= freed.peak
    assert kept.timeline()[0][1]["gradients"] == 4 * MIB
    assert freed.timeline()[0][1]["gradients"] == 0
