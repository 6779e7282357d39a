"""Looking up and scattering: arithmetic only where values meet, bytes of the rows really touched."""

from __future__ import annotations

from math import prod

from ..records import OpSpec, TensorSpec
from . import Work, bytes_read, rule
from ._forms import charge, form, kind


def looked_up(call: OpSpec, source: int = 0) -> int:
    """Bytes read: all inputs but the source, of which at most as much as comes out."""
    table: TensorSpec = call.args[source]
    others = bytes_read(call, skip=(source,))
    return others + min(table.touched_bytes, sum(t.nbytes for t in call.outputs))


@rule(
    *(
        f"aten::{name}"
        for name in ("embedding", "index", "_unsafe_index", "_unsafe_masked_index", "index_select", "gather", "take")
    ),
    "aten::take_along_dim",
    "aten::masked_select",
)
def lookup(call: OpSpec) -> Work:
    """Reads the indices and the rows looked up."""
    return Work(read=looked_up(call))


@rule("aten::nonzero", "aten::nonzero_static", "aten::argwhere", "aten::nonzero_numpy")
def nonzero(call: OpSpec) -> Work:
    return charge(form(cmp=1), call.args[0].numel, kind(call.tensors[:1]))


@rule("aten::one_hot")
def one_hot(call: OpSpec) -> Work:
    return Work()


def updated(call: OpSpec, source: TensorSpec, *, accumulate: bool = False, **counts: int) -> Work:
    """A scatter of `source` into the first argument: in place only what it meets is touched."""
    target = call.args[0]
    n = source.numel
    work = charge(counts, n, kind((target,)))
    if call.name.endswith("_"):
        met = min(target.touched_bytes, n * target.itemsize)
        work.read = bytes_read(call, skip=(0,)) + (met if accumulate else 0)
        work.write = met
    return work


@rule(
    "aten::index_put", "aten::index_put_", "aten::_unsafe_index_put", "aten::_index_put_impl", "aten::_index_put_impl_"
)
def index_put(call: OpSpec) -> Work:
    """Writes values at positions; accumulating adds them."""
    accumulate, values = call.args[3], call.args[2]
    met = _positions(call.args[0], call.args[1], values)
    return updated(call, met, accumulate=accumulate, add=1 if accumulate else 0)


def _positions(target: TensorSpec, indices: tuple[TensorSpec | None, ...], values: TensorSpec) -> TensorSpec:
    """As many elements as the indices reach: values may be one number broadcast."""
    given = [i for i in indices if i is not None]
    if any(i.dtype in ("bool", "uint8") for i in given):
        return values
    rest = prod(n for n, i in zip(target.shape, [*indices, *[None] * target.ndim]) if i is None)
    reached = max((i.numel for i in given), default=1) * rest
    return TensorSpec((max(reached, values.numel),), (1,), target.dtype)


@rule("aten::_unsafe_masked_index_put_accumulate")
def masked_index_put(call: OpSpec) -> Work:
    return updated(call, call.args[3], accumulate=True, add=1)


@rule("aten::scatter", "aten::scatter_")
def scatter(call: OpSpec) -> Work:
    """Writes, or combines where a reduction is named."""
    reduce = {"add": "add", "multiply": "mul"}.get(call.kwargs.get("reduce", ""))
    index, source = call.args[2:4]
    source = source if isinstance(source, TensorSpec) and source.numel <= index.numel else index
    return updated(call, source, accumulate=reduce is not None, **({reduce: 1} if reduce else {}))


@rule("aten::scatter_add", "aten::scatter_add_")
def scatter_add(call: OpSpec) -> Work:
    return updated(call, call.args[2], accumulate=True, add=1)


_REDUCTION = {"sum": "add", "mean": "add", "prod": "mul", "amax": "cmp", "amin": "cmp"}


@rule("aten::scatter_reduce", "aten::scatter_reduce_")
def scatter_reduce(call: OpSpec) -> Work:
    return _reduce(call, call.args[3])


@rule("aten::index_reduce", "aten::index_reduce_")
def index_reduce(call: OpSpec) -> Work:
    return _reduce(call, call.args[3])


def _reduce(call: OpSpec, source: TensorSpec) -> Work:
    """One operation per scattered element, and for a mean a division per result."""
    reduce = call.args[4]
    work = updated(call, source, accumulate=True, **{_REDUCTION[reduce]: 1})
    if reduce == "mean":
        work.div += call.args[0].numel
    return work


@rule("aten::index_add", "aten::index_add_")
def index_add(call: OpSpec) -> Work:
    scaled = call.kwargs.get("alpha", 1) != 1
    return updated(call, call.args[3], accumulate=True, add=1, mul=1 if scaled else 0)


@rule("aten::index_copy", "aten::index_copy_")
def index_copy(call: OpSpec) -> Work:
    return updated(call, call.args[3])


@rule("aten::index_fill", "aten::index_fill_")
def index_fill(call: OpSpec) -> Work:
    target, dim, index = call.args[:3]
    rows = target.numel // max(target.shape[dim], 1) if target.shape else 1
    return updated(call, TensorSpec((rows * index.numel,), (1,), target.dtype))


@rule("aten::put", "aten::put_")
def put(call: OpSpec) -> Work:
    return updated(call, call.args[2], accumulate=call.args[3], add=1 if call.args[3] else 0)


@rule("aten::masked_scatter", "aten::masked_scatter_")
def masked_scatter(call: OpSpec) -> Work:
    return Work()


@rule("aten::embedding_dense_backward", "aten::embedding_backward", "aten::embedding_sparse_backward")
def embedding_backward(call: OpSpec) -> Work:
    """Every gradient row is added to its row of the table."""
    return Work(add=call.args[0].numel)


@rule("aten::index_select_backward", "aten::gather_backward", "aten::_gather_sparse_backward")
def gather_backward(call: OpSpec) -> Work:
    return Work(add=call.args[0].numel)


@rule("aten::_embedding_bag", "aten::_embedding_bag_forward_only", "aten::embedding_bag")
def embedding_bag(call: OpSpec) -> Work:
    """Rows looked up and combined per bag: sum 0, mean 1, max 2; weights multiply first."""
    table, indices, _, _, mode, _, weights = call.args[:7]
    out = call.outputs[0]
    looked = indices.numel * table.shape[1]
    work = charge(form(cmp=1) if mode == 2 else form(add=1), max(looked - out.numel, 0))
    work += Work(div=out.numel if mode == 1 else 0, mul=looked if weights is not None else 0)
    rows = min(table.touched_bytes, looked * table.itemsize)
    kept = call.outputs[3].nbytes if mode == 2 else 0  # which row won; what else is given differs by device
    work.read, work.write = bytes_read(call, skip=(0,)) + rows, out.nbytes + kept
    return work


@rule("aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward", "aten::_embedding_bag_sparse_backward")
def embedding_bag_backward(call: OpSpec) -> Work:
    """The gradient of a bag is added to each row that was in it."""
    return Work(add=call.args[1].numel * call.args[0].shape[-1])


@rule("aten::_embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(call: OpSpec) -> Work:
    return Work(fma=call.args[2].numel * call.args[0].shape[-1])


@rule("aten::embedding_renorm", "aten::embedding_renorm_", "aten::_no_grad_embedding_renorm_")
def embedding_renorm(call: OpSpec) -> Work:
    """The norm of each row looked up, and the row scaled to it."""
    n = call.args[1].numel * call.args[0].shape[-1]
    size = call.args[0].itemsize * n
    return Work(mul=2 * n, add=n, sqrt=call.args[1].numel, read=size, write=size)


@rule("aten::unfold_backward")
def unfold_backward(call: OpSpec) -> Work:
    """Overlapping windows added back."""
    return Work(add=call.args[0].numel)


@rule("aten::im2col")
def im2col(call: OpSpec) -> Work:
    return Work()


@rule("aten::col2im")
def col2im(call: OpSpec) -> Work:
    return Work(add=call.args[0].numel)


@rule("aten::isin")
def isin(call: OpSpec) -> Work:
    """Every element compared with every test element."""
    given = call.tensors
    return charge(form(cmp=1), given[0].numel * (given[1].numel if len(given) > 1 else 1), kind(given))
