"""Contraction MACs equal an independent count to the last digit, forward and backward, with nothing left uncounted."""

from __future__ import annotations

import pytest

pytest.importorskip("torchvision")
pytest.importorskip("timm")
pytest.importorskip("transformers")

from oracle.agreement import backward_agreement, forward_agreement
from oracle.case import Case
from oracle.catalogue import BY_NAME, CASES

# One or more of every kind of architecture; the whole catalogue runs with -m slow.
REPRESENTATIVE = [
    *[f"torchvision:{name}" for name in (
        "resnet18", "mobilenet_v2", "googlenet", "inception_v3", "densenet121", "shufflenet_v2_x0_5", "efficientnet_b0",
        "vit_b_16", "swin_v2_t", "maxvit_t", "deeplabv3_mobilenet_v3_large", "r2plus1d_18", "mvit_v2_s", "raft_small",
        "ssdlite320_mobilenet_v3_large", "fasterrcnn_mobilenet_v3_large_320_fpn",
    )],
    *[f"timm:{name}" for name in (
        "halonet_h1", "lambda_resnet26t", "botnet26t_256", "cait_xxs24_224", "coat_lite_tiny", "convit_tiny",
        "convnextv2_atto", "crossvit_9_dagger_240", "davit_tiny", "edgenext_xx_small", "efficientvim_m1", "fastvit_t8",
        "gcvit_xxtiny", "ghostnetv3_050", "hiera_tiny_224", "mobileone_s0", "mvitv2_tiny", "nf_regnet_b0", "resnest14d",
        "sequencer2d_s", "tnt_s_patch16_224", "volo_d1_224", "xcit_nano_12_p16_224",
    )],
    *[f"transformers:{name}" for name in (
        "bert", "deberta-v2", "longformer", "big_bird", "xlnet", "gpt2", "gpt2 without cache", "llama", "gemma2",
        "llama with a cache of 11 tokens", "bloom", "mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss",
        "mamba", "mamba2", "jamba", "rwkv", "t5", "bart", "switch_transformers", "vit_mae", "segformer", "detr",
        "wav2vec2", "whisper", "clip", "llava", "patchtst",
    )],
]  # fmt: skip
LAYERS = [case for case in CASES if case.name.startswith("layer:")]


def test_the_catalogue_is_as_broad_as_it_says():
    families: dict[str, int] = {}
    for case in CASES:
        library = case.name.partition(":")[0]
        families[library] = families.get(library, 0) + 1
    assert len(BY_NAME) == len(CASES), "two cases share a name"
    assert families["torchvision"] >= 100
    assert families["timm"] >= 150
    assert families["transformers"] >= 60
    assert len([name for name in REPRESENTATIVE if name in BY_NAME]) >= 60  # an older timm lacks some


def check_forward(case: Case) -> None:
    agreement = forward_agreement(case)
    ours, theirs = agreement.forward
    assert ours == theirs
    assert agreement.uncounted == []
    assert agreement.capture_mode == "meta" or "detection" in case.family


def check_backward(case: Case) -> None:
    agreement = backward_agreement(case)
    if agreement.forward is not None:
        assert agreement.forward[0] == agreement.forward[1]
    assert agreement.backward[0] == agreement.backward[1]
    assert agreement.uncounted == []


@pytest.mark.parametrize("case", LAYERS, ids=str)
def test_layers_count_their_closed_form(case):
    check_forward(case)


@pytest.mark.parametrize("case", [case for case in LAYERS if case.backward], ids=str)
def test_layers_count_the_closed_form_of_their_backward(case):
    check_backward(case)


@pytest.mark.parametrize("name", [name for name in REPRESENTATIVE if name in BY_NAME])
def test_forward_macs_equal_the_oracles(name):
    check_forward(BY_NAME[name])


@pytest.mark.parametrize("name", [name for name in REPRESENTATIVE if name in BY_NAME and BY_NAME[name].backward])
def test_backward_macs_equal_the_oracles(name):
    check_backward(BY_NAME[name])


REST = [case for case in CASES if case.name not in REPRESENTATIVE and case not in LAYERS]


@pytest.mark.slow
@pytest.mark.parametrize("case", REST, ids=str)
def test_forward_macs_equal_the_oracles_over_the_whole_catalogue(case):
    check_forward(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in REST if case.backward], ids=str)
def test_backward_macs_equal_the_oracles_over_the_whole_catalogue(case):
    check_backward(case)
