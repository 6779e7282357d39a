"""Convention deepspeed beside the profiler itself, module by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rasp
from peers.deepspeed import profiled
from rasp.conventions._contraction_path import printed_cost

profiler = pytest.importorskip("deepspeed.profiling.flops_profiler.profiler")
numpy = pytest.importorskip("numpy")

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
Counts = dict[str, tuple[int, int]]


class Calls(nn.Module):
    """A model that is one function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


class Held(nn.Module):
    """Functions taken before the profiler stood before them, modules in a plain list, a forward called directly."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.plain, self.layer = F.gelu, [nn.Linear(4, 4)], nn.Linear(4, 4)
        self.rnn = nn.GRU(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(F.gelu(self.plain[0](x)))
        return self.rnn(self.layer.forward(x) + self.layer(x))[0]


class Attending(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.inside = nn.MultiheadAttention(8, 2, batch_first=True, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inside(x, x, x)[0]


class Steps(nn.Module):
    def __init__(self, cell: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.cell = cell(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for _ in range(3):
            state = self.cell(x, state)
        return state[0] if isinstance(state, tuple) else state


R = torch.rand


def several_sizes(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, 5).sum() + F.interpolate(x, (5, 6)).sum() + F.interpolate(x, None, 1.5).sum()


def several_norms(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (4,), w) + F.layer_norm(x, (4,)) + F.group_norm(x, 2, w) + F.instance_norm(x)


def several_pools(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x, 2, return_indices=True)[0] + F.adaptive_max_pool2d(x, 2, True)[0]


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "operators": (lambda x, y: (x + y) * x @ y - sum([x, y]), [(3, 3), (3, 3)]),
    "methods": (lambda x, y: x.add(y).mul(x).matmul(y).mm(x).add_(1), [(3, 3), (3, 3)]),
    "functions": (lambda x, y: torch.add(x.matmul(y), 1) + torch.matmul(x, y) + torch.addmm(x[0], x, y), [(3, 3)] * 2),
    "broadcasts": (lambda x, y: torch.add(x, y) + x.mul(y) + torch.mul(y, x), [(2, 1, 4), (3, 1)]),
    "one dimension": (lambda x, y: torch.matmul(x, y), [(3, 4), (4,)]),
    "batches": (lambda x, y: torch.baddbmm(x[:1, :1], x, y) + torch.bmm(x, y) + x.bmm(y), [(2, 4, 4), (2, 4, 4)]),
    "torch.conv2d is not F.conv2d": (lambda x, w: F.conv2d(x, w) + torch.conv2d(x, w), [(1, 2, 5, 5), (4, 2, 3, 3)]),
    "same": (lambda x, w: F.conv2d(x, w, padding="same", dilation=2), [(1, 2, 9, 9), (4, 2, 4, 3)]),
    "transposed": (lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2), [(1, 4, 5, 5), (4, 3, 3, 3), (6,)]),
    "resized": (several_sizes, [(1, 2, 4, 4)]),
    "upsample calls interpolate": (lambda x: F.upsample(x, scale_factor=2), [(1, 2, 4, 4)]),
    "pools inside": (lambda x: F.local_response_norm(x, 3) + F.lp_pool2d(x, 2, 1), [(1, 4, 4, 4)]),
    "indices": (several_pools, [(1, 2, 4, 4)]),
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k, None, 0.0, True), [(2, 3, 5, 8), (2, 3, 5, 8)]),
    "einsum": (lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y), [(2, 3, 14, 8), (2, 3, 15, 8)]),
    "three in an einsum": (lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z), [(7, 8), (8, 9), (9, 3)]),
    "on meta made of functions": (lambda x: F.interpolate(x, scale_factor=3, mode="linear"), [(2, 3, 8)]),
    "norms": (several_norms, [(2, 4, 4), (4,)]),
}  # fmt: skip
MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    **{f"F: {name}": (lambda f=f, s=s: (Calls(f), tuple(map(R, s)))) for name, (f, s) in FUNCTIONS.items()},
    "held": lambda: (Held(), (R(2, 3, 4),)),
    "attention": lambda: (Attending(), (R(2, 3, 8),)),
    "attention with a bias for keys": lambda: (Attending(add_bias_kv=True), (R(2, 3, 8),)),
    "encoder": lambda: (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (R(2, 3, 8),)),
    "LSTM": lambda: (nn.LSTM(4, 6, 2, proj_size=3, bidirectional=True), (R(2, 3, 4),)),
    "GRU without biases": lambda: (nn.GRU(4, 6, 2, bias=False, batch_first=True), (R(2, 3, 4),)),
    "RNN without a batch": lambda: (nn.RNN(4, 6), (R(3, 4),)),
    "a class of its own": lambda: (type("Own", (nn.LSTM,), {})(4, 6), (R(2, 3, 4),)),
    "LSTM cell": lambda: (Steps(nn.LSTMCell), (R(2, 4),)),
    "GRU cell": lambda: (Steps(nn.GRUCell), (R(2, 4),)),
    "batch norms": lambda: (nn.Sequential(nn.BatchNorm1d(4), nn.BatchNorm1d(4, affine=False)), (R(3, 4),)),
}
CASES = [(name, training) for name in MODELS for training in (False, True)]


def told(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[tuple[int, int, int], Counts]:
    """Totals, and what each module accumulated itself."""
    with profiled(model) as found:
        model(*inputs)
        totals = found.get_total_flops(), found.get_total_macs(), found.get_total_params()
        own = {name: (module.__flops__, module.__macs__) for name, module in model.named_modules()}
    return totals, {name: pair for name, pair in own.items() if any(pair)}


def charged(profile: rasp.Profile) -> Counts:
    found: dict[str, list[int]] = {}
    for at, column in enumerate(("flops", "macc")):
        for charges in profile.view("deepspeed").charges(column).values():
            for charge in charges:
                found.setdefault(profile.trace.modules[charge.module].path, [0, 0])[at] += charge.amount
    return {name: (pair[0], pair[1]) for name, pair in found.items()}


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    profiler.logger.disabled = True
    yield
    profiler.logger.disabled = False


@pytest.mark.parametrize(("name", "training"), CASES, ids=lambda value: str(value))
def test_every_module_counts_what_the_profiler_says(name: str, training: bool) -> None:
    model, inputs = MODELS[name]()
    model.train(training)
    profile = rasp.profile(model, inputs, mode="as-is", convention="deepspeed")
    totals = tuple(profile.total(column) for column in ("flops", "macc", "params"))
    assert (totals, charged(profile)) == told(model, inputs)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(30, 41), (41, 57)]),
        ("...ij,...jk->...ik", [(7, 3, 41), (1, 41, 5)]),
        ("ab,bc,cd,de->ae", [(3, 13), (13, 5), (5, 17), (17, 2)]),
        ("bn,anm,bm->ba", [(2, 5), (4, 5, 6), (2, 6)]),
        ("a,b,c->abc", [(3,), (4,), (5,)]),
        ("i->", [(12345,)]),
    ],
)
def test_contractions_cost_what_numpy_prints(equation: str, shapes: list[tuple[int, ...]]) -> None:
    text = numpy.einsum_path(equation, *map(numpy.zeros, shapes), optimize="optimal")[1]
    line = next(line for line in text.splitlines() if "Optimized FLOP" in line)
    assert printed_cost(equation, shapes) == int(float(line.split(":")[1]))


def test_charges_say_why() -> None:
    profile = rasp.profile(nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU()), input_shape=(1, 2, 5, 5), functions=True)
    why = {line["op"]: line["why"] for line in rasp.explain(profile, "deepspeed", "mac").lines}
    assert "1 per output for the bias" in why["Conv2d"]
    assert "1 per input element" in why["ReLU"]


def test_a_saved_profile_counts_the_same(tmp_path: Any) -> None:
    profile = rasp.profile(Held(), R(2, 3, 4), convention="deepspeed")
    profile.save(tmp_path / "held.json")
    assert charged(rasp.load(tmp_path / "held.json")) == charged(profile)
