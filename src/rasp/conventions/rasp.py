"""The default convention: every operator counted, in the terms of RASP's per-layer table."""

from __future__ import annotations

from ..rules import PRIMITIVES
from . import Convention, convention

# A dot product of length k is k multiplications and k - 1 additions: 2 per MAC, less 1 per dot product, and a bias is
# one
# addition more. Everything else weighs 1 per operation, an fma 2. Integer work, random numbers and copies are no flops.
_ONE = {name: 1 for name in PRIMITIVES if name not in ("dot", "int", "rand")}

RASP = convention(
    Convention(
        name="rasp",
        title="every multiplication and addition (and division, comparison, root, exponential …) as one",
        source="RASP README, per-layer table of MobileNetV2",
        year=2020,
        weights={"flops": {**_ONE, "mac": 2, "fma": 2, "dot": -1}, "macc": _ONE},
    )
)
