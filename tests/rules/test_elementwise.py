"""Elementwise arithmetic: one operation each, on floats, integers and complex numbers."""

from __future__ import annotations

import pytest
import torch

from .recording import flops, meta, primitives, total

X, Y = meta(3, 4), meta(4)
MASK = meta(4, dtype=torch.bool)
ROW = {
    "add": (lambda: X + Y, 1),
    "add scaled": (lambda: torch.add(X, Y, alpha=2), 2),
    "sub": (lambda: 1 - X, 1),
    "mul": (lambda: X * 2, 1),
    "div": (lambda: X / Y, 1),
    "floor": (lambda: X // Y, 2),
    "square": (lambda: X**2, 1),
    "cube": (lambda: X**3, 2),
    "root": (lambda: X**0.5, 1),
    "power": (lambda: X**2.5, 1),
    "exp": (lambda: X.exp(), 1),
    "sin": (lambda: X.sin(), 1),
    "rsqrt": (lambda: X.rsqrt(), 2),
    "compare": (lambda: X > Y, 1),
    "clamp": (lambda: X.clamp(0, 1), 1),
    "lerp": (lambda: torch.lerp(X, Y, 0.3), 3),
    "addcmul": (lambda: torch.addcmul(X, X, Y), 2),
    "addcdiv": (lambda: torch.addcdiv(X, X, Y, value=2), 3),
    "in place": (lambda: meta(3, 4).mul_(2), 1),
    "where": (lambda: torch.where(MASK, X, Y), 0),
    "fill": (lambda: X.masked_fill(MASK, 0), 0),
    "copy": (lambda: X.clone(), 0),
    "cast": (lambda: X.half(), 0),
    "transpose": (lambda: X.t(), 0),
}


@pytest.mark.parametrize("name", ROW)
def test_operations_per_element(name):
    run, each = ROW[name]
    assert flops(total(run)) == 12 * each


def test_broadcasting_counts_the_result():
    assert flops(total(lambda: meta(5, 1) + meta(1, 7))) == 35


INTEGER = {
    "add": lambda i: i + i,
    "scale": lambda i: i * 2,
    "compare": lambda i: i > 0,
    "sum": lambda i: i.sum(),
    "cumsum": lambda i: i.cumsum(0),
    "divide": lambda i: i // 2,
    "max": lambda i: i.amax(),
    "sort": lambda i: i.sort(),
    "and": lambda i: i.bool() & True,
}


@pytest.mark.parametrize("run", INTEGER.values(), ids=INTEGER)
def test_integers_are_no_flops(run):
    work = total(lambda: run(meta(6, dtype=torch.int64)))
    assert flops(work) == 0
    assert work.int > 0


def test_true_division_of_integers_is_float():
    assert primitives(total(lambda: meta(6, dtype=torch.int64) / 2)) == {"div": 6}


def test_complex_numbers_count_their_real_operations():
    z = meta(5, dtype=torch.complex64)
    assert primitives(total(lambda: z * z)) == {"mul": 20, "add": 10}
    assert primitives(total(lambda: z * 2.0)) == {"mul": 10}
    assert primitives(total(lambda: z + z)) == {"add": 10}
    assert primitives(total(lambda: z.abs())) == {"mul": 10, "add": 5, "sqrt": 5}


def test_transcendental_functions_are_kept_apart():
    found = total(lambda: [X.exp(), X.log(), X.tanh(), X.erf(), X.sin(), X**0.3])
    assert primitives(found) == dict.fromkeys(("exp", "log", "tanh", "erf", "trig", "pow"), 12)


REDUCED = {
    "sum": (lambda: X.sum(), 11),
    "rows": (lambda: X.sum(1), 9),
    "mean": (lambda: X.mean(1), 9 + 3),
    "max": (lambda: X.max(1), 9),
    "prod": (lambda: X.prod(), 11),
    "norm": (lambda: X.norm(), 12 + 11 + 1),
    "one": (lambda: torch.linalg.vector_norm(X, 1), 12 + 11),
    "var": (lambda: X.var(1), 9 + 3 + 12 + 12 + 9 + 3),
    "std": (lambda: X.std(1), 9 + 3 + 12 + 12 + 9 + 3 + 3),
    "cumsum": (lambda: X.cumsum(1), 9),
    "logsumexp": (lambda: X.logsumexp(1), 9 + 12 + 12 + 9 + 3 + 3),
    "argmax": (lambda: X.argmax(1), 9),
}


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_combine_all_but_one(name):
    run, expected = REDUCED[name]
    assert flops(total(run)) == expected
