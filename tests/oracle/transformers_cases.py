"""transformers models of every kind, from configurations shrunk to a few thousand weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoModel, AutoModelForCausalLM, DynamicCache, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .case import Case, Inputs

transformers.logging.set_verbosity_error()

# Set wherever a configuration (or one nested in it) has a field of that name.
TINY: dict[str, Any] = {
    **dict.fromkeys(["vocab_size"], 96),
    **dict.fromkeys(["hidden_size", "d_model", "n_embd", "dim"], 32),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"], 2),
    **dict.fromkeys(["num_encoder_layers", "num_decoder_layers"], 2),
    **dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads"], 4),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads", "num_experts", "num_local_experts"], 4),
    **dict.fromkeys(["n_routed_experts"], 4),
    **dict.fromkeys(["num_key_value_heads", "num_experts_per_tok"], 2),
    **dict.fromkeys(["intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff"], 64),
    **dict.fromkeys(["max_position_embeddings", "n_positions"], 64),
    **dict.fromkeys(["head_dim", "d_kv", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "state_size"], 8),
    **dict.fromkeys(["mamba_d_state", "mamba_d_head", "mamba_n_heads", "patch_size"], 8),
    **dict.fromkeys(["embedding_size", "kv_lora_rank", "q_lora_rank", "projection_dim"], 16),
    **dict.fromkeys(["moe_intermediate_size", "image_size"], 32),
    **dict.fromkeys(["n_group", "topk_group", "first_k_dense_replace"], 1),
    **dict.fromkeys(
        ["layerdrop", "encoder_layerdrop", "decoder_layerdrop"], 0.0
    ),  # layers skipped at random: no one count
    **dict.fromkeys(["mask_time_prob", "mask_feature_prob"], 0.0),
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "apply_spec_augment": False,
}


def shrink(config: PreTrainedConfig, sizes: dict[str, Any]) -> None:
    for name, value in sizes.items():
        if not isinstance(getattr(type(config), name, None), property) and isinstance(
            getattr(config, name, None), (int, float)
        ):
            setattr(config, name, value)
    for nested in vars(config).values():
        if isinstance(nested, PreTrainedConfig):
            shrink(nested, sizes)


def configure(kind: str, own: dict[str, Any]) -> PreTrainedConfig:
    """A configuration of the kind named, made small; `own` are fields of its own, "text_config.x" for a nested one."""
    cls = CONFIG_MAPPING[kind]
    flat = {k: v for k, v in own.items() if "." not in k}
    fits = {
        k: v
        for k, v in TINY.items()
        if hasattr(cls, k) and not isinstance(getattr(cls, k), (list, tuple, property)) and k not in flat
    }
    try:
        config = cls(**fits, **flat)
    except Exception:
        config = cls(**flat)
    shrink(config, {k: v for k, v in TINY.items() if k not in flat})
    for path, value in own.items():
        *parents, name = path.split(".")
        target = config
        for parent in parents:
            target = getattr(target, parent)
        if not isinstance(value, PreTrainedConfig):
            setattr(target, name, value)
    return config


def make(kind: str, head: str = "", tiny: bool = True, **own: Any) -> nn.Module:
    """The model of a configuration; `tiny=False` takes the fields as given, for kinds whose fields only fit together."""
    config = configure(kind, own) if tiny else CONFIG_MAPPING[kind](**own)
    if head:
        return getattr(transformers, head)(config)
    causal = type(config) in AutoModelForCausalLM._model_mapping
    return (AutoModelForCausalLM if causal else AutoModel).from_config(config)


# ---- inputs -------------------------------------------------------------------------------------------------------

TOKENS = 8


def ids(batch: int, tokens: int = TOKENS) -> torch.Tensor:
    return torch.randint(3, 90, (2 * batch, tokens))


def text(batch: int, **more: Any) -> Inputs:
    return (), {"input_ids": ids(batch), **more}


def text_mask(batch: int) -> Inputs:
    return (), {"input_ids": ids(batch), "attention_mask": torch.ones(2 * batch, TOKENS, dtype=torch.long)}


def text_pair(batch: int) -> Inputs:
    return (), {"input_ids": ids(batch), "decoder_input_ids": ids(batch, 5)}


def pixels(batch: int, size: int = 32) -> Inputs:
    return (), {"pixel_values": torch.rand(batch, 3, size, size)}


pixels64 = partial(pixels, size=64)


def frames(batch: int, count: int = 8) -> Inputs:
    return (), {"pixel_values": torch.rand(batch, count, 3, 32, 32)}


def wave(batch: int, samples: int = 1600, name: str = "input_values") -> Inputs:
    return (), {name: torch.rand(batch, samples)}


def text_and_pixels(batch: int, size: int = 32, **more: Any) -> Inputs:
    return (), {"input_ids": ids(batch), "pixel_values": torch.rand(2 * batch, 3, size, size), **more}


def boxes(batch: int) -> Inputs:
    return (), {"input_ids": ids(batch), "bbox": torch.zeros(2 * batch, TOKENS, 4, dtype=torch.long)}


def image_tokens(batch: int, image_token: int, count: int, size: int = 32, **more: Any) -> Inputs:
    """Text in which `count` tokens stand for the image."""
    tokens = ids(batch, count + 4)
    tokens[:, 1 : 1 + count] = image_token
    return (), {"input_ids": tokens, "pixel_values": torch.rand(2 * batch, 3, size, size), **more}


def cached(batch: int, layers: int = 2, heads: int = 2, width: int = 8, past: int = 11) -> Inputs:
    """One new token after `past` cached ones: the key and value cache is an input."""
    cache = DynamicCache()
    for layer in range(layers):
        cache.update(*[torch.rand(2 * batch, heads, past, width) for _ in range(2)], layer)
    return (), {"input_ids": ids(batch, 1), "past_key_values": cache, "use_cache": True}


# ---- the catalogue ------------------------------------------------------------------------------------------------

ENCODERS = """
albert bert bert-generation big_bird camembert canine convbert data2vec-text deberta deberta-v2 distilbert dpr electra ernie
esm eurobert flaubert fnet ibert layoutlm longformer markuplm megatron-bert mobilebert modernbert mpnet mra nomic_bert
nystromformer rembert roberta roberta-prelayernorm roformer splinter tapas xlm xlm-roberta xlm-roberta-xl xlnet yoso
""".split()

DECODERS = """
apertus arcee biogpt bitnet bloom cohere cohere2 ctrl diffllama ernie4_5 exaone4 falcon gemma gemma2 gemma3_text glm glm4 gpt2
gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese granite helium hunyuan_v1_dense imagegpt internlm3 llama ministral mistral
modernbert-decoder mpt nanochat nemotron olmo olmo2 olmo3 openai-gpt opt persimmon phi phi3 qwen2 qwen3 seed_oss smollm3
stablelm starcoder2 vaultgemma xglm
""".split()

EXPERTS = """
mixtral qwen2_moe qwen3_moe olmoe flex_olmo gpt_oss granitemoe granitemoeshared phimoe jetmoe ernie4_5_moe hunyuan_v1_moe
llama4_text glm4_moe exaone_moe minimax_m2 doge cohere2_moe afmoe aria_text
""".split()

STATE_SPACE = "mamba falcon_mamba nemotron_h rwkv lfm2 olmo_hybrid minimax".split()

ENCODER_DECODERS = """
bart bigbird_pegasus blenderbot blenderbot-small fsmt led longt5 m2m_100 marian mbart mt5 mvp nllb-moe pegasus pegasus_x plbart
prophetnet switch_transformers t5 umt5
""".split()

VISION = """
beit deit dinov2 dinov2_with_registers dinov3_vit dpt glpn ijepa mobilenet_v1 mobilenet_v2 mobilevit pixio pvt_v2 segformer
swiftformer vit vit_mae vit_msn vitdet yolos siglip_vision_model clip_vision_model aimv2_vision_model sam_vision_model
""".split()

AUDIO = "wav2vec2 wav2vec2-conformer wavlm hubert sew sew-d unispeech unispeech-sat data2vec-audio".split()

# models whose forward draws or sorts by value, so that no run on the meta device, or no two runs, show the same operators
NO_TRAINING = {"vit_mae", "switch_transformers", "nllb-moe"}
NO_BACKWARD: set[str] = set()


def case(
    kind: str, family: str, example: Callable[[int], Inputs], label: str = "", backward: bool = True, **own: Any
) -> Case:
    return Case(
        f"transformers:{kind}{label}", f"transformers {family}", partial(make, kind, **own), example, meta=False, small=True,
        training=kind not in NO_TRAINING, backward=backward and kind not in NO_BACKWARD,
    )  # fmt: skip


def listed() -> list[Case]:
    groups: list[tuple[str, list[str], Callable[[int], Inputs]]] = [
        ("encoder", ENCODERS, text),
        ("decoder", DECODERS, text),
        ("mixture of experts", EXPERTS, text),
        ("state space", STATE_SPACE, text),
        ("encoder-decoder", ENCODER_DECODERS, text_pair),
        ("vision", VISION, pixels),
        ("audio", AUDIO, wave),
    ]
    return [case(kind, family, example) for family, kinds, example in groups for kind in kinds]


def special() -> list[Case]:
    """Architectures that want sizes of their own to fit together."""
    mla = {"num_key_value_heads": 4}
    linear = {"layer_types": ["linear_attention", "full_attention"]}
    return [
        case("funnel", "encoder", text, head="FunnelModel", tiny=False, vocab_size=96, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4,
             d_head=8, d_inner=64),
        case("squeezebert", "encoder", text, embedding_size=32),
        case("bros", "encoder", lambda b: ((), {"input_ids": ids(b), "bbox": torch.rand(2 * b, TOKENS, 8)}), tiny=False, vocab_size=96,
             hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64),
        case("lilt", "encoder", boxes, hidden_size=48, channel_shrink_ratio=2, max_2d_position_embeddings=64),
        case("codegen", "decoder", text, n_ctx=64, rotary_dim=4),
        case("gptj", "decoder", text, rotary_dim=4),
        case("bert", "encoder", text_mask, label=" with a mask"),
        case("llama", "decoder", text_mask, label=" with a mask"),
        case("llama", "decoder", partial(text, use_cache=False), label=" without cache"),
        case("gpt2", "decoder", partial(text, use_cache=False), label=" without cache"),
        case("gemma2", "decoder", partial(text, use_cache=False), label=" without cache"),
        case("llama", "decoder", cached, label=" with a cache of 11 tokens", backward=False),
        case("qwen3", "decoder", cached, label=" with a cache of 11 tokens", backward=False),
        case("mistral", "decoder", cached, label=" with a cache of 11 tokens", backward=False),
        case("deepseek_v2", "mixture of experts", text, **mla),
        case("deepseek_v3", "mixture of experts", text, **mla),
        case("dots1", "mixture of experts", text, n_shared_experts=1),
        case("youtu", "decoder", text, **mla),
        case("minicpm3", "decoder", text, **mla),
        case("mamba2", "state space", text, num_heads=8, head_dim=8, n_groups=2, state_size=8, chunk_size=4),
        case("jamba", "state space", text, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
             mamba_dt_rank=4),
        case("bamba", "state space", text, attn_layer_indices=[1], mamba_chunk_size=4, mamba_n_groups=1),
        case("granitemoehybrid", "state space", text, layer_types=["linear_attention", "full_attention"], mamba_chunk_size=4,
             mamba_n_groups=1),
        case("recurrent_gemma", "state space", text, tiny=False, vocab_size=96, num_hidden_layers=3, hidden_size=32, intermediate_size=96,
             num_attention_heads=4, lru_width=32, attention_window_size=8),
        case("qwen3_next", "state space", text, **linear, linear_num_key_heads=2, linear_num_value_heads=4,
             linear_key_head_dim=8, linear_value_head_dim=8),
        case("convnext", "vision", pixels, tiny=False, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], patch_size=4),
        case("convnextv2", "vision", pixels, tiny=False, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], patch_size=4),
        case("cvt", "vision", pixels64, tiny=False, embed_dim=[16, 24, 32], depth=[1, 2, 3], num_heads=[1, 2, 4]),
        case("focalnet", "vision", pixels, embed_dim=16, depths=[1, 1], hidden_sizes=[16, 32], focal_levels=[2, 2],
             focal_windows=[3, 3], patch_size=4),
        case("resnet", "vision", pixels64, embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1]),
        case("regnet", "vision", pixels64, embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1],
             groups_width=8),
        case("bit", "vision", pixels64, embedding_size=32, hidden_sizes=[32, 64], depths=[1, 1], num_groups=8),
        case("poolformer", "vision", pixels64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], patch_size=7),
        case("pvt", "vision", pixels64, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1],
             num_attention_heads=[1, 2, 2, 4], image_size=64, patch_sizes=[4, 2, 2, 2]),
        case("levit", "vision", pixels64, image_size=64, hidden_sizes=[16, 24, 32], num_attention_heads=[2, 3, 4],
             depths=[1, 1, 1], key_dim=[8, 8, 8], patch_size=16),
        case("swin", "vision", pixels, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4, patch_size=2),
        case("swinv2", "vision", pixels, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4, patch_size=2),
        case("swin2sr", "vision", pixels, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4, patch_size=1),
        case("hiera", "vision", pixels64, image_size=[64, 64], embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 2, 4, 8],
             embed_dim_multiplier=2.0, patch_size=[7, 7], masked_unit_size=[8, 8]),
        case("dinov3_convnext", "vision", pixels, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
        case("mobilevitv2", "vision", pixels64, image_size=64, patch_size=2),
        case("detr", "vision", pixels64, encoder_layers=1, decoder_layers=1, num_queries=5),
        case("conditional_detr", "vision", pixels64, encoder_layers=1, decoder_layers=1, num_queries=5),
        case("deformable_detr", "vision", partial(pixels, size=128), encoder_layers=1, decoder_layers=1, num_queries=5),
        case("table-transformer", "vision", pixels64, encoder_layers=1, decoder_layers=1, num_queries=5),
        case("videomae", "vision", frames, num_frames=8),
        case("timesformer", "vision", frames, num_frames=8),
        case("vivit", "vision", frames, num_frames=8, tubelet_size=[2, 8, 8]),
        case("audio-spectrogram-transformer", "audio", lambda b: ((), {"input_values": torch.rand(b, 64, 16)}),
             max_length=64, num_mel_bins=16, patch_size=8, frequency_stride=8, time_stride=8),
        case("whisper", "audio", lambda b: ((), {"input_features": torch.rand(b, 80, 64), "decoder_input_ids": ids(b, 5)[:b]}),
             head="WhisperForConditionalGeneration", max_source_positions=32, max_target_positions=32),
        case("speech_to_text", "audio", lambda b: ((), {"input_features": torch.rand(b, 64, 80), "decoder_input_ids": ids(b, 5)[:b]}),
             max_source_positions=64, max_target_positions=32, conv_channels=32),
        case("moonshine", "audio", lambda b: ((), {"input_values": torch.rand(b, 1600), "decoder_input_ids": ids(b, 5)[:b]}),
             encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4, decoder_num_attention_heads=4),
        case("wav2vec2-bert", "audio", lambda b: ((), {"input_features": torch.rand(b, 20, 16)}), feature_projection_input_dim=16),
        case("encodec", "audio", lambda b: ((), {"input_values": torch.rand(b, 1, 640)}), num_filters=4, hidden_size=16,
             codebook_size=32, codebook_dim=16, backward=False),
        case("clip", "multimodal", text_and_pixels),
        case("siglip", "multimodal", text_and_pixels, **{"text_config.projection_size": 32}),
        case("metaclip_2", "multimodal", text_and_pixels),
        case("chinese_clip", "multimodal", text_and_pixels),
        case("altclip", "multimodal", text_and_pixels),
        case("groupvit", "multimodal", text_and_pixels, **{
            "vision_config.depths": [2, 1, 1], "vision_config.num_group_tokens": [4, 2, 0], "vision_config.num_output_groups": [4, 2, 0]}),
        case("blip", "multimodal", text_and_pixels),
        case("vilt", "multimodal", text_and_pixels, max_image_length=-1),
        case("visual_bert", "multimodal", text),
        case("lxmert", "multimodal", lambda b: ((), {"input_ids": ids(b), "visual_feats": torch.rand(2 * b, 5, 16),
             "visual_pos": torch.rand(2 * b, 5, 4)}), visual_feat_dim=16, l_layers=1, r_layers=1, x_layers=1),
        case("git", "multimodal", text_and_pixels),
        case("llava", "multimodal", partial(image_tokens, image_token=95, count=16), image_token_index=95, image_token_id=95),
        case("paligemma", "multimodal", partial(image_tokens, image_token=95, count=16), image_token_index=95, image_token_id=95,
             projection_dim=32, **{"vision_config.projection_dim": 32}),
        case("flava", "multimodal", text_and_pixels),
        case("decision_transformer", "decoder", lambda b: ((), {
            "states": torch.rand(b, 4, 17), "actions": torch.rand(b, 4, 4), "rewards": torch.rand(b, 4, 1),
            "returns_to_go": torch.rand(b, 4, 1), "timesteps": torch.arange(4).repeat(b, 1)})),
        case("patchtst", "time series", lambda b: ((), {"past_values": torch.rand(b, 32, 3)}), num_input_channels=3),
        case("patchtsmixer", "time series", lambda b: ((), {"past_values": torch.rand(b, 32, 3)}), num_input_channels=3),
        case("time_series_transformer", "time series", lambda b: ((), {
            "past_values": torch.rand(b, 31), "past_time_features": torch.rand(b, 31, 2), "past_observed_mask": torch.ones(b, 31),
            "future_values": torch.rand(b, 6), "future_time_features": torch.rand(b, 6, 2)}),
            prediction_length=6, context_length=24, num_time_features=2),
    ]  # fmt: skip


def cases() -> list[Case]:
    return [*listed(), *special()]
