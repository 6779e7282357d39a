"""rasp.fits: the verdict to the byte, the largest batch by real captures, advice that was computed, wrong use told."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rasp
from rasp.memory.face import Memory

MIB = 1 << 20
room = importlib.import_module("rasp.fits")  # the name on the package is the function


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.up(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(4)))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


TRAINING: dict[str, Any] = {"train": True, "optimizer": torch.optim.AdamW}


def fits(model: nn.Module | None = None, **how: Any) -> Any:
    return rasp.fits(model or Model(), **{"input_shape": (64, 128, 256), "advice": False, **how})


def test_one_byte_too_little_says_no() -> None:
    needed = fits(**TRAINING).needed
    enough, lacking = (fits(**TRAINING, target=limit) for limit in (needed, needed - 1))
    assert enough.fits
    assert enough
    assert enough.margin == 0
    assert not lacking.fits
    assert lacking.margin == -1
    assert "does not fit" in str(lacking)


def test_what_is_needed_is_what_the_allocator_gets_by_with() -> None:
    found = fits(**TRAINING)
    assert found.memory.peak <= found.needed <= found.memory.reserved + 2 * MIB
    assert not found.memory._runs_in(found.needed - 4 * MIB)


@pytest.mark.parametrize("train", [False, True])
def test_the_largest_batch_was_captured_and_so_was_the_next(train: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = room._Search.memory

    def noted(self: Any, batch: int | None = None, **changes: Any) -> Memory:
        if batch is not None:
            asked.append(batch)
        return real(self, batch, **changes)

    monkeypatch.setattr(room._Search, "memory", noted)
    how: dict[str, Any] = {**(TRAINING if train else {}), "target": "512MiB"}
    largest = fits(max_batch=True, **how).max_batch
    assert {largest, largest + 1} <= set(asked)
    assert len(set(asked)) < 14, "guided by what was seen, not one by one"
    assert fits(input_shape=(largest, 128, 256), **how).fits
    assert not fits(input_shape=(largest + 1, 128, 256), **how).fits


def test_a_model_alone_too_large_has_no_batch() -> None:
    found = fits(target="4MiB", max_batch=True)
    assert found.max_batch == 0
    assert "not even 1" in str(found)


@pytest.mark.parametrize(
    ("said", "nbytes"),
    [
        ("24GiB", 24 << 30), ("24 GiB", 24 << 30), ("80GB", 80 * 10**9), ("512MiB", 512 * MIB), (123456789, 123456789),
        ("1.5GiB", 3 << 29), ("10g", 10 << 30),
    ],
)  # fmt: skip
def test_a_size_is_all_usable(said: Any, nbytes: int) -> None:
    assert fits(target=said).usable == nbytes


def test_a_machine_keeps_some_for_its_driver_and_its_libraries() -> None:
    assert 138 << 30 < fits(target="h200").usable < 139.5 * (1 << 30)
    assert 78 << 30 < fits(target="h100").usable < 79.1 * (1 << 30)
    assert 22 << 30 < fits(target="rtx-4090").usable < 23.65 * (1 << 30)
    assert fits(target="h200-mig-1g.18gb").usable < 18 * 10**9 < fits(target="h200").usable
    assert fits(target="NVIDIA H200").usable == fits(target="h200").usable


def test_processes_share_a_machine_and_each_has_its_own_context() -> None:
    one, four = fits(target="h200"), fits(target="h200", processes=4)
    context = one.target.context
    assert four.usable == (one.usable + context) // 4 - context
    assert 0 < one.target.driver < one.target.total // 50
    assert "each of 4 processes" in str(four)
    assert fits(target="1GiB", processes=4).usable == 256 * MIB


def test_advice_is_what_a_run_with_it_needs() -> None:
    found = fits(advice=True, **TRAINING)
    by_name = {item.what: item for item in found.advice}
    cast = next(item for name, item in by_name.items() if name.startswith("autocast"))
    half = next(item for name, item in by_name.items() if name.startswith("the model in bfloat16"))
    checked = next(item for name, item in by_name.items() if name.startswith("checkpointing"))
    assert cast.needed == fits(autocast="bfloat16", **TRAINING).needed
    assert half.needed == fits(dtype="bfloat16", **TRAINING).needed
    for item in found.advice:
        assert item.saves == found.needed - item.needed > 0
        assert item.what in str(found)
    assert [item.needed for item in found.advice] == sorted(item.needed for item in found.advice)
    assert "blocks" in checked.what


def test_checkpointing_saves_what_checkpointing_by_hand_saves() -> None:
    from torch.utils.checkpoint import checkpoint

    class ByHand(Model):
        def forward(self, x: Tensor) -> Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

    advised = next(item for item in fits(advice=True, **TRAINING).advice if item.what.startswith("checkpointing"))
    assert advised.needed == pytest.approx(fits(ByHand(), **TRAINING).needed, rel=0.03)


def test_a_batch_of_ids_and_masks_grows_together() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.fc = nn.Embedding(1000, 256), nn.Linear(256, 1000)

        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            return self.fc(self.table(ids) * mask.unsqueeze(-1))

    ids = torch.randint(0, 1000, (2, 64))
    found = fits(
        Words(), input_shape=None, kwargs={"ids": ids, "mask": torch.ones(2, 64)}, target="64MiB", max_batch=True
    )
    assert 2 < found.max_batch < 1000
    assert found.batch == 2


class NoGradient(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).argmax(-1)


x, y = torch.randn(2, 256), torch.randn(3, 256)
WRONG: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "an unknown machine": (Model, {"target": "h20o"}, rasp.UnknownName, "or 'h200'"),
    "a size that is none": (Model, {"target": "24 apples"}, rasp.UnknownName, "24GiB"),
    "no memory at all": (Model, {"target": 0}, rasp.InputError, "positive size"),
    "a target of another kind": (Model, {"target": 2.5}, rasp.InputError, "neither a machine"),
    "no process": (Model, {"processes": 0}, rasp.InputError, "at least 1"),
    "an optimiser without training": (Model, {"optimizer": torch.optim.SGD}, rasp.InputError, "train=True"),
    "an optimiser without parameters": (
        nn.ReLU, {"input_shape": (2, 8), "train": True, "optimizer": torch.optim.SGD}, rasp.RaspError, "parameter",
    ),
    "frozen parameters": (
        lambda: Model().requires_grad_(False), {"train": True}, rasp.InputError, "Unfreeze parameters",
    ),
    "a model that cannot run backward": (
        NoGradient, {"input_shape": (2, 256), "train": True}, rasp.InputError, "nothing to run backward",
    ),
    "an optimiser that does not exist": (Model, {"train": True, "optimizer": "adamx"}, rasp.UnknownName, "adam"),
    "a batch that cannot be told": (
        lambda: Two(), {"input_shape": None, "inputs": (x, y), "max_batch": True}, rasp.InputError,
        "first dimensions differ",
    ),
    "an allocator that does not exist": (Model, {"allocator": "cudaa"}, rasp.UnknownName, "Did you mean 'cuda'"),
    "settings that do not exist": (
        Model, {"allocator_settings": "max_splitt_size_mb:1"}, rasp.InputError, "max_split_size_mb",
    ),
}  # fmt: skip


class Two(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a.sum() + b


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_told(name: str) -> None:
    made, how, kind, told = WRONG[name]
    with pytest.raises(kind) as error:
        fits(made(), **how)
    assert told in str(error.value)


def test_the_model_is_left_as_it_was() -> None:
    model = Model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fits(model, max_batch=True, advice=True, target="256MiB", **TRAINING)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert model.training
