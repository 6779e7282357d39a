"""Attention is one fused operator in every form torch takes it; flex attention and recurrent networks are whole."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import rnn

import rasp
from rasp.capture import capture

from .comparing import Call, assert_sound, macs, names, run

attend = F.scaled_dot_product_attention
B, H, L, S, E, V = 2, 4, 5, 7, 8, 6


def attention(*shapes, mask=None, **how):
    """Capture on shapes and for real; both outputs must agree in shape and both counts in number."""
    inputs = [torch.rand(shape) for shape in shapes]
    function = lambda m, q, k, v: attend(q, k, v, attn_mask=mask, **how)
    shape, told = capture(Call(function), tuple(inputs))
    real, _ = capture(Call(function), tuple(inputs), device="cpu")
    assert told["capture_mode"] == "meta"
    assert_sound(shape)
    assert shape.outputs[0].shape == real.outputs[0].shape == attend(*inputs, attn_mask=mask, **how).shape
    assert macs(shape) == macs(real)
    return shape


RANKS = {
    "two": [(L, E), (S, E), (S, V)],
    "three": [(B, L, E), (B, S, E), (B, S, V)],
    "four": [(B, H, L, E), (B, H, S, E), (B, H, S, V)],
    "five": [(3, B, H, L, E), (3, B, H, S, E), (3, B, H, S, V)],
    "heads that broadcast": [(B, H, L, E), (B, 1, S, E), (B, 1, S, V)],
    "batches that broadcast": [(B, H, L, E), (1, H, S, E), (1, H, S, V)],
    "one query": [(B, H, 1, E), (B, H, S, E), (B, H, S, V)],
    "the width of the key": [(B, H, L, E), (B, H, S, E), (B, H, S, E)],
}


@pytest.mark.parametrize("name", RANKS)
def test_attention_of_every_rank(name):
    shapes = RANKS[name]
    trace = attention(*shapes)
    batch = torch.broadcast_shapes(*(s[:-2] for s in shapes)).numel()
    query, width = shapes[0][-2], shapes[2][-1]
    assert macs(trace) == {"": batch * query * S * (E + width)}


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
@pytest.mark.parametrize(
    "shape",
    [(L, S), (1, S), (L, 1), (1, 1), (1, L, S), (H, L, S), (B, 1, L, S), (B, 1, 1, S), (1, H, L, S), (B, H, L, S)],
)
def test_attention_with_every_mask_that_broadcasts(shape, dtype):
    mask = torch.ones(shape, dtype=dtype)
    trace = attention(*RANKS["four"], mask=mask)
    assert macs(trace) == {"": B * H * L * S * (E + V)}


@pytest.mark.parametrize("shape", [(L, S), (1, S), (B, L, S), (B, 1, S), (1, L, S)])
def test_attention_of_three_dimensions_with_a_mask(shape):
    trace = attention(*RANKS["three"], mask=torch.ones(shape, dtype=torch.bool))
    assert macs(trace) == {"": B * L * S * (E + V)}


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_grouped_queries(groups, masked):
    mask = torch.ones(L, S, dtype=torch.bool) if masked else None
    trace = attention((B, H, L, E), (B, groups, S, E), (B, groups, S, V), mask=mask, enable_gqa=True)
    assert macs(trace) == {"": B * H * L * S * (E + V)}


@pytest.mark.parametrize("how", [{"is_causal": True}, {"scale": 0.5}, {"dropout_p": 0.3}])
def test_attention_with_options(how):
    assert macs(attention(*RANKS["four"], **how)) == {"": B * H * L * S * (E + V)}


def test_attention_gives_heads_next_to_each_other():
    """(B, L, H, E) in memory, as fused kernels write it: merging the heads is then a view."""
    trace, _ = run(lambda m, q: attend(q, q, q).transpose(1, 2).reshape(B, L, H * E), torch.rand(B, H, L, E))
    assert len(trace.ops) == 1


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", RANKS)
def test_the_backward_of_attention_has_four_products(name, masked):
    shapes = RANKS[name]
    mask = torch.zeros(shapes[0][-2], S) if masked else None
    model = Call(lambda m, q, k, v: attend(q, k, v, attn_mask=mask))
    inputs = tuple(torch.rand(s, requires_grad=True) for s in shapes)
    trace, how = capture(model, inputs, backward=True)
    assert how["capture_mode"] == "meta"
    assert_sound(trace)
    assert macs(trace, 1) == {"": 2 * macs(trace, 0)[""]}


BAD = {
    "widths": [(B, H, L, E), (B, H, S, E + 1), (B, H, S, V)],
    "lengths": [(B, H, L, E), (B, H, S, E), (B, H, S + 1, V)],
    "heads": [(B, H, L, E), (B, 3, S, E), (B, 3, S, V)],
    "batches": [(B, H, L, E), (3, H, S, E), (3, H, S, V)],
    "one dimension": [(E,), (E,), (E,)],
}


@pytest.mark.parametrize("name", BAD)
def test_attention_that_does_not_fit_is_the_models_error(name):
    inputs = tuple(torch.rand(s) for s in BAD[name])
    with pytest.raises(RuntimeError):
        attend(*inputs)
    with pytest.raises(rasp.ModelError):
        capture(Call(lambda m, q, k, v: attend(q, k, v)), inputs)


def test_masks_that_do_not_fit_are_the_models_error():
    q = torch.rand(B, H, L, E)
    for mask, how in (
        (torch.ones(L + 1, L), {}),
        (torch.ones(L, L), {"is_causal": True}),
        (torch.ones(3, 1, L, L), {}),
    ):
        try:
            attend(q, q, q, attn_mask=mask, **how)
        except RuntimeError:
            with pytest.raises(rasp.ModelError):
                run(lambda m, q, mask=mask, how=how: attend(q, q, q, attn_mask=mask, **how), q)
        else:  # some releases of torch let it pass: then so does the run for real
            run(lambda m, q, mask=mask, how=how: attend(q, q, q, attn_mask=mask, **how), q)


def test_the_kernel_a_user_forces_makes_no_difference():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.rand(B, H, L, E)
    expected = macs(run(lambda m, q: attend(q, q, q), q)[0])
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION):
        with sdpa_kernel(backend):
            assert macs(run(lambda m, q: attend(q, q, q), q)[0]) == expected


def test_multi_head_attention_with_weights_and_masks():
    layer = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.rand(B, L, 16)
    scores = 2 * B * 4 * L * L * 4
    for how in (
        {},
        {"need_weights": False},
        {"key_padding_mask": torch.zeros(B, L, dtype=torch.bool)},
        {"attn_mask": torch.zeros(L, L)},
        {"average_attn_weights": False},
    ):
        trace, told = capture(layer, (x, x, x), kwargs=how)
        assert told["capture_mode"] == "meta"
        assert sum(macs(trace).values()) == 4 * B * L * 16 * 16 + scores


def test_an_encoder_with_a_padding_mask_takes_the_plain_path():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval()
    mask = torch.zeros(B, L, dtype=torch.bool)
    mask[0, 3:] = True
    x = torch.rand(B, L, 16)
    plain, _ = capture(model, x)
    padded, how = capture(model, x, kwargs={"src_key_padding_mask": mask})
    assert how["capture_mode"] == "meta"
    assert sum(macs(padded).values()) == sum(macs(plain).values())
    assert model.enable_nested_tensor


# -- flex attention -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [E, 16])
def test_flex_attention(width):
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    q, k, v = torch.rand(B, H, L, E), torch.rand(B, H, S, E), torch.rand(B, H, S, width)
    trace, how = run(lambda m, *qkv: flex.flex_attention(*qkv, score_mod=lambda s, b, h, i, j: s + (i - j)), q, k, v)
    assert how["capture_mode"] == "meta"
    assert macs(trace) == {"": B * H * L * S * (E + width)}
    assert trace.outputs[0].shape == (B, H, L, width)


def test_the_backward_of_flex_attention():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    model = Call(lambda m, q: flex.flex_attention(m.linear(q), q, q).sum())
    q = torch.rand(1, 2, 128, 8)
    shape, how = capture(model, q, backward=True)
    real, _ = capture(model, q, backward=True, device="cpu")
    assert how["capture_mode"] == "meta"
    assert_sound(shape)
    assert macs(shape, 1) == macs(real, 1)
    assert macs(shape, 0)[""] * 2 == macs(shape, 1)[""]


def test_flex_attention_with_a_block_mask():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
    q = torch.rand(1, 2, 128, 16)
    trace, how = run(lambda m, q: flex.flex_attention(q, q, q, block_mask=mask), q)
    assert how["capture_mode"] == "meta"
    assert sum(macs(trace).values()) == 2 * 2 * 128 * 128 * 16
    assert "kv_num_blocks" not in vars(flex.BlockMask)
    assert mask.kv_num_blocks.device.type == "cpu"


# -- recurrent networks ---------------------------------------------------------------------------------------------


class Packed(nn.Module):
    def __init__(self, kind, **how):
        super().__init__()
        self.net = kind(8, 6, batch_first=True, **how)

    def forward(self, x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = self.net(packed)
        return rnn.pad_packed_sequence(out, batch_first=True)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_count_the_steps_they_hold(kind, backward):
    gates = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}[kind]
    lengths = torch.tensor([5, 2, 3])
    x = torch.rand(3, 5, 8)
    trace, how = capture(Packed(kind), (x, lengths), backward=backward)
    assert how["capture_mode"] == "meta"
    assert_sound(trace)
    assert macs(trace, 0) == {"net": int(lengths.sum()) * gates * 6 * (8 + 6)}
    assert trace.outputs[0].shape == (3, 5, 6)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_in_all_their_forms_give_what_they_give(kind):
    projections = (0, 4) if kind is nn.LSTM else (0,)
    for layers, both, first, bias, projection in product(
        (1, 2), (False, True), (False, True), (True, False), projections
    ):
        extra = {"proj_size": projection} if projection else {}
        net = kind(8, 6, layers, bias=bias, batch_first=first, bidirectional=both, **extra)
        for x in (torch.rand(3, 5, 8), torch.rand(5, 8)):
            trace, how = capture(net, x)
            out, state = net(x)
            outputs = [tuple(t.shape) for t in (out, *(state if isinstance(state, tuple) else (state,)))]
            assert how["capture_mode"] == "meta"
            assert [t.shape for t in trace.outputs] == outputs
            real, _ = capture(net, x, device="cpu")
            assert macs(trace) == macs(real)


def test_a_recurrent_backward_counts_the_gradients_that_are_asked_for():
    """oneDNN's own backward would compute those of the input and the first state as well."""
    for net in (nn.LSTM(8, 6), nn.LSTM(8, 6, 2, bias=False, dropout=0.5), nn.GRU(8, 6)):
        for x in (torch.rand(5, 3, 8), torch.rand(5, 3, 8, requires_grad=True)):
            trace, _ = capture(net, x, backward=True)
            real, _ = capture(net, x, backward=True, device="cpu")
            assert macs(trace, 1) == macs(real, 1) != {}
    assert torch.backends.mkldnn.enabled


def test_an_initial_state_of_ones_own():
    net = nn.LSTM(8, 6, batch_first=True)
    state = (torch.zeros(1, 3, 6), torch.zeros(1, 3, 6))
    trace, how = capture(net, (torch.rand(3, 5, 8), state))
    assert how["capture_mode"] == "meta"
    assert macs(trace) == {"": 15 * 24 * 14}


def test_a_recurrent_input_of_the_wrong_width_is_the_models_error():
    with pytest.raises(rasp.ModelError, match="input"):
        capture(nn.LSTM(8, 6), torch.rand(5, 3, 7))


def test_inference_mode_inside_a_forward_changes_nothing():
    def forward(m, x):
        q = (x @ m.weight).reshape(1, 2, 2, 4).contiguous()
        return F.linear(attend(q, q, q).reshape(2, 8), m.weight)

    plain, _ = run(forward)
    inside, how = run(torch.inference_mode()(forward))
    assert how["capture_mode"] == "meta"
    assert names(inside) == names(plain)
    assert [tuple(s) for s in inside.storages] == [tuple(s) for s in plain.storages]
    real, _ = run(torch.inference_mode()(forward), device="cpu")
    assert macs(real) == macs(plain)
