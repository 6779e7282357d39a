"""Conventions beside the tools they are named for: the same integers, in all and for every module they tell of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
import torch

import rasp
from peers import tools
from peers.comparing import compare
from peers.layers import LAYERS
from peers.models import MODELS, Built

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]
TOOLS = {tool.convention: tool for tool in tools()}
FEW = ("torchvision:resnet18", "torchvision:mobilenet_v3_small", "timm:ghostnet_100")  # of the pictures' models
STOPS = {  # (tool, model): where the tool itself ends with an error
    **{("thoplw-2024", name): "thoplw" for name in (
        "1-D layers", "3-D layers", "2-D layers without a batch", "Linear on 1 dimensions", "transformer",
        "nested inputs", "products", "Conv1d and pools", "Conv3d",
    )},
    ("deepspeed", "2-D layers without a batch"): "deepspeed",
    ("ptflops", "nested inputs"): "ptflops", ("ptflops", "products"): "ptflops",
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def cases() -> Iterator[object]:
    for name, build in {**LAYERS, **MODELS}.items():
        slow = name.startswith(("torchvision:", "timm:")) and name not in FEW
        yield pytest.param(name, build, id=name, marks=[pytest.mark.slow] * slow)


@pytest.mark.parametrize("convention", TOOLS)
@pytest.mark.parametrize(("name", "build"), list(cases()))
def test_a_tool_prints_what_its_convention_gives(name: str, build: Callable[[], Built], convention: str) -> None:
    tool = TOOLS[convention]
    if not tool.installed:
        pytest.skip(f"{tool.library} is not installed")
    if convention == "torch" and not torch.__version__.startswith("2.14"):
        pytest.skip("the convention is of the counter in torch 2.14")
    for library in ("torchvision", "timm", "transformers"):
        if name.startswith(library):
            pytest.importorskip(library)
    torch.set_num_threads(1)
    found = compare(tool, build)
    if (convention, name) in STOPS:
        assert found.failure, "the tool has an answer now: compare with it"
        assert found.ours.flops >= 0
        return
    assert not found.failure, found.failure
    assert found.wrong == {}


def test_the_tools_are_all_there() -> None:
    assert set(TOOLS) == {"deepspeed", "fvcore", "ptflops", "thop", "thoplw-2024", "torch", "torchinfo"}
    assert len(MODELS) + len(LAYERS) >= 60


@pytest.mark.parametrize("name", ["modules held", "recurrent layers", "2-D layers", "attention", "embeddings", "LSTM"])
def test_the_summary_is_torchinfos_to_the_letter(name: str) -> None:
    torchinfo = pytest.importorskip("torchinfo")
    build = {**LAYERS, **MODELS}[name]
    every = ("input_size", "output_size", "num_params", "params_percent", "kernel_size", "mult_adds", "trainable")
    for depth, columns, rows in ((3, ("output_size", "num_params"), ("depth",)), (9, every, ("depth", "var_names"))):
        model, inputs = build()
        theirs = torchinfo.summary(
            model, input_data=inputs, depth=depth, col_names=columns, row_settings=rows, mode="eval", verbose=0
        )
        model, inputs = build()
        ours = rasp.profile(model, inputs).text("summary", depth=depth, columns=columns, rows=rows)
        assert ours == str(theirs).replace("Units.MEGABYTES", "M")  # a unit it does not spell on today's Python
