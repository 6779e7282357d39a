"""The models of convnet-burden's tables cost what was printed, at every printed size, and are real networks."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch import nn

import rasp
import rasp.zoo
from rasp.errors import InputError
from rasp.reproduction.burden import memory, operations
from rasp.zoo._sizes import scaled_size

FACTS = Path(rasp.__file__).parent / "published"


def facts(name):
    with (FACTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


MODELS = {row["model"]: row for row in facts("burden_models.csv")}
SWEEPS: dict[str, list[dict[str, str]]] = {}
for row in facts("burden_sweeps.csv"):
    SWEEPS.setdefault(row["model"], []).append(row)
FULL = ("alexnet", "SE-BN-Inception")  # their sweeps in every run of the tests; of the others the smallest size


@pytest.fixture(scope="module", params=MODELS)
def built(request):
    """A model on the meta device, and its reference."""
    item = rasp.zoo.get(request.param)
    with torch.device("meta"):
        return item, item.build()


def test_all_of_the_tables_are_there():
    tasks = {task: [n for n, row in MODELS.items() if row["task"] == task] for task in set(rasp.zoo.TASKS.values())}
    assert {task: len(names) for task, names in tasks.items()} == {
        "classification": 35, "detection": 6, "segmentation": 5, "keypoints": 2,
    }  # fmt: skip
    assert all(set(names) <= set(rasp.zoo.list(task)) for task, names in tasks.items())


def test_a_model_costs_what_was_printed(built):
    item, model = built
    printed = MODELS[item.name]
    size = int(printed["input_h"]), int(printed["input_w"])
    profile = rasp.profile(model, input_shape=(1, 3, *size), convention="burden")
    assert item.size == size
    assert memory(profile.total("param_mem")) == printed["param_mem"]
    assert memory(profile.total("feat_mem")) == printed["feat_mem"]
    assert operations(profile.total("flops"), printed["flops"]) == printed["flops"]
    assert dict(item.published) == {key: printed[key] for key in ("param_mem", "feat_mem", "flops")}
    assert profile.uncounted == []
    assert profile.capture_mode == "meta"


def compared(rows, printed):
    assert len(rows) == len(printed)
    for row, cells in zip(rows, printed):
        ours = {**row, "feat_mem": memory(row["feat_mem"]), "flops": operations(row["flops"], cells["flops"])}
        assert {**{key: str(value) for key, value in ours.items()}, "model": cells["model"]} == cells


@pytest.mark.parametrize("name", MODELS)
def test_the_smallest_size_of_the_sweep_costs_what_was_printed(name):
    scales = rasp.zoo.get(name).scales
    compared(rasp.zoo.burden_report(name, scales=scales[:1]), SWEEPS[name][:1])


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FULL else pytest.mark.slow) for n in MODELS])
def test_the_whole_sweep_costs_what_was_printed(name):
    compared(rasp.zoo.burden_report(name), SWEEPS[name])


def test_a_model_without_a_trunk_is_swept_as_a_whole():
    rows = rasp.zoo.burden_report("mobilenet_v2", batch=2)
    assert [row["input_h"] for row in rows] == [112, 224, 336, 448, 560, 672]
    assert {(row["batch"], row["feat_h"], row["feat_w"], row["feat_c"]) for row in rows} == {(2, 1, 1, 1000)}
    profile = rasp.profile(rasp.zoo.get("mobilenet_v2").build(), input_shape=(1, 3, 336, 336), convention="burden")
    assert rows[2]["flops"] == 2 * profile.total("flops")


def test_what_is_told_of_every_pixel_and_joint_is_as_large_as_it_should_be():
    sizes = {
        "pascal-fcn8s": (1, 21, 384, 384), "pascal-fcn16s": (1, 21, 384, 384), "pascal-fcn32s": (1, 21, 384, 384),
        "deeplab-vggvd-v2": (1, 21, 513, 513), "deeplab-res101-v2": (1, 21, 513, 513),
        "multipose-coco": (1, 57, 46, 46), "multipose-mpi": (1, 44, 46, 46),
    }  # fmt: skip
    for name, shape in sizes.items():
        item = rasp.zoo.get(name)
        with torch.device("meta"):
            assert item.build()(torch.empty(1, 3, *item.size)).shape == shape


def test_sizes_round_half_away_from_zero():
    assert [scaled_size((227, 513), scale) for scale in (0.5, 1.5)] == [(114, 257), (341, 770)]


def test_a_report_of_a_size_that_does_not_fit_says_so():
    with pytest.raises(InputError, match="alexnet cannot take an image of 6 × 6"):
        rasp.zoo.burden_report("alexnet", scales=[0.025])
    with pytest.raises(InputError, match="at least 1"):
        rasp.zoo.burden_report("alexnet", batch=0)
    with pytest.raises(InputError, match="above 0"):
        rasp.zoo.burden_report("alexnet", scales=[])


# -- real networks -----------------------------------------------------------------------------------------------------


def outputs(value):
    """The tensors in what a model gives."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in (value.values() if isinstance(value, dict) else value) for tensor in outputs(item)]


SMALL = {
    "squeezenet1-1": 224, "resnet18": 224, "mcn-mobilenet": 64, "SE-ResNet-50": 64, "densenet121": 224,
    "ssd-pascal-mobilenet-ft": 150, "rfcn-res50-pascal": (96, 128),
}  # fmt: skip
LARGE = {
    **{name: rasp.zoo.get(name).size for name in MODELS},
    "SE-BN-Inception": 64, "multipose-mpi": 64, "multipose-coco": 64, "deeplab-vggvd-v2": 65, "deeplab-res101-v2": 65,
    "pascal-fcn32s": 64, "pascal-fcn16s": 64, "pascal-fcn8s": 64,
    "rfcn-res101-pascal": (96, 128), "faster-rcnn-vggvd-pascal": (96, 128),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE if n not in SMALL)])
def test_a_model_runs_forward_and_backward_and_counts_the_same_for_real(name, seeded):
    item = rasp.zoo.get(name)
    model = item.build()
    inputs = item.inputs(batch=1, size={**LARGE, **SMALL}[name])
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):  # one image, and perhaps one place, has no statistics
            module.eval()
    given = outputs(model(*inputs))
    sum(out.float().square().mean() for out in given).backward()
    assert all(out.isfinite().all() for out in given)
    without = [path for path, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert without == []
    here = rasp.profile(model, inputs, device="cpu", convention="burden")
    with torch.device("meta"):
        virtual = rasp.profile(item.build(), item.inputs(size={**LARGE, **SMALL}[name]), convention="burden")
    for column in ("param_mem", "feat_mem", "flops"):
        assert here.total(column) == virtual.total(column)
