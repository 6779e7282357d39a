"""thoplw's own names over this engine: `from rasp.compat import thoplw`, and the rest of a script stays as it is.

Counts are those of convention `thoplw`, its README's. The forward runs on shapes alone and the model is left as it
was found; only `custom_ops`, which may look at numbers, have it run for real.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ... import api
from ...conventions.thoplw import parameters, rows
from ...ledger import LayerCall, Ledger
from ...profile import Profile
from ...records import TensorSpec
from ...view import View
from .custom import CustomOp, answers
from .description import description
from .formatting import clever_format
from .layers_info import LayersInfo

LayerInfo = LayersInfo  # what the README calls it
__all__ = ["LayerInfo", "LayersInfo", "clever_format", "layers_info", "profile"]


def profile(
    model: nn.Module,
    tensor: torch.Tensor,
    custom_ops: Mapping[type[nn.Module], CustomOp] | None = None,
    verbose: bool = True,
) -> tuple[int, int, LayersInfo]:
    """Multiply-accumulates, parameters, and a table of the layers.

    `custom_ops` {class: f(layer, inputs, output)}: its multiply-accumulates, or None to leave the layer out.
    `verbose` names classes that have no formula and whose work or parameters are therefore missing.
    """
    custom = dict(custom_ops or {})
    found = api.profile(model, tensor, mode="eval", convention="thoplw")
    asked = answers(model, tensor, custom) if any(type(m) in custom for m in model.modules()) else {}
    info = layers_info(found, asked)
    if verbose:
        _tell(_ignored(model, found.view("thoplw"), info, custom))
    return (*info.total(), info)


def layers_info(found: Profile, asked: Mapping[str, int | None] | None = None) -> LayersInfo:
    """The table of a profile that was made already; `asked` has what else was counted for modules, by name."""
    ledger = found.view("thoplw").ledger
    trace = ledger.trace
    shapes = [list(spec.shape) for _, spec in trace.inputs[:1]] or [[]]
    info = LayersInfo(trace.modules[0].type, shapes[0], list(trace.outputs[0].shape) if trace.outputs else None)
    for layer, cost in rows(ledger):
        info.append(layer.path, _log(ledger, layer, (asked or {}).get(layer.path, cost.macs)))
    return info


def _log(ledger: Ledger, layer: LayerCall, macs: int | None) -> dict[str, Any]:
    """What the last call of a module was, and what it cost."""
    kind = ledger.trace.modules[layer.module].type
    held, released = (parameters(ledger, layer.module, statistics) for statistics in (True, False))
    return {
        "macs": macs,
        "params": None if macs is None else held,
        "params released": None if macs is None else released,
        "shapes_in": _shapes(layer.args),
        "shape_out": list(layer.outputs[0].shape) if layer.outputs else None,
        "description": description(kind, layer.lineage[0] if layer.lineage else "", layer.hyper),
        "class": kind,
    }


def _shapes(args: tuple[Any, ...]) -> list[list[int]] | None:
    """Shapes of what a layer was given; None where something is no tensor."""
    return [list(x.shape) for x in args] if all(isinstance(x, TensorSpec) for x in args) else None


def _ignored(model: nn.Module, view: View, info: LayersInfo, custom: Mapping[type, Any]) -> set[type]:
    """Classes without a formula that hold parameters no row counts, or compute what no row counts."""
    ledger, logs = view.ledger, dict(info.info)
    modules = ledger.trace.modules
    counted = {
        tensor
        for index, module in enumerate(modules)
        if (log := logs.get(module.path)) and log["macs"] is not None
        for tensor in ledger.all_tensors(index)
    }
    lost: set[type] = set()
    for entry in ledger.entries:
        info_of, log = modules[entry.module], logs.get(modules[entry.module].path)
        if log is None or log["macs"] is not None:
            continue
        held = any(ledger.trace.tensors[t].kind == "parameter" and t not in counted for t in entry.tensors)
        work = view.under("rasp").value("macs" if info_of.children else "flops", view.part(entry))
        kind = type(model.get_submodule(info_of.path))
        if (held or work) and kind not in custom:
            lost.add(kind)
    return lost


def _tell(ignored: set[type]) -> None:
    if ignored:
        lines = ["The following layers will be unexpectedly ignored:", *sorted(f"  - {kind}" for kind in ignored)]
        sys.stdout.write("\n".join([*lines, ""]))
