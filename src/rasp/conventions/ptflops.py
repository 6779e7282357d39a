"""ptflops, its pytorch backend: layers by class, and on top of them functions of torch that it stands before.

Layers are counted for the whole batch and divided by it; functions are not divided, and what a layer calls counts a
second time: nn.ReLU as a layer and as F.relu. `x @ y` and `x + y` are no functions and count nothing. Source:
ptflops/pytorch_engine.py and pytorch_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import zip_longest
from math import floor, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ..records import FunctionCall, TensorSpec, leaves
from . import Charge, Convention, convention
from ._fused import fused
from ._ptflops_modules import LAYERS

if TYPE_CHECKING:
    from ..ledger import Ledger

Counted = tuple[Fraction | int, str]  # how much, and why


class Part(NamedTuple):
    """A charge before it is made whole."""

    module: int
    call: int
    amount: Fraction | int
    kind: str
    why: str


# -- functions ---------------------------------------------------------------------------------------------------------


def given(call: FunctionCall, position: int, *names: str) -> Any:
    if position < len(call.args):
        return call.args[position]
    return next((call.kwargs[name] for name in names if name in call.kwargs), None)


def elements(call: FunctionCall) -> Counted:
    return next(leaves((call.args, call.kwargs))).numel, "1 per element of the input"


def resized(call: FunctionCall) -> Counted:
    """Elements by the size that is asked for, or the input's times the factors."""
    x, out = next(leaves((call.args, call.kwargs))), next(leaves(call.out))
    size, factor = given(call, 1, "size"), given(call, 2, "scale_factor")
    if size is not None or not isinstance(factor, (int, float, tuple)):
        return out.numel, "1 per element of the output"
    if isinstance(factor, tuple):
        return x.numel * prod(map(int, factor)), "elements of the input × scale factors, each without its fraction"
    return x.numel * Fraction(float(factor) ** (x.ndim - 2)), "elements of the input × scale factor per dimension"


def product(call: FunctionCall) -> Counted:
    first, second = given(call, 0, "input"), given(call, 1, "other", "mat2", "tensor2")
    why = "elements of the first operand × last dimension of the second"
    return first.numel * second.shape[-1], why


def added_product(call: FunctionCall) -> Counted:
    start, first, second = list(leaves((call.args, call.kwargs)))[:3]
    total, why = first.numel * second.shape[-1], "elements of the first matrix × columns of the second"
    if call.kwargs.get("beta", 1) != 0:
        total, why = total + start.numel, f"{why}, 1 per element of what is added"
    return total, why


def elementwise(call: FunctionCall) -> Counted:
    """Shapes are laid over each other from the left, where torch does so from the right."""
    shapes = [side.shape for side in (given(call, 0, "input"), given(call, 1, "other")) if isinstance(side, TensorSpec)]
    sizes = [max(pair) for pair in zip_longest(*shapes, fillvalue=1)]
    return prod(sizes), "1 per element of the larger operand" if len(shapes) == 2 else "1 per element"


OF_NN: dict[str, Callable[[FunctionCall], Counted]] = {
    **dict.fromkeys(("relu", "prelu", "elu", "relu6", "gelu", "silu", "softmax"), elements),
    **{f"{kind}_pool{n}d": elements for kind in ("avg", "max", "adaptive_avg", "adaptive_max") for n in (1, 2, 3)},
    **dict.fromkeys(("upsample", "interpolate"), resized),
}
OF_TENSORS: dict[str, Callable[[FunctionCall], Counted]] = {
    **dict.fromkeys(("matmul", "mm", "bmm"), product),
    "addmm": added_product,
    **dict.fromkeys(("mul", "add"), elementwise),
}
PLACES = {
    **{f"torch.nn.functional.{name}": count for name, count in OF_NN.items()},
    **{f"{home}.{name}": count for home in ("torch", "torch.Tensor") for name, count in OF_TENSORS.items()},
    "torch.baddbmm": added_product,
}


def functions(ledger: Ledger) -> Iterator[Part]:
    hidden = fused(ledger, evaluated=True)
    for call in ledger.functions:
        if call.place in PLACES and call.owner not in hidden:
            amount, why = PLACES[call.place](call)
            kind = call.place.replace("torch.nn.functional", "F")
            yield Part(ledger.trace.calls[call.owner].module, call.owner, amount, kind, why)


# -- layers ------------------------------------------------------------------------------------------------------------


def summed(ledger: Ledger) -> dict[int, int]:
    """How often each layer is added: below a layer with a formula nothing is, a shared one by each that holds it."""
    modules = ledger.trace.modules
    times: dict[int, int] = {}
    ahead = [0]
    while ahead:
        at = ahead.pop()
        if modules[at].lineage[:1] and modules[at].lineage[0] in LAYERS:
            times[at] = times.get(at, 0) + 1
        else:
            ahead += dict.fromkeys(child for _, child in ledger.members(at))
    return times


def batch(ledger: Ledger) -> int:
    """The length of the model's one argument; several are given by name, and then the batch is taken for 1."""
    root = ledger.trace.calls[0]
    args = root.inputs if root.args is None else root.args
    if len(args) != 1 or root.kwargs:
        return 1
    if isinstance(args[0], TensorSpec):
        return args[0].shape[0] if args[0].shape else 1
    return len(args[0]) if isinstance(args[0], tuple) else 1


def layers(ledger: Ledger) -> Iterator[Part]:
    times, share = summed(ledger), batch(ledger) or 1
    for layer in ledger.layers():
        if layer.module in times:
            amount, why = LAYERS[layer.lineage[0]](layer)
            if share > 1:
                why = f"{why}; divided by the batch of {share}"
            if times[layer.module] > 1:
                why = f"{why}; added {times[layer.module]} times, once by each that holds it"
            yield Part(layer.module, layer.call, Fraction(amount * times[layer.module], share), layer.type, why)


def whole(parts: Iterable[Part]) -> Iterator[Charge]:
    """Whole numbers that add up to what is printed: the sum without its fraction."""
    total, printed = Fraction(0), 0
    for part in parts:
        total += part.amount
        yield Charge(part.module, part.call, floor(total) - printed, part.kind, part.why)
        printed = floor(total)


def flops(ledger: Ledger) -> Iterator[Charge]:
    yield from whole([*layers(ledger), *functions(ledger)])


def params(ledger: Ledger) -> Iterator[Charge]:
    """Elements of the parameters that are trained."""
    for entry in ledger.entries:
        for index in entry.tensors:
            tensor = ledger.trace.tensors[index]
            if tensor.kind == "parameter" and tensor.trainable:
                why = "elements of trainable parameters, a shared one once"
                yield Charge(entry.module, entry.call, tensor.spec.numel, "parameter", why)


PTFLOPS = convention(
    Convention(
        name="ptflops",
        title="multiply-accumulates of the layers and functions it knows, one per element of activations and pools",
        source="ptflops 0.7.5, get_model_complexity_info(..., backend='pytorch')",
        year=2025,
        level="function",
        charges={"flops": flops, "params": params},
        words={"flops": "MACs"},
    )
)
