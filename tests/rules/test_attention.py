"""Attention: one count whatever the operator's name, forward and backward."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import rasp
from rasp.capture.specs import op_spec
from rasp.rules._attention import causal_pairs, window_pairs

from .recording import flops, known, macc, meta, primitives, spec_of, specs_of, torch_macs, total

aten = torch.ops.aten
B, H, L, S, E, V = 2, 4, 6, 10, 8, 8


def forms(masked: bool, causal: bool, heads: int = H, queries: int = L, keys: int = S):
    """Every operator that computes attention, called on the same problem."""
    q, k, v = meta(B, heads, queries, E), meta(B, heads, keys, E), meta(B, heads, keys, V)
    mask = meta(B, heads, queries, keys) if masked else None
    out, lse = meta(B, heads, queries, V), meta(B, heads, queries)
    yield "whole", op_spec(aten.scaled_dot_product_attention.default, (q, k, v, mask, 0.0, causal), {}, out)
    yield "math", op_spec(aten._scaled_dot_product_attention_math.default, (q, k, v, mask, 0.0, causal), {}, (out, lse))
    yield (
        "cpu",
        op_spec(
            aten._scaled_dot_product_flash_attention_for_cpu.default,
            (q, k, v, 0.0, causal),
            {"attn_mask": mask},
            (out, lse),
        ),
    )
    yield (
        "efficient",
        op_spec(
            aten._scaled_dot_product_efficient_attention.default, (q, k, v, mask, True, 0.0, causal), {}, (out, lse)
        ),
    )
    yield (
        "cudnn",
        op_spec(aten._scaled_dot_product_cudnn_attention.default, (q, k, v, mask, True, 0.0, causal), {}, (out, lse)),
    )
    yield (
        "other",
        op_spec(
            aten._scaled_dot_product_fused_attention_overrideable.default, (q, k, v, mask, 0.0, causal), {}, (out, lse)
        ),
    )
    turned = [t.transpose(1, 2) for t in (q, k, v)]
    if not masked:
        yield "flash", op_spec(aten._scaled_dot_product_flash_attention.default, (q, k, v, 0.0, causal), {}, (out, lse))
        yield "flash inside", op_spec(
            aten._flash_attention_forward.default,
            (*turned, None, None, queries, keys, 0.0, causal and queries == keys, False), {}, (out, lse),
        )  # fmt: skip
        yield "cudnn inside", op_spec(
            aten._cudnn_attention_forward.default,
            (q, k, v, None, None, None, queries, keys, True, 0.0, causal), {}, (out, lse),
        )  # fmt: skip
    yield "efficient inside", op_spec(
        aten._efficient_attention_forward.default,
        (*turned, mask, None, None, None, None, 0.0, int(causal)), {}, (out, lse),
    )  # fmt: skip


@pytest.mark.parametrize(("masked", "causal"), [(False, False), (True, False), (False, True)])
def test_every_name_counts_the_same(masked, causal):
    queries = S if causal else L
    counts = {name: (primitives(known(s)), known(s).causal) for name, s in forms(masked, causal, queries=queries)}
    assert all(count == counts["whole"] for count in counts.values()), counts


def test_two_full_products_and_a_softmax_in_closed_form():
    work = known(dict(forms(masked=True, causal=False))["whole"])
    pairs, rows = B * H * L * S, B * H * L
    assert work.mac == pairs * (E + V)
    scaled = B * H * (L + S) * E
    softmax = 5 * pairs - 2 * rows  # max, difference, exponential, sum, division
    assert flops(work) == 2 * work.mac - pairs - rows * V + scaled + pairs + softmax


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"mask": True}, {"mask": True, "bool": True}, {"gqa": True}]
)
@pytest.mark.parametrize("grad", [False, True])
def test_the_fused_kernel_counts_what_the_decomposition_does(options, grad):
    """On the CPU one kernel runs, on meta its parts: the same flops, macc and macs, forward and backward."""

    def attention(device):
        heads = 2 if options.get("gqa") else H
        shapes = [(B, H, S, E), (B, heads, S, E), (B, heads, S, E)]
        q, k, v = (torch.zeros(shape, device=device, requires_grad=grad) for shape in shapes)
        dtype = torch.bool if options.get("bool") else torch.float32
        mask = torch.ones(S, S, device=device, dtype=dtype) if options.get("mask") else None
        run = lambda: F.scaled_dot_product_attention(
            q, k, v, mask, is_causal=options.get("is_causal", False), enable_gqa=bool(options.get("gqa"))
        )
        return lambda: run().sum().backward() if grad else run()

    cpu, parts = total(attention("cpu")), total(attention("meta"))
    assert any("flash_attention_for_cpu" in s.name for s in specs_of(attention("cpu")))
    assert (cpu.mac, flops(cpu), macc(cpu)) == (parts.mac, flops(parts), macc(parts))


def backward_arguments() -> dict[str, tuple]:
    """The arguments of every backward, on one problem."""
    q, k, v, out = meta(B, H, L, E), meta(B, H, S, E), meta(B, H, S, V), meta(B, H, L, V)
    lse, none, four = meta(B, H, L), (None, None), (True,) * 4
    given = (out, q, k, v)
    turned = tuple(t.transpose(1, 2) for t in given)
    sizes = (L, S, 0.0, False)
    sdpa = "_scaled_dot_product_{}_backward"
    return {
        sdpa.format("flash_attention_for_cpu"): (*given, out, lse, 0.0, False),
        sdpa.format("flash_attention"): (*given, out, lse, *none, *sizes, *none),
        sdpa.format("efficient_attention"): (*given, None, out, lse, *none, 0.0, four, False),
        sdpa.format("cudnn_attention"): (*given, out, lse, *none, None, *none, *sizes),
        sdpa.format("fused_attention_overrideable"): (*given, None, four, out, lse, *none, *sizes, *none),
        "_cudnn_attention_backward": (*given, out, lse, *none, None, *none, *sizes),
        "_flash_attention_backward": (*turned, turned[0], lse, *none, *sizes, *none),
        "_efficient_attention_backward": (*turned, None, out, *none, L, S, lse, 0.0, *none, 0, False),
    }


def test_every_backward_is_four_products_and_one_done_again():
    grads = meta(B, H, L, E), meta(B, H, S, E), meta(B, H, S, V)
    works = {
        name: known(op_spec(getattr(aten, name).default, args, {}, grads))
        for name, args in backward_arguments().items()
    }
    first = works["_scaled_dot_product_flash_attention_for_cpu_backward"]
    assert first.mac == 2 * B * H * L * S * (E + V)
    assert first.recompute == B * H * L * S * E
    for name, work in works.items():
        assert (primitives(work), work.recompute) == (primitives(first), first.recompute), name


def test_torchs_counter_sees_the_same_products():
    q, k, v = meta(B, H, L, E, grad=True), meta(B, H, S, E, grad=True), meta(B, H, S, V, grad=True)
    run = lambda: F.scaled_dot_product_attention(q, k, v).sum().backward()
    assert total(run).mac == torch_macs(run) == 3 * B * H * L * S * (E + V)


@pytest.mark.parametrize("wants", [w for w in product((False, True), repeat=4) if any(w)])
def test_what_is_frozen_needs_no_product(wants):
    """As the math route does: q·kᵀ and p·v forward, and of dV, dP, dQ and dK those that lead to a gradient."""
    q, k, v, m = (
        t.requires_grad_(w) for t, w in zip((meta(B, H, L, E), meta(B, H, S, E), meta(B, H, S, V), meta(L, S)), wants)
    )
    run = lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=m if wants[3] else None).sum().backward()
    expected = torch_macs(run)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            for name, tensor in zip("qkvm", (q, k, v, m)):
                setattr(self, name, nn.Parameter(tensor.detach(), tensor.requires_grad))

        def forward(self):
            mask = self.m if wants[3] else None
            return F.scaled_dot_product_attention(self.q, self.k, self.v, attn_mask=mask)

    profile = rasp.profile(Attention(), backward=True)
    assert profile.total("macs") + profile.total("macs_bwd") == expected


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(0, 9))
def test_what_a_causal_kernel_may_skip(queries, keys):
    assert causal_pairs(queries, keys) == sum(j > i for i, j in product(range(queries), range(keys)))
    shift = keys - queries
    assert window_pairs(queries, keys, None, 0) == sum(j > i + shift for i, j in product(range(queries), range(keys)))
    assert window_pairs(queries, keys, 2, 1) == sum(
        not i + shift - 2 <= j <= i + shift + 1 for i, j in product(range(queries), range(keys))
    )


def test_causal_is_not_halved():
    whole, causal = (known(dict(forms(masked=False, causal=c, queries=S))["whole"]) for c in (False, True))
    assert whole.mac == causal.mac
    assert causal.causal == B * H * S * (S - 1) // 2 * (E + V)
    assert whole.causal == 0


def test_packed_sequences_count_as_equally_long():
    starts = meta(5, dtype=torch.int32)
    q, k = meta(40, H, E), meta(80, H, E)
    args = (q, k, k, starts, starts, 17, 30, 0.0, False, False)
    assert known(op_spec(aten._flash_attention_forward.default, args, {}, q)).mac == 4 * H * 10 * 20 * 2 * E


def test_dropout_costs_the_same_inside_and_outside():
    q = torch.zeros(B, H, S, E)
    fused = op_spec(aten.scaled_dot_product_attention.default, (q, q, q, None, 0.1, False), {}, q)
    plain = op_spec(aten.scaled_dot_product_attention.default, (q, q, q, None, 0.0, False), {}, q)
    scores = meta(B, H, S, S)
    alone = known(op_spec(aten.native_dropout.default, (scores, 0.1, True), {}, (scores, scores)))
    assert flops(known(fused)) - flops(known(plain)) == flops(alone)


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention_fast_path(need_weights):
    """MultiheadAttention is one operator on the CPU and a dozen on meta."""
    runs = []
    for device in ("cpu", "meta"):
        layer = nn.MultiheadAttention(16, 4, batch_first=True).to(device).eval()
        x = torch.zeros(3, 5, 16, device=device)

        def run(layer=layer, x=x):
            with torch.no_grad():
                layer(x, x, x, need_weights=need_weights)

        runs.append(run)
    assert any(s.name == "aten::_native_multi_head_attention" for s in specs_of(runs[0]))
    cpu, parts = map(total, runs)
    assert (cpu.mac, flops(cpu), macc(cpu)) == (parts.mac, flops(parts), macc(parts))


@pytest.mark.parametrize("options", [{}, {"activation": "gelu"}, {"norm_first": True}])
def test_encoder_layer_fast_path(options):
    runs = []
    for device in ("cpu", "meta"):
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options).to(device).eval()
        x = torch.zeros(3, 5, 16, device=device)

        def run(layer=layer, x=x):
            with torch.no_grad():
                layer(x)

        runs.append(run)
    assert any(s.name == "aten::_transformer_encoder_layer_fwd" for s in specs_of(runs[0]))
    cpu, parts = map(total, runs)
    assert (cpu.mac, flops(cpu), macc(cpu)) == (parts.mac, flops(parts), macc(parts))


def test_broadcast_and_single_head_shapes():
    for q, k in [((5, 8), (7, 8)), ((3, 5, 8), (3, 7, 8)), ((2, 4, 5, 8), (1, 4, 7, 8))]:
        whole = spec_of(aten.scaled_dot_product_attention.default, meta(*q), meta(*k), meta(*k))
        assert (
            known(whole).mac == total(lambda q=q, k=k: F.scaled_dot_product_attention(meta(*q), meta(*k), meta(*k))).mac
        )


def test_flex_attention():
    spec = spec_of(aten.scaled_dot_product_attention.default, meta(B, H, L, E), meta(B, H, S, E), meta(B, H, S, V))
    spec.name = "higher_order::flex_attention"
    assert known(spec).mac == B * H * L * S * (E + V)
