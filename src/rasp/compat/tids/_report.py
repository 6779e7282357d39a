"""The report that DeepSpeed's profiler prints: a summary, the dearest classes at each depth, every module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...styles import _amounts, repr
from ...styles._modules import Module, share

WIDTH = 60
LEGEND = """\
Notations:
params: parameters; MACs: multiply-accumulates; flops: floating-point operations; FLOPS: those in a second
dp_size, mp_size: how many share the data, the model; fwd latency: wall time of the forward that was run
"""
ORDER = """\
After each module's name: params, their share of all, MACs, their share, fwd latency, its share, fwd FLOPS.
What a module does by functions is its own and no part of the modules it holds. Counts are of convention deepspeed.
"""


def report(model: Module, step: int, depth: int, top: int, detailed: bool, engine: Any = None) -> Iterator[str]:
    """The lines, block by block."""
    yield "\n-------------------------- DeepSpeed Flops Profiler --------------------------"
    yield f"Profile Summary at step {step}:"
    yield LEGEND
    yield from summary(model, engine)
    yield "\n----------------------------- Aggregated Profile per GPU -----------------------------"
    yield from aggregated(model, depth, top)
    if detailed:
        yield "\n------------------------------ Detailed Profile per GPU ------------------------------"
        yield ORDER
        yield repr.text(model)
    yield "------------------------------------------------------------------------------"


def summary(model: Module, engine: Any = None) -> Iterator[str]:
    """The totals; with an engine of DeepSpeed's, over how many machines."""
    split = 1
    if engine is not None:
        split = engine.mp_world_size
        yield _line("world size:", str(engine.world_size))
        yield _line("data parallel size:", str(engine.dp_world_size))
        yield _line("model parallel size:", str(split))
        yield _line("batch size per GPU:", str(engine.train_micro_batch_size_per_gpu()))
    seconds = model.seconds or 0
    yield _line("params per gpu:", _amounts.params(model.params))
    yield _line("params of model = params per GPU * mp_size:", _amounts.params(model.params * split))
    yield _line("fwd MACs per GPU:", _amounts.macs(model.macs))
    yield _line("fwd flops per GPU:", _amounts.number(model.flops))
    yield _line("fwd flops of model = fwd flops per GPU * mp_size:", _amounts.number(model.flops * split))
    yield _line("fwd latency:", _amounts.duration(seconds))
    yield _line("fwd FLOPS per GPU = fwd flops per GPU / fwd latency:", _amounts.rate(share(model.flops, seconds)))


def _line(title: str, value: str) -> str:
    return f"{title:<{WIDTH}}  {value:<8}"


def aggregated(model: Module, depth: int = -1, top: int = 1) -> Iterator[str]:
    """The classes that cost most, at each depth down to one (-1: to the last)."""
    found: dict[int, dict[str, list[float]]] = {}
    for level, module in model.walk():
        sums = found.setdefault(level, {}).setdefault(module.type, [0, 0, 0.0])
        for at, value in enumerate((module.params, module.macs, module.seconds or 0.0)):
            sums[at] += value
    yield f"Top {top} modules in terms of params, MACs or fwd latency at different model depths:"
    for level in [level for level in found if depth < 0 or level <= depth]:
        yield f"depth {level}:"
        yield f"    params      - {_dearest(found[level], 0, top, _amounts.params)}"
        yield f"    MACs        - {_dearest(found[level], 1, top, _amounts.macs)}"
        yield f"    fwd latency - {_dearest(found[level], 2, top, _amounts.duration)}"


def _dearest(classes: dict[str, list[float]], at: int, top: int, written: Any) -> dict[str, str]:
    names = sorted(classes, key=lambda name: -classes[name][at])
    return {name: written(classes[name][at]) for name in names[:top]}
