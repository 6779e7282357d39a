"""TIDSProfiler's layout: a line for each module, with its parameters, its latency and its shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import style
from ._modules import Latencies, Module, modules, share

if TYPE_CHECKING:
    from ..profile import Profile

STEP = "\t"


@style("tids", convention="deepspeed")
def tids(profile: Profile, depth: int | None = None, latencies: Latencies | None = None) -> str:
    """Modules in the order they are registered, to a depth; with their latencies (seconds by path) where given."""
    return text(modules(profile, latencies), depth)


def text(root: Module, depth: int | None = None) -> str:
    return "\n".join(
        STEP * level + line(module, root.seconds) for level, module in root.walk() if depth is None or level <= depth
    )


def line(module: Module, whole: float | None) -> str:
    """'(conv1): Conv2d, num_params 9408, 16.923ms, 18.068% latency, input shape …, output shape …'."""
    parts = [f"({module.name}): {module.type}", f"num_params {module.params}"]
    if module.seconds is not None:
        percent = round(100 * share(module.seconds, whole or 0), 3)
        parts += [f"{round(1000 * module.seconds, 3)}ms", f"{percent}% latency"]
    return ", ".join([*parts, f"input shape {module.given}", f"output shape {module.made}"])
