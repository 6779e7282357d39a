"""A training step's memory by hand: optimisers in every form, gradients kept, casts, checkpoints, fused layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import rasp
from rasp.memory.face import Memory

optim = torch.optim
MIB = 1 << 20
WIDTH, LAYERS = 512, 4
ONE = WIDTH * WIDTH * 4
P = LAYERS * ONE


class Chain(nn.Module):
    """Layers without a bias, all of one size."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Lion(optim.Optimizer):
    """A user's own optimiser."""

    def __init__(self, params: Any, lr: float = 1e-4) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                held = self.state[p].setdefault("average", torch.zeros_like(p))
                p.add_(held.mul(0.9).add_(p.grad, alpha=0.1).sign_(), alpha=-group["lr"])
                held.lerp_(p.grad, 0.01)


def memory(model: nn.Module | None = None, batch: int = 4, **how: Any) -> Memory:
    how = {"backward": True, "allocator": "none", "input_shape": (batch, WIDTH), **how}
    return rasp.profile(model or Chain(), memory=True, **how).memory


# state and the most beside it in the step, in sizes of all parameters; a loop needs them for one of the four
STEPS: dict[str, tuple[Any, float, float]] = {
    "SGD": (optim.SGD, 0, 0),
    "SGD, momentum": (lambda p: optim.SGD(p, lr=0.1, momentum=0.9), 1, 0),
    "SGD, nesterov": (lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), 1, 0),
    "SGD, nesterov, loop": (lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=False), 1, 1 / 4),
    "Adam": (optim.Adam, 2, 1),
    "Adam, amsgrad": (lambda p: optim.Adam(p, amsgrad=True), 3, 1),
    "AdamW": (optim.AdamW, 2, 1),
    "AdamW, by name": ("adamw", 2, 1),
    "AdamW, loop": (lambda p: optim.AdamW(p, foreach=False), 2, 3 / 4),
    "AdamW, fused": (lambda p: optim.AdamW(p, fused=True), 2, 0),
    "AdamW, capturable": (lambda p: optim.AdamW(p, capturable=True), 2, 1),
    "Adagrad": (optim.Adagrad, 1, 2),
    "RMSprop": (optim.RMSprop, 1, 1),
    "RMSprop, centred": (lambda p: optim.RMSprop(p, centered=True, momentum=0.9), 3, 1),
    "Adafactor": (optim.Adafactor, 0, 1 / 2),
    "Lion": (Lion, 1, 1 / 4),
}


@pytest.mark.parametrize("name", STEPS)
def test_an_optimisers_state_and_what_its_step_takes(name: str) -> None:
    """Beside parameters, gradients (1) and state: what foreach makes of all at once, a loop of each in turn."""
    optimizer, state, temporaries = STEPS[name]
    found = memory(optimizer=optimizer)
    held = found.serving["optimiser state"]
    assert sum(held.values()) == pytest.approx(state * P, abs=P / 100)
    rise = found.peak - found.base
    if name == "AdamW, loop":  # torch keeps the square root while it divides it: of one parameter, or of the next too
        assert 3 * P < rise <= (3 + temporaries) * P + 1024
    else:
        assert rise == pytest.approx((1 + state + temporaries) * P, abs=P / 100)
    assert found.trace.notes == [] or name == "Adafactor"


def test_the_users_own_optimizer_is_run_again_on_stand_ins() -> None:
    model = Chain()
    own = optim.AdamW(model.parameters(), lr=1e-3)
    assert memory(model, optimizer=own).peak == memory(optimizer=optim.AdamW).peak
    assert not own.state
    assert all(p.grad is None for p in model.parameters())


def test_adafactor_is_told_its_norms_and_the_report_says_so() -> None:
    profile = rasp.profile(Chain(), input_shape=(4, WIDTH), backward=True, optimizer=optim.Adafactor)
    assert profile.capture_mode == "meta"
    assert any("1 was assumed" in note for note in profile.trace.notes)


def test_the_first_step_has_no_state_in_its_backward() -> None:
    """With a large batch the peak is in the backward: the second step has two moments more than the first."""
    found = memory(batch=8192, optimizer=optim.AdamW)
    assert found.peak - found.peak_first == pytest.approx(2 * P, abs=P / 20)


def test_gradients_that_zero_grad_keeps() -> None:
    """They are there all the time, and the new ones come one by one to be added."""
    freed, kept = (memory(batch=8192, optimizer=optim.SGD, keep_gradients=keep) for keep in (False, True))
    assert kept.peak - freed.peak == pytest.approx(P, abs=ONE + 4096)
    assert kept.by_kind()["gradients"] == P


def test_autocast_keeps_its_casts_until_the_forward_ends() -> None:
    plain, cast = (memory(batch=2048, autocast=dtype) for dtype in (None, "bfloat16"))
    rows = 2048 * WIDTH
    assert plain.owners.saved
    saved = sum(cast.saved.values())
    weights = (LAYERS - 1) * WIDTH * WIDTH  # the first layer's input needs no gradient
    assert saved == pytest.approx((LAYERS * rows + weights) * 2, abs=64), "activations and weights, half as wide"
    assert cast.by_kind()["gradients"] % 4 == 0


def test_float16_under_a_scaler_takes_what_it_takes_without() -> None:
    """A GradScaler scales a number and divides gradients where they are."""
    assert memory(autocast="float16").peak == memory(autocast="bfloat16").peak


class Checkpointed(nn.Module):
    def __init__(self, how: bool | None) -> None:
        super().__init__()
        self.how = how
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 1024), nn.GELU(), nn.Linear(1024, 64)) for _ in range(6)
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x) if self.how is None else checkpoint(block, x, use_reentrant=self.how)
        return x


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_keeps_one_block_at_a_time(reentrant: bool) -> None:
    rows = 1024
    x = torch.randn(rows, 64, requires_grad=True)
    plain, saving = (memory(Checkpointed(how), inputs=x, input_shape=None) for how in (None, reentrant))
    inside, between = 2 * rows * 1024 * 4, rows * 64 * 4
    assert plain.peak - plain.base > 6 * inside
    assert saving.peak - saving.base < 3 * inside + 8 * between
    assert sum(saving.saved.values()) < 8 * between


def test_a_compiled_model_is_told_as_eager_and_the_report_says_so() -> None:
    model = Chain()
    found = rasp.profile(torch.compile(model), input_shape=(4, WIDTH), backward=True, memory=True, allocator="none")
    assert found.memory.peak == memory(model).peak
    assert any("eager" in note for note in found.table().notes + found.trace.notes)


def test_a_layer_used_a_hundred_times_keeps_a_hundred_activations() -> None:
    """A user measured 4,044 MB where a summary told 130."""

    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1024, 1024)

        def forward(self, x: Tensor) -> Tensor:
            for _ in range(100):
                x = self.layer(x)
            return x

    found = rasp.profile(Again(), input_shape=(10240, 1024), backward=True, memory=True).memory
    saved = found.by_kind()["saved for backward"] / MIB
    assert 3900 <= saved <= 4000
    assert 4000 <= found.peak / MIB <= 4200


class Fused(nn.Module):
    def __init__(self, layer: nn.Module, call: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.layer, x)


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_in_evaluation_is_one_kernel_on_cuda(norm_first: bool) -> None:
    """Its activation writes where it reads: one wide tensor, not two; what is counted stays."""
    layer = nn.TransformerEncoderLayer(256, 8, 2048, batch_first=True, norm_first=norm_first)
    shape, wide, one = (8, 128, 256), 8 * 128 * 2048 * 4, 8 * 128 * 256 * 4
    fused = rasp.profile(layer, input_shape=shape, memory=True, allocator="none")
    plain = rasp.profile(layer, input_shape=shape)
    assert fused.memory.peak - fused.memory.base == wide + (3 if norm_first else 2) * one
    assert fused.total("flops") == plain.total("flops")
    assert [row["name"] for row in fused.rows()] == [row["name"] for row in plain.rows()]


def test_attention_with_weights_writes_its_context_where_the_queries_were() -> None:
    layer = Fused(nn.MultiheadAttention(256, 8, batch_first=True), lambda m, x: m(x, x, x)[0])
    rows, scores = 8 * 128 * 256 * 4, 8 * 8 * 128 * 128 * 4
    fused = rasp.profile(layer, input_shape=(8, 128, 256), memory=True, allocator="none")
    assert fused.total("flops") == rasp.profile(layer, input_shape=(8, 128, 256)).total("flops")
    assert fused.memory.peak - fused.memory.base == pytest.approx(
        max(6 * rows, 3 * rows + scores + 2 * rows), abs=scores
    )


@pytest.mark.parametrize("form", ["class", "name", "function", "own", "none"])
def test_measuring_a_step_takes_an_optimiser_in_every_form(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part that runs on a GPU, with a made-up allocator: a copy of the model steps, the model itself does not."""
    from rasp.measure.memory import whole

    read = iter(range(100, 1000, 50))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: next(read))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: next(read))
    for name in ("synchronize", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda device: None)
    model = Chain()
    before = model.layers[0].weight.clone()
    forms = {
        "class": optim.AdamW, "name": "adamw", "function": lambda p: optim.SGD(p, lr=0.1), "none": None,
        "own": optim.AdamW(model.parameters(), lr=1e-3),
    }  # fmt: skip
    found = whole(
        model, (torch.randn(2, WIDTH),), {}, torch.device("cpu"), training=True, backward=True, optimizer=forms[form]
    )
    assert found == {"base": 100, "peak_first": 150, "peak": 200}
    assert torch.equal(model.layers[0].weight, before)
    assert model.layers[0].weight.grad is None
