"""One model held in many ways (on the CPU, on meta, in training, frozen, compiled) has the same counts."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn

import rasp
from equality_cases import MODELS

BATCH_STATISTICS = (
    nn.modules.batchnorm._BatchNorm,
    nn.modules.dropout._DropoutNd,
    nn.modules.instancenorm._InstanceNorm,
)


def counts(case, model, mode=None, device=None):
    args, kwargs = case.inputs(batch=2)
    profile = rasp.profile(model, args, kwargs=kwargs, mode=mode, device=device)
    assert profile.uncounted == []
    return profile.total("macs"), profile.total("flops")


@pytest.fixture(params=MODELS, ids=str)
def case(request):
    return request.param


@pytest.fixture
def model(case):
    return case.build("cpu")


@pytest.fixture
def expected(case, model):
    return counts(case, model)


def varies_in_training(model: nn.Module) -> bool:
    """Whether the flops of this model are truly different in training: batch statistics, dropout."""
    rates = any(
        getattr(module, name, 0) for module in model.modules() for name in ("dropout", "p", "drop", "dropout_p")
    )
    return rates or any(isinstance(module, BATCH_STATISTICS) for module in model.modules())


def test_there_are_enough_models():
    if len(MODELS) < 30:
        pytest.skip("torchvision, timm and transformers are not installed: the hand-written models only")


def test_a_real_run_counts_what_the_run_on_shapes_counts(case, model, expected):
    assert counts(case, model, device="cpu") == expected


def test_a_model_on_meta_counts_the_same(case, model, expected):
    assert counts(case, case.build("meta")) == expected


def test_training_counts_the_same_products(case, model, expected):
    if any("spectral" in type(module).__name__.lower() for module in model.modules()):
        pytest.skip("spectral_norm iterates with two more products in training")
    macs, flops = counts(case, model, mode="train")
    assert macs == expected[0]
    if not varies_in_training(model):
        assert flops == expected[1]


def test_as_is_takes_the_flags_of_the_model(case, model, expected):
    assert counts(case, model.eval(), mode="as-is") == expected
    assert counts(case, model.train(), mode="as-is") == counts(case, model, mode="train")


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad, contextlib.nullcontext])
def test_the_surrounding_grad_mode_makes_no_difference(case, model, expected, context):
    with context():
        assert counts(case, model) == expected


def test_a_real_run_in_inference_mode_counts_the_same(case, model, expected):
    with torch.inference_mode():
        assert counts(case, model, device="cpu") == expected


def test_a_frozen_model_counts_the_same(case, model, expected):
    assert counts(case, model.requires_grad_(False)) == expected


def test_a_compiled_model_counts_the_same(case, model, expected):
    assert counts(case, torch.compile(model)) == expected


def test_a_wrapped_model_counts_the_same(case, model, expected):
    assert counts(case, nn.DataParallel(model)) == expected


def test_a_second_run_counts_the_same(case, model, expected):
    assert counts(case, model) == expected


def test_weights_of_another_precision_count_the_same(case, model, expected):
    args, kwargs = torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, case.inputs(batch=2)
    )
    profile = rasp.profile(model.double(), args, kwargs=kwargs)
    assert profile.total("macs") == expected[0]
