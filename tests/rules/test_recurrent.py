"""Recurrent layers as one operator equal the sum of the operators they decompose into."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn

from rasp.capture.specs import op_spec

from .recording import flops, known, macc, meta, primitives, spec_of, specs_of, torch_macs, total

aten = torch.ops.aten
T, B, I, H = 4, 3, 5, 6  # noqa: E741
CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn_tanh": nn.RNN, "rnn_relu": nn.RNN}


def layer(cell, device="meta", **options):
    kind = {"nonlinearity": cell.removeprefix("rnn_")} if cell.startswith("rnn") else {}
    return CELLS[cell](I, H, device=device, **kind, **options)


def whole(cell, module, x):
    """The spec of the operator as it would arrive undivided."""
    dirs = 2 if module.bidirectional else 1
    width = getattr(module, "proj_size", 0) or H
    state = meta(module.num_layers * dirs, B, width)
    hx = [state, meta(module.num_layers * dirs, B, H)] if cell == "lstm" else state
    arguments = (x, hx, module._flat_weights, module.bias, module.num_layers, 0.0, False, module.bidirectional, False)
    return op_spec(getattr(aten, cell).input, arguments, {}, (meta(T, B, width * dirs), state))


@pytest.mark.parametrize(
    ("cell", "layers", "bidirectional", "bias"), product(CELLS, [1, 2], [False, True], [False, True])
)
def test_closed_form_is_the_sum_of_the_parts(cell, layers, bidirectional, bias):
    module = layer(cell, num_layers=layers, bidirectional=bidirectional, bias=bias)
    x = meta(T, B, I)
    closed, parts = known(whole(cell, module, x)), total(lambda: module(x))
    assert primitives(closed) == primitives(parts)
    assert closed.mac == torch_macs(lambda: module(x))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_projection(bidirectional):
    module = layer("lstm", proj_size=2, num_layers=2, bidirectional=bidirectional)
    x = meta(T, B, I)
    assert primitives(known(whole("lstm", module, x))) == primitives(total(lambda: module(x)))


@pytest.mark.parametrize(("cell", "mode"), [("rnn_relu", 0), ("rnn_tanh", 1), ("lstm", 2), ("gru", 3)])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_cudnn_and_miopen_count_the_same(cell, mode, bidirectional):
    module = layer(cell, num_layers=2, bidirectional=bidirectional)
    x, hx = meta(T, B, I), meta(4, B, H)
    expected = primitives(total(lambda: module(x)))
    weights = module._flat_weights
    rest = (2, False, 0.0, False, bidirectional, [], None)
    cudnn = op_spec(aten._cudnn_rnn.default, (x, weights, 4, None, hx, hx, mode, H, 0, *rest), {}, (meta(T, B, H), hx))
    miopen = op_spec(aten.miopen_rnn.default, (x, weights, 4, hx, hx, mode, H, *rest), {}, (meta(T, B, H), hx))
    assert primitives(known(cudnn)) == primitives(known(miopen)) == expected


def test_the_cpu_kernel_counts_what_its_parts_do():
    """oneDNN runs an LSTM as one operator per layer and direction."""
    runs = []
    for device in ("cpu", "meta"):
        module, x = layer("lstm", device, num_layers=2, bidirectional=True), torch.zeros(T, B, I, device=device)

        def run(module=module, x=x):
            with torch.no_grad():
                module(x)

        runs.append(run)
    cpu, parts = map(total, runs)
    if any(s.name == "aten::mkldnn_rnn_layer" for s in specs_of(runs[0])):
        assert primitives(cpu) == primitives(parts)
    assert (cpu.mac, flops(cpu), macc(cpu)) == (parts.mac, flops(parts), macc(parts))


def test_packed_sequences_count_the_rows_that_are_there():
    module = nn.LSTM(I, H)
    lengths = [4, 2, 1]
    packed = nn.utils.rnn.pack_padded_sequence(torch.zeros(4, 3, I), lengths)
    with torch.no_grad():
        parts = total(lambda: module(packed))
    hx = [torch.zeros(1, 3, H)] * 2
    data = (packed.data, packed.batch_sizes, hx, module._flat_weights, True, 1, 0.0, False, False)
    closed = known(op_spec(aten.lstm.data, data, {}, (torch.zeros(7, H), *hx)))
    assert closed.mac == parts.mac == sum(lengths) * 4 * H * (I + H)
    assert flops(closed) == flops(parts)


def test_dropout_between_layers_only_in_training():
    module = layer("gru", num_layers=3, dropout=0.5)
    x = meta(T, B, I)
    arguments = (x, meta(3, B, H), module._flat_weights, True, 3, 0.5)
    out = (meta(T, B, H), meta(3, B, H))
    trained, evaluated = (
        known(op_spec(aten.gru.input, (*arguments, train, False, False), {}, out)) for train in (True, False)
    )
    assert trained.rand == 2 * T * B * H
    assert evaluated.rand == 0
    assert flops(trained) - flops(evaluated) == 2 * 2 * T * B * H
    assert primitives(trained) == primitives(total(lambda: module.train()(x)))


@pytest.mark.parametrize(
    ("cls", "name"), [(nn.LSTMCell, "lstm_cell"), (nn.GRUCell, "gru_cell"), (nn.RNNCell, "rnn_tanh_cell")]
)
def test_cells(cls, name):
    cell, x, h = cls(I, H, device="meta"), meta(B, I), meta(B, H)
    state = [h, h] if name == "lstm_cell" else h
    spec = spec_of(getattr(aten, name).default, x, state, *cell.parameters())
    assert primitives(known(spec)) == primitives(total(lambda: cell(x, tuple(state) if isinstance(state, list) else h)))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_fused_cell_is_the_elementwise_part(cell):
    """CUDA without cuDNN runs the products and then one kernel for the rest."""
    gates = (4 if cell == "lstm" else 3) * H
    bias = meta(gates)
    fused = op_spec(
        getattr(aten, f"_thnn_fused_{cell}_cell").default, (meta(B, gates), meta(B, gates), meta(B, H), bias, bias), {},
        (meta(B, H), meta(B, H)),
    )  # fmt: skip
    products = total(lambda: (meta(B, I) @ meta(I, gates), meta(B, H) @ meta(H, gates)))
    module = layer(cell)
    x = meta(1, B, I)
    assert primitives(known(fused) + products) == primitives(total(lambda: module(x)))


@pytest.mark.parametrize("cell", CELLS)
def test_backward_is_two_products(cell):
    module, x = layer(cell, num_layers=2), meta(T, B, I, grad=True)
    forward = total(lambda: module(x)).mac
    both = total(lambda: module(x)[0].sum().backward()).mac
    mode = ["rnn_relu", "rnn_tanh", "lstm", "gru"].index(cell)
    h = meta(2, B, H)
    arguments = (x, module._flat_weights, 4, None, h, h, meta(T, B, H), None, None, None, mode, H, 0, 2)
    rest = (False, 0.0, True, False, [], None, None, (True,) * 4)
    spec = op_spec(aten._cudnn_rnn_backward.default, (*arguments, *rest), {}, (x, h, h, list(module._flat_weights)))
    assert known(spec).mac == 2 * forward
    # autograd skips the products with the first hidden state's gradient, which nobody asked for
    assert 2 * forward - 2 * B * module.weight_hh_l0.numel() == both - forward


def test_quantised_layers_count_from_the_sizes_alone():
    module = layer("lstm", num_layers=2, bidirectional=True)
    x, state = meta(T, B, I), [meta(4, B, H)] * 2
    arguments = (x, state, ["packed"] * 4, True, 2, 0.0, False, True, False)
    spec = op_spec(aten.quantized_lstm.input, arguments, {}, (meta(T, B, 2 * H), *state))
    assert primitives(known(spec)) == primitives(total(lambda: module(x)))
