"""Statistics by hand, and what may be called a difference."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rasp import spread
from rasp.spread import Latency, apart, paired

MANY = st.lists(st.floats(0.01, 1e6), min_size=2, max_size=60)


@given(MANY)
def test_statistics_are_those_of_the_standard_library(samples):
    assert spread.median(samples) == pytest.approx(statistics.median(samples))
    assert spread.mean(samples) == pytest.approx(statistics.fmean(samples))
    assert spread.deviation(samples) == pytest.approx(statistics.stdev(samples), abs=1e-9 * max(samples))
    assert spread.quantile(samples, 0.5) == pytest.approx(statistics.median(samples))
    low, high = spread.interval(samples)
    assert min(samples) <= low <= spread.median(samples) <= high <= max(samples)


def test_by_hand():
    latency = Latency((4.0, 1.0, 3.0, 2.0, 5.0), warmup=2)
    assert (latency.median, latency.mean, latency.n, latency.warmup, latency.unit) == (3.0, 3.0, 5, 2, "ms")
    assert latency.std == pytest.approx(2.5**0.5)
    assert (latency.p5, latency.p95) == pytest.approx((1.2, 4.8))
    assert latency.ci == (1.0, 5.0)  # five samples have no narrower interval
    assert "3.00 ms" in str(latency)
    assert "3.00 ms" in repr(latency)


def test_the_interval_holds_the_median_as_often_as_it_says():
    draw = random.Random(0)
    held = 0
    for _ in range(400):
        low, high = spread.interval([draw.expovariate(1.0) for _ in range(50)])
        held += low <= 0.6931 <= high
    assert 0.92 <= held / 400 <= 0.99


def test_samples_that_resemble_their_neighbours_count_for_less():
    draw = random.Random(1)
    slow = [10.0 + (i // 25 % 2) + draw.random() / 10 for i in range(200)]
    assert spread.independent(slow) < 20
    shuffled = slow[:]
    draw.shuffle(shuffled)
    assert spread.independent(shuffled) > 100
    low, high = spread.interval(slow)
    assert high - low > 0.9


def noisy(draw: random.Random, typical: float, count: int = 60) -> list[float]:
    return [typical * (1 + 0.03 * draw.expovariate(1.0)) for _ in range(count)]


def test_a_difference_is_claimed_only_beyond_noise():
    draw = random.Random(2)
    claimed = sum(bool(apart(noisy(draw, 10.0), noisy(draw, 10.0))) for _ in range(200))
    assert claimed <= 2
    assert all(apart(noisy(draw, 10.0), noisy(draw, 11.0)) for _ in range(50))
    assert apart(noisy(draw, 10.0), noisy(draw, 11.0)).ratio == pytest.approx(1.1, rel=0.02)


def test_drift_and_load_are_not_differences():
    draw = random.Random(3)
    drifting = [value * (1 + 0.3 * i / 60) for i, value in enumerate(noisy(draw, 10.0))]
    assert not apart(noisy(draw, 10.0), drifting)
    loaded = [value * (1.5 if i % 6 else 1.0) for i, value in enumerate(noisy(draw, 10.0))]
    found = apart(noisy(draw, 10.0), loaded)
    assert not found
    assert "load" in found.why
    assert not apart([10.0] * 3, [20.0] * 3)


def test_pairs_cancel_what_slows_both():
    draw = random.Random(4)
    load = [draw.choice((1.0, 1.0, 1.6, 2.5)) for _ in range(60)]
    a = [10 * slow * (1 + 0.02 * draw.random()) for slow in load]
    b = [10.5 * slow * (1 + 0.02 * draw.random()) for slow in load]
    assert paired(a, b)
    assert not paired(a, [10 * slow * (1 + 0.02 * draw.random()) for slow in load])
    assert paired(a, b).ratio == pytest.approx(1.05, rel=0.01)


def test_nothing_to_compare_is_an_error():
    with pytest.raises(ValueError, match="no samples"):
        Latency(()).differs(Latency((1.0,)))
