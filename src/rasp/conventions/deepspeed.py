"""DeepSpeed's flops profiler: functions of torch before which it stands, in whatever module they are called.

What is spelled as an operator of Python (x + y; not x @ y), works in place, or was taken from torch before the profiler
stood there (`self.act = F.gelu`, `from torch import einsum`) is not heard and counts nothing; nor is attention with
frozen weights, which torch runs as one operator. A function that calls another in its own namespace counts both.
Recurrent layers have a formula of their own, at which their class must be torch's very own. Formulas of functions:
_deepspeed.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ledger import LayerCall, Ledger
from ..records import TensorSpec
from . import Charge, Convention, convention
from ._deepspeed import FORMULAS, Cost
from ._fused import fused

LAYERS = {"torch.nn.RNN": 1, "torch.nn.GRU": 7, "torch.nn.LSTM": 10}  # elementwise work per hidden unit, as it says
CELLS = {f"{name}Cell": each for name, each in LAYERS.items()}
RECURRENT = LAYERS | CELLS


def spelled(place: str) -> str:
    """'torch.nn.functional.linear' → 'F.linear'."""
    return place.replace("torch.nn.functional.", "F.")


def calls(ledger: Ledger) -> Iterator[tuple[int, int, str, Cost]]:
    """What each call counts: of the module call it is in, with its kind."""
    known, hidden = _registered(ledger), fused(ledger, evaluated=False)
    for call in ledger.functions:
        formula = FORMULAS.get(spelled(call.place)) if call.owner not in hidden else None
        found = formula(call) if formula else None
        if found is not None:
            owner = _owner(ledger, call.owner, known)
            yield ledger.trace.calls[owner].module, owner, spelled(call.place), found
    for layer in ledger.layers():
        if layer.module in known and layer.is_a(*RECURRENT):
            found = recurrent(layer)
            if found is not None:
                yield layer.module, layer.call, layer.type, found


def _registered(ledger: Ledger) -> set[int]:
    """Modules that the profiler finds: the model's, not those in a plain list."""
    found: set[int] = set()
    stack = [0]
    while stack:
        module = stack.pop()
        if module not in found:
            found.add(module)
            stack.extend(child for _, child in ledger.members(module))
    return found


def _owner(ledger: Ledger, call: int, known: set[int]) -> int:
    """The module call that is charged: recurrent layers, and modules it does not find, leave it to what called them."""
    trace = ledger.trace
    while trace.calls[call].parent >= 0:
        module = trace.calls[call].module
        if module in known and trace.modules[module].lineage[:1] not in IGNORED:
            break
        call = trace.calls[call].parent
    return call


IGNORED = {(name,) for name in RECURRENT}


def recurrent(layer: LayerCall) -> Cost | None:
    """Σ over layers (2·rows·columns − rows for both weights, gates, biases) × the first two sizes of the input.

    Of two directions the first, twice; of a cell the first size only. MACs are not counted.
    """
    x = layer.args[0] if layer.args else layer.kwargs.get("input")
    weights = layer.params
    if not isinstance(x, TensorSpec) or not x.shape:
        return None
    each = RECURRENT[layer.lineage[0]] * layer.hyper["hidden_size"]
    if layer.is_a(*CELLS):
        return Cost(x.shape[0] * (each + _weights(weights, "")), 0, "gates and biases of a step × batch")
    steps = sum(each + _weights(weights, f"_l{number}") for number in range(layer.hyper["num_layers"]))
    twice = 2 if layer.hyper["bidirectional"] else 1
    sizes = x.shape[0] * (x.shape[1] if x.ndim > 1 else 1)
    why = "gates and biases of a step × the first two sizes of the input"
    return Cost(steps * sizes * twice, 0, f"{why}, twice for two directions" if twice == 2 else why)


def _weights(weights: dict[str, TensorSpec], number: str) -> int:
    """Both products of a step, each 2·rows·columns − rows, and the biases."""
    pair = [weights[f"{name}{number}"].shape for name in ("weight_ih", "weight_hh")]
    gates = pair[0][0]
    biases = [weights[name].shape[0] for name in (f"bias_ih{number}", f"bias_hh{number}") if name in weights]
    return sum(2 * rows * columns - gates for rows, columns in pair) + sum(biases)


def _charges(amount: Callable[[Cost], int]) -> Callable[[Ledger], Iterator[Charge]]:
    def charges(ledger: Ledger) -> Iterator[Charge]:
        for module, call, kind, cost in calls(ledger):
            yield Charge(module, call, amount(cost), kind, cost.why)

    return charges


def parameters(ledger: Ledger) -> Iterator[Charge]:
    """Elements of the registered parameters as they are stored, a shared one once."""
    registered, seen = set(ledger.all_tensors(0)), set[int]()
    for index, module in enumerate(ledger.trace.modules):
        for at in registered.intersection(module.tensors) - seen:
            seen.add(at)
            tensor = ledger.trace.tensors[at]
            if tensor.kind == "parameter":
                yield Charge(index, None, tensor.spec.numel, module.type, "elements as stored, a shared one once")


convention(
    Convention(
        "deepspeed",
        "a flop of the functions DeepSpeed stands before: 2 a MAC, activations and pools 1 per input element",
        "microsoft/DeepSpeed, profiling/flops_profiler",
        2026,
        level="function",
        charges={"flops": _charges(lambda c: c.flops), "macc": _charges(lambda c: c.macs), "params": parameters},
        words={"flops": "flops", "macc": "MACs"},
    )
)
