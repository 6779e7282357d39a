"""Quantised recurrent layers: the products of their float counterparts, from the sizes of input and state alone."""

from __future__ import annotations

from ..records import OpSpec, TensorSpec
from . import Work, rule
from ._recurrent import step


def matrix(rows: int, columns: int) -> TensorSpec:
    return TensorSpec((rows, columns), (columns, 1), "qint8")


GATES = {"lstm": 4, "gru": 3, "rnn_relu": 1, "rnn_tanh": 1}


@rule("aten::quantized_lstm", "aten::quantized_gru")
def layers(call: OpSpec) -> Work:
    """(input, hx, packed, …) or, packed by length, (data, batch_sizes, hx, packed, …)."""
    start = 3 if call.overload.startswith("data") else 2
    cell = call.name.removeprefix("aten::quantized_")
    hx = call.args[start - 1]
    state = hx[0] if isinstance(hx, tuple) else hx
    _, has_biases, num_layers, _, _, bidirectional = call.args[start : start + 6]
    x, hidden, dirs = call.args[0], state.shape[-1], 2 if bidirectional else 1
    rows = x.numel // max(x.shape[-1], 1)
    work = Work()
    for layer in range(num_layers):
        width = x.shape[-1] if layer == 0 else hidden * dirs
        weights = (matrix(GATES[cell] * hidden, width), matrix(GATES[cell] * hidden, hidden))
        work += dirs * step(cell, rows, weights, 2 if has_biases else 0)
    return work


CELLS = {
    f"{space}quantized_{cell}_cell{end}": cell
    for cell in GATES
    for space, end in (("aten::", ""), ("quantized::", "_dynamic"))
}


@rule(*CELLS)
def quantised_cell(call: OpSpec) -> Work:
    x, hx = call.args[:2]
    state = hx[0] if isinstance(hx, tuple) else hx
    cell, hidden = CELLS[call.name], state.shape[-1]
    weights = (matrix(GATES[cell] * hidden, x.shape[-1]), matrix(GATES[cell] * hidden, hidden))
    return step(cell, x.numel // max(x.shape[-1], 1), weights, 2)
