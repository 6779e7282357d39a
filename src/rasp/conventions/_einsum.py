"""What an einsum costs by numpy's plan of it: pairs of operands in the cheapest order, none larger than what is given.

Source: numpy.einsum_path(..., optimize="optimal"), which prints the operations with three decimals; half of that.
"""

from __future__ import annotations

from itertools import combinations
from math import floor, prod
from typing import NamedTuple

Shapes = list[tuple[int, ...]]
EXACT = {"abc,abd->acd": -1, "abc,adc->adb": 1}  # which dimension of the second operand the first has not


class Step(NamedTuple):
    """Operands left after some contractions, and what these cost."""

    cost: int
    left: list[frozenset[str]]


def contraction(equation: str, shapes: Shapes) -> tuple[int, str]:
    """(multiply-accumulates, in words)."""
    equation = equation.replace(" ", "")
    letters = dict.fromkeys(c for c in equation if c.isalpha())
    named = equation.translate({ord(c): chr(97 + i) for i, c in enumerate(letters)})
    if named in EXACT:
        return prod(shapes[0]) * shapes[1][EXACT[named]], "every index multiplied out"
    operations = float(f"{_operations(equation, shapes):.3e}")
    return floor(operations / 2), "half the operations numpy prints for the cheapest order, to four digits"


def _operations(equation: str, shapes: Shapes) -> int:
    terms, out = _terms(equation, shapes)
    sizes: dict[str, int] = {}
    for term, dims in zip(terms, shapes):
        for letter, size in zip(term, dims):
            sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
    limit = max(prod(sizes[c] for c in term) for term in (*terms, out))
    sets, result = [frozenset(term) for term in terms], frozenset(out)
    if len(sets) < 3 or result == frozenset().union(*sets):
        return _joined(Step(0, sets), tuple(range(len(sets))), result, sizes)[0].cost + 1
    return _cheapest(sets, result, sizes, limit) + 1


def _terms(equation: str, shapes: Shapes) -> tuple[list[str], str]:
    """The indices of each operand and of the result; those that dots stand for as digits, from the right."""
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    most = max((len(dims) - len(term) + 3 for term, dims in zip(terms, shapes) if "..." in term), default=0)
    dots = [chr(0x100 + i) for i in range(most)]
    if not arrow:
        once = sorted(c for c in set(left) - set(",.") if left.count(c) == 1)
        out = ("..." if "..." in left else "") + "".join(once)
    spelled = []
    for term, dims in zip(terms, shapes):
        hidden = len(dims) - len(term) + 3
        spelled.append(term.replace("...", "".join(dots[most - hidden :]) if hidden > 0 else ""))
    return spelled, out.replace("...", "".join(dots))


def _joined(
    step: Step, places: tuple[int, ...], result: frozenset[str], sizes: dict[str, int]
) -> tuple[Step, frozenset[str]]:
    """Contract the operands at these places: one operation per index and operand beyond the first, one for a sum."""
    inside = frozenset().union(*(step.left[i] for i in places))
    rest = [term for i, term in enumerate(step.left) if i not in places]
    kept = inside & result.union(*rest)
    each = max(1, len(places) - 1) + (kept != inside)
    return Step(step.cost + each * prod(sizes[c] for c in inside), [*rest, kept]), kept


def _cheapest(sets: list[frozenset[str]], result: frozenset[str], sizes: dict[str, int], limit: int) -> int:
    """Every order of pairs; where all that is left would grow past the limit, the rest at once."""
    steps = [Step(0, sets)]
    for round_ in range(len(sets) - 1):
        found = []
        for step in steps:
            for pair in combinations(range(len(sets) - round_), 2):
                after, kept = _joined(step, pair, result, sizes)
                if prod(sizes[c] for c in kept) <= limit:
                    found.append(after)
        if not found:
            best = min(steps, key=lambda step: step.cost)
            return _joined(best, tuple(range(len(best.left))), result, sizes)[0].cost
        steps = found
    return min(step.cost for step in steps)
