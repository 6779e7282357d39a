"""Rarer families, each against its published or counted form."""

from __future__ import annotations

from math import log2

import pytest
import torch
from torch.nn import functional as F

from rasp.capture.specs import op_spec
from rasp.records import OpSpec, TensorSpec
from rasp.rules import work_of

from .recording import flops, known, meta, primitives, spec_of, specs_of, total

aten = torch.ops.aten


@pytest.mark.parametrize("n", [8, 64, 1024])
def test_fft_is_five_n_log_n(n):
    z, x = meta(3, n, dtype=torch.complex64), meta(3, n)
    assert flops(total(lambda: torch.fft.fft(z))) == 5 * 3 * n * log2(n)
    assert flops(total(lambda: torch.fft.rfft(x))) == 2.5 * 3 * n * log2(n)
    back = specs_of(lambda: torch.fft.irfft(torch.fft.rfft(x), n))
    assert flops(known(next(s for s in back if s.name == "aten::_fft_c2r"))) == 2.5 * 3 * n * log2(n)
    assert flops(total(lambda: torch.fft.fft2(meta(n, n, dtype=torch.complex64)))) == 5 * n * n * log2(n * n)


def test_short_time_transform_is_known_by_its_parts():
    run = lambda: torch.stft(meta(2, 400), 64, 16, window=meta(64), return_complex=True)
    frames = run().shape[-1]
    assert flops(total(run)) >= 2 * frames * 2.5 * 64 * 6


def test_sorting_is_n_log_n_comparisons():
    assert primitives(total(lambda: meta(4, 32).sort())) == {"cmp": 4 * 32 * 5}
    assert primitives(total(lambda: meta(4, 32).sort(0))) == {"cmp": 4 * 32 * 2}
    assert total(lambda: meta(4, 32).topk(1)).cmp == 4 * 32
    assert total(lambda: torch.searchsorted(meta(15), meta(8))).cmp == 8 * 4


def test_interpolation_weights_its_neighbours():
    assert flops(total(lambda: F.interpolate(meta(1, 2, 4, 4), scale_factor=2, mode="bilinear"))) == 2 * 64 * 9
    assert flops(total(lambda: F.interpolate(meta(1, 2, 4), scale_factor=2, mode="linear"))) == 16 * 3
    assert flops(total(lambda: F.interpolate(meta(1, 2, 4, 4), scale_factor=2, mode="bicubic"))) == 2 * 64 * 35
    nearest = total(lambda: F.interpolate(meta(1, 2, 4, 4), scale_factor=2))
    assert (flops(nearest), nearest.read, nearest.write) == (0, 32 * 4, 128 * 4)
    same = total(lambda: F.interpolate(meta(1, 2, 8, 8), (8, 8), mode="bilinear", antialias=True))
    assert flops(same) == 2 * 2 * 64 * 3  # two passes of two taps


def test_grid_sampling_and_affine_grids():
    run = lambda: F.grid_sample(meta(1, 8, 6, 6), meta(1, 5, 5, 2), align_corners=False)
    few, many = total(run), total(lambda: F.grid_sample(meta(1, 16, 6, 6), meta(1, 5, 5, 2), align_corners=False))
    assert flops(many) - flops(few) == 8 * 25 * 7  # 4 products and 3 sums a channel and position
    spec = spec_of(aten.affine_grid_generator.default, meta(2, 2, 3), [2, 1, 4, 5], False)
    assert known(spec).mac == 2 * 20 * 2 * 3


def test_decompositions_lead_with_the_textbook_term():
    n = 30
    x = meta(2, n, n)
    lead = {
        aten.linalg_cholesky_ex: n**3 / 3, aten.linalg_lu_factor_ex: 2 * n**3 / 3, aten.linalg_inv_ex: 2 * n**3,
        aten.linalg_eig: 25 * n**3, aten.linalg_householder_product: 4 * n**3 / 3,
    }  # fmt: skip
    for op, operations in lead.items():
        spec = op_spec(op.default, (x, meta(2, n)) if op is aten.linalg_householder_product else (x,), {}, (x,))
        assert flops(known(spec)) == pytest.approx(2 * operations, abs=4)
        assert known(spec).mac == 0


def test_sampled_product_counts_stored_positions():
    pattern = torch.eye(6).to_sparse_csr()
    work = known(spec_of(aten.sparse_sampled_addmm.default, pattern, torch.ones(6, 4), torch.ones(4, 6)))
    assert work.mac == 6 * 4


def test_dynamic_quantisation_is_the_product_of_the_float_layer():
    layer = torch.ao.nn.quantized.dynamic.Linear(8, 5)
    work = total(lambda: layer(torch.zeros(3, 8)))
    assert (work.mac, work.dot, work.bias) == (3 * 8 * 5, 15, 15)


def test_a_hidden_convolution_weight_is_unknown_and_a_visible_one_counts():
    x, out = TensorSpec((1, 4, 8, 8), (256, 64, 8, 1), "quint8"), TensorSpec((1, 6, 6, 6), (216, 36, 6, 1), "quint8")
    weight = TensorSpec((6, 4, 3, 3), (36, 9, 3, 1), "qint8")
    hidden = OpSpec("quantized::conv2d_relu", "new", (x, "'ScriptObject'", 1.0, 0), {}, out)
    seen = OpSpec("quantized::conv2d_relu", "new", (x, (weight, None), 1.0, 0), {}, out)
    assert work_of(hidden) is None
    assert known(seen).mac == out.numel * 36


def test_fake_quantisation_is_there_and_back():
    assert flops(total(lambda: torch.fake_quantize_per_tensor_affine(torch.zeros(10), 0.1, 0, -128, 127))) == 60


LOSSES = {
    "mse_loss": 2, "l1_loss": 2, "smooth_l1_loss": 6, "huber_loss": 6, "binary_cross_entropy": 8,
    "binary_cross_entropy_with_logits": 8,
}  # fmt: skip


@pytest.mark.parametrize(("name", "each"), LOSSES.items())
def test_losses_are_a_form_per_element_and_a_mean(name, each):
    x, y = meta(6, 5), meta(6, 5)
    assert flops(total(lambda: getattr(F, name)(x, y, reduction="none"))) == 30 * each
    assert flops(total(lambda: getattr(F, name)(x, y))) == 30 * each + 29 + 1


def test_cross_entropy_whole_and_in_parts():
    x, y = meta(6, 5), meta(6, dtype=torch.int64)
    whole = spec_of(aten.cross_entropy_loss.default, x, y)
    assert flops(known(whole)) == flops(total(lambda: F.cross_entropy(x, y)))


def test_dropout_counts_nothing_in_evaluation():
    assert primitives(total(lambda: F.dropout(meta(10), 0.5, training=True))) == {"rand": 10, "div": 10, "mul": 10}
    assert flops(total(lambda: F.dropout(meta(10), 0.5, training=False))) == 0
    whole = spec_of(aten.native_dropout.default, meta(10), 0.5, False)
    assert primitives(known(whole)) == {}


def test_random_numbers_are_no_flops():
    work = total(
        lambda: (torch.rand(4, device="meta"), torch.randn(4, device="meta"), torch.randperm(4, device="meta"))
    )
    assert (flops(work), work.rand, work.read) == (0, 12, 0)


def spec(name, *args, out):
    """An operator of a library that need not be installed."""
    return OpSpec(name, "default", args, {}, out)


def tensor(*shape):
    return TensorSpec(shape, tuple(torch.empty(shape, device="meta").stride()), "float32")


def test_torchvision_operators_need_no_torchvision():
    x, out = tensor(2, 8, 20, 20), tensor(5, 8, 7, 7)
    fine, coarse = (known(spec("torchvision::roi_align", x, tensor(5, 5), 1.0, 7, 7, r, True, out=out)) for r in (4, 2))
    assert flops(fine) > 3 * flops(coarse) > 0
    guessed = known(spec("torchvision::roi_align", x, tensor(5, 5), 1.0, 7, 7, -1, True, out=out))
    assert primitives(guessed) == primitives(coarse)
    weight, out = tensor(6, 8, 3, 3), tensor(2, 6, 18, 18)
    deformed = spec(
        "torchvision::deform_conv2d", x, weight, tensor(2, 18, 18, 18), tensor(2, 9, 18, 18), tensor(6), 1, 1, 0, 0, 1,
        1, 1, 1, True, out=out,
    )  # fmt: skip
    assert known(deformed).mac == 2 * 6 * 18 * 18 * 8 * 9
    boxes = known(spec("torchvision::nms", tensor(10, 4), tensor(10), 0.5, out=tensor(3)))
    assert boxes.div == 45


def test_operators_of_other_libraries():
    tokens, experts = tensor(40, 16), tensor(4, 16, 8)
    forward = known(spec("transformers::grouped_mm_fallback", tokens, experts, tensor(4), out=tensor(40, 8)))
    backward = spec(
        "transformers::grouped_mm_fallback_backward", tokens, experts, tensor(4), tensor(40, 8), out=(tokens, experts)
    )
    assert (forward.mac, known(backward).mac) == (40 * 16 * 8, 2 * 40 * 16 * 8)
    q, k = tensor(2, 6, 4, 8), tensor(2, 10, 2, 8)
    flash = spec("flash_attn::_flash_attn_forward", q, k, k, 0.0, None, False, -1, -1, 0.0, None, False, out=(q,))
    plain = spec("aten::_flash_attention_forward", q, k, k, None, None, 6, 10, 0.0, False, False, out=(q,))
    assert primitives(known(flash)) == primitives(known(plain))
    packed = spec(
        "bitsandbytes::gemv_4bit", tensor(1, 1, 64), tensor(16 * 64 // 2, 1), (16, 64), tensor(8), None, 64, out=q
    )
    assert known(packed).mac == 16 * 64


def test_masks_and_indices_are_integer_work():
    mask = meta(4, 4, dtype=torch.bool)
    assert flops(total(lambda: (mask & mask, ~mask, mask.any(), mask.cumsum(0)))) == 0


def test_batch_is_linear_everywhere():
    for run in (
        lambda b: F.softmax(meta(b, 9), -1),
        lambda b: F.max_pool2d(meta(b, 3, 8, 8), 2),
        lambda b: F.layer_norm(meta(b, 9), (9,)),
        lambda b: F.interpolate(meta(b, 3, 4, 4), scale_factor=2, mode="bilinear"),
        lambda b: torch.fft.rfft(meta(b, 16)),
        lambda b: F.scaled_dot_product_attention(meta(b, 2, 5, 4), meta(b, 2, 5, 4), meta(b, 2, 5, 4)),
    ):
        assert flops(total(lambda run=run: run(6))) == 6 * flops(total(lambda run=run: run(1)))
