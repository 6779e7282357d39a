"""What numpy says that an einsum costs when it is contracted pair by pair in the best order.

numpy.einsum_path(equation, ..., optimize="optimal"), "Optimized FLOP count": 1 + Σ size · factor over the contractions,
size the product of all indices met, factor terms − 1 and one more where an index is summed; printed with four digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from string import ascii_letters
from typing import NamedTuple

Sizes = Mapping[str, int]
Terms = list[frozenset[str]]


class Step(NamedTuple):
    """A contraction of some terms: what is left, the result last, and what it costs."""

    left: Terms
    result: frozenset[str]
    cost: int


def printed_cost(equation: str, shapes: Sequence[tuple[int, ...]]) -> int:
    """The count as numpy prints it: in four digits."""
    return int(float(f"{cost(equation, shapes):.3e}"))


def cost(equation: str, shapes: Sequence[tuple[int, ...]]) -> int:
    """1 + the cost of the cheapest order of pairs."""
    subscripts, output = _spelled_out(equation.replace(" ", ""), shapes)
    sizes = _sizes(subscripts, shapes)
    terms, kept = [frozenset(term) for term in subscripts], frozenset(output)
    if len(terms) <= 2 or frozenset().union(*terms) == kept:
        return 1 + _step(terms, range(len(terms)), kept, sizes).cost
    limit = max(_size(term, sizes) for term in (*subscripts, output))
    return 1 + _cheapest(terms, kept, sizes, limit)


def _cheapest(terms: Terms, kept: frozenset[str], sizes: Sizes, limit: int) -> int:
    """Every order of pairs whose results stay within the largest term; what is then left goes at once."""
    found = [(0, terms)]
    for count in range(len(terms), 1, -1):
        longer = []
        for spent, left in found:
            for pair in combinations(range(count), 2):
                step = _step(left, pair, kept, sizes)
                if _size(step.result, sizes) <= limit:
                    longer.append((spent + step.cost, step.left))
        if not longer:
            spent, left = min(found, key=lambda item: item[0])
            return spent + _step(left, range(count), kept, sizes).cost
        found = longer
    return min(spent for spent, _ in found)


def _step(terms: Terms, chosen: Iterable[int], kept: frozenset[str], sizes: Sizes) -> Step:
    chosen = set(chosen)
    met = frozenset[str]().union(*(terms[at] for at in chosen))
    others = [term for at, term in enumerate(terms) if at not in chosen]
    result = met & kept.union(*others)
    factor = max(1, len(chosen) - 1) + bool(met - result)
    return Step([*others, result], result, _size(met, sizes) * factor)


def _size(indices: Iterable[str], sizes: Sizes) -> int:
    return prod(sizes.get(index, 1) for index in indices)


def _sizes(subscripts: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The size of each index, the larger one where it broadcasts."""
    sizes: dict[str, int] = {}
    for term, shape in zip(subscripts, shapes):
        for index, size in zip(term, shape):
            sizes[index] = max(size, sizes.get(index, 1)) if size else 0
    return sizes


def _spelled_out(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """The indices of each operand and of the result, with letters for '...' and for a result that is not written."""
    left, arrow, output = equation.partition("->")
    free = [letter for letter in ascii_letters if letter not in equation]
    terms = []
    longest = 0
    for term, shape in zip(left.split(","), shapes):
        count = max(len(shape) - len(term.replace("...", "")), 0)
        longest = max(longest, count if "..." in term else 0)
        terms.append(term.replace("...", "".join(free[:count][::-1])))
    stood_for = "".join(free[:longest][::-1])
    if arrow:
        return terms, output.replace("...", stood_for)
    every = "".join(terms)
    once = sorted(index for index in set(every) - set(stood_for) if every.count(index) == 1)
    return terms, stood_for + "".join(once)
