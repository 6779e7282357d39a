"""Matrix products: m·k·n, dot products, biases, whatever way they are spelled."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from rasp.capture.specs import op_spec

from .recording import flops, known, meta, spec_of, torch_macs, total

aten = torch.ops.aten
size = st.integers(1, 9)
few = settings(max_examples=25, deadline=None)


def both(run):
    """Our MACs, after checking that torch's counter says the same."""
    work = total(run)
    assert work.mac == torch_macs(run)
    return work


@few
@given(size, size, size, size)
def test_products_are_m_k_n(b, m, k, n):
    assert flops(both(lambda: meta(m, k) @ meta(k, n))) == m * n * (2 * k - 1)
    assert flops(both(lambda: torch.bmm(meta(b, m, k), meta(b, k, n)))) == b * m * n * (2 * k - 1)
    assert flops(both(lambda: torch.addmm(meta(n), meta(m, k), meta(k, n)))) == m * n * 2 * k
    assert flops(both(lambda: torch.baddbmm(meta(b, m, n), meta(b, m, k), meta(b, k, n)))) == b * m * n * 2 * k


@few
@given(size, size, size, size)
def test_forms_torch_does_not_count(b, m, k, n):
    assert flops(total(lambda: meta(m, k) @ meta(k))) == m * (2 * k - 1)
    assert flops(total(lambda: meta(k) @ meta(k))) == 2 * k - 1
    assert flops(total(lambda: torch.addmv(meta(m), meta(m, k), meta(k)))) == m * 2 * k
    assert flops(total(lambda: torch.addbmm(meta(m, n), meta(b, m, k), meta(b, k, n)))) == m * n * 2 * k * b
    assert flops(total(lambda: torch.outer(meta(m), meta(n)))) == m * n
    assert flops(total(lambda: torch.addr(meta(m, n), meta(m), meta(n)))) == 2 * m * n


@few
@given(size, size, st.booleans(), st.lists(size, max_size=3))
def test_linear_is_one_product_over_all_leading_axes(i, o, bias, lead):
    b = meta(o) if bias else None
    rows = torch.Size(lead).numel()
    expected = rows * o * (2 * i - 1 + bias)
    assert flops(total(lambda: F.linear(meta(*lead, i), meta(o, i), b))) == expected
    assert flops(known(spec_of(aten.linear.default, meta(*lead, i), meta(o, i), b))) == expected


@few
@given(*[st.integers(2, 9)] * 4)
def test_one_contracted_axis_is_as_good_as_two(m, a, b, n):
    one = total(lambda: meta(m, a * b) @ meta(a * b, n))
    two = total(lambda: torch.einsum("mab,abn->mn", meta(m, a, b), meta(a, b, n)))
    three = total(lambda: torch.tensordot(meta(m, a, b), meta(a, b, n), dims=2))
    assert one.mac == two.mac == three.mac == m * a * b * n
    assert flops(one) == flops(two) == flops(three)


@few
@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_empty_axes_count_nothing_and_never_less(m, k, n):
    work = total(lambda: meta(m, k) @ meta(k, n))
    assert work.mac == m * k * n
    assert flops(work) == (m * n * (2 * k - 1) if k else 0)


def test_scaling_factors_cost_a_multiplication_per_result():
    plain = total(lambda: torch.addmm(meta(3, 5), meta(3, 4), meta(4, 5)))
    assert flops(total(lambda: torch.addmm(meta(3, 5), meta(3, 4), meta(4, 5), alpha=2))) == flops(plain) + 15
    assert flops(total(lambda: torch.addmm(meta(3, 5), meta(3, 4), meta(4, 5), beta=0))) == flops(plain) - 15
    assert flops(total(lambda: torch.addmm(meta(3, 5), meta(3, 4), meta(4, 5), beta=0.5, alpha=2))) == flops(plain) + 30


def test_a_complex_product_is_four_real_ones():
    work = total(lambda: meta(3, 4, dtype=torch.complex64) @ meta(4, 5, dtype=torch.complex64))
    assert work.mac == 4 * 60
    assert flops(work) == 15 * (4 * 6 + 3 * 2)  # 4 products of 6 operations, 3 sums of 2, for each of 15 results


def test_backward_is_two_products():
    x, w, b = meta(6, 4, grad=True), meta(5, 4, grad=True), meta(5, grad=True)
    run = lambda: F.linear(x, w, b).sum().backward()
    assert both(run).mac == 3 * 6 * 4 * 5
    spec = spec_of(aten.mm.default, meta(6, 4), meta(4, 5))
    assert known(spec).mac == 6 * 4 * 5


@pytest.mark.parametrize(
    ("x", "y"), [((3, 4), (4, 5)), ((7, 3, 4), (4, 5)), ((7, 3, 4), (7, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,))]
)
def test_whole_matmul_is_its_parts(x, y):
    whole = known(spec_of(aten.matmul.default, meta(*x), meta(*y)))
    assert flops(whole) == flops(total(lambda: torch.matmul(meta(*x), meta(*y))))


def test_chain_is_multiplied_in_the_cheapest_order():
    a, b, c = meta(10, 100), meta(100, 5), meta(5, 50)
    work = known(spec_of(aten.linalg_multi_dot.default, [a, b, c]))
    assert work.mac == 10 * 100 * 5 + 10 * 5 * 50
    assert flops(work) == flops(total(lambda: torch.linalg.multi_dot([a, b, c])))


def test_bilinear_is_two_products_per_term():
    run = lambda: F.bilinear(meta(7, 3), meta(7, 4), meta(5, 3, 4), meta(5))
    assert total(run).mac == 7 * 3 * 4 * 5
    whole = spec_of(aten.bilinear.default, meta(7, 3), meta(7, 4), meta(5, 3, 4), meta(5))
    assert flops(known(whole)) == flops(total(run))


def test_eight_and_four_bit_products():
    int8 = {"dtype": torch.int8}
    assert known(spec_of(aten._int_mm.default, meta(32, 16, **int8), meta(16, 24, **int8))).mac == 32 * 16 * 24
    half = torch.bfloat16
    x = meta(6, 64, dtype=half)
    packed = known(spec_of(aten._weight_int8pack_mm.default, x, meta(48, 64, **int8), meta(48, dtype=half)))
    assert (packed.mac, packed.mul) == (6 * 64 * 48, 6 * 48)
    four = op_spec(
        aten._weight_int4pack_mm.default,
        (x, meta(6, 1, 32, 4, dtype=torch.int32), 32, meta(2, 48, 2, dtype=half)),
        {},
        meta(6, 48, dtype=half),
    )
    assert (known(four).mac, known(four).fma) == (6 * 64 * 48, 64 * 48)


def test_fp8_product():
    a, b = meta(16, 32, dtype=torch.float8_e4m3fn), meta(48, 32, dtype=torch.float8_e4m3fn).t()
    one = meta(1)
    spec = spec_of(aten._scaled_mm.default, a, b, one, one, meta(48, dtype=torch.bfloat16), out_dtype=torch.bfloat16)
    assert (known(spec).mac, known(spec).bias) == (16 * 32 * 48, 16 * 48)


@pytest.mark.parametrize(
    ("a", "b", "macs"),
    [
        ((40, 32), (4, 32, 16), 40 * 32 * 16),
        ((4, 8, 32), (4, 32, 16), 4 * 8 * 32 * 16),
        ((8, 32), (32, 16), 8 * 32 * 16),
    ],
)
def test_grouped_product_counts_each_token_once(a, b, macs):
    """However the tokens are divided over the experts, and for the weight's gradient, contracted over the tokens."""
    half = torch.bfloat16
    offsets = None if len(a) == len(b) == 3 else meta(4, dtype=torch.int32)
    right = meta(*b[:-2], b[-1], b[-2], dtype=half).transpose(-1, -2)
    left = meta(a[1], a[0], dtype=half).t() if len(a) == len(b) == 2 else meta(*a, dtype=half)
    assert known(spec_of(aten._grouped_mm.default, left, right, offsets)).mac == macs


def test_distances():
    run = lambda: torch.cdist(meta(6, 3), meta(5, 3), compute_mode="donot_use_mm_for_euclid_dist")
    assert flops(total(run)) == 30 * (3 + 3 + 2 + 1)


def test_sparse_operand_multiplies_its_stored_elements():
    dense = torch.zeros(6, 8)
    dense[0, 1] = dense[2, 3] = dense[5, 7] = 1.0
    for sparse in (dense.to_sparse(), dense.to_sparse_csr()):
        work = total(lambda sparse=sparse: torch.sparse.mm(sparse, torch.ones(8, 5)))
        assert work.mac == 3 * 5


def test_sparse_weight_of_a_linear_layer():
    weight = torch.eye(8)[:5].to_sparse()
    work = known(op_spec(aten.linear.default, (torch.ones(3, 8), weight, None), {}, torch.ones(3, 5)))
    assert (work.mac, work.dot) == (3 * 5, 15)
