"""One recurrent layer in one direction: its products and the elementwise part of its cell, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

from ..records import TensorSpec
from . import Work
from ._forms import SIGMOID, SIGMOID_BACKWARD, TANH_BACKWARD, Form, charge, form, times

LSTM = times(SIGMOID, 3) + form(tanh=2, mul=3, add=1 + 4)  # i, f, o, g, c', h' and the four sums of x and h gates
GRU = times(SIGMOID, 2) + form(tanh=1, mul=2, add=5)  # r, z, n = tanh(x + r·h), h' = n + z·(h - n)
RNN_TANH = form(add=1, tanh=1)
RNN_RELU = form(add=1, cmp=1)
LSTM_BACKWARD = times(SIGMOID_BACKWARD, 3) + times(TANH_BACKWARD, 2) + form(mul=6, add=1)
GRU_BACKWARD = times(SIGMOID_BACKWARD, 2) + TANH_BACKWARD + form(mul=4, add=3)
CELLS: dict[str, Form] = {"lstm": LSTM, "gru": GRU, "rnn_tanh": RNN_TANH, "rnn_relu": RNN_RELU}
CELLS_BACKWARD: dict[str, Form] = {
    "lstm": LSTM_BACKWARD, "gru": GRU_BACKWARD, "rnn_tanh": TANH_BACKWARD, "rnn_relu": form(cmp=1),
}  # fmt: skip
MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")  # cuDNN's numbers, which oneDNN and MIOpen share


def product(rows: int, weight: TensorSpec) -> Work:
    out = rows * weight.shape[0]
    return Work(mac=rows * weight.numel, dot=min(out, rows * weight.numel))


def step(cell: str, rows: int, weights: Sequence[TensorSpec], biases: int) -> Work:
    """One layer in one direction over so many rows (steps × batch): w_ih, w_hh and, for a projection, w_hr."""
    gates = weights[0].shape[0]
    hidden = gates // {"lstm": 4, "gru": 3}.get(cell, 1)
    work = sum((product(rows, w) for w in weights), Work(bias=biases * rows * gates))
    return work + charge(CELLS[cell], rows * hidden)


def step_backward(cell: str, rows: int, weights: Sequence[TensorSpec], biases: int) -> Work:
    """Two products per weight (by input and by weight), the cell's derivative, and a sum per bias."""
    gates = weights[0].shape[0]
    hidden = gates // {"lstm": 4, "gru": 3}.get(cell, 1)
    work = Work(add=biases * max(rows - 1, 0) * gates)
    for w in weights:
        mac = rows * w.numel
        work += Work(mac=2 * mac, dot=min(rows * w.shape[1] + w.numel, 2 * mac))
    return work + charge(CELLS_BACKWARD[cell], rows * hidden)
