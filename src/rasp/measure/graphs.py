"""A forward captured as a CUDA graph and replayed: what the device takes when the host launches nothing.

A capture that fails leaves torch in a bad state: its stream stays current, its allocator keeps filling the graph's
pool, and its generator refuses to draw. So a forward that waits for the device, the usual reason, is found before by a
run in which torch refuses to wait; and after a capture that fails nevertheless, all three are put right.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import torch

from ..capture.inputs import map_tensors
from .subject import Subject

WARM = 2
REPLAYS = 50


def graph_latency(subject: Subject) -> dict[str, Any]:
    """Seconds of each replay, or why there is none; the stand-in's own output is computed and dropped."""
    if subject.place.type != "cuda":
        return {"graph": [], "why_no_graph": f"{subject.device.name} has no CUDA graphs"}
    if subject.request.backward:
        return {"graph": [], "why_no_graph": "only forwards are captured, and this is a training step"}
    try:
        with torch.cuda.device(subject.place):
            return {"graph": _replayed(subject), "why_no_graph": None}
    except Exception as error:  # noqa: BLE001 - what a capture forbids is raised as anything; eager times stand
        words = " ".join(str(error).split())[:200]
        return {"graph": [], "why_no_graph": f"the forward cannot be captured ({type(error).__name__}: {words})"}


def _replayed(subject: Subject) -> list[float]:
    held = map_tensors(subject.held, lambda tensor, name: tensor.to(subject.place))

    def forward() -> Any:
        args, kwargs = held if subject.plain else map_tensors(held, lambda tensor, name: tensor)
        with torch.no_grad(), _casting(subject):
            return subject.model(*args, **kwargs)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM):  # libraries choose their kernels and take their workspaces before a capture
            forward()
        with _refusing_to_wait():
            forward()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    pool = torch.cuda.graph_pool_handle()
    with _put_right(pool), torch.cuda.graph(graph, pool=pool):
        out = forward()
    try:
        graph.replay()
        torch.cuda.synchronize()
        return [_once(graph) for _ in range(REPLAYS)]
    finally:
        del out
        graph.reset()


@contextmanager
def _refusing_to_wait() -> Iterator[None]:
    """Whatever would make the host wait for the device raises."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@contextmanager
def _put_right(pool: Any) -> Iterator[None]:
    """After a capture that failed: the stream, the allocator and the generator as they were before."""
    device, stream = torch.cuda.current_device(), torch.cuda.current_stream()
    generator = torch.cuda.default_generators[device]
    kept = generator.clone_state()
    try:
        yield
    except BaseException:
        torch.cuda.set_stream(stream)
        with suppress(RuntimeError, AttributeError):  # where the capture did end, the pool is no longer filled
            torch._C._cuda_endAllocateToPool(device, pool)
        generator.graphsafe_set_state(kept)
        with suppress(RuntimeError):  # an error of the capture itself is told once more, and then forgotten
            torch.cuda.synchronize()
        raise


def _once(graph: Any) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _casting(subject: Subject) -> Any:
    """Autocast without its cache of weights: what one capture caches, the next would find gone."""
    lower = subject.request.autocast
    return nullcontext() if lower is None else torch.autocast(subject.place.type, dtype=lower, cache_enabled=False)
