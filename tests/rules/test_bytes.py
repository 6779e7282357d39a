"""Bytes: every distinct tensor once, views by what they touch, lookups by the rows they fetch."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from rasp.capture.specs import op_spec

from .recording import known, meta, spec_of, specs_of, total

aten = torch.ops.aten


def traffic(run):
    work = total(run)
    return work.read, work.write


def test_a_product_reads_both_and_writes_the_result():
    assert traffic(lambda: meta(3, 4) @ meta(4, 5)) == (4 * (12 + 20), 4 * 15)


def test_dtype_sizes():
    assert traffic(lambda: meta(3, 4, dtype=torch.bfloat16) + 1) == (24, 24)
    assert traffic(lambda: meta(3, 4).to(torch.float64)) == (48, 96)


def test_expanded_tensors_count_what_is_there():
    assert traffic(lambda: meta(1, 4).expand(100, 4) + 1) == (16, 1600)


def test_a_slice_counts_itself():
    assert traffic(lambda: meta(100, 4)[:3] + 1) == (48, 48)


def test_views_touch_nothing():
    x = meta(4, 6)
    views = (
        x.t,
        lambda: x.view(24),
        lambda: x[1],
        lambda: x.expand(3, 4, 6),
        lambda: x.chunk(2),
        lambda: x.unfold(1, 2, 1),
    )
    for view in views:
        assert traffic(view) == (0, 0)


def test_the_same_tensor_twice_is_read_once():
    x = meta(8)
    spec = op_spec(aten.mul.Tensor, (x, x), {}, x, same=(1,))
    assert (known(spec).read, known(spec).write) == (32, 32)


def test_overwritten_tensors_are_not_read():
    x, y = meta(8), meta(8, dtype=torch.float64)
    assert traffic(lambda: x.copy_(y)) == (64, 32)
    assert traffic(lambda: x.zero_()) == (0, 32)
    assert traffic(lambda: x.fill_(1)) == (0, 32)
    assert traffic(lambda: x.normal_()) == (0, 32)
    assert traffic(lambda: torch.zeros_like(x)) == (0, 32)
    assert traffic(lambda: torch.empty_like(x)) == (0, 0)
    assert traffic(lambda: torch.add(x, x, out=meta(8))) == (64, 32)
    assert traffic(lambda: x.add_(1)) == (32, 32)


def test_embedding_reads_the_rows_looked_up():
    table, ids = meta(50_000, 16), meta(2, 3, dtype=torch.int64)
    assert traffic(lambda: F.embedding(ids, table)) == (6 * 8 + 6 * 16 * 4, 6 * 16 * 4)
    many = meta(60_000, dtype=torch.int64)
    assert traffic(lambda: F.embedding(many, meta(10, 16)))[0] == 60_000 * 8 + 10 * 16 * 4
    assert traffic(lambda: table[ids]) == traffic(lambda: F.embedding(ids, table))
    assert traffic(lambda: table.index_select(0, meta(3, dtype=torch.int64))) == (24 + 192, 192)


def test_embedding_bag_sums_what_it_reads():
    table, ids = torch.zeros(100, 8), torch.zeros(6, dtype=torch.int64)
    work = total(lambda: F.embedding_bag(ids, table, torch.tensor([0, 2]), mode="sum"))
    assert work.add == (6 - 2) * 8
    assert work.read <= 6 * 8 * 4 + 6 * 8 + 3 * 8
    long, wide, bags = meta(6, dtype=torch.int64), meta(100, 8), meta(2, dtype=torch.int64)
    on_meta = total(lambda: F.embedding_bag(long, wide, bags, mode="sum"))
    assert work.write == on_meta.write == 2 * 8 * 4
    largest = total(lambda: F.embedding_bag(ids, table, torch.tensor([0, 2]), mode="max"))
    assert largest.write == 2 * 8 * (4 + 8)  # and which row it was


def test_scatter_in_place_touches_what_it_meets():
    target, index = meta(1000, 4), meta(2, 4, dtype=torch.int64)
    assert traffic(lambda: target.scatter_add_(0, index, meta(2, 4))) == (8 * 8 + 8 * 4 + 8 * 4, 8 * 4)
    assert traffic(lambda: target.scatter_(0, index, 1.0)) == (8 * 8, 8 * 4)
    assert total(lambda: target.scatter_add_(0, index, meta(2, 4))).add == 8


def test_accumulating_and_overwriting():
    target, rows = meta(1000, 4), (meta(3, dtype=torch.int64),)
    put = total(lambda: target.index_put_(rows, meta(3, 4)))
    added = total(lambda: target.index_put_(rows, meta(3, 4), accumulate=True))
    assert (put.add, added.add) == (0, 12)
    assert (put.write, added.write) == (48, 48)
    assert added.read - put.read == 48


def test_concatenation_reads_and_writes_everything():
    assert traffic(lambda: torch.cat([meta(3, 4), meta(2, 4)])) == (80, 80)


def test_every_work_ends_with_its_bytes():
    for spec in specs_of(lambda: F.softmax(F.linear(meta(3, 4), meta(5, 4), meta(5)), -1)):
        work = known(spec)
        assert work.read is not None
        assert work.write is not None


def test_sparse_tensors_count_their_stored_elements():
    sparse = torch.eye(8).to_sparse()
    spec = spec_of(aten.mul.Tensor, sparse, 2)
    assert known(spec).mul == 8
    assert known(spec).read == 8 * 4
