"""Energy of a run, estimated as RASP estimates it: the column `energy`, in pJ, once this file is imported.

    energy = flops · E(mult) + words · (0.2 · E(dram) + 0.8 · E(sram)),   words = (mem_r + mem_w) / element size

Every operation is priced as a multiplication, and four words of five are found in SRAM. Flops and memory are those of
the convention asked for, so that `energy@rasp-2020` is the column of RASP's README. Nothing is measured.

>>> import rasp.addons.energy as energy
>>> energy.energy_cost("float32", "mult"), energy.energy_cost("bfloat16", "dram")
(4.5, 320.0)
>>> energy.set_energy_cost("float32", "dram", 650)
>>> energy.energy_cost("bfloat16", "dram")
325.0
>>> energy.set_energy_cost("float32", "dram", 640)
"""

from __future__ import annotations

from inspect import getdoc

from ..columns import COLUMNS, Column
from ..columns import load as load_columns
from ..costs import ARITHMETIC as ARITHMETIC
from ..costs import COSTS as COSTS
from ..costs import MEMORY as MEMORY
from ..costs import energy_cost as energy_cost
from ..costs import estimate
from ..costs import set_energy_cost as set_energy_cost


def register() -> None:
    """Make `energy` a column; importing this file does so."""
    load_columns()
    if "energy" not in COLUMNS:
        remark = "estimated from operations and memory traffic at fixed costs (RASP's), not measured"
        doc = (getdoc(estimate) or "").replace("\n", " ")
        item = Column("energy", "energy", doc, estimate, "pJ", additive=True, weighed=True, remark=remark)
        COLUMNS.add("energy", item)


register()
