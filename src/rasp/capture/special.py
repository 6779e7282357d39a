"""Operators that need a handler of their own: they ask for a value, cross devices, or hide a shape in their data."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..errors import InputError
from .plans import META, Plan
from .recorder import OPTIMISER
from .specs import op_spec, wanted_of
from .values import DependsOnData

if TYPE_CHECKING:
    from .propagate import Propagation

Tensor = torch.Tensor
CPU = torch.device("cpu")
BALANCED = "Expert routing depends on data: a balanced load was assumed"
FINITE = "Activations were assumed to be finite, which the model checks"
ONES = "The optimiser asks for norms of its tensors: 1 was assumed"
FLEX, FLEX_BACKWARD = "higher_order::flex_attention", "higher_order::flex_attention_backward"
FILLED = {"aten::zeros_like": 0, "aten::ones_like": 1, "aten::new_zeros": 0, "aten::new_ones": 1}
FILLED_WITH = {"aten::full_like": 1, "aten::new_full": 2}  # position of the value


def empty(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """empty(0), which every batch norm makes as its reserve, holds nothing: not worth a note."""
    if args[0] == [0]:
        return torch.empty_strided((0,), (1,), dtype=kwargs.get("dtype") or torch.get_default_dtype(), device=META)
    return factory(mode, plan, func, args, kwargs)


def factory(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """zeros, arange, zeros_like, new_full …: made on meta whatever device was asked for; filled ones have a known
    value.
    """
    layout = kwargs.get("layout")
    if layout is not None and layout is not torch.strided:
        raise DependsOnData(plan.name, [], f"makes a {layout} tensor, which has no meta form")
    kwargs = {k: v for k, v in kwargs.items() if k != "pin_memory"}
    kwargs["device"] = META
    before = len(mode.rec.sizes)
    out = mode.compute(plan, func, args, kwargs)
    value = FILLED.get(plan.name)
    if plan.name in FILLED_WITH:
        value = args[FILLED_WITH[plan.name]]
    if (
        value is not None
        and isinstance(out, Tensor)
        and before < len(mode.rec.sizes)
        and before not in mode.values.slots
    ):
        make = partial(_filled, tuple(out.shape), out.stride(), out.dtype, value)
        mode.values.note(make, (), {}, (), out, (len(mode.rec.sizes) - 1,), ())
    return out


def _filled(shape: Any, stride: Any, dtype: torch.dtype, value: Any) -> Tensor:
    return torch.empty_strided(shape, stride, dtype=dtype, device=CPU).fill_(value)


def lift(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """torch.tensor([...]) inside the model: a constant with a known value."""
    return args[0] if args[0].device == META else mode.constant(args[0])


def to_copy(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """`.to()`: a change of device alone is no work here; a known value moved to the CPU becomes real there."""
    source = args[0]
    target = kwargs.get("device")
    dtype = kwargs.get("dtype") or source.dtype
    if target is not None:
        target = torch.device(target)
        if target.type == "cpu" and source.device == META:
            index = mode.rec.by_address.get(source.untyped_storage()._cdata)
            if index in mode.values.slots:
                return mode.values.real(index, source, "to").to(dtype, copy=True)
        if dtype == source.dtype and kwargs.get("memory_format") in (None, torch.preserve_format):
            return torch.ops.aten.alias.default(mode.stand_in(source))
    kept = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory", "non_blocking")}
    kept["device"] = META
    return mode.compute(plan, func, args, kept)


def item(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """`.item()`, bool(), int(), iteration; an optimiser that asks for a norm is told 1."""
    if mode.rec.phase == OPTIMISER and args[0].dtype.is_floating_point and args[0].device == META:
        index = mode.rec.by_address.get(args[0].untyped_storage()._cdata, -1)
        if index not in mode.values.slots:
            if ONES not in mode.notes:
                mode.notes.append(ONES)
            return 1.0
    return mode.real(args[0], plan.name).item()


def ask(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """Operators whose output's shape (or Python value) is in the data: computed for real when the data is known."""
    out = func(*_real(mode, plan, args), **{k: _real(mode, plan, v) for k, v in kwargs.items()})
    reads = tuple(
        mode.rec.by_address.get(t.untyped_storage()._cdata, mode.rec.before(mode.stand_in(t), "constant"))
        for t in args
        if isinstance(t, Tensor)
    )
    if isinstance(out, Tensor):
        result: Any = mode.constant(out)
        outs: list[Any] = [result]
    elif isinstance(out, (tuple, list)):
        result = type(out)(mode.constant(o) if isinstance(o, Tensor) else o for o in out)
        outs = [o for o in result if isinstance(o, Tensor)]
    else:
        return out
    writes = tuple(mode.rec.by_address[o.untyped_storage()._cdata] for o in outs)
    mode.rec.op(op_spec(func, args, kwargs, result), reads, writes)
    return result


def _real(mode: Propagation, plan: Plan, value: Any) -> Any:
    if isinstance(value, Tensor):
        return mode.real(value, plan.name)
    if isinstance(value, (list, tuple)):
        return [_real(mode, plan, v) for v in value]
    if isinstance(value, torch.device):
        return CPU
    return value


def index(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """x[mask]: how many a boolean mask selects is in its values; the record shows the mask, which is what is read."""
    if not any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
        return mode.compute(plan, func, args, kwargs)
    positions: list[Any] = []
    for i in args[1]:
        if i is not None and i.dtype in (torch.bool, torch.uint8):
            found = mode.real(i, plan.name).nonzero().unbind(1)
            positions.extend(torch.empty_strided(p.shape, (1,), dtype=p.dtype, device=META) for p in found)
        else:
            positions.append(i if i is None else mode.stand_in(i))
    args, kwargs = mode.adopt(args, kwargs)
    out = func(args[0], positions)
    tensors = [t for t in (args[0], *args[1]) if t is not None]
    reads = tuple(mode.rec.before(t, "constant") for t in tensors)
    writes = (mode.rec.birth(out, out.untyped_storage().nbytes()),)
    mode.rec.op(mode.intern(op_spec(func, args, kwargs, out)), reads, writes)
    if all(r in mode.values.slots for r in reads):
        mode.values.note(func, args, kwargs, reads, out, writes, ())
    return out


def masked_select(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """x.masked_select(mask): a known mask tells how many, whatever the values are."""
    x, mask = args[:2]
    where = mode.rec.by_address.get(x.untyped_storage()._cdata)
    if where in mode.values.slots or kwargs:
        return ask(mode, plan, func, args, kwargs)
    x, mask = mode.stand_in(x), mode.stand_in(mask)
    real = mode.real(mask, plan.name)
    count = int(real.expand(torch.broadcast_shapes(x.shape, mask.shape)).sum())
    out = torch.empty_strided((count,), (1,), dtype=x.dtype, device=META)
    reads = tuple(mode.rec.before(t, "constant") for t in (x, mask))
    writes = (mode.rec.birth(out, out.untyped_storage().nbytes()),)
    mode.rec.op(mode.intern(op_spec(func, args, kwargs, out)), reads, writes)
    return out


def attention_backward(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """Which gradients are wanted is in no argument of flash attention's: such a call stays out of the memo."""
    return (mode.compute if wanted_of(args) is None else mode.call)(plan, func, args, kwargs)


def batch_norm(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """In training the running statistics are written, though the schema does not say so: their values are unknown."""
    out = mode.compute(plan, func, args, kwargs)
    if args[5]:
        for statistics in args[3:5]:
            if statistics is not None and statistics.device == META:
                mode.values.forget(mode.rec.by_address.get(statistics.untyped_storage()._cdata, -1))
    return out


def repeat(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """repeat_interleave by a tensor of counts: the length is in the counts, unless it was given."""
    handle = mode.compute if kwargs.get("output_size") is not None else partial(ask, mode)
    return handle(plan, func, args, kwargs)


def embedding(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """An embedding of known ids is checked for ids out of range, as a real run would."""
    weight, ids = args[:2]
    if ids.dtype not in (torch.int64, torch.int32):  # the kernels refuse it, meta kernels of older torch do not
        raise RuntimeError(f"Expected the ids of an embedding to be integers (int64 or int32), but got {ids.dtype}")
    where = mode.rec.by_address.get(ids.untyped_storage()._cdata) if ids.device == META else None
    if where in mode.values.slots and ids.numel():
        real = mode.values.real(where, ids, plan.name)
        low, high = (int(v) for v in real.aminmax())
        if low < 0 or high >= weight.shape[0]:
            worst = low if low < 0 else high
            raise InputError(
                f"An id of {worst} is looked up in an embedding of {weight.shape[0]} rows. "
                f"Ids must lie between 0 and {weight.shape[0] - 1}; check the vocabulary size or the ids given."
            )
    return mode.compute(plan, func, args, kwargs)


def route(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """topk and argmax over a last dimension: should the model ask which were chosen, the load is balanced.

    Values stay unknown. The indices are on the tape as an assumption, which the report states if anything was decided
    by it.
    """
    out = mode.compute(plan, func, args, kwargs)
    indices = out[1] if isinstance(out, (tuple, list)) else out
    x = args[0]
    position, default = (2, -1) if plan.name == "aten::topk" else (1, None)
    dim = args[position] if len(args) > position else kwargs.get("dim", default)
    if dim is None or not x.dim() or dim % x.dim() != x.dim() - 1 or not x.dtype.is_floating_point:
        return out
    where = mode.rec.by_address[indices.untyped_storage()._cdata]
    if where not in mode.values.slots:
        make = partial(_balanced, tuple(indices.shape), x.shape[-1], plan.name == "aten::topk")
        mode.values.note(make, (), {}, (), indices, (where,), ())
        mode.values.assume(where, BALANCED, mode.where())
    return out


def finite(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """isnan, isinf, isfinite (x == x and |x| != inf): should the model ask this of an activation, its numbers are
    finite.
    """
    answer = False
    if plan.name in ("aten::eq", "aten::ne"):
        itself = isinstance(args[1], Tensor) and args[1] is args[0] and args[0].dtype.is_floating_point
        if (not itself and args[1].__class__ is not float) or (
            args[1].__class__ is float and abs(args[1]) != float("inf")
        ):
            return mode.compute(plan, func, args, kwargs)
        answer = itself == (plan.name == "aten::eq")
    out = mode.compute(plan, func, args, kwargs)
    where = mode.rec.by_address[out.untyped_storage()._cdata]
    if where not in mode.values.slots:
        make = partial(_filled, tuple(out.shape), out.stride(), out.dtype, answer)
        mode.values.note(make, (), {}, (), out, (where,), ())
        mode.values.assume(where, FINITE, mode.where())
    return out


def _balanced(shape: tuple[int, ...], choices: int, several: bool) -> Tensor:
    """Indices that use every choice equally often: row r takes the next k choices in turn."""
    count = 1
    for n in shape:
        count *= n
    if not several or (shape and shape[-1] <= choices):
        return (torch.arange(count, device=CPU) % max(choices, 1)).reshape(shape)
    raise DependsOnData("topk", [shape], "chooses more than there is")


def pack_padded(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """nn.utils.rnn.pack_padded_sequence: the lengths must be known; the batch sizes stay real, as cuDNN and the CPU
    want them.
    """
    data, lengths, batch_first = args[:3]
    real = mode.real(lengths, plan.name).to(torch.int64)
    steps = int(real.max()) if real.numel() else 0
    sizes = torch.tensor([int((real > t).sum()) for t in range(steps)], dtype=torch.int64)
    rest = data.shape[2:]
    packed = torch.empty((int(real.sum()), *rest), dtype=data.dtype, device=META)
    data = mode.stand_in(data)
    reads = (mode.rec.before(data, "activation"),)
    writes = (mode.rec.birth(packed, packed.untyped_storage().nbytes()),)
    mode.rec.op(op_spec(func, (data, lengths, batch_first), {}, (packed, sizes)), reads, writes)
    return packed, sizes


def resize(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """resize_ and set_ change what a tensor's storage is or how large."""
    out = func(*args, **kwargs)
    where = mode.rec.before(args[0], "activation")
    mode.rec.sizes[where] = args[0].untyped_storage().nbytes()
    mode.values.forget(where)
    return out


def ignore(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """Checks that only look at values: nothing to do when there are none."""
    return None


def higher_order(mode: Propagation, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """flex_attention by its shapes; other higher-order operators need a real run."""
    if plan.name not in (FLEX, FLEX_BACKWARD):
        raise DependsOnData(plan.name, [], "has no meta form that can be traced through")
    query, key, value = (mode.stand_in(t) for t in args[:3])
    reads = tuple(mode.rec.before(t, "activation") for t in (query, key, value))
    if plan.name == FLEX:
        out = torch.empty((*query.shape[:-1], value.shape[-1]), dtype=query.dtype, device=META)
        logsumexp, peak = (torch.empty(query.shape[:-1], dtype=torch.float32, device=META) for _ in range(2))
        result = (out, logsumexp, peak)
    else:
        result = tuple(
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=META) for t in (query, key, value)
        )  # type: ignore[assignment]
    writes = tuple(mode.rec.birth(t, t.untyped_storage().nbytes()) for t in result)
    from ..records import OpSpec
    from .specs import tensor_spec

    spec = OpSpec(
        plan.name, "default", tuple(tensor_spec(t) for t in (query, key, value)), {}, tuple(map(tensor_spec, result))
    )
    mode.rec.op(spec, reads, writes)
    if plan.name == FLEX:
        return result
    captured = args[12] if len(args) > 12 else kwargs.get("score_mod_other_buffers", ())
    wanted = [isinstance(t, Tensor) and t.requires_grad for t in captured]
    return (*result, tuple(torch.empty_like(t, device=META) if w else None for t, w in zip(captured, wanted)))


HANDLERS: dict[str, Any] = {
    f.__name__: f
    for f in (
        empty,
        factory,
        lift,
        to_copy,
        item,
        ask,
        index,
        masked_select,
        attention_backward,
        repeat,
        batch_norm,
        embedding,
        route,
        finite,
        pack_padded,
        resize,
        ignore,
        higher_order,
    )
}

KINDS: dict[str, str] = {
    "aten::empty": "empty",
    "aten::lift_fresh": "lift",
    "aten::lift": "lift",
    "aten::_to_copy": "to_copy",
    "aten::_local_scalar_dense": "item",
    "aten::is_nonzero": "item",
    "aten::index": "index",
    "aten::masked_select": "masked_select",
    "aten::native_batch_norm": "batch_norm",
    "aten::cudnn_batch_norm": "batch_norm",
    "aten::repeat_interleave": "repeat",
    "aten::_scaled_dot_product_flash_attention_backward": "attention_backward",
    "aten::_scaled_dot_product_efficient_attention_backward": "attention_backward",
    "aten::_scaled_dot_product_cudnn_attention_backward": "attention_backward",
    "aten::embedding": "embedding",
    "aten::_embedding_bag": "embedding",
    "aten::_embedding_bag_forward_only": "embedding",
    "aten::topk": "route",
    "aten::isnan": "finite",
    "aten::eq": "finite",
    "aten::ne": "finite",
    "aten::isinf": "finite",
    "aten::argmax": "route",
    "aten::_pack_padded_sequence": "pack_padded",
    "aten::resize_": "resize",
    "aten::resize_as_": "resize",
    "aten::set_": "resize",
    "aten::_assert_async": "ignore",
    "aten::_functional_assert_async": "ignore",
    "aten::_assert_scalar": "ignore",
    **dict.fromkeys(
        (
            "aten::nonzero", "aten::nonzero_numpy", "aten::equal", "aten::unique_dim",
            "aten::_unique2", "aten::_unique", "aten::allclose", "aten::unique_consecutive",
            "aten::unique_dim_consecutive", "aten::bincount",
        ),
        "ask",
    ),
}  # fmt: skip
