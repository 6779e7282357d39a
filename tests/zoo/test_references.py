"""The zoo's models are what they claim to be: the same names, classes, weights and outputs as their originals."""

from __future__ import annotations

import pytest
import torch

import rasp.zoo
from rasp.errors import UnknownName
from rasp.zoo._published import tables


@pytest.fixture
def originals():
    return pytest.importorskip("torchvision").models


def outline(model):
    return [(path, type(module).__name__) for path, module in model.named_modules()]


@pytest.mark.parametrize("width", [1.0, 0.35, 1.4])
def test_mobilenet_v2_has_the_modules_and_weights_of_torchvisions(originals, width):
    from rasp.zoo.mobilenet_v2 import MobileNetV2

    with torch.device("meta"):
        ours, theirs = MobileNetV2(width=width), originals.MobileNetV2(width_mult=width)
    assert outline(ours) == outline(theirs)
    assert {k: v.shape for k, v in ours.state_dict().items()} == {k: v.shape for k, v in theirs.state_dict().items()}


def test_mobilenet_v2_computes_what_torchvisions_computes(originals):
    torch.manual_seed(0)
    theirs = originals.mobilenet_v2().eval()
    ours = rasp.zoo.get("mobilenet_v2").build().eval()
    ours.load_state_dict(theirs.state_dict())
    (images,) = rasp.zoo.get("mobilenet_v2").inputs(batch=2, size=64)
    assert torch.equal(ours(images), theirs(images))


@pytest.mark.parametrize("name", ["mobilenet_v2", "mnasnet0_5_v1", "mobilenet_v3_small_2021", "squeezenet1-1"])
def test_a_reference_runs_on_its_own_inputs(name):
    item = rasp.zoo.get(name)
    model = item.build().eval()
    with torch.no_grad():
        assert model(*item.inputs(batch=2)).shape == (2, 1000)
    params = sum(p.numel() for p in model.parameters())
    assert params == item.published.get("params", params)


def test_inputs_take_a_side_or_height_and_width():
    item = rasp.zoo.get("vgg-m-1024")
    shapes = [item.inputs(batch=2)[0].shape, item.inputs(size=64)[0].shape, item.inputs(size=(40, 60))[0].shape]
    assert shapes == [(2, 3, 224, 224), (1, 3, 64, 64), (1, 3, 40, 60)]


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownName, match="mobilenet_v2"):
        rasp.zoo.get("mobilenet_v3")


def test_list_selects_by_task():
    assert "mobilenet_v2" in rasp.zoo.list("image classification")
    assert rasp.zoo.list("image classification") == rasp.zoo.list(task="classification")
    by_task = {task: rasp.zoo.list(task) for task in ("classification", "detection", "segmentation", "keypoints")}
    assert sorted(name for names in by_task.values() for name in names) == rasp.zoo.list()
    with pytest.raises(UnknownName, match="Did you mean 'segmentation'"):
        rasp.zoo.list("segmentations")


def test_a_published_reference_tells_where_it_comes_from():
    for name in tables():
        item = rasp.zoo.get(name)
        assert item.citation
        assert item.family
        assert "convnet-burden" in item.source
        assert item.inputs()[0].shape == (1, 3, *item.size)
    errors = {"top1_err": "41.80", "top5_err": "19.20", "src": "MCN"}
    assert dict(rasp.zoo.get("alexnet").errors) == errors
    assert dict(rasp.zoo.get("mcn-mobilenet").errors) == {"top1_err": "29.40", "src": "AU"}
