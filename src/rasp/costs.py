"""What an operation and a word of memory cost in pJ, as RASP has it, and a part's energy estimated from them.

    energy = flops · E(mult) + words · (0.2 · E(dram) + 0.8 · E(sram)),   words = (mem_r + mem_w) / element size

Every operation is priced as a multiplication, and four words of five are found in SRAM (RASP, addons/energy.py).
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from .errors import InputError, UnknownName
from .records import FLOATING, ITEMSIZE, leaves

if TYPE_CHECKING:
    from .entries import Entry
    from .parts import Part
    from .view import View

HIT, MISS = 0.8, 0.2  # words found in SRAM, and those that come from DRAM
ARITHMETIC = ("add", "mult")  # pJ for one operation
MEMORY = ("reg", "l1cache", "l2cache", "chipdram", "sram", "dram")  # pJ for one word
WORD = 32  # bits of the types that costs of others are derived from

# RASP, addons/energy.py, in its spelling; it calls the four 64-bit ones guesses. Every other cost is derived.
COSTS: dict[tuple[str, str], float] = {
    ("int16", "add"): 0.06, ("int16", "mult"): 0.8, ("float16", "add"): 0.45, ("float16", "mult"): 1.1,
    ("int32", "add"): 0.1, ("int32", "mult"): 3.1, ("float32", "add"): 0.9, ("float32", "mult"): 4.5,
    ("int64", "add"): 0.2, ("int64", "mult"): 12.5, ("float64", "add"): 1.8, ("float64", "mult"): 18.0,
    ("float32", "reg"): 1.0, ("float32", "l1cache"): 3.5, ("float32", "l2cache"): 30.2,
    ("float32", "chipdram"): 160.0, ("float32", "sram"): 5.0, ("float32", "dram"): 640.0,
}  # fmt: skip
SAME_ARITHMETIC = {
    "bfloat16": "float16", "complex32": "float16", "complex64": "float32", "complex128": "float64",
}  # fmt: skip


def energy_cost(dtype: Any, key: str) -> float:
    """pJ of one operation or of one word of a dtype: as given, else derived from 32 bits by width.

    A word costs in proportion to its width, an addition too, a multiplication to the square of it (RASP's own numbers
    do so); bfloat16 computes as float16, complex numbers as their parts.
    """
    name = _known(dtype, key)
    if (name, key) in COSTS:
        return COSTS[name, key]
    width = ITEMSIZE[name] * 8 / WORD
    if key in MEMORY:
        return COSTS["float32", key] * width
    if name in SAME_ARITHMETIC:
        return energy_cost(SAME_ARITHMETIC[name], key)
    whole = "float32" if name.startswith(FLOATING) else "int32"
    return COSTS[whole, key] * (width if key == "add" else width**2)


def set_energy_cost(dtype: Any, key: str, value: float) -> None:
    """Set the pJ of one operation ('add', 'mult') or of one word ('sram', 'dram' …) of a dtype."""
    name = _known(dtype, key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
        raise InputError(f"An energy cost is a number of pJ, 0 or more; got {value!r}.")
    COSTS[name, key] = float(value)


def _known(dtype: Any, key: str) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in ITEMSIZE:
        raise UnknownName("dtype", name, ITEMSIZE)
    if key not in (*ARITHMETIC, *MEMORY):
        raise UnknownName("energy cost", key, (*ARITHMETIC, *MEMORY))
    return name


def estimate(part: Part, view: View) -> float | None:
    """Energy, estimated: flops as multiplications, and memory traffic at four words of five from SRAM, by dtype."""
    if part.counts is not None:
        return None
    found = [_of_entry(entry, view) for entry in view.entries(part)]
    known = [value for value in found if value is not None]
    return None if len(known) < len(found) and not any(known) else sum(known)


def _of_entry(entry: Entry, view: View) -> float | None:
    part = view.part(entry)
    work, *moved = (view.value(name, part) for name in ("flops", "mem_r", "mem_w"))
    if work is None or None in moved:
        return None
    dtype = _dtype(entry, view)
    words = sum(moved) / ITEMSIZE[dtype]
    per_word = MISS * energy_cost(dtype, "dram") + HIT * energy_cost(dtype, "sram")
    return float(work * energy_cost(dtype, "mult") + words * per_word)


def _dtype(entry: Entry, view: View) -> str:
    """Of a layer's first parameter, as RASP has it; where it has none, of the first floats that came out or went in."""
    if entry.call is None:
        return "float32"
    tensors = (view.trace.tensors[index] for index in view.ledger.own_tensors(entry.call))
    own = [tensor.spec for tensor in tensors if tensor.kind == "parameter" and entry.kind == "call"]
    call = view.trace.calls[entry.call]
    passing = [*leaves(call.outputs), *leaves(call.inputs)]
    floats = [spec for spec in passing if spec.is_floating]
    found = (spec.dtype for spec in (*own, *floats, *passing) if spec.dtype in ITEMSIZE)
    return next(found, "float32")
