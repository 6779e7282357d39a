"""Events as CUPTI makes them on a GPU, by hand: what is read of them, with and without what newer torch tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch.autograd import DeviceType

from rasp.measure.attribution import attribute
from rasp.measure.kernels import CALL, PASS, events_of

CPU, CUDA = DeviceType.CPU, DeviceType.CUDA
NONE = 2**64 - 1  # what torch writes as 'no sequence number' in unsigned 64 bits


class Kineto:
    """One event; `told` leaves out what a version of torch does not tell."""

    def __init__(self, name: str, start: int, took: int, device: Any = CPU, **more: Any) -> None:
        self.values = {
            "name": name, "start_ns": start, "end_ns": start + took, "device_type": device, "correlation_id": 0,
            "linked_correlation_id": 0, "start_thread_id": 1, "fwd_thread_id": 0, "sequence_nr": -1,
            "device_resource_id": 7, "is_user_annotation": False, "activity_type": "cpu_op", **more,
        }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name not in self.values or self.values[name] is None:
            raise AttributeError(name)
        return lambda: self.values[name]


def one_pass(*, newer: bool) -> Any:
    def event(*given: Any, kind: str = "cpu_op", **more: Any) -> Kineto:
        return Kineto(*given, **{**more, "activity_type": kind if newer else None})

    mark = {"is_user_annotation": True, "kind": "user_annotation"}
    launch = {"kind": "cuda_runtime", "start_thread_id": 4242}
    made = [
        event(PASS, 0, 2000, correlation_id=1, **mark),
        event(f"{CALL}0", 10, 500, correlation_id=2, **mark),
        event(f"{CALL}3", 20, 200, correlation_id=3, **mark),
        event("aten::addmm", 30, 100, correlation_id=4, sequence_nr=NONE),
        event("cudaLaunchKernel", 60, 10, correlation_id=900, linked_correlation_id=4, **launch),
        event("custom::scan", 240, 100, correlation_id=5),
        event("cuLaunchKernelEx", 250, 10, correlation_id=901, linked_correlation_id=5, **launch),
        event("cudaMemcpyAsync", 700, 10, correlation_id=902, **launch),
        event("cudaStreamSynchronize", 800, 900, correlation_id=903, **launch),
        event("sm90_gemm", 300, 400, CUDA, correlation_id=900, linked_correlation_id=4, kind="kernel"),
        event("scan_kernel", 700, 50, CUDA, correlation_id=901, linked_correlation_id=5, kind="kernel"),
        event("Memcpy HtoD (Pageable -> Device)", 850, 25, CUDA, correlation_id=902, kind="gpu_memcpy"),
        event(f"{CALL}3", 300, 400, CUDA, correlation_id=3, is_user_annotation=True, kind="gpu_user_annotation"),
        event("Optimizer.step#Adam.step", 300, 9, CUDA, is_user_annotation=True, kind="gpu_user_annotation"),
    ]
    return SimpleNamespace(profiler=SimpleNamespace(kineto_results=SimpleNamespace(events=lambda: made)))


@pytest.mark.parametrize("newer", [True, False])
def test_kernels_launches_operators_and_ranges(newer: bool) -> None:
    events = list(events_of(one_pass(newer=newer)))
    kinds = [(event.kind, event.name) for event in events]
    assert kinds.count(("call", f"{CALL}3")) == 1
    assert sorted(name for kind, name in kinds if kind == "kernel") == [
        "Memcpy HtoD (Pageable -> Device)", "scan_kernel", "sm90_gemm",
    ]  # fmt: skip
    assert ("op", "custom::scan") in kinds
    assert "cudaStreamSynchronize" not in [name for _, name in kinds]
    (found,) = attribute(events)
    homes = {piece.name: (piece.home.call, piece.home.op, piece.waited) for piece in found.pieces}
    assert homes == {
        "sm90_gemm": (1, "aten::addmm", 240),
        "scan_kernel": (0, "custom::scan", 450),
        "Memcpy HtoD (Pageable -> Device)": (None, "", 150),
    }
    assert (found.span, found.busy) == (575, 475)
