"""Numbers for people: SI prefixes for counts, binary prefixes for bytes."""

from __future__ import annotations

SI = ("", "K", "M", "G", "T", "P", "E")
SMALL = ("s", "ms", "µs", "ns")
IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def scaled(value: float, base: int, names: tuple[str, ...]) -> str:
    """A value with the largest prefix that keeps it at 1 or more, two decimals; exact below the first prefix."""
    size, step = abs(value), 0
    while step + 1 < len(names) and round(size, 2) >= base:
        size /= base
        step += 1
    text = f"{int(size)}" if step == 0 and float(size).is_integer() else f"{size:.2f}"
    return f"{'-' if value < 0 else ''}{text} {names[step]}".rstrip()


def count(value: float, unit: str = "") -> str:
    """3504872 → '3.50 M'; with a unit the prefix joins it: '3.50 MMAC'; one that has a prefix stands apart."""
    text = scaled(value, 1000, SI)
    if not unit:
        return text
    joined = text[-1].isalpha() and unit[0].isupper()  # no second prefix: '15.94 G pJ'
    return f"{text}{unit}" if joined else f"{text} {unit}"


def size(nbytes: float) -> str:
    """92223904 → '87.95 MiB'."""
    return scaled(nbytes, 1024, IEC)


def time(seconds: float) -> str:
    """0.00321 → '3.21 ms'."""
    if seconds == 0:
        return "0 s"
    steps = range(len(SMALL))
    step = next((i for i in steps if round(abs(seconds) * 1000**i, 2) >= 1), len(SMALL) - 1)
    return f"{seconds * 1000**step:.2f} {SMALL[step]}"


def small(value: float, unit: str) -> str:
    """0.00321, 'J' → '3.21 mJ'; amounts that may be far below 1 or far above."""
    if abs(value) >= 999.995:
        return count(value, unit)
    return time(value).removesuffix("s") + unit


def percent(share: float) -> str:
    """0.1234 → '12.3 %'; a share that is there but would print as zero says so."""
    if share == 0:
        return "0 %"
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %"


def ratio(value: float) -> str:
    """3.6904 → '3.69'; four significant digits at most."""
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"


def shape(value: object) -> str:
    """(1, 3, 224, 224) → '1×3×224×224'; of several shapes the first, and how many more there are."""
    if not isinstance(value, tuple):
        return "" if value is None else str(value)
    if value and isinstance(value[0], tuple):
        return f"{shape(value[0])} +{len(value) - 1}" if len(value) > 1 else shape(value[0])
    return "×".join(str(n) for n in value) if value else "scalar"
