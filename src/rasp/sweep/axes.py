"""What a sweep goes over: sizes, scales, batches, tokens, shards. Words, numbers, ranges and lists → values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, TypeVar

from ..errors import InputError

Value = TypeVar("Value")
Size = tuple[int, int]  # height and width

MOST = 1_000_000  # values of one axis
DEFAULT_SCALES = "0.5:3:0.5"  # of convnet-burden's reports


def scaled(base: int, scale: Decimal) -> int:
    """base · scale to the nearest whole number, a half away from zero: 227 · 0.5 → 114, 513 · 1.5 → 770."""
    return int((base * scale).quantize(Decimal(1), rounding=ROUND_HALF_UP))


def sizes(given: Any) -> list[Size]:
    """224, '128:512:64', '600x850', [(600, 850), 384], range(…) → heights and widths."""
    found = []
    for item in _items(given, "sizes"):
        if isinstance(item, (tuple, list)):
            if len(item) != 2:
                raise InputError(f"sizes: {item!r} is no height and width; write (600, 850) or 224.")
            found.append((whole(item[0], "sizes"), whole(item[1], "sizes")))
        elif isinstance(item, str) and "x" in item.lower():
            height, _, width = item.lower().partition("x")
            found.append((whole(height, "sizes"), whole(width, "sizes")))
        else:
            found.extend((side, side) for side in (whole(number, "sizes") for number in _range(item, "sizes")))
    return _unlike(found, "sizes")


def scales(given: Any) -> list[Decimal]:
    """True (0.5, 1 … 3, as convnet-burden has them), 1.5, '0.5:3:0.5', [1, 2] → factors of a model's own size."""
    if given is True:
        given = DEFAULT_SCALES
    found = [number for item in _items(given, "scales") for number in _range(item, "scales")]
    for number in found:
        if number <= 0:
            raise InputError(f"scales: {number} is not above 0.")
    return _unlike(found, "scales")


def counts(given: Any, option: str) -> list[int]:
    """8, '1,8,32', '1:64:8', range(1, 5) → whole numbers of at least 1."""
    return _unlike([whole(number, option) for item in _items(given, option) for number in _range(item, option)], option)


def names(given: Any, option: str) -> list[str | None]:
    """'cpu,cuda:0', ['float16', None] → names; None stands for the model's own."""
    found: list[str | None] = []
    for item in [None] if given is None else _items(given, option):
        word = None if item is None else str(item).removeprefix("torch.").strip()
        if word == "":
            raise InputError(f"{option} takes names; got {given!r}.")
        found.append(word)
    return _unlike(found, option)


def whole(given: Any, option: str) -> int:
    number = _number(given, option)
    if number != number.to_integral_value() or number < 1:
        raise InputError(f"{option}: {given} is not a whole number of at least 1.")
    return int(number)


@dataclass(frozen=True)
class Shard:
    """One part of a sweep of which each of `of` machines takes one."""

    number: int = 1
    of: int = 1

    def has(self, index: int) -> bool:
        return index % self.of == self.number - 1


def shard(given: Any) -> Shard:
    """'2/8' → the second of eight parts."""
    if given is None:
        return Shard()
    first, slash, second = str(given).partition("/")
    if not (slash and first.strip().isdigit() and second.strip().isdigit()):
        raise InputError(f"shard={given!r} is not understood: write '1/8' for the first of eight parts.")
    number, of = int(first), int(second)
    if not 1 <= number <= of:
        raise InputError(f"shard={given!r}: parts are counted from 1/{of or 1} to {of or 1}/{of or 1}.")
    return Shard(number, of)


@dataclass(frozen=True)
class Axes:
    """Everything a sweep goes over besides its models."""

    sizes: Sequence[Size] | None = None
    scales: Sequence[Decimal] | None = None
    tokens: Sequence[int] | None = None
    batches: Sequence[int] = (1,)
    dtypes: Sequence[str | None] = (None,)
    devices: Sequence[str | None] = (None,)
    shard: Shard = Shard()

    @staticmethod
    def of(sized: Any, scaling: Any, tokens: Any, batches: Any, dtypes: Any, devices: Any, part: Any) -> Axes:
        """As they were given, checked."""
        return Axes(
            None if sized is None else sizes(sized),
            None if scaling is None or scaling is False else scales(scaling),
            None if tokens is None else counts(tokens, "tokens"),
            counts(batches, "batches"),
            names(dtypes, "dtypes"),
            names(devices, "devices"),
            shard(part),
        )


def _items(given: Any, option: str) -> list[Any]:
    """One value or many, as a list; words are split at commas."""
    if isinstance(given, str):
        found: list[Any] = [word.strip() for word in given.split(",") if word.strip()]
    elif isinstance(given, bool) or not isinstance(given, Iterable):
        found = [given]
    elif isinstance(given, range) and len(given) > MOST:
        raise InputError(f"{option}: {len(given)} values are more than {MOST}.")
    else:
        found = [part for item in given for part in (_items(item, option) if isinstance(item, str) else [item])]
    if not found:
        raise InputError(f"{option} is empty: there is nothing to sweep over. Leave it out for the model's own.")
    return found


def _range(item: Any, option: str) -> list[Decimal]:
    """'start:stop:step', the stop included, or one number."""
    if isinstance(item, range):
        return [Decimal(number) for number in item]
    if not (isinstance(item, str) and ":" in item):
        return [_number(item, option)]
    parts = [_number(word, option) for word in item.split(":")]
    if len(parts) not in (2, 3):
        raise InputError(f"{option}: {item!r} is not understood: write start:stop:step, as in 128:512:64.")
    start, stop, step = (*parts, Decimal(1))[:3]
    if step <= 0 or stop < start:
        raise InputError(f"{option}: {item!r} holds nothing: it is start:stop:step, with stop not below start.")
    if start == stop and len(parts) == 3:
        raise InputError(
            f"{option}: {item!r} holds only {start}: it is start:stop:step. Did you mean {start}:{step}:{stop}?"
        )
    if (stop - start) / step > MOST:
        raise InputError(f"{option}: {item!r} holds more than {MOST} values.")
    return [start + at * step for at in range(int((stop - start) / step) + 1)]


def _number(given: Any, option: str) -> Decimal:
    try:
        number = Decimal(str(given).strip())
    except InvalidOperation:
        number = Decimal("nan")
    if isinstance(given, bool) or not number.is_finite():
        raise InputError(f"{option}: {given!r} is not a number.")
    return number.normalize()


def _unlike(found: Sequence[Value], option: str) -> list[Value]:
    if len(found) > MOST:
        raise InputError(f"{option}: {len(found)} values are more than {MOST}.")
    return list(dict.fromkeys(found))
