"""Collective communication: what is combined on arrival is added, the rest is moved."""

from __future__ import annotations

from ..records import OpSpec
from . import Work, rule

FUNCTIONAL = (
    "all_gather_into_tensor", "all_gather_into_tensor_coalesced", "all_gather_into_tensor_out", "all_to_all_single",
    "broadcast", "broadcast_", "batch_p2p_ops", "irecv", "isend",
)  # fmt: skip
C10D = (
    "_allgather_base_", "allgather_", "allgather_coalesced_", "allgather_into_tensor_coalesced_", "alltoall_",
    "alltoall_base_", "broadcast_", "gather_", "gather_into_tensor_", "recv_", "recv_any_source_", "scatter_", "send",
)  # fmt: skip


@rule(
    *(f"_c10d_functional::{name}" for name in FUNCTIONAL),
    *(f"c10d::{name}" for name in C10D),
    "_c10d_functional_autograd::all_gather_into_tensor",
    "_c10d_functional_autograd::all_to_all_single",
    "_dtensor::shard_dim_alltoall",
)
def sent(call: OpSpec) -> Work:
    return Work()


@rule(
    "_c10d_functional::all_reduce",
    "_c10d_functional::all_reduce_",
    "_c10d_functional::all_reduce_coalesced",
    "_c10d_functional::all_reduce_coalesced_",
    "_c10d_functional::reduce_scatter_tensor",
    "_c10d_functional::reduce_scatter_tensor_coalesced",
    "_c10d_functional::reduce_scatter_tensor_out",
    "_c10d_functional_autograd::reduce_scatter_tensor",
    "c10d::allreduce_",
    "c10d::allreduce_coalesced_",
    "c10d::reduce_",
    "c10d::reduce_scatter_",
    "c10d::reduce_scatter_tensor_coalesced_",
    "c10d::_reduce_scatter_base_",
)
def reduced(call: OpSpec) -> Work:
    """About one addition per element a device sends (ring algorithm: n·(ranks - 1)/ranks)."""
    return Work(add=sum(t.numel for t in call.tensors))
