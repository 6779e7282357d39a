"""Numbers as convnet-burden prints them: whole, with a prefix; its MB are MiB."""

from __future__ import annotations


def memory(value: float) -> str:
    """Whole numbers with a prefix of 1024."""
    power = 0
    while value >= 1024:
        value, power = value / 1024, power + 1
    return f"{value:.0f} {('', 'K', 'M', 'G', 'T')[power]}B"


def operations(value: float, printed: str) -> str:
    """Whole numbers with a prefix of 1000, and the spelling of FLOPs that the cell has."""
    power = 0
    while value >= 1000:
        value, power = value / 1000, power + 1
    return f"{value:.0f} {'KMGT'[power - 1] if power else ''}{printed.split()[1].lstrip('KMGT')}"
