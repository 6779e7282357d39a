"""fvcore: multiply-accumulates of the operators it has a formula for, as torch.jit.trace writes them down.

A composite operator is one node of that trace and what it does inside is not seen: scaled_dot_product_attention, LSTM
and GRU count nothing. Nodes that no output needs are dropped. Source: fvcore/nn/flop_count.py and jit_handles.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from ..records import FunctionCall, TensorSpec, leaves
from . import Charge, Convention, convention
from ._contraction_path import printed_cost
from ._fused import fused
from ._needed import needed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..ledger import Ledger

Counted = tuple[int, str]  # how much, and why


def given(call: FunctionCall, position: int, name: str) -> Any:
    """An argument, by its place or by its name."""
    return call.args[position] if position < len(call.args) else call.kwargs.get(name)


def shape(call: FunctionCall, position: int, name: str) -> tuple[int, ...]:
    found = given(call, position, name)
    return found.shape if isinstance(found, TensorSpec) else ()


def linear(call: FunctionCall) -> Counted:
    out = shape(call, 1, "weight")[:1]
    return prod(shape(call, 0, "input")) * prod(out), "elements of the input × output features; the bias is free"


def matmul(call: FunctionCall) -> Counted:
    """Elements of the first operand times columns of the second; with a vector as the second fvcore itself stops."""
    first, second = shape(call, 0, "input"), shape(call, 1, "other") or shape(call, 1, "mat2")
    columns = second[-1] if len(second) > 1 else 1
    why = "elements of the first operand × columns of the second"
    if prod(first[:-2]) < prod(second[:-2]):
        why += ", without the batches that it is broadcast over"
    return prod(first) * columns, why


def addmm(call: FunctionCall) -> Counted:
    matrices = [spec.shape for spec in leaves((call.args, call.kwargs))][1:3]
    return prod(matrices[0]) * matrices[1][-1], "rows × inner × columns; the addition is free"


def bmm(call: FunctionCall) -> Counted:
    columns = shape(call, 1, "mat2")[-1]
    return prod(shape(call, 0, "input")) * columns, "batches × rows × inner × columns"


EXACT = {"abc,abd->acd": -1, "abc,adc->adb": 1}  # which dimension of the second operand the first has not


def einsum(call: FunctionCall) -> Counted | None:
    """Half the operations numpy prints for the cheapest order; two common products exactly."""
    equation = call.args[0] if call.args else call.kwargs.get("equation")
    if not isinstance(equation, str):
        return None  # given as sublists: the call inside has the equation
    shapes = [spec.shape for spec in leaves((call.args[1:], call.kwargs))]
    letters = dict.fromkeys(letter for letter in equation if letter.isalpha())
    renamed = equation.replace(" ", "").translate({ord(letter): 97 + at for at, letter in enumerate(letters)})
    if renamed in EXACT:
        return prod(shapes[0]) * shapes[1][EXACT[renamed]], "every index multiplied out"
    why = "half the operations numpy prints for the cheapest order, to four digits"
    return printed_cost(equation, shapes) // 2, why


def cell(call: FunctionCall) -> Counted:
    """Two linear maps, of the input and of the state (of an LSTM the first of the two)."""
    inputs, states = shape(call, 0, "input"), next(leaves(given(call, 1, "hx"))).shape
    gates = shape(call, 2, "w_ih")[0], shape(call, 3, "w_hh")[0]
    return prod(inputs) * gates[0] + prod(states) * gates[1], "the products of the input and of the state; gates free"


def norm(affine: int) -> Callable[[FunctionCall], Counted]:
    def count(call: FunctionCall) -> Counted:
        each = 4 if given(call, affine, "weight") is None else 5
        scaled = "" if each == 4 else ", its weight and bias among them"
        return each * prod(shape(call, 0, "input")), f"{each} per element{scaled}"

    return count


def batch_norm(call: FunctionCall) -> Counted:
    if given(call, 5, "training"):
        amount, why = norm(1)(call)
        return amount, f"{why}, in training"
    each = 1 if given(call, 1, "weight") is None else 2
    return each * prod(shape(call, 0, "input")), f"{each} per element, in evaluation"


def pool(call: FunctionCall) -> Counted:
    return prod(shape(call, 0, "input")), "1 per element of the input"


def sampled(each: int) -> Callable[[FunctionCall], Counted]:
    def count(call: FunctionCall) -> Counted:
        return each * prod(next(leaves(call.out)).shape), f"{each} per element of the output"

    return count


def convolution(call: FunctionCall, ledger: Ledger) -> Counted | None:
    """Weights times positions, of the input where it is transposed; a padding in words is a node without formula."""
    if isinstance(given(call, 4, "padding"), str):
        return None
    total, where = 0, "output"
    for op in ledger.trace.ops[call.start : call.end]:
        spec = ledger.trace.specs[op.spec]
        if spec.name == "aten::convolution":
            x, weight, transposed = spec.args[0].shape, spec.args[1].shape, spec.args[6]
            positions, where = (x, "input") if transposed else (spec.out.shape, "output")
            total += x[0] * prod(weight) * prod(positions[2:])
    return total, f"elements of the weight × positions of the {where}; the bias is free"


HANDLES: dict[str, tuple[str, Callable[[FunctionCall], Counted | None]]] = {
    "torch.nn.functional.linear": ("linear", linear),
    **dict.fromkeys(("torch.addmm", "torch.Tensor.addmm", "aten.addmm"), ("addmm", addmm)),
    **dict.fromkeys(("torch.bmm", "torch.Tensor.bmm", "aten.bmm"), ("bmm", bmm)),
    **dict.fromkeys(("torch.mm", "torch.Tensor.mm", "torch.spmm", "aten.mm"), ("mm", matmul)),
    **dict.fromkeys(
        ("torch.matmul", "torch.Tensor.matmul", "torch.Tensor.__matmul__", "torch.linalg.matmul", "aten.matmul"),
        ("matmul", matmul),
    ),
    "torch.einsum": ("einsum", einsum),
    **{f"torch.{kind}_cell": ("linear", cell) for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    "torch.batch_norm": ("batch_norm", batch_norm),
    "torch.instance_norm": ("instance_norm", norm(1)),
    "torch.layer_norm": ("layer_norm", norm(2)),
    "torch.group_norm": ("group_norm", norm(2)),
    "torch._C._nn.adaptive_avg_pool2d": ("adaptive_avg_pool2d", pool),
    "torch._C._nn.upsample_nearest2d": ("upsample_nearest2d", sampled(1)),
    "torch._C._nn.upsample_bilinear2d": ("upsample_bilinear2d", sampled(4)),
    "torch.grid_sampler": ("grid_sampler", sampled(4)),
}
CONVOLUTIONS = {"torch.convolution", "torch._convolution", "aten.convolution"}
CONVOLUTIONS |= {f"torch.nn.functional.conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)}


def flops(ledger: Ledger) -> Iterator[Charge]:
    """Each call that the outputs need, in the module that made it; not what such a call does inside."""
    live, hidden, calls = needed(ledger), fused(ledger, evaluated=False), ledger.trace.calls
    inside: set[int] = set()
    for index, call in enumerate(ledger.functions):
        if call.parent in inside or call.owner in hidden:
            inside.add(index)
            continue
        kind, found = counted(call, ledger)
        if found is None:
            continue
        inside.add(index)
        if call.start == call.end or any(live[call.start : call.end]):
            module = calls[call.owner].module
            yield Charge(module, call.owner if at_home(ledger, call.owner) else None, found[0], kind, found[1])


def counted(call: FunctionCall, ledger: Ledger) -> tuple[str, Counted | None]:
    """What it is to fvcore, and what that counts; None where it has no formula."""
    name = call.name.removesuffix(".default")
    if name in CONVOLUTIONS:
        return "conv", convolution(call, ledger)
    kind, handle = HANDLES.get(name, ("", None))
    return kind, None if handle is None else handle(call)


def at_home(ledger: Ledger, call: int) -> bool:
    """Whether a module is called by the one it is registered in, lists of modules aside, where what it does counts."""
    modules, record = ledger.trace.modules, ledger.trace.calls[call]
    if record.parent < 0:
        return True
    caller, above = ledger.trace.calls[record.parent].module, modules[record.module].parent
    while above >= 0 and above != caller and above not in ledger.last_calls:
        above = modules[above].parent
    return above == caller and at_home(ledger, record.parent)


def params(ledger: Ledger) -> Iterator[Charge]:
    """Elements of every parameter, a shared one once; packed values as they lie in memory."""
    for entry in ledger.entries:
        for index in entry.tensors:
            tensor = ledger.trace.tensors[index]
            if tensor.kind == "parameter":
                why = "elements of parameters, a shared one once"
                yield Charge(entry.module, entry.call, tensor.spec.numel, "parameter", why)


FVCORE = convention(
    Convention(
        name="fvcore",
        title="one multiply-accumulate of the products and convolutions it knows, a few per element of norms",
        source="fvcore 0.1.5.post20221221, FlopCountAnalysis(model, inputs).total()",
        year=2022,
        level="function",
        charges={"flops": flops, "params": params},
        words={"flops": "flops"},
    )
)
