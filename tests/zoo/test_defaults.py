"""Models of other libraries take their default inputs, and those are the ones they were made for."""

from __future__ import annotations

import pytest

import rasp
from rasp.errors import InputError
from rasp.zoo.adapters import source


def shapes(name):
    given = source(name).given(2)
    return given["input_shape"] if "input_shape" in given else [tuple(image.shape) for image in given["inputs"]]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("resnet50", (2, 3, 224, 224)),
        ("inception_v3", (2, 3, 299, 299)),
        ("quantized_inception_v3", (2, 3, 299, 299)),
        ("efficientnet_b1", (2, 3, 240, 240)),
        ("efficientnet_v2_l", (2, 3, 480, 480)),
        ("vit_h_14", (2, 3, 224, 224)),
        ("swin_v2_t", (2, 3, 256, 256)),
        ("fcn_resnet50", (2, 3, 520, 520)),
        ("r3d_18", (2, 3, 16, 112, 112)),
        ("mvit_v1_b", (2, 3, 16, 224, 224)),
        ("raft_small", [(2, 3, 520, 960)] * 2),
        ("ssdlite320_mobilenet_v3_large", [(3, 480, 640)] * 2),
    ],
)
def test_torchvisions_default_inputs(name, shape):
    pytest.importorskip("torchvision")
    assert shapes(f"torchvision:{name}") == shape


@pytest.mark.parametrize("name", ["efficientnet_b1", "swin_v2_t", "regnet_y_400mf", "vit_b_32", "mvit_v2_s"])
def test_at_its_default_input_a_model_costs_what_torchvision_says(name):
    models = pytest.importorskip("torchvision").models
    origin = source(f"torchvision:{name}")
    profile = rasp.profile(origin.model(virtual=True), **origin.given(1))
    weights = models.get_model_weights(name).DEFAULT
    assert profile.total("macs") / 1e9 == pytest.approx(weights.meta["_ops"], rel=0.02)


@pytest.mark.parametrize(
    ("name", "side"), [("inception_v3", 299), ("tf_efficientnet_b1", 240), ("vit_tiny_patch16_384", 384)]
)
def test_timms_default_inputs(name, side):
    pytest.importorskip("timm")
    assert shapes(f"timm:{name}") == (2, 3, side, side)


TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 37}
VISION = {"image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
          "intermediate_size": 37}  # fmt: skip
SMALL = {
    "BertForMaskedLM": (TEXT, {"input_ids": (2, 128)}),
    "RobertaModel": ({**TEXT, "max_position_embeddings": 66, "pad_token_id": 1}, {"input_ids": (2, 64)}),
    "LlamaForCausalLM": (TEXT, {"input_ids": (2, 128)}),
    "T5ForConditionalGeneration": (
        {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 1, "num_heads": 4},
        {"input_ids": (2, 128), "decoder_input_ids": (2, 128)},
    ),
    "ViTForImageClassification": (VISION, {"pixel_values": (2, 3, 32, 32)}),
    "CLIPModel": (
        {"text_config": {**TEXT, "max_position_embeddings": 20}, "vision_config": VISION, "projection_dim": 16},
        {"input_ids": (2, 20), "pixel_values": (2, 3, 32, 32)},
    ),
    "VideoMAEModel": ({**VISION, "num_frames": 4}, {"pixel_values": (2, 4, 3, 32, 32)}),
    "WhisperForConditionalGeneration": (
        {"vocab_size": 99, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "num_mel_bins": 40,
         "max_source_positions": 30, "max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2, "decoder_start_token_id": 1},
        {"input_features": (2, 40, 60), "decoder_input_ids": (2, 20)},
    ),
    "ASTModel": ({**VISION, "max_length": 64, "num_mel_bins": 32}, {"input_values": (2, 64, 32)}),
    "Wav2Vec2Model": ({**TEXT, "num_conv_pos_embedding_groups": 2}, {"input_values": (2, 16000)}),
    "LayoutLMModel": (TEXT, {"input_ids": (2, 128), "bbox": (2, 128, 4)}),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_a_model_of_transformers_runs_on_its_default_inputs(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    options, expected = SMALL[name]
    config = getattr(transformers, name).config_class(**options)
    config.architectures = [name]
    config.save_pretrained(tmp_path)
    origin = source(f"hf:{tmp_path}")
    given = origin.given(2)
    assert given["input_shape"] == expected
    profile = rasp.profile(origin.model(virtual=True), **given)
    assert profile.total("macs") > 0
    assert origin.family == config.model_type


def test_a_configuration_that_does_not_tell_its_inputs_says_so(tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.TimeSeriesTransformerConfig(prediction_length=8).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="have to be named with -i"):
        source(f"hf:{tmp_path}").given(1)


@pytest.mark.parametrize(
    ("name", "near"),
    [("torchvision:resnt18", "resnet18"), ("timm:resnet_50", "resnet50"), ("vgg-m-1042", "vgg-m-1024")],
)
def test_wrong_names_suggest_the_nearest(name, near):
    if ":" in name:
        pytest.importorskip(name.partition(":")[0])
    with pytest.raises(InputError, match=f"Did you mean .*'{near}'"):
        source(name)
