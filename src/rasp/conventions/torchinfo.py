"""torchinfo 1.8.0, `summary(model, input_data=…)`: total mult-adds, parameters and the sizes below its table.

Mult-adds are the elements of parameters times dimensions of the output, so a Linear layer ignores the middle ones,
and layers without parameters and functions count nothing. A weight that two layers share counts in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ledger import Ledger
from . import Charge, Convention, convention
from ._torchinfo import Row, Summary


def charged(name: str, why: Callable[[Row], str]) -> Callable[[Ledger], Iterator[Charge]]:
    """A number of every row, as a charge."""

    def charges(ledger: Ledger) -> Iterator[Charge]:
        for row in Summary(ledger).rows:
            yield Charge(row.module, row.call, getattr(row, name), row.type, why(row))

    return charges


def params_why(row: Row) -> str:
    if row.leaf:
        return "parameters of a layer, once; a tensor that two layers share counts in both"
    return "parameters that no layer called inside it accounts for"


def input_mem(ledger: Ledger) -> Iterator[Charge]:
    yield Charge(0, 0, Summary(ledger).input_bytes, "inputs", "storages of the inputs as Python objects")


TORCHINFO = convention(
    Convention(
        name="torchinfo",
        title="elements of a layer's parameters times the dimensions of its output that its name suggests",
        source="torchinfo 1.8.0, torchinfo.summary",
        year=2023,
        level="module",
        charges={
            "flops": charged("total_mult_adds", lambda row: row.why),
            "params": charged("counted", params_why),
            "param_mem": charged("counted_bytes", lambda row: "parameters of layers; a container's own are left out"),
            "feat_mem": charged("pass_bytes", lambda row: "twice the output of a layer with parameters"),
            "input_mem": input_mem,
        },
        words={"flops": "mult-adds", "feat_mem": "forward/backward pass size", "total_mem": "estimated total size"},
    )
)
