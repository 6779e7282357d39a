"""Recurrent layers as one operator: two products per step, layer and direction, then the cell's elementwise part.

The counts equal the sum over the operators such a layer decomposes into on devices without a fused kernel.
Packed sequences count the rows that are there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._forms import DROPOUT, charge
from ._recurrent import GRU, GRU_BACKWARD, LSTM, LSTM_BACKWARD, MODES, step, step_backward


def layers(call: OpSpec, cell: str, groups: list[Sequence[TensorSpec]], biases: int, dropout: float, dirs: int) -> Work:
    """All layers and directions, with dropout between layers."""
    x = call.args[0]
    rows = x.numel // max(x.shape[-1], 1)
    work = sum((step(cell, rows, g, biases) for g in groups), Work())
    between = len(groups) // dirs - 1
    if dropout > 0 and between > 0:
        width = groups[0][2].shape[0] if len(groups[0]) > 2 else groups[0][1].shape[1]
        work += charge(DROPOUT, rows * width * dirs * between)
    return work


def grouped(flat: Sequence[TensorSpec], size: int) -> list[Sequence[TensorSpec]]:
    """Matrices of each layer and direction; the biases between them are vectors."""
    return [[w for w in flat[i : i + size] if w.ndim == 2] for i in range(0, len(flat), size)]


@rule("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu", "aten::_lstm_mps")
def recurrent(call: OpSpec) -> Work:
    """(input, hx, weights, …) or, packed, (data, batch_sizes, hx, weights, …)."""
    start = 3 if call.overload == "data" else 2
    params, has_biases, num_layers, dropout, train, bidirectional = call.args[start : start + 6]
    dirs = 2 if bidirectional else 1
    cell = {"aten::_lstm_mps": "lstm"}.get(call.name, call.name.removeprefix("aten::"))
    groups = grouped(params, len(params) // (num_layers * dirs))
    return layers(call, cell, groups, 2 if has_biases else 0, dropout if train else 0.0, dirs)


@rule("aten::lstm_cell", "aten::gru_cell", "aten::rnn_tanh_cell", "aten::rnn_relu_cell")
def recurrent_cell(call: OpSpec) -> Work:
    x, _, w_ih, w_hh, b_ih, b_hh = call.args[:6]
    cell = call.name.removeprefix("aten::").removesuffix("_cell")
    biases = (b_ih is not None) + (b_hh is not None)
    return step(cell, x.numel // max(x.shape[-1], 1), (w_ih, w_hh), biases)


@rule("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_gru_cell")
def fused_cell(call: OpSpec) -> Work:
    """The elementwise part of a cell whose products ran before; the biases are added here."""
    gates, _, state, b_ih, b_hh = call.args[:5]
    cell = LSTM if "lstm" in call.name else GRU
    return charge(cell, state.numel) + Work(bias=gates.numel * ((b_ih is not None) + (b_hh is not None)))


@rule("aten::_thnn_fused_lstm_cell_backward", "aten::_thnn_fused_lstm_cell_backward_impl")
def fused_lstm_cell_backward(call: OpSpec) -> Work:
    return charge(LSTM_BACKWARD, call.args[2].numel) + _bias_grad(call.args[4], call.args[-1])


@rule("aten::_thnn_fused_gru_cell_backward")
def fused_gru_cell_backward(call: OpSpec) -> Work:
    return charge(GRU_BACKWARD, call.args[0].numel) + _bias_grad(call.args[1], call.args[2])


@rule("aten::_thnn_differentiable_lstm_cell_backward", "aten::_thnn_differentiable_gru_cell_backward")
def differentiable_cell_backward(call: OpSpec) -> Work:
    lstm = "lstm" in call.name
    state = call.args[6] if lstm else call.args[3]
    return charge(LSTM_BACKWARD if lstm else GRU_BACKWARD, state.numel)


def _bias_grad(gates: TensorSpec, has_bias: bool) -> Work:
    return Work(add=max(gates.numel - gates.shape[-1], 0) if has_bias else 0)


@rule("aten::_cudnn_rnn")
def cudnn_rnn(call: OpSpec) -> Work:
    _, weights, size, _, _, _, mode = call.args[:7]
    dropout, train, bidirectional = call.args[11:14]
    return _flat(call, weights, size, mode, dropout if train else 0.0, bidirectional)


@rule("aten::miopen_rnn")
def miopen_rnn(call: OpSpec) -> Work:
    _, weights, size, _, _, mode = call.args[:6]
    dropout, train, bidirectional = call.args[9:12]
    return _flat(call, weights, size, mode, dropout if train else 0.0, bidirectional)


def _flat(
    call: OpSpec, weights: Sequence[TensorSpec], size: int, mode: int, dropout: float, bidirectional: bool
) -> Work:
    groups = grouped(weights, size)
    biases = sum(w.ndim == 1 for w in weights[:size])
    return layers(call, MODES[mode], groups, biases, dropout, 2 if bidirectional else 1)


@rule("aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward")
def cudnn_rnn_backward(call: OpSpec) -> Work:
    x, weights, size = call.args[:3]
    mode = MODES[call.args[10]]
    rows = x.numel // max(x.shape[-1], 1)
    biases = sum(w.ndim == 1 for w in weights[:size])
    return sum((step_backward(mode, rows, g, biases) for g in grouped(weights, size)), Work())


@rule("aten::mkldnn_rnn_layer")
def mkldnn_rnn_layer(call: OpSpec) -> Work:
    """One layer in one direction."""
    x, w_ih, w_hh = call.args[:3]
    mode, has_biases = call.args[9], call.args[12]
    rows = x.numel // max(x.shape[-1], 1)
    return step(MODES[mode], rows, _shaped(w_ih, w_hh, x, call), 2 if has_biases else 0)


@rule("aten::mkldnn_rnn_layer_backward")
def mkldnn_rnn_layer_backward(call: OpSpec) -> Work:
    x, w_ih, w_hh = call.args[:3]
    rows = x.numel // max(x.shape[-1], 1)
    return step_backward(MODES[call.args[14]], rows, (w_ih, w_hh), 2 if call.args[17] else 0)


def _shaped(w_ih: TensorSpec, w_hh: TensorSpec, x: TensorSpec, call: OpSpec) -> tuple[TensorSpec, TensorSpec]:
    """The two weights as (gates, in) and (gates, hidden), also where oneDNN has reordered them."""
    if w_ih.ndim == 2 and w_ih.stride:
        return w_ih, w_hh
    hidden = call.args[10]
    gates = {"lstm": 4, "gru": 3}.get(MODES[call.args[9]], 1) * hidden
    inputs = x.shape[-1]
    return TensorSpec((gates, inputs), (inputs, 1), w_ih.dtype), TensorSpec((gates, hidden), (hidden, 1), w_ih.dtype)


@rule("aten::lstm_mps_backward")
def lstm_mps_backward(call: OpSpec) -> Work:
    x, params, has_biases, num_layers = call.args[5], call.args[8], call.args[9], call.args[10]
    dirs = 2 if call.args[13] else 1
    rows = x.numel // max(x.shape[-1], 1)
    groups = grouped(params, len(params) // (num_layers * dirs))
    return sum((step_backward("lstm", rows, g, 2 if has_biases else 0) for g in groups), Work())
