"""The layout of torchinfo's summary (1.8.0; 1.7.2 prints the same): a line for each call, and the totals below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..conventions._torchinfo import Row, Summary
from ..errors import InputError, UnknownName
from . import style

if TYPE_CHECKING:
    from ..profile import Profile

NAMES_WIDTH, STEP = 40, 5
NOTHING = "--"
AGAIN = "(recursive)"
SETTINGS = ("depth", "var_names", "ascii_only", "hide_recursive_layers")
UNITS = ((1e12, "T"), (1e9, "G"))
SMALLEST = (1e6, "M")
MEGABYTE = 1e6

Cell = Callable[[Row, bool, int], str]  # (row, whether nothing below it is shown, all parameters) → text


def _params(row: Row, last: bool, total: int) -> str:
    if not row.params or row.recursive:
        return AGAIN if row.params else NOTHING
    if last or row.leaf:
        return f"{row.params:,}" if row.trainable else f"({row.params:,})"
    return f"{row.leftover:,}" if row.leftover > 0 else NOTHING


def _percent(row: Row, last: bool, total: int) -> str:
    if not total or (row.recursive and not total):
        return NOTHING.rjust(7)
    if row.recursive:
        return AGAIN
    count = row.params if last or row.leaf else row.leftover
    return f"{count / total:>7.2%}" if count else NOTHING.rjust(7)


def _mult_adds(row: Row, last: bool, total: int) -> str:
    if row.mult_adds <= 0 or not (row.leaf or last):
        return NOTHING
    return f"{row.mult_adds if row.leaf else sum(inner.total_mult_adds for inner in row.inside):,}"


def _trainable(row: Row, last: bool, total: int) -> str:
    if not row.params:
        return NOTHING
    return "False" if not row.trainable else "True" if row.trainable == row.params else "Partial"


def _kernel(row: Row, last: bool, total: int) -> str:
    return str(list(row.kernel) if isinstance(row.kernel, tuple) else row.kernel) if row.kernel else NOTHING


COLUMNS: dict[str, tuple[str, Cell]] = {
    "kernel_size": ("Kernel Shape", _kernel),
    "input_size": ("Input Shape", lambda row, last, total: str(list(row.given.shape)) if row.given.shape else NOTHING),
    "output_size": ("Output Shape", lambda row, last, total: str(list(row.made.shape)) if row.made.shape else NOTHING),
    "num_params": ("Param #", _params),
    "params_percent": ("Param %", _percent),
    "mult_adds": ("Mult-Adds", _mult_adds),
    "trainable": ("Trainable", _trainable),
}


@style("summary", convention="torchinfo")
def summary(
    profile: Profile,
    depth: int = 3,
    columns: Sequence[str] = ("output_size", "num_params"),
    rows: Sequence[str] = ("depth",),
    col_width: int = 25,
    width: int | None = None,
) -> str:
    """The table and the totals, to a depth. `width` widens the names so that all is at least so wide."""
    _check(columns, rows, depth, col_width)
    found = Summary(profile.view("torchinfo").ledger)
    layout = _Layout(depth, tuple(columns), frozenset(rows), col_width)
    layout.fit(found.rows, width)
    divider = "=" * layout.total_width
    parts = [divider, layout.head(), divider, *layout.lines(found), divider, *_totals(found)]
    if profile.trace.inputs:
        parts += [_operations(found.total("total_mult_adds")), divider, *_sizes(found)]
    return "\n".join([*parts, divider])


def _check(columns: Sequence[str], rows: Sequence[str], depth: int, col_width: int) -> None:
    for kind, given, known in (("summary column", columns, COLUMNS), ("row setting", rows, SETTINGS)):
        if isinstance(given, str):
            raise InputError(f"Give a {kind} as a list of names, as in [{given!r}].")
        for name in given:
            if name not in known:
                raise UnknownName(kind, name, known)
    if col_width < 1 or depth < 0:
        raise InputError(f"depth must be 0 or more and col_width 1 or more; got {depth} and {col_width}.")


class _Layout:
    """Where things stand on a line."""

    def __init__(self, depth: int, columns: tuple[str, ...], settings: frozenset[str], col_width: int) -> None:
        self.depth, self.columns, self.settings, self.col_width = depth, columns, settings, col_width
        self.names_width = NAMES_WIDTH
        self.bar, self.fork, self.end = ("|    ", "+ ", "+ ") if "ascii_only" in settings else ("│    ", "├─", "└─")

    @property
    def total_width(self) -> int:
        return self.names_width + len(self.columns) * self.col_width

    def fit(self, rows: Sequence[Row], width: int | None) -> None:
        """Names as wide as the longest, hidden lines too, in steps of 5."""
        longest = max((len(self.title(row)) + row.depth * STEP + 1 for row in rows), default=0)
        if longest >= self.names_width:
            self.names_width = -(-longest // STEP) * STEP
        if width is not None:
            self.names_width = max(self.names_width, width - len(self.columns) * self.col_width)

    def title(self, row: Row) -> str:
        name = f" ({row.place.name})" if "var_names" in self.settings and row.place.name else ""
        number = f": {row.depth}-{row.number}" if "depth" in self.settings and row.depth else ""
        return f"{row.type}{name}{number}"

    def head(self) -> str:
        names = " (var_name)" if "var_names" in self.settings else ""
        numbers = ":depth-idx" if "depth" in self.settings else ""
        return self.line(f"Layer (type{names}{numbers})", [COLUMNS[name][0] for name in self.columns])

    def lines(self, found: Summary) -> list[str]:
        hidden = "hide_recursive_layers" in self.settings
        shown = [row for row in found.rows if row.depth <= self.depth and not (hidden and row.recursive)]
        total = found.total("counted")
        return [
            self.line(
                self.branch(row.depth) + self.title(row),
                [COLUMNS[name][1](row, row.depth == self.depth, total) for name in self.columns],
            )
            for row in shown
        ]

    def branch(self, depth: int) -> str:
        if depth <= 1:
            return self.fork if depth else ""
        return self.bar * (depth - 1) + self.end

    def line(self, name: str, cells: Sequence[str]) -> str:
        return " ".join([name.ljust(self.names_width), *(cell.ljust(self.col_width) for cell in cells)]).rstrip()


def _totals(found: Summary) -> list[str]:
    total, trainable = found.total("counted"), found.total("counted_trainable")
    return [
        f"Total params: {total:,}",
        f"Trainable params: {trainable:,}",
        f"Non-trainable params: {total - trainable:,}",
    ]


def _operations(count: int) -> str:
    """With the largest unit that fits; a whole number of it without decimals."""
    size, letter = next((unit for unit in UNITS if count >= unit[0]), SMALLEST)
    value = count / size
    return f"Total mult-adds ({letter}): {f'{int(value):,d}' if value.is_integer() else f'{value:,.2f}'}"


def _sizes(found: Summary) -> list[str]:
    given, passed, params = found.input_bytes, found.total("pass_bytes"), found.total("counted_bytes")
    return [
        f"Input size (MB): {given / MEGABYTE:0.2f}",
        f"Forward/backward pass size (MB): {passed / MEGABYTE:0.2f}",
        f"Params size (MB): {params / MEGABYTE:0.2f}",
        f"Estimated Total Size (MB): {(given + passed + params) / MEGABYTE:0.2f}",
    ]
