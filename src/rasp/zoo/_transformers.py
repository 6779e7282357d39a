"""Which inputs a model of transformers takes by default, told from its class and configuration: nothing is run.

Language models get 128 tokens (fewer where fewer fit), vision models an image or a clip, audio models a second of sound
or the spectrogram they were made for, models of text and image both, encoders with decoders something for each.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from ..errors import InputError

TOKENS = 128
SECOND = 16_000  # samples of sound
TEXT_NAMES = ("text_config", "decoder", "text_encoder", "language_config")
VISION_NAMES = ("vision_config", "encoder", "image_encoder", "backbone_config")
AUDIO_NAMES = ("audio_config", "audio_encoder", "speech_config", "encoder")
PLACEHOLDERS = ("image_token_id", "image_token_index", "audio_token_id", "audio_token_index", "video_token_id")


def default_inputs(config: Any, model: Any, batch: int) -> dict[str, Any]:
    """Keywords of rasp.profile for a model class and its configuration."""
    taken = inspect.signature(model.forward).parameters
    shapes: dict[str, tuple[int, ...]] = {}
    for name in _wanted(config, model, taken):
        shape = SHAPES[name](config)
        if shape is None:
            raise _unknown(f"the configuration does not tell the size of {name}")
        shapes[name] = (batch, *shape)
    if not shapes:
        raise _unknown("the configuration does not tell which inputs the model takes")
    indices = {name: torch.int64 for name in shapes if name.endswith("_ids") or name == "bbox"}
    return {"input_shape": shapes, "dtypes": indices} if indices else {"input_shape": shapes}


def _unknown(why: str) -> InputError:
    return InputError(f"The inputs have to be named with -i: {why}.")


def _wanted(config: Any, model: Any, taken: Mapping[str, Any]) -> list[str]:
    """The inputs' names: the main one, its companion in a model of two kinds, and the decoder's."""
    main = _main(config, model, taken)
    if main not in SHAPES or main not in taken:
        return []
    found = [main]
    if not any(getattr(config, name, None) is not None for name in PLACEHOLDERS):
        pairs = ("input_ids", "pixel_values"), ("input_ids", "input_features"), ("input_ids", "input_values")
        for pair in pairs:
            if all(name in taken for name in pair) and _both(config, taken):
                found = list(pair)
    if "bbox" in taken and getattr(config, "max_2d_position_embeddings", None):
        found.append("bbox")
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
        found.append("decoder_input_ids")
    return list(dict.fromkeys(found))


def _main(config: Any, model: Any, taken: Mapping[str, Any]) -> str:
    """The main input: as the class says, where that is one it takes; else the first that is known here."""
    named = getattr(model, "main_input_name", "input_ids")
    if named in taken and named in SHAPES and not (named == "input_ids" and _size(config) and not _vocabulary(config)):
        return str(named)
    return next((name for name in taken if name in SHAPES and not name.startswith("decoder")), named)


def _both(config: Any, taken: Mapping[str, Any]) -> bool:
    """Whether a model reads text beside something else: it has a configuration of each, or one for both at once."""
    text = any(getattr(config, name, None) is not None for name in TEXT_NAMES) or _vocabulary(config)
    other = any(getattr(config, name, None) is not None for name in ("vision_config", "audio_config"))
    return bool(text and (other or (_size(config) and _vocabulary(config) and "pixel_values" in taken)))


def _part(config: Any, names: tuple[str, ...]) -> Any:
    """The part of a configuration for one kind of input; the whole of it where it has no parts."""
    found = next((part for name in names if (part := getattr(config, name, None)) is not None), config)
    if isinstance(found, str):
        return config
    return type("Part", (), found) if isinstance(found, dict) else found


def _vocabulary(config: Any) -> int | None:
    size = getattr(config, "vocab_size", None)
    return size if isinstance(size, int) and size > 0 else None


def _size(config: Any) -> Any:
    for name in ("image_size", "img_size", "input_size"):
        found = getattr(config, name, None)
        if isinstance(found, (int, list, tuple)) and found:
            return found
        if isinstance(found, dict) and {"height", "width"} <= set(found):
            return found["height"], found["width"]
    return None


# -- one kind of input each --------------------------------------------------------------------------------------------


def _tokens(config: Any) -> tuple[int, ...] | None:
    part = _part(config, TEXT_NAMES) if _vocabulary(config) is None else config
    longest = getattr(part, "max_position_embeddings", None) or getattr(part, "n_positions", None)
    if not isinstance(longest, int) or longest <= 0:
        return (TOKENS,)
    started = getattr(part, "pad_token_id", None) if "roberta" in str(getattr(part, "model_type", "")) else None
    return (min(TOKENS, max(1, longest - (started + 1 if isinstance(started, int) else 0))),)


def _decoder_tokens(config: Any) -> tuple[int, ...] | None:
    part = _part(config, ("decoder", "text_config"))
    longest = next(
        (n for name in ("max_target_positions", "max_position_embeddings") if (n := getattr(part, name, None))), TOKENS
    )
    return (min(TOKENS, longest),)


def _pixels(config: Any) -> tuple[int, ...] | None:
    part = _part(config, VISION_NAMES) if _size(config) is None else config
    size = _size(part)
    height, width = (size, size) if isinstance(size, int) else (224, 224) if size is None else tuple(size)[-2:]
    channels = getattr(part, "num_channels", None) or getattr(config, "num_channels", None) or 3
    frames = getattr(part, "num_frames", None)
    video = isinstance(frames, int) and getattr(part, "model_type", "") in VIDEO
    image = int(channels), int(height), int(width)
    return (int(frames), *image) if video and frames else image


VIDEO = ("videomae", "vivit", "timesformer", "vjepa2", "xclip_vision_model")


def _features(config: Any) -> tuple[int, ...] | None:
    """A spectrogram: bands by frames, or frames by bands, as its family has them."""
    part = _part(config, AUDIO_NAMES)
    bands = next((n for name in ("num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel",
                                 "feature_size", "input_dim") if (n := getattr(part, name, None))), None)  # fmt: skip
    if not isinstance(bands, int):
        return None
    positions = getattr(part, "max_source_positions", None)
    if isinstance(positions, int) and getattr(part, "num_mel_bins", None):
        return bands, 2 * positions  # Whisper: a convolution of stride 2 makes the positions
    spectrum = getattr(part, "spec_size", None)
    return (1, 1001, bands) if spectrum else (TOKENS, bands)


def _sound(config: Any) -> tuple[int, ...] | None:
    """A second of sound; for models on spectrograms their frames by bands."""
    part = _part(config, AUDIO_NAMES)
    frames, bands = getattr(part, "max_length", None), getattr(part, "num_mel_bins", None)
    if isinstance(bands, int) and isinstance(frames, int):
        return frames, bands
    channels = getattr(part, "audio_channels", None)
    return (channels, SECOND) if isinstance(channels, int) else (SECOND,)


def _boxes(config: Any) -> tuple[int, ...] | None:
    tokens = _tokens(config)
    return None if tokens is None else (*tokens, 4)


SHAPES = {
    "input_ids": _tokens,
    "decoder_input_ids": _decoder_tokens,
    "pixel_values": _pixels,
    "pixel_values_videos": _pixels,
    "input_features": _features,
    "input_values": _sound,
    "bbox": _boxes,
}
