"""Fused attention: which kernel, what it keeps and what it takes, beside 216 calls measured on an H200."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rasp.capture import capture, ways_of
from rasp.memory.plan import Plan, Settings
from rasp.memory.targets import target
from rasp.memory.workspaces import Hopper
from rasp.records import Trace

FACTS = Path(__file__).parent.parent / "data" / "h200_attention.csv"
SMALL = 70_000  # a query of one row (decoding) splits its keys, which takes this much and is not told
KERNELS = {"CUDNN_ATTENTION": "cudnn", "EFFICIENT_ATTENTION": "efficient", "FLASH_ATTENTION": "flash", "MATH": ""}


class Attention(nn.Module):
    def __init__(self, causal: bool, gqa: bool) -> None:
        super().__init__()
        self.causal, self.gqa = causal, gqa

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal, enable_gqa=self.gqa)


def rows() -> list[dict[str, str]]:
    with FACTS.open(newline="") as file:
        return list(csv.DictReader(file))


def inputs(row: dict[str, str]) -> list[Tensor]:
    batch, heads, kv, rows, columns, width = (
        int(row[name]) for name in ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim")
    )
    dtype, grad = getattr(torch, row["dtype"]), row["grad"] == "1"

    def made(count: int, length: int) -> Tensor:
        return torch.empty(batch, count, length, width, device="meta", dtype=dtype, requires_grad=grad)

    found = [made(heads, rows), made(kv, columns), made(kv, columns)]
    if row["mask"] in ("bool", "float"):
        kind = torch.bool if row["mask"] == "bool" else dtype
        found.append(torch.empty(rows, columns, device="meta", dtype=kind))
    return found


def run(model: nn.Module, given: Any, **how: Any) -> tuple[Trace, Plan]:
    """A call as on an H200, and its requested bytes with what kernels take besides."""
    trace, _ = capture(model, given, ways=ways_of(target("h200")), **how)
    return trace, Plan(trace, Settings(allocator="none"), Hopper())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_measured_calls(dtype: str) -> None:
    wrong = []
    for row in rows():
        if row["dtype"] != dtype:
            continue
        grad = row["grad"] == "1"
        model = Attention(row["mask"] == "causal", row["heads"] != row["kv_heads"])
        how = {"backward": True, "loss": lambda out: out.sum(), "mode": "eval"} if grad else {}
        trace, plan = run(model, tuple(inputs(row)), **how)
        names = " ".join(spec.name for spec in trace.specs)
        forward = sum(op.phase == 0 for op in trace.ops)  # then the loss: a sum, and the ones to begin from
        steady, base = plan.steady, plan.base
        said = {"forward_peak": max(steady.most[:forward]) - base}
        if grad:
            said["forward_kept"] = steady.before[forward] - base
            said["backward_peak"] = max(steady.most[forward + 2 :]) - steady.before[forward + 2]
        kernel = KERNELS[row["backend"]]
        off = {
            name: (value, int(row[name]))
            for name, value in said.items()
            if abs(value - int(row[name])) > max(SMALL, int(row[name]) // 200)
        }
        if (kernel and f"_{kernel}_attention" not in names) or ("_attention" in names and not kernel) or off:
            wrong.append((row["mask"], *(row[n] for n in ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim")),
                          row["grad"], row["backend"], off))  # fmt: skip
    assert not wrong, f"{len(wrong)} calls: {wrong}"
