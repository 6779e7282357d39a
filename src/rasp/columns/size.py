"""Parameters and buffers: how many, how many bytes. A tied parameter is one, charged where it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..records import TensorInfo
from . import per_tensor

if TYPE_CHECKING:
    from ..view import View


@per_tensor("params", "params")
def params(tensor: TensorInfo, view: View) -> int:
    """Parameters, trainable or not."""
    return tensor.spec.numel if tensor.kind == "parameter" else 0


@per_tensor("trainable", "trainable")
def trainable(tensor: TensorInfo, view: View) -> int:
    """Parameters that require a gradient."""
    return tensor.spec.numel if tensor.kind == "parameter" and tensor.trainable else 0


@per_tensor("logical_params", "logical params")
def logical_params(tensor: TensorInfo, view: View) -> int:
    """Parameters that the stored elements stand for: more than are stored where several are packed in one (4 bit)."""
    return tensor.logical if tensor.kind == "parameter" else 0


@per_tensor("param_bytes", "param bytes", unit="B", form="bytes")
def param_bytes(tensor: TensorInfo, view: View) -> int:
    """Bytes the parameters take."""
    return tensor.nbytes if tensor.kind == "parameter" else 0


@per_tensor("buffers", "buffers")
def buffers(tensor: TensorInfo, view: View) -> int:
    """Elements of buffers (running statistics, masks, tables)."""
    return tensor.spec.numel if tensor.kind == "buffer" else 0


@per_tensor("buffer_bytes", "buffer bytes", unit="B", form="bytes")
def buffer_bytes(tensor: TensorInfo, view: View) -> int:
    """Bytes the buffers take."""
    return tensor.nbytes if tensor.kind == "buffer" else 0


@per_tensor("params_active", "active params")
def params_active(tensor: TensorInfo, view: View) -> int:
    """Parameters the forward used for one token: of stacked experts the share that the router picks."""
    if tensor.kind != "parameter" or tensor.storage not in view.ledger.read:
        return 0
    picked, of = view.ledger.routed.get(tensor.storage, (1, 1))
    return tensor.logical * picked // of
