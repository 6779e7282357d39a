"""Normalisation, pooling and activations per element, and every layer of RASP's published MobileNetV2 table."""

from __future__ import annotations

import ast
import csv
from math import ceil, floor, prod
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from rasp.capture.specs import op_spec

from .recording import flops, known, macc, meta, primitives, spec_of, total

aten = torch.ops.aten
TABLE = Path(__file__).parents[1] / "data" / "rasp_mobilenet_v2.csv"


def published() -> dict[tuple, dict[str, str]]:
    """The distinct rows of the table."""
    with TABLE.open() as file:
        return {(r["type"], r["in_shape"], r["out_shape"], r["params"]): r for r in csv.DictReader(file)}


def module_of(row: dict[str, str]) -> nn.Module:
    (_, cin, *before), (_, cout, *after) = ast.literal_eval(row["in_shape"]), ast.literal_eval(row["out_shape"])
    params = int(row["params"])
    if row["type"] == "BatchNorm2d":
        return nn.BatchNorm2d(cin).eval()
    if row["type"] == "Conv2d":
        groups = cin if params == 9 * cin == 9 * cout else 1
        kernel = round((params / (cin // groups * cout)) ** 0.5)
        return nn.Conv2d(cin, cout, kernel, before[0] // after[0], kernel // 2, groups=groups, bias=False)
    return {"ReLU6": nn.ReLU6(inplace=True), "Linear": nn.Linear(cin, cout), "Dropout": nn.Dropout().eval()}[
        row["type"]
    ]


@pytest.mark.parametrize("row", published().values(), ids=lambda r: f"{r['type']}{r['in_shape']}".replace(" ", ""))
def test_published_layer(row):
    module = module_of(row).to("meta")
    x = meta(*ast.literal_eval(row["in_shape"]))
    with torch.no_grad():
        assert tuple(module(x).shape) == ast.literal_eval(row["out_shape"])
        work = total(lambda: module(x))
    assert (flops(work), macc(work)) == (int(row["flops"]), int(row["macc"]))


@pytest.mark.parametrize("shape", [(4, 6), (2, 6, 5), (2, 6, 5, 7), (1, 6, 2, 3, 4)])
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm_is_one_multiply_add_per_affine_step(shape, affine):
    cls = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[len(shape)]
    module, n = cls(6, affine=affine, device="meta"), prod(shape)
    assert flops(total(lambda: module.eval()(meta(*shape)))) == n * (4 if affine else 2)
    assert flops(total(lambda: module.train()(meta(*shape)))) == n * (4 if affine else 2) + 3 * n


def test_batch_norm_counts_the_same_on_every_backend():
    x, c, n = meta(2, 6, 4, 4), meta(6), 192
    for training in (False, True):
        plain = known(spec_of(aten.native_batch_norm.default, x, c, c, c, c, training, 0.1, 1e-5))
        cudnn = (x, c, c, c, c, training, 0.1, 1e-5)
        others = [
            op_spec(aten.cudnn_batch_norm.default, cudnn, {}, (x, c, c, c)),
            op_spec(aten.miopen_batch_norm.default, cudnn, {}, (x, c, c)),
            op_spec(aten._native_batch_norm_legit.default, cudnn, {}, (x, c, c)),
        ]
        assert all(primitives(known(o)) == primitives(plain) for o in others)
    evaluated = op_spec(aten._batch_norm_no_update.default, (x, c, c, c, c, 0.1, 1e-5), {}, (x, c, c, c))
    assert flops(known(evaluated)) == 4 * n
    no_stats = spec_of(aten._native_batch_norm_legit.no_stats, x, c, c, True, 0.1, 1e-5)
    assert flops(known(no_stats)) == 7 * n


@pytest.mark.parametrize("affine", [False, True])
def test_layer_and_group_norm_always_compute_statistics(affine):
    n, each = 2 * 6 * 8, 7 if affine else 5
    layer = nn.LayerNorm(8, elementwise_affine=affine, device="meta")
    group = nn.GroupNorm(3, 6, affine=affine, device="meta")
    instance = nn.InstanceNorm1d(6, affine=affine, device="meta").eval()
    for module in (layer, group, instance):
        assert flops(total(lambda module=module: module(meta(2, 6, 8)))) == n * each


@pytest.mark.parametrize("weight", [False, True])
def test_rms_norm_equals_its_parts(weight):
    w = meta(8) if weight else None
    fused = op_spec(aten._fused_rms_norm.default, (meta(2, 5, 8), [8], w, None), {}, (meta(2, 5, 8), meta(2, 5, 1)))
    assert primitives(known(fused)) == primitives(total(lambda: F.rms_norm(meta(2, 5, 8), (8,), w)))


def test_local_response_norm_is_counted_by_its_parts():
    assert flops(total(lambda: F.local_response_norm(meta(2, 6, 5, 5), 3))) > 0


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_windows_of_max_and_average_pools(dims, kernel, stride):
    x = meta(2, 3, *[8] * dims)
    out, window = getattr(F, f"max_pool{dims}d")(x, kernel, stride).numel(), kernel**dims
    assert flops(total(lambda: getattr(F, f"max_pool{dims}d")(x, kernel, stride))) == out * (window - 1)
    assert flops(total(lambda: getattr(F, f"avg_pool{dims}d")(x, kernel, stride))) == out * window


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3))
def test_adaptive_windows_are_summed_as_they_are(axes):
    sizes, out = [n for n, _ in axes], [m for _, m in axes]
    windows = prod(sum(ceil((i + 1) * n / m) - floor(i * n / m) for i in range(m)) for n, m in axes)
    average = total(lambda: getattr(F, f"adaptive_avg_pool{len(axes)}d")(meta(2, 3, *sizes), out))
    assert flops(average) == 6 * windows
    largest = total(lambda: getattr(F, f"adaptive_max_pool{len(axes)}d")(meta(2, 3, *sizes), out))
    assert flops(largest) == 6 * (windows - prod(out))


BOUNDED = [nn.ReLU(), nn.ReLU6(), nn.Hardtanh(), nn.LeakyReLU(), nn.Threshold(0.1, 20), nn.Hardshrink(), nn.PReLU()]


@pytest.mark.parametrize("module", BOUNDED, ids=lambda m: type(m).__name__)
def test_bounds_are_one_operation_per_element(module):
    work = total(lambda: module.to("meta")(meta(3, 4, 5)))
    assert flops(work) == macc(work) == 60


FORMS = {
    "Sigmoid": 3, "SiLU": 4, "Tanh": 1, "GELU": 5, "ELU": 4, "SELU": 5, "Softplus": 4, "Hardsigmoid": 3, "Hardswish": 4,
    "Mish": 6, "LogSigmoid": 5,
}  # fmt: skip


@pytest.mark.parametrize(("name", "each"), FORMS.items())
def test_composite_activations(name, each):
    assert flops(total(lambda: getattr(nn, name)()(meta(3, 4)))) == 12 * each


def test_gelu_with_tanh_is_another_form():
    assert primitives(total(lambda: F.gelu(meta(5), approximate="tanh"))) == {"mul": 30, "add": 10, "tanh": 5}


def test_softmax_is_five_per_element_less_two_per_row():
    assert flops(total(lambda: F.softmax(meta(4, 7), -1))) == 5 * 28 - 2 * 4
    safe = spec_of(aten._safe_softmax.default, meta(4, 7), -1)
    assert primitives(known(safe)) == primitives(total(lambda: F.softmax(meta(4, 7), -1)))


LAYERS = [
    (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), (2, 3, 9, 9)),
    (nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1)), (4, 8)),
    (nn.Sequential(nn.Conv1d(4, 4, 3, groups=2), nn.GroupNorm(2, 4), nn.SiLU(), nn.MaxPool1d(2)), (2, 4, 9)),
    (nn.Sequential(nn.ConvTranspose2d(4, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Hardswish()), (2, 4, 6, 6)),
    (nn.Sequential(nn.RMSNorm(8), nn.Linear(8, 4), nn.Softplus(), nn.Softmax(-1)), (4, 8)),
    (nn.Sequential(nn.AvgPool2d(2), nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.LogSoftmax(-1)), (2, 4, 6, 6)),
]


@pytest.mark.parametrize(("module", "shape"), LAYERS, ids=str)
def test_backward_is_known_and_larger_than_nothing(module, shape):
    module = module.to("meta").train()
    x = meta(*shape, grad=True)
    forward, both = total(lambda: module(x)), total(lambda: module(x).sum().backward())
    assert both.mac == 3 * forward.mac
    assert flops(both) > 1.5 * flops(forward)
