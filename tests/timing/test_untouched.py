"""Timing leaves the model, its process and its inputs as they were, whatever happens in the run."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from torch import nn

import rasp

HOW = {
    "eval": {},
    "train": {"mode": "train"},
    "backward": {"backward": True},
    "step": {"backward": True, "optimizer": torch.optim.AdamW},
    "channels_last": {"channels_last": True},
    "bfloat16": {"dtype": "bfloat16"},
    "autocast": {"autocast": True},
    "copied": {"copy_inputs": True},
}


class Everything(nn.Module):
    """Batch statistics, dropout, an in-place first layer, a counter, a hook, a draw from the generator."""

    def __init__(self, error: type[BaseException] | None = None, after: int = 3) -> None:
        super().__init__()
        self.first, self.conv = nn.ReLU(inplace=True), nn.Conv2d(3, 4, 3)
        self.norm, self.drop, self.head = nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Linear(4, 2)
        self.head.weight.grad = torch.ones(2, 4)
        self.calls = 0
        self.log: list[int] = []
        self.left, self.error = [after], error
        self.conv.register_forward_hook(lambda module, args, out: out + 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.log.append(self.calls)
        if not x.is_meta and self.error is not None:
            self.left[0] -= 1
            if self.left[0] == 0:
                raise self.error("enough")
        y = self.drop(self.norm(self.conv(self.first(x)))).mean((2, 3))
        return self.head(y) + torch.rand(())


def state_of(model: nn.Module) -> tuple:
    return (
        {name: value.clone() for name, value in model.state_dict().items()},
        {name: (None if p.grad is None else p.grad.clone()) for name, p in model.named_parameters()},
        [(module.training, len(module._forward_hooks), sorted(module.__dict__)) for module in model.modules()],
        [(p.data_ptr(), p._version, p.stride(), p.dtype) for p in (*model.parameters(), *model.buffers())],
        (model.calls, list(model.log)),
    )


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt], ids=["returns", "raises", "interrupted"])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_nothing_is_left_behind(how, error, training):
    model = Everything(error, after=4).train(training)
    x = torch.randn(2, 3, 8, 8)
    kept, before = x.clone(), copy.deepcopy(state_of(model))
    seeds = torch.get_rng_state(), random.getstate(), torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        found = rasp.profile(model, x, timing=True, batches=3, warmup=2, **HOW[how])
        assert found.latency is not None
    except (rasp.ModelError, KeyboardInterrupt) as told:
        assert error is not None
        assert isinstance(told, KeyboardInterrupt) or "enough" in str(told)  # noqa: PT017
    assert same(before, state_of(model))
    assert torch.equal(x, kept)
    assert torch.equal(seeds[0], torch.get_rng_state())
    assert seeds[1:] == (random.getstate(), torch.is_grad_enabled(), torch.get_default_dtype())


def test_a_model_that_writes_its_own_parameter_keeps_it():
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                self.weight.add_(1)
            return x * self.weight

    model = Writes()
    rasp.profile(model, input_shape=(2, 4), timing=True, batches=3, warmup=1)
    assert torch.equal(model.weight.detach(), torch.ones(4))


def test_layers_held_out_of_sight_keep_their_gradients():
    hidden = nn.Linear(4, 4)

    class Sly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own = nn.Linear(4, 4)
            self.call = lambda x: hidden(x)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.call(self.own(x))

    rasp.profile(Sly(), input_shape=(2, 4), timing=True, backward=True, batches=3, warmup=1)
    assert hidden.weight.grad is None
    hidden.weight.grad = torch.ones(4, 4)
    rasp.profile(Sly(), input_shape=(2, 4), timing=True, backward=True, batches=3, warmup=1)
    assert torch.equal(hidden.weight.grad, torch.ones(4, 4))
