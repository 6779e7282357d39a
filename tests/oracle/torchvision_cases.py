"""Every classification, segmentation, video, optical flow and detection model of torchvision."""

from __future__ import annotations

from functools import partial

import torch
import torchvision
from torch import nn
from torchvision import models

from .case import Case, Inputs, image

CLASSIFICATION_SIZE = {"inception_v3": 299, "vit_h_14": 224, "maxvit_t": 224}
SMALL = {
    "alexnet", "resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5", "mnasnet0_5",
    "efficientnet_b0", "densenet121", "googlenet", "regnet_x_400mf", "regnet_y_400mf", "swin_t", "resnet50",
}  # fmt: skip


def make(name: str) -> nn.Module:
    extra = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    if "weights_backbone" in models.get_model_builder(name).__annotations__:
        extra["weights_backbone"] = None
    model: nn.Module = models.get_model(name, weights=None, **extra)
    return model


def detection_images(batch: int) -> Inputs:
    return ([torch.rand(3, 96, 128) for _ in range(batch)],), {}


def frame_pair(batch: int) -> Inputs:
    return (torch.rand(batch, 3, 128, 128), torch.rand(batch, 3, 128, 128)), {"num_flow_updates": 2}


def clip(name: str) -> tuple[int, ...]:
    return (16, 224, 224) if name.startswith(("mvit", "s3d")) else (8, 112, 112)


def cases() -> list[Case]:
    listed = partial(models.list_models)
    found = [
        Case(
            f"torchvision:{name}", "torchvision classification", partial(make, name),
            image(CLASSIFICATION_SIZE.get(name, 224)), small=name in SMALL,
        )
        for name in listed(module=torchvision.models)
    ]  # fmt: skip
    found += [
        Case(f"torchvision:{name}", "torchvision segmentation", partial(make, name), image(128))
        for name in listed(module=models.segmentation)
    ]
    found += [
        Case(f"torchvision:{name}", "torchvision video", partial(make, name), image(*clip(name)))
        for name in listed(module=models.video)
    ]
    found += [
        Case(f"torchvision:{name}", "torchvision optical flow", partial(make, name), frame_pair)
        for name in listed(module=models.optical_flow)
    ]
    found += [
        Case(
            f"torchvision:{name}",
            "torchvision detection",
            partial(make, name),
            detection_images,
            meta=False,
            backward=False,
        )
        for name in listed(module=models.detection)
    ]
    return found
