"""DeepSpeed's layout: the model as torch prints it, each module with what it costs before what it says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _amounts, style
from ._modules import Latencies, Module, modules, share

if TYPE_CHECKING:
    from ..profile import Profile

INDENT = "  "


@style("repr", convention="deepspeed")
def repr(profile: Profile, depth: int | None = None, latencies: Latencies | None = None) -> str:
    """Parameters, MACs and their shares; with latencies (seconds by path) also those, and flops per second."""
    return text(modules(profile, latencies), depth)


def text(root: Module, depth: int | None = None) -> str:
    return "\n".join(_lines(root, root, depth))


def _lines(module: Module, root: Module, depth: int | None) -> list[str]:
    """On one line where nothing is inside, else as a bracket around what is."""
    said = ", ".join([*_costs(module, root), module.extra])
    inner = said.split("\n")
    shown = module.children if depth is None or depth > 0 else []
    if not shown and len(inner) == 1:
        return [f"{module.type}({said})"]
    for child in shown:
        first, *rest = _lines(child, root, None if depth is None else depth - 1)
        inner += [f"({child.name}): {first}", *rest]
    return [f"{module.type}(", *(INDENT + line for line in inner), ")"]


def _costs(module: Module, root: Module) -> list[str]:
    parts = [_amounts.params(module.params), f"{share(module.params, root.params):.2%} Params"]
    parts += [_amounts.macs(module.macs), f"{share(module.macs, root.macs):.2%} MACs"]
    if module.seconds is not None:
        parts += [_amounts.duration(module.seconds), f"{share(module.seconds, root.seconds or 0):.2%} latency"]
        parts.append(_amounts.rate(share(module.flops, module.seconds)))
    return parts
