"""Composite operators that are caught whole, before they fall apart into different parts on each device.

scaled_dot_product_attention takes the math path on meta, a fused one on CPU and GPU; nn.LSTM, GRU and RNN are fused on
CPU and GPU and a long chain of small operators on meta. While a capture runs, kernels of ours stand before them in the
dispatcher (added and removed with it), so that the record is the same wherever the model runs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from .plans import META
from .specs import tensor_spec
from .values import DependsOnData

aten = torch.ops.aten
Tensor = torch.Tensor
_BASE: Any = torch._C.TensorBase
_current = threading.local()
_lock = threading.RLock()
_depth = 0
_libraries: dict[tuple[str, str], Any] = {}
_before: dict[str, Any] = {}
_enter_inference = torch.inference_mode.__enter__

FLEX = "torch.nn.attention.flex_attention"
MASK_ROW = 8
PADDED = "_pad_packed_sequence"
RNN = (
    PADDED,
    "lstm.input",
    "lstm.data",
    "gru.input",
    "gru.data",
    "rnn_tanh.input",
    "rnn_tanh.data",
    "rnn_relu.input",
    "rnn_relu.data",
)


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload)


class Ways(Protocol):
    """What a device other than this one would do, where memory is asked for as it would be there."""

    def attention(self, query: Any, key: Any, value: Any, mask: str, gqa: bool, grad: bool) -> str:
        """'flash', 'efficient', 'cudnn' or 'math', for tensors of these specs and a mask of this kind
        ('none', 'causal', 'bool', 'float', or 'trained': one that needs a gradient)."""


def ways_now() -> Any:
    """The ways of the device that memory is asked for, in the capture that is running."""
    return getattr(getattr(_current, "mode", None), "ways", None)


@contextmanager
def routed(mode: Any, *, key: str, recurrent: bool) -> Iterator[None]:
    """Send composite operators of this thread to the mode while it runs; `key`: the dispatch key they are caught at."""
    global _depth
    outer = getattr(_current, "mode", None)
    with _lock:
        if _depth == 0:
            _patch()
        _depth += 1
        names = ("scaled_dot_product_attention", *(RNN if recurrent else ()))
        _register(key, names if getattr(mode, "ways", None) is None else (*names, "dropout"))
    _current.mode = mode
    try:
        yield
    finally:
        _current.mode = outer
        with _lock:
            _depth -= 1
            if _depth == 0:
                _unpatch()
                for library in _libraries.values():
                    library._destroy()
                _libraries.clear()


def _patch() -> None:
    """Methods of Tensor that lose a known value, or hand out memory, before any operator is dispatched."""
    for name, ours in METHODS.items():
        if name in vars(torch.Tensor):  # they are inherited, unless somebody else stands there
            _before[name] = vars(torch.Tensor)[name]
        setattr(torch.Tensor, name, ours)
    torch.inference_mode.__enter__ = _no_inference  # type: ignore[method-assign]
    flex = sys.modules.get(FLEX)
    if flex is not None:
        flex.BlockMask.kv_num_blocks = _BlockCounts()


def _unpatch() -> None:
    for name in METHODS:
        if name in _before:
            setattr(torch.Tensor, name, _before.pop(name))
        else:
            delattr(torch.Tensor, name)
    torch.inference_mode.__enter__ = _enter_inference  # type: ignore[method-assign]
    flex = sys.modules.get(FLEX)
    if flex is not None and isinstance(vars(flex.BlockMask).get("kv_num_blocks"), _BlockCounts):
        del flex.BlockMask.kv_num_blocks


class _BlockCounts:
    """BlockMask.kv_num_blocks, whose device flex_attention compares with the query's: on meta, its stand-in's."""

    def __get__(self, mask: Any, owner: Any = None) -> Any:
        if mask is None:
            return self
        held = vars(mask)["kv_num_blocks"]
        stand_in = getattr(getattr(_current, "mode", None), "stand_in", None)
        return held if stand_in is None else stand_in(held)

    def __set__(self, mask: Any, value: Any) -> None:
        vars(mask)["kv_num_blocks"] = value


def _no_inference(self: Any) -> None:
    """A forward that enters inference mode enters no_grad: composite operators would arrive whole, as other ones."""
    if getattr(_current, "mode", None) is None:
        _enter_inference(self)
    else:
        self._inference_mode_context = torch.set_grad_enabled(not self.mode)


class Lists(TorchFunctionMode):
    """Lists that torch makes tensors of without a word, which on meta loses their values: x[:, [-1, 0]],
    torch.tensor([3, 4], device=x.device), torch.tensor([a.sum(), b.sum()]). Here they are made with their values.
    (A method in place of Tensor.__getitem__ would make tensors sequences for good.)
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is _BASE.__getitem__ or func is _BASE.__setitem__:
            args = (args[0], _kept(args[1]), *args[2:])
        elif func is _BASE.new_tensor and len(args) > 1:
            func, kwargs = torch.tensor, {"dtype": args[0].dtype, "device": args[0].device, **kwargs}
            args = args[1:]
        if func in (torch.tensor, torch.as_tensor) and args:
            args = (_numbers(args[0]), *args[1:])
            if kwargs.get("device") is not None and torch.device(kwargs["device"]) == META:
                kwargs["device"] = "cpu"  # the constant it becomes stands on meta
        return func(*args, **kwargs)


def _kept(index: Any) -> Any:
    if index.__class__ is tuple:
        return tuple(map(_kept, index))
    return torch.tensor(index, device="cpu") if index.__class__ is list and index and _integers(index) else index


def _numbers(item: Any) -> Any:
    if item.__class__ in (list, tuple):
        return [_numbers(i) for i in item]
    return item.item() if isinstance(item, Tensor) and item.device == META and not item.dim() else item


def _integers(items: list[Any]) -> bool:
    return all(isinstance(i, (int, bool)) for i in items)


def _tolist(self: Tensor) -> Any:
    with _disable_current_modes():  # above the dispatcher: a replay here must not be recorded
        return _BASE.tolist(_known(self, "tolist"))


def _numpy(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A known value as an array that must not be written: no operator would tell, so whoever does gets a real run."""
    with _disable_current_modes():
        array = _BASE.numpy(_known(self, "numpy"), *args, **kwargs)
    if self.device == META:
        array.flags.writeable = False
    else:
        _lent(self)
    return array


def _data_ptr(self: Tensor) -> int:
    if self.device == META and hasattr(getattr(_current, "mode", None), "real"):
        raise DependsOnData("data_ptr", [tuple(self.shape)], "asks for the address of a tensor's memory")
    _lent(self)
    return int(_BASE.data_ptr(self))


def _lent(tensor: Tensor) -> None:
    """In a real run, memory that was handed out is looked at when torch uses it next."""
    lend = getattr(getattr(_current, "mode", None), "lend", None)
    if lend is not None:
        lend(tensor)


def _known(tensor: Tensor, name: str) -> Tensor:
    """The real value of a stand-in, where it is known."""
    mode = getattr(_current, "mode", None)
    if mode is None or tensor.device != META or not hasattr(mode, "real"):
        return tensor
    real: Tensor = mode.real(tensor, name)
    return real


def _register(key: str, names: tuple[str, ...]) -> None:
    """Put our kernels before the composite operators at a dispatch key (each takes a tenth of a millisecond)."""
    for name in names:
        if (key, name) not in _libraries:
            library = _libraries[key, name] = torch.library.Library("aten", "IMPL")
            kernel = _KERNELS.get(name) or _recurrent(_overload(name))
            library.impl(name, kernel, key)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    op = aten.scaled_dot_product_attention.default
    kwargs = {"scale": scale, "enable_gqa": enable_gqa}
    mode = getattr(_current, "mode", None)
    if mode is None:
        return op.decompose(query, key, value, attn_mask, dropout_p, is_causal, **kwargs)
    if query.device == META:
        return fused_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return mode.whole(op, (query, key, value, attn_mask, dropout_p, is_causal), kwargs)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    gqa: bool,
) -> Tensor:
    """Attention as one fused operator: flash without a mask, memory-efficient with one."""
    _check(query, key, value, mask, causal, gqa)
    if (
        query.dim() != 4
        or key.dim() != 4
        or value.dim() != 4
        or query.shape[0] != key.shape[0]
        or key.shape[0] != value.shape[0]
    ):
        return _other_ranks(query, key, value, mask, dropout, causal, scale, gqa)
    if not gqa and not query.shape[1] == key.shape[1] == value.shape[1]:
        heads = max(query.shape[1], key.shape[1], value.shape[1])
        query, key, value = (t.expand(t.shape[0], heads, *t.shape[2:]) for t in (query, key, value))
    ways = ways_now()
    if ways is not None:
        return _as_on(ways, query, key, value, mask, dropout, causal, scale, gqa)
    if mask is None:
        out: Tensor = aten._scaled_dot_product_flash_attention.default(query, key, value, dropout, causal, scale=scale)[
            0
        ]
        return out
    mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    keep = torch.is_grad_enabled()
    return aten._scaled_dot_product_efficient_attention.default(
        query, key, value, mask, keep, dropout, causal, scale=scale
    )[0]


def _as_on(
    ways: Ways,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    gqa: bool,
) -> Tensor:
    """Attention by the kernel that a device would choose; it decides what is kept for the backward."""
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    kind = "causal" if causal else "none" if mask is None else "bool" if mask.dtype == torch.bool else "float"
    if mask is not None and mask.requires_grad and torch.is_grad_enabled():
        kind, keep = "trained", True
    chosen = ways.attention(tensor_spec(query), tensor_spec(key), tensor_spec(value), kind, gqa, keep)
    if mask is not None and chosen != "math":
        mask = _as_bias(mask, query)
        mask = _aligned(mask) if chosen == "efficient" else mask
        mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    if chosen == "math":
        op = aten.scaled_dot_product_attention.default
        found: Tensor = op.decompose(query, key, value, mask, dropout, causal, scale=scale, enable_gqa=gqa)
        return found
    if chosen == "flash":
        return aten._scaled_dot_product_flash_attention.default(query, key, value, dropout, causal, scale=scale)[0]  # type: ignore[no-any-return]
    if gqa and chosen == "efficient":
        key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    if chosen == "cudnn":
        op = aten._scaled_dot_product_cudnn_attention.default
        return op(query, key, value, mask, keep, dropout, causal, return_debug_mask=False, scale=scale)[0]  # type: ignore[no-any-return]
    op = aten._scaled_dot_product_efficient_attention.default
    return op(query, key, value, mask, keep, dropout, causal, scale=scale)[0]  # type: ignore[no-any-return]


def _as_bias(mask: Tensor, query: Tensor) -> Tensor:
    """Fused kernels add a mask: one of booleans becomes 0 and -inf in the dtype of the query."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, float("-inf"))


def _aligned(mask: Tensor) -> Tensor:
    """The memory-efficient kernel reads rows of a multiple of 8 elements: others are copied into wider ones, which are
    what the backward keeps (torch 2.11, aten/src/ATen/native/transformers/attention.cpp: pad_bias).
    """
    if mask.stride(-1) == 1 and all(step % MASK_ROW == 0 for step in mask.stride()[:-1]):
        return mask
    width = mask.shape[-1]
    return torch.nn.functional.pad(mask, (0, MASK_ROW - width % MASK_ROW))[..., :width]


def _dropout(x: Tensor, p: float, train: bool) -> Tensor:
    """CUDA's dropout keeps a mask of one byte an element."""
    if p == 0 or not train or not x.numel():
        return x  # as the operator itself does; its decomposition in torch 2.13 makes a copy
    if ways_now() is None or p >= 1:
        return aten.dropout.default.decompose(x, p, train)  # type: ignore[no-any-return]
    return aten.native_dropout.default(x, p, train)[0]  # type: ignore[no-any-return]


def _other_ranks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *rest: Any) -> Tensor:
    """Three dimensions, or more than four, or batches that broadcast: brought to four and back."""
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (t.expand(*batch, *t.shape[-2:]) for t in (query, key, value))
    query, key, value = (t.reshape(-1, 1, *t.shape[-2:]) for t in (query, key, value))
    if mask is not None:
        mask = mask.expand(*batch, query.shape[-2], key.shape[-2]).reshape(-1, 1, query.shape[-2], key.shape[-2])
    out = fused_attention(query, key, value, mask, *rest)
    return out.reshape(*batch, query.shape[-2], value.shape[-1])


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, gqa: bool) -> None:
    """What the real operator checks before it runs."""
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"Expected query, key and value of one dtype, but got {query.dtype}, {key.dtype} and {value.dtype}"
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError("Expected query, key and value of at least 2 dimensions")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        shapes = ", ".join(str(tuple(t.shape)) for t in (query, key, value))
        raise RuntimeError(f"attention: query, key and value do not fit together: {shapes}")
    if mask is not None and causal:
        raise RuntimeError("attention: explicit attn_mask should not be set when is_causal=True")
    if gqa and query.dim() == 4 and (query.shape[1] % key.shape[1] or query.shape[1] % value.shape[1]):
        raise RuntimeError(
            "attention: the number of query heads must be a multiple of the number of key and value heads"
        )


def _pad_packed(data: Tensor, sizes: Tensor, batch_first: bool, padding: float, total: int) -> tuple[Tensor, Tensor]:
    """Steps of equal batch size are copied together into a padded tensor; lengths and batch sizes stay real."""
    mode = getattr(_current, "mode", None)
    if mode is None or data.device != META:
        padded, lengths = aten._pad_packed_sequence.default.decompose(data, sizes, batch_first, padding, total)
        if mode is not None:
            mode.rec.hollow.discard(mode.at(lengths))  # written by the kernel itself, not by an operator
        return padded, lengths
    with _disable_current_modes():
        counts: list[int] = [int(n) for n in mode.real(sizes, PADDED)]
        lengths = torch.tensor([sum(n > i for n in counts) for i in range(counts[0] if counts else 0)])
    out = data.new_full((max(total, len(counts)), counts[0], *data.shape[1:]), padding)
    start = row = 0
    while start < len(counts):
        end = next((i for i in range(start, len(counts)) if counts[i] != counts[start]), len(counts))
        rows = counts[start] * (end - start)
        out[start:end, : counts[start]].copy_(data[row : row + rows].view(end - start, counts[start], *data.shape[1:]))
        start, row = end, row + rows
    return (out.transpose(0, 1) if batch_first else out), lengths


def _recurrent(op: Any) -> Any:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        mode = getattr(_current, "mode", None)
        if mode is None:
            return op.decompose(*args, **kwargs)
        if torch.is_grad_enabled():
            with torch.backends.mkldnn.flags(enabled=False):  # its backward computes every gradient, wanted or not
                return op.decompose(*args, **kwargs)
        return mode.whole(op, args, kwargs)

    return kernel


def recurrent_outputs(op: Any, args: Any) -> tuple[Tensor, ...]:
    """Meta outputs of a whole lstm, gru or rnn call, by shape alone."""
    name, overload = op._schema.name, op._schema.overload_name
    packed = overload == "data"
    data = args[0]
    hidden = args[2 if packed else 1]
    weights = args[3 if packed else 2]
    bidirectional = args[8 if packed else 7]
    states = list(hidden) if name == "aten::lstm" else [hidden]
    if weights[0].shape[1] != data.shape[-1]:
        raise RuntimeError(
            f"input.size(-1) must be equal to input_size. Expected {weights[0].shape[1]}, got {data.shape[-1]}"
        )
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    out = torch.empty((*data.shape[:-1], width), dtype=data.dtype, device=META)
    return (out, *(torch.empty(tuple(s.shape), dtype=s.dtype, device=META) for s in states))


METHODS = {"tolist": _tolist, "numpy": _numpy, "data_ptr": _data_ptr}
_KERNELS: dict[str, Any] = {"scaled_dot_product_attention": _attention, PADDED: _pad_packed, "dropout": _dropout}
