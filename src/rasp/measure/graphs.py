"""A forward captured as a CUDA graph and replayed: what the device takes when the host launches nothing."""

from __future__ import annotations

from typing import Any

import torch

from ..capture.inputs import map_tensors
from .subject import Subject

WARM = 3
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
        torch.cuda.synchronize(subject.place)
        words = " ".join(str(error).split())[:200]
        return {"graph": [], "why_no_graph": f"the forward cannot be captured ({type(error).__name__}: {words})"}


def _replayed(subject: Subject) -> list[float]:
    args, kwargs = subject.held
    if subject.copy_inputs:
        args, kwargs = map_tensors((args, kwargs), lambda tensor, name: tensor.to(subject.place))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad(), _casting(subject):
        for _ in range(WARM):  # libraries choose their kernels and take their workspaces before a capture
            subject.model(*args, **kwargs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad(), _casting(subject):
        out = subject.model(*args, **kwargs)
    graph.replay()
    torch.cuda.synchronize()
    found = [_once(graph) for _ in range(REPLAYS)]
    del out
    graph.reset()
    return found


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
    return torch.autocast(
        subject.place.type, dtype=lower or torch.float16, enabled=lower is not None, cache_enabled=False
    )
