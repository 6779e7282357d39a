"""The models whose profiling is timed, and how the other profilers are called on them."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


def _torchvision(name: str, size: int) -> tuple[Callable[[], nn.Module], Callable[[], Inputs]]:
    def build() -> nn.Module:
        import torchvision

        return torchvision.models.get_model(name, weights=None)

    return build, lambda: ((torch.rand(1, 3, size, size),), {})


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config())


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig())


def llama(**sizes: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device("meta"):
        return LlamaForCausalLM(LlamaConfig(**sizes))


def _tokens(count: int) -> Callable[[], Inputs]:
    return lambda: ((), {"input_ids": torch.randint(0, 20000, (1, count))})


LLAMA_405B = {
    "hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8,
    "intermediate_size": 53248, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip

# name: (build, inputs, gates as shares of one bare meta forward: empty memo, warm)
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs], tuple[float, float]]] = {
    "resnet50": (*_torchvision("resnet50", 224), (0.4, 0.25)),
    "vit_b_16": (*_torchvision("vit_b_16", 224), (0.4, 0.25)),
    "gpt2 (128 tokens)": (_gpt2, _tokens(128), (0.4, 0.25)),
    "bert-base (128 tokens)": (_bert, _tokens(128), (0.4, 0.25)),
    "efficientnet_b7 (600 px)": (*_torchvision("efficientnet_b7", 600), (0.4, 0.25)),
    "efficientnet_b7 (224 px)": (*_torchvision("efficientnet_b7", 224), (0.4, 0.25)),
    "densenet201": (*_torchvision("densenet201", 224), (0.6, 0.3)),
    "llama-7B (128 tokens)": (llama, _tokens(128), (0.5, 0.4)),
}


def bare(model: nn.Module, inputs: Inputs) -> None:
    args, kwargs = inputs
    with torch.no_grad():
        model(*args, **kwargs)


# ---- the other profilers: one call each, in eval mode, as their documentation has it ---------------------------------


def flop_counter_mode(model: nn.Module, inputs: Inputs) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False):
        bare(model, inputs)


def fvcore(model: nn.Module, inputs: Inputs) -> None:
    import fvcore.nn

    args, kwargs = inputs
    analysis = fvcore.nn.FlopCountAnalysis(model, (*args, *kwargs.values()))
    analysis.unsupported_ops_warnings(enabled=False).uncalled_modules_warnings(enabled=False).total()


def ptflops(model: nn.Module, inputs: Inputs) -> None:
    import ptflops as library

    args, kwargs = inputs
    given = dict(kwargs) or {"x": args[0]}
    if not kwargs:
        import inspect

        given = {next(iter(inspect.signature(model.forward).parameters)): args[0]}
    library.get_model_complexity_info(
        model, (1,), input_constructor=lambda _: given, print_per_layer_stat=False, as_strings=False, backend="aten",
        verbose=False,
    )  # fmt: skip


def thop(model: nn.Module, inputs: Inputs) -> None:
    import thop as library

    args, kwargs = inputs
    library.profile(model, inputs=(*args, *kwargs.values()), verbose=False)


def torchinfo(model: nn.Module, inputs: Inputs) -> None:
    import torchinfo as library

    args, kwargs = inputs
    device = str(next(model.parameters()).device)
    library.summary(model, input_data=[*args] if args else kwargs, verbose=0, device=device, cache_forward_pass=False)


def calflops(model: nn.Module, inputs: Inputs) -> None:
    import calflops as library

    args, kwargs = inputs
    library.calculate_flops(model, args=list(args), kwargs=kwargs, print_results=False, print_detailed=False)


def deepspeed(model: nn.Module, inputs: Inputs) -> None:
    from deepspeed.profiling.flops_profiler import get_model_profile

    args, kwargs = inputs
    get_model_profile(
        model, args=list(args), kwargs=kwargs, print_profile=False, detailed=False, warm_up=0, as_string=False
    )


def torchprofile(model: nn.Module, inputs: Inputs) -> None:
    import torchprofile as library

    args, kwargs = inputs
    library.profile_macs(model, (*args, *kwargs.values()))


PEERS: dict[str, Callable[[nn.Module, Inputs], None]] = {
    "torch FlopCounterMode": flop_counter_mode,
    "fvcore": fvcore,
    "ptflops": ptflops,
    "thop": thop,
    "torchinfo": torchinfo,
    "calflops": calflops,
    "deepspeed": deepspeed,
    "torchprofile": torchprofile,
}


def quietly(peer: Callable[[nn.Module, Inputs], None], model: nn.Module, inputs: Inputs) -> None:
    """Call a profiler without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        peer(model, inputs)
