"""Targets: machines that memory is predicted for. Any number of bytes is a target as well.

Of what a card has its driver keeps some (`driver`: an H100 of 81,559 MiB shows programs 79.1 GiB, an RTX 4090 of 24,564
MiB 23.65 GiB, as PyTorch's messages on lack of memory say); each process also needs some for its context and its
libraries' code (`context`). What is left can be allocated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..devices import sheet
from ..errors import InputError, UnknownName

MIB = 1 << 20
DECIMAL = {f"{prefix}b": 10**power for prefix, power in (("", 0), ("k", 3), ("m", 6), ("g", 9), ("t", 12))}
BINARY = {prefix + end: 1 << power for prefix, power in zip("kmgt", (10, 20, 30, 40)) for end in ("", "i", "ib")}
UNITS = DECIMAL | BINARY
DRIVER = 350 * MIB
CONTEXT = 600 * MIB  # CUDA context, cuBLAS and cuDNN code and cuBLAS' workspace of a process that trains


@dataclass(frozen=True)
class Target:
    """A machine, or a plain limit: bytes it has, bytes a process cannot use, and the generation of its kernels."""

    name: str
    total: int
    context: int = CONTEXT
    driver: int = 0
    generation: str = ""  # whose workspaces and attention are meant; "" where it is a plain limit
    measured: bool = False  # the generation's workspaces were measured, not taken from another one

    @property
    def is_limit(self) -> bool:
        """Whether it is a plain number of bytes, of which no driver keeps any."""
        return not self.context and not self.driver

    @property
    def usable(self) -> int:
        return self.shared_by(1)

    def shared_by(self, processes: int) -> int:
        """Bytes that each of so many processes may allocate."""
        return max((self.total - self.driver) // processes - self.context, 0)


MEASURED = ("hopper",)


def target(given: str | int | Target) -> Target:
    """'h200', '24GiB', 8589934592 → the Target."""
    if isinstance(given, Target):
        return given
    if isinstance(given, bool) or not isinstance(given, (str, int)):
        raise InputError(f"target={given!r} is neither a machine ('h200') nor a size ('24GiB', or bytes).")
    if isinstance(given, int):
        return _limit(str(given), given)
    name = _spelled(given)
    if name in sheet():
        found = sheet()[name]
        if found.memory is None:
            raise InputError(
                f"How much memory {name!r} has depends on what is plugged in: give a size, as in target='64GiB'."
            )
        kept = min(DRIVER + found.memory // 500, found.memory // 50)
        known = found.generation in MEASURED
        return Target(name, found.memory, driver=kept, generation=found.generation, measured=known)
    size = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?b?)\s*", given.lower())
    if size and not size[2] and float(size[1]) < MIB:
        raise InputError(f"target={given!r} would be {given} bytes: write a size with its unit, as in '{given}GiB'.")
    if size and (size[2] in UNITS or not size[2]):
        return _limit(given, int(float(size[1]) * UNITS.get(size[2], 1)))
    raise UnknownName("target", given, [*sheet(), "24GiB"])


def _spelled(name: str) -> str:
    """'NVIDIA RTX 4090' → 'rtx-4090'."""
    plain = re.sub(r"[\s_]+", "-", name.strip().lower())
    return plain.removeprefix("nvidia-").removeprefix("geforce-")


def _limit(name: str, nbytes: int) -> Target:
    """A plain number of bytes, all of which may be allocated; kernels are taken to be those that were measured."""
    if nbytes <= 0:
        raise InputError(f"target={name!r} leaves no memory: give a positive size such as '24GiB'.")
    return Target(name, nbytes, context=0, generation="hopper")
