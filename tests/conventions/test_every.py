"""What holds for every convention: rows sum to the total, and any two are explained to the last operation."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rasp

NAMES = [item.name for item in rasp.conventions()]
SUMMED = ("flops", "macc", "params", "mem_r", "mem_w", "mem_rw", "param_mem", "feat_mem", "storage", "inference_mem")


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU6(), nn.Dropout())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + x).mean((2, 3))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.inside, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(ids))
        y = torch.softmax(x @ x.mT, -1).matmul(x) * 0.5
        return self.head(self.inside(y, y, y)[0] + F.scaled_dot_product_attention(x, x, x))


class Again(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.act, self.never = nn.Linear(6, 6), nn.PReLU(), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.layer(self.act(self.layer(x)))).sigmoid()


MODELS = {
    "residual": lambda: (Residual(), torch.rand(2, 4, 7, 9)),
    "attention": lambda: (Attention(), torch.randint(0, 11, (2, 5))),
    "called again": lambda: (Again(), torch.rand(3, 6)),
    "recurrent": lambda: (nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), torch.rand(2, 3, 4)),
    "gated": lambda: (nn.GRU(4, 6, batch_first=True), torch.rand(2, 3, 4)),
    "encoder": lambda: (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.rand(2, 3, 8)),
    "upwards": lambda: (
        nn.Sequential(nn.ConvTranspose2d(2, 4, 4, 2, 1), nn.GroupNorm(2, 4), nn.Upsample(scale_factor=2), nn.GELU()),
        torch.rand(1, 2, 5, 5),
    ),
    "one dimension": lambda: (
        nn.Sequential(nn.Conv1d(2, 4, 3, groups=2), nn.AvgPool1d(2), nn.Softmax(-1), nn.AdaptiveAvgPool1d(2)),
        torch.rand(2, 2, 17),
    ),
    "three dimensions": lambda: (
        nn.Sequential(nn.Conv3d(1, 2, 3, stride=2), nn.InstanceNorm3d(2), nn.MaxPool3d(2), nn.Flatten()),
        torch.rand(2, 1, 9, 9, 9),
    ),
    "mobilenet": lambda: (rasp.zoo.get("mobilenet_v2").build(), torch.rand(1, 3, 64, 64)),
    "nothing to count": lambda: (nn.Sequential(nn.Flatten(), nn.Identity()), torch.rand(2, 3, 4)),
}


@pytest.fixture(scope="module", params=MODELS)
def profile(request: pytest.FixtureRequest) -> rasp.Profile:
    model, inputs = MODELS[request.param]()
    return rasp.profile(model.eval(), inputs, functions=True)


def test_there_are_the_conventions_people_ask_for() -> None:
    wanted = """rasp rasp-2020 rasp-head thoplw thoplw-2024 dnn-analyzer burden deepspeed torch fvcore ptflops thop
    torchinfo mac flop"""
    assert set(wanted.split()) <= set(NAMES)
    assert all(item.title and item.source and 2000 < item.year < 2100 for item in rasp.conventions())


@pytest.mark.parametrize("name", NAMES)
def test_rows_sum_to_the_total(name: str, profile: rasp.Profile) -> None:
    rows = profile.rows(columns=SUMMED, convention=name)
    for column in SUMMED:
        values = [row[column] for row in rows[:-1] if row[column] is not None]
        assert sum(values) == pytest.approx(rows[-1][column] or 0, rel=1e-12), column
    assert rows[-1]["flops"] is not None, "the headline number is always there"


@pytest.mark.parametrize("pair", list(combinations(NAMES, 2)), ids="-".join)
def test_any_two_are_explained(pair: tuple[str, str], profile: rasp.Profile) -> None:
    found = rasp.explain(profile, *pair)
    a, b = (profile.total("flops", name) for name in pair)
    assert sum(line["difference"] for line in found.lines) == found.difference == a - b
    assert all(line["difference"] == line["a"] - line["b"] for line in found.lines)
    for line in found.lines:
        one, _, other = line["why"].partition(f"; {pair[1]}: ")
        assert one.startswith(f"{pair[0]}: ")
        assert len(one) > len(pair[0]) + 2, line
        assert other, line
        for name, value, why in ((pair[0], line["a"], one), (pair[1], line["b"], other)):
            assert value == 0 or not re.search(r"(: |, )not counted(,|$)", why), (name, line)
