"""Convolutions in one to three dimensions, forward and backward, against torch's counter and the closed form."""

from __future__ import annotations

from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from rasp.capture.specs import op_spec

from .recording import flops, known, macc, meta, spec_of, specs_of, torch_macs, total

aten = torch.ops.aten
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@st.composite
def layer(draw, transposed=False):
    dims, groups = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4]))
    per_in, per_out = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return {
        "dims": dims, "groups": groups, "cin": groups * per_in, "cout": groups * per_out,
        "kernel": tuple(draw(st.integers(1, 3)) for _ in range(dims)), "stride": draw(st.integers(1, 3)),
        "padding": draw(st.integers(0, 1)), "dilation": draw(st.integers(1, 2)), "bias": draw(st.booleans()),
        "batch": draw(st.integers(1, 3)), "space": tuple(draw(st.integers(5, 8)) for _ in range(dims)),
    }  # fmt: skip


def tensors(c, transposed, grad=False):
    x = meta(c["batch"], c["cin"], *c["space"], grad=grad)
    first, second = (c["cin"], c["cout"]) if transposed else (c["cout"], c["cin"])
    weight = meta(first, second // c["groups"], *c["kernel"], grad=grad)
    return x, weight, meta(c["cout"], grad=grad) if c["bias"] else None


def run(c, transposed, grad=False):
    x, weight, bias = tensors(c, transposed, grad)
    options = {"stride": c["stride"], "padding": c["padding"], "dilation": c["dilation"], "groups": c["groups"]}
    function = TRANSPOSED[c["dims"]] if transposed else CONV[c["dims"]]
    return lambda: function(x, weight, bias, **options)


@settings(max_examples=40, deadline=None)
@given(layer())
def test_every_output_is_a_dot_product(c):
    go = run(c, transposed=False)
    work, out, terms = total(go), go().numel(), c["cin"] // c["groups"] * prod(c["kernel"])
    assert work.mac == torch_macs(go) == out * terms
    assert flops(work) == out * (2 * terms - 1 + c["bias"])
    assert macc(work) == out * (terms + c["bias"])


@settings(max_examples=40, deadline=None)
@given(layer())
def test_transposed_spreads_every_input(c):
    go = run(c, transposed=True)
    work, out = total(go), go().numel()
    terms = c["batch"] * prod(c["space"]) * c["cin"] * (c["cout"] // c["groups"]) * prod(c["kernel"])
    assert work.mac == torch_macs(go) == terms
    assert flops(work) == 2 * terms - min(out, terms) + out * c["bias"]


@settings(max_examples=25, deadline=None)
@given(layer(), st.booleans())
def test_backward_is_two_products_and_a_sum(c, transposed):
    go = run(c, transposed, grad=True)
    forward = total(go).mac
    whole = total(lambda: go().sum().backward())
    assert whole.mac == 3 * forward
    if c["groups"] == 1:  # of a grouped weight's gradient torch's counter counts all groups against all
        assert whole.mac == torch_macs(lambda: go().sum().backward())
    spec = next(s for s in specs_of(lambda: go().sum().backward()) if s.name == "aten::convolution_backward")
    out = go()
    assert known(spec).add == (out.numel() - out.shape[1] if c["bias"] else 0)


@pytest.mark.parametrize(
    "mask", [(True, True, False), (True, False, False), (False, True, False), (False, False, True)]
)
def test_backward_counts_what_is_asked_for(mask):
    spec = spec_of(
        aten.convolution_backward.default, meta(2, 8, 6, 6), meta(2, 4, 8, 8), meta(8, 4, 3, 3), [8], [1, 1], [0, 0],
        [1, 1], False, [0, 0], 1, mask,
    )  # fmt: skip
    assert known(spec).mac == (mask[0] + mask[1]) * 2 * 8 * 36 * 4 * 9
    assert known(spec).add == (2 * 8 * 36 - 8 if mask[2] else 0)


def test_weights_are_read_once_however_large_the_batch():
    def read(batch):
        return total(lambda: F.conv2d(meta(batch, 4, 8, 8), meta(8, 4, 3, 3), padding=1)).read

    weight = 8 * 4 * 9 * 4
    assert read(1) == 4 * 64 * 4 + weight
    assert read(16) == 16 * 4 * 64 * 4 + weight


def test_work_is_linear_in_the_batch():
    one, many = (total(lambda b=b: F.conv2d(meta(b, 4, 8, 8), meta(8, 4, 3, 3), meta(8))) for b in (1, 7))
    assert flops(many) == 7 * flops(one)


@pytest.mark.parametrize(
    "backend", ["cudnn_convolution", "mkldnn_convolution", "convolution", "_conv_depthwise2d", "slow_conv_dilated2d"]
)
def test_every_backend_counts_the_same(backend):
    """The route a device takes changes the operator's name and its arguments' order, not the work."""
    x, w, b, out = meta(2, 4, 8, 8), meta(4, 1, 3, 3), meta(4), meta(2, 4, 8, 8)
    one, same = [1, 1], [1, 1]
    args = {
        "cudnn_convolution": (x, w, same, one, one, 4, False, False, True),
        "mkldnn_convolution": (x, w, b, same, one, one, 4),
        "convolution": (x, w, b, one, same, one, False, [0, 0], 4),
        "_conv_depthwise2d": (x, w, [3, 3], b, one, same, one),
        "slow_conv_dilated2d": (x, w, [3, 3], b, one, same, one),
    }[backend]
    work = known(op_spec(getattr(aten, backend).default, args, {}, out))
    assert (work.mac, work.dot) == (2 * 4 * 64 * 9, 2 * 4 * 64)
    assert work.bias == (0 if backend == "cudnn_convolution" else 2 * 4 * 64)


def test_complex_convolution_is_four_real_ones():
    x, weight = meta(1, 2, 9, dtype=torch.complex64), meta(3, 2, 3, dtype=torch.complex64)
    spec = spec_of(aten.convolution.default, x, weight, None, [1], [0], [1], False, [0], 1)
    assert known(spec).mac == 4 * 3 * 7 * 6
