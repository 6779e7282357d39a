"""LayersInfo: the table of a model's layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import UnknownName
from .formatting import clever_format, ratio, table

KINDS = ("text", "csv", "md")
FORMATS = ("raw", "clever", "ratio")
COLUMNS = ("readme", "released")
Log = dict[str, Any]


class LayersInfo:
    """What was found of each layer: `info` has (name, log) of every module that ran, also of what is not counted."""

    def __init__(self, name: str, shape: Sequence[int], output: Sequence[int] | None = None) -> None:
        self.name, self.shape, self.output = name, shape, output
        self.info: list[tuple[str, Log]] = []

    def append(self, layer_name: str, layer_log: Log) -> None:
        self.info.append((layer_name, layer_log))

    @property
    def counted(self) -> list[tuple[str, Log]]:
        return [(name, log) for name, log in self.info if log["macs"] is not None and log["params"] is not None]

    def total(self) -> tuple[int, int]:
        """Multiply-accumulates and parameters of the layers counted."""
        return sum(log["macs"] for _, log in self.counted), sum(log["params"] for _, log in self.counted)

    def summary(self, kind: str = "text", fmt: str = "raw", columns: str = "readme") -> str:
        """The layers as a table: as text, csv or md; in whole numbers, with prefixes, or as shares of the total.

        `columns`: those of the README, or of the released package: a description, other spaces, and two parameters
        per channel of a BatchNorm where the README has four.
        """
        for what, given, known in (("kind", kind, KINDS), ("fmt", fmt, FORMATS), ("layout", columns, COLUMNS)):
            if given not in known:
                raise UnknownName(f"{what} of summary", given, known)
        cells, sides = self._readme(fmt) if columns == "readme" else self._released(fmt)
        return table(cells, sides, kind)

    def _cells(self, title: str, values: Sequence[int], fmt: str) -> list[str]:
        total = sum(values)
        ways: dict[str, Callable[[int, int], str]] = {
            "raw": lambda value, total: str(value),
            "clever": lambda value, total: str(clever_format(value)),
            "ratio": ratio,
        }
        last = str(total) if fmt == "raw" else str(clever_format(total))
        return [title, *(ways[fmt](value, total) for value in values), last]

    def _macs(self, fmt: str) -> list[str]:
        return self._cells("MACs", [log["macs"] for _, log in self.counted], fmt)

    def _readme(self, fmt: str) -> tuple[list[list[str]], str]:
        names, logs = ["Name"], ["Class"]
        for name, log in self.counted:
            names.append(name)
            logs.append(log["class"])
        into, out = self._shapes(" x ")
        output = self.output if self.output is not None else self._last("shape_out")
        into, out = [*into, written(self.shape, " x ")], [*out, written(output, " x ")]
        params = self._cells("Params", [log["params"] for _, log in self.counted], fmt)
        return [[*names, "Total"], [*logs, self.name], into, out, self._macs(fmt), params], "llllll"

    def _released(self, fmt: str) -> tuple[list[list[str]], str]:
        names = ["Name", *(name for name, _ in self.counted), "Total"]
        said = ["Description", *(log["description"] for _, log in self.counted), self.name]
        into, out = self._shapes("x")
        into.append(into[1] if len(into) > 1 else written(self.shape, "x"))
        out.append(out[-1] if len(out) > 1 else written(self.output, "x"))
        params = self._cells("Params", [_released_params(log) for _, log in self.counted], fmt)
        return [names, into, out, self._macs(fmt), params, said], "lccrrl"

    def _shapes(self, between: str) -> tuple[list[str], list[str]]:
        into = [", ".join(written(shape, between) for shape in log["shapes_in"] or ()) for _, log in self.counted]
        return ["Input shape", *into], [
            "Output shape",
            *(written(log["shape_out"], between) for _, log in self.counted),
        ]

    def _last(self, key: str) -> Any:
        return self.counted[-1][1][key] if self.counted else None


def written(shape: Sequence[int] | None, between: str) -> str:
    """A shape less its batch: '64 x 112 x 112'."""
    return between.join(map(str, shape[1:])) if shape is not None else "-"


def _released_params(log: Log) -> int:
    """Parameters as the released package counts them; of a log made by hand, those it has."""
    return int(log["params released"] if "params released" in log else log["params"])
