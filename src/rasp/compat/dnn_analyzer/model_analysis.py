"""ModelAnalyse: what DNN analyzer prints of a model, in its layout, by the convention `dnn-analyzer`.

    from rasp.compat.dnn_analyzer import model_analysis
    model_analysis.ModelAnalyse(model, (3, 224, 224))

What differs from the tool: no GPU is needed, the model is left as it was, what it has no formula for is told once for
a class and on stderr, and the numbers can be had as data.
"""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

from ... import api
from ...conventions.dnn_analyzer import Row, rows
from ...errors import InputError
from . import _table
from ._stopwatch import NotRun, shares

CONVENTION = "dnn-analyzer"


class ModelAnalyse:
    """A model's cost layer by layer, printed when this is made.

    `rows`: a dict for each call, with its `name`, `path`, `parameters`, `mem_read`, `mem_write`, `storage` and
    `inference` in bytes, `macs`, and `duration`, its share of all durations (None where the model was not run).
    `totals`: their sums, `mem_read_write` for both directions. `unsupported`: classes without a formula, counted as 0.
    `not_run`: why the model could not be timed, None where it was. `profile`: the rasp.Profile behind it all.
    str() of it is what it printed.
    """

    def __init__(self, model: nn.Module, inp_size: tuple[int, int, int], batch_size: int = 1) -> None:
        _check(model, inp_size, batch_size)
        shape = (batch_size, *inp_size)
        self.profile = api.profile(model, input_shape=shape, convention=CONVENTION)
        counted = list(rows(self.profile.view(CONVENTION).ledger))
        self.not_run: str | None = None
        durations: list[float] | list[None] = [None] * len(counted)
        try:
            durations = shares(model, shape, self.profile, [row.layer.call for row in counted])
        except NotRun as reason:
            self.not_run = str(reason)
        self.rows: list[dict[str, Any]] = [_as_data(row, share) for row, share in zip(counted, durations)]
        self.totals: dict[str, Any] = {name: sum(row[name] for row in self.rows) for name in SUMMED}
        self.totals["mem_read_write"] = self.totals["mem_read"] + self.totals["mem_write"]
        self.unsupported = list(dict.fromkeys(row.layer.type for row in counted if not row.known))
        self.printout()

    def printout(self) -> None:
        """Print the table and the totals again; what a reader should know of them goes to stderr."""
        sys.stdout.write(f"{self}\n")
        for name in self.unsupported:
            sys.stderr.write(f"DNN analyzer has no formula for {name}: 0 MACs, nothing read or written\n")
        if self.not_run is not None:
            sys.stderr.write(f"no durations: {self.not_run}\n")

    def __str__(self) -> str:
        return "\n".join([_table.rows(self.rows), *_table.totals(self.totals)])


SUMMED = ("parameters", "mem_read", "mem_write", "storage", "inference", "macs")


def _as_data(row: Row, share: float | None) -> dict[str, Any]:
    return {
        "name": row.layer.type,
        "path": row.layer.path,
        "parameters": row.params,
        "mem_read": row.mem_r,
        "mem_write": row.mem_w,
        "storage": row.storage,
        "inference": row.inference_mem,
        "macs": row.flops,
        "duration": share,
    }


def _check(model: Any, inp_size: Any, batch_size: Any) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(f"ModelAnalyse takes a torch.nn.Module; got a {type(model).__name__}.")
    if not isinstance(inp_size, (tuple, list)) or len(inp_size) != 3 or not all(map(_is_size, inp_size)):
        raise InputError(
            f"ModelAnalyse takes the shape of one image, (channels, height, width), without the batch; got "
            f"{inp_size!r}. For other inputs use rasp.profile(model, inputs) and the convention 'dnn-analyzer'."
        )
    if not _is_size(batch_size):
        raise InputError(f"batch_size is a whole number, 1 or more; got {batch_size!r}.")


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
