"""What RASP's two ways of counting share: rows for calls of leaf modules, the classes it knows, elements as bytes.

RASP looks a layer's exact class up, so a subclass counts nothing, and keeps memory in elements until it prints them.
Source: RASP (github.com/CreeperLin/RASP), frontend/torch_frontend.py and profiler/eval.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from ..records import ITEMSIZE, TensorInfo
from . import Charge, Charges

if TYPE_CHECKING:
    from ..ledger import LayerCall, Ledger

CLASSES = {
    "convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "norm": "BatchNorm1d BatchNorm2d BatchNorm3d",
    "activation": "ReLU ReLU6 PReLU ELU LeakyReLU",
    "pool": """MaxPool1d MaxPool2d MaxPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
               AvgPool1d AvgPool2d AvgPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d""",
    "linear": "Linear",
    "upsample": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
}
FAMILY = {f"torch.nn.{name}": family for family, names in CLASSES.items() for name in names.split()}
FLAT = tuple(f"torch.nn.Conv{kind}{n}d" for kind in ("", "Transpose") for n in (1, 3))
PER_PIXEL = {  # of an enlarged image, by mode: flops, macc
    "linear": (5, 3), "bilinear": (13, 7), "bicubic": (259, 148), "trilinear": (31, 26),
}  # fmt: skip
WORD = 4  # bytes of an element where a layer has no parameter to tell them
OTHER = "other"
BIASED = ("convolution", "linear")
TRAINABLE = "its trainable parameters"


@dataclass(frozen=True)
class Layer:
    """One row of RASP's tape in the quantities of its formulas: sizes per sample, `stored` trainable parameters."""

    call: LayerCall
    family: str
    own: tuple[TensorInfo, ...]
    bias: int

    @property
    def hyper(self) -> Mapping[str, Any]:
        return self.call.hyper

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the input, its batch first: RASP takes the first dimension for it, whatever it is."""
        shape = self.call.inputs[0].shape
        unbatched = self.family == "convolution" and len(shape) == len(self.kernel) + 1
        return (1, *shape) if unbatched or not shape else shape

    @property
    def out_shape(self) -> tuple[int, ...]:
        shape = self.call.outputs[0].shape
        return shape if len(shape) == len(self.shape) else (1, *shape)

    @property
    def batch(self) -> int:
        return self.shape[0]

    @property
    def reads(self) -> int:
        return prod(self.shape[1:])

    @property
    def writes(self) -> int:
        return prod(self.out_shape[1:])

    @property
    def kernel(self) -> tuple[int, ...]:
        return tuple(self.hyper["kernel_size"])

    @property
    def fan_in(self) -> int:
        """Multiplications for one output of a convolution, taken as a plain one even where it is transposed."""
        return int(self.shape[1] // self.hyper["groups"] * prod(self.kernel))

    @property
    def stored(self) -> int:
        return sum(tensor.spec.numel for tensor in self.own if tensor.trainable)

    @property
    def itemsize(self) -> float:
        return ITEMSIZE.get(self.own[0].spec.dtype, WORD) if self.own else WORD

    @property
    def window(self) -> int:
        """Elements under a pool's window: of a kernel given as a number that number, not its power."""
        size = self.hyper["kernel_size"]
        return prod(size) if isinstance(size, (tuple, list)) else int(size)

    @property
    def stops(self) -> str:
        """Why RASP itself gives no number here."""
        if self.family == "upsample" or self.call.is_a("torch.nn.PReLU"):
            return "it asks the layer for an attribute that it has not"
        if self.call.is_a(*FLAT):
            return "it unpacks two dimensions"
        return "it unpacks the padding" if isinstance(self.hyper.get("padding"), str) else ""


class Row(NamedTuple):
    """What RASP notes for one layer; memory in elements."""

    flops: int = 0
    macc: int = 0
    params: int = 0
    reads: int = 0
    writes: int | float = 0


Formulas = Mapping[str, Callable[[Layer], Row]]
Reasons = Mapping[str, Mapping[str, str]]


def charges(columns: str, formulas: Formulas, reasons: Reasons, hollow: bool) -> dict[str, Charges]:
    """Charges for each column; `hollow`: a container inside which no module was called makes a row as well."""
    return {column: partial(_charged, column, formulas, reasons, hollow) for column in columns.split()}


def _charged(column: str, formulas: Formulas, reasons: Reasons, hollow: bool, ledger: Ledger) -> Iterator[Charge]:
    for layer in tape(ledger, hollow):
        row = formulas[layer.family](layer) if layer.family != OTHER else Row(params=layer.stored)
        amount = _amount(column, row, layer.itemsize)
        why = _why(column, reasons.get(layer.family, {}))
        stops = f" (RASP itself stops here: {layer.stops})" if layer.stops else ""
        yield Charge(layer.call.module, layer.call.call, amount, layer.call.type, why + stops)


def _amount(column: str, row: Row, itemsize: float) -> int | float:
    in_bytes = {"mem_r": row.reads, "mem_w": row.writes, "mem_rw": row.reads + row.writes}
    amount: int | float = in_bytes[column] * itemsize if column in in_bytes else getattr(row, column)
    return amount


def _why(column: str, reasons: Mapping[str, str]) -> str:
    if column == "mem_rw":
        return f"read: {_why('mem_r', reasons)}, write: {_why('mem_w', reasons)}"
    return reasons.get(column, TRAINABLE if column == "params" else "no formula")


def tape(ledger: Ledger, hollow: bool) -> Iterator[Layer]:
    """RASP's rows: every call of a leaf module, in order."""
    above = {call.parent for call in ledger.trace.calls}
    for call in ledger.layers():
        if call.leaf:
            known = FAMILY.get(call.lineage[0] if call.lineage else "", OTHER)
            yield _layer(ledger, call, known if call.inputs and call.outputs else OTHER)
        elif hollow and call.call not in above:
            yield _layer(ledger, call, OTHER)


def _layer(ledger: Ledger, call: LayerCall, family: str) -> Layer:
    info = ledger.trace.modules[call.module]
    tensors = tuple(ledger.trace.tensors[index] for index in ledger.all_tensors(call.module))
    own = tuple(tensor for tensor in tensors if tensor.kind == "parameter")
    if family not in BIASED:
        return Layer(call, family, own, 0)
    names = {f"{path}.bias".lstrip(".") for path in (info.path, *info.names)}
    return Layer(call, family, own, int(any(not names.isdisjoint(tensor.names) for tensor in own)))
