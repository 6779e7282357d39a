"""RASP's results table today: Params, FLOPs, Energy, Latency and FLOPS of its 34 torchvision models, on this machine.

    python benchmarks/timing_torchvision.py                                     on the screen
    python benchmarks/timing_torchvision.py --write docs/timing-torchvision.md  the page
    python benchmarks/timing_torchvision.py --device cuda

All by rasp.stat. Exits with 1 where a number is missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torchvision

import rasp
import rasp.addons.energy
from rasp import units

MODELS = (
    "alexnet", "densenet121", "densenet161", "densenet169", "densenet201", "googlenet", "mnasnet0_5", "mnasnet0_75",
    "mnasnet1_0", "mnasnet1_3", "mobilenet_v2", "resnet101", "resnet152", "resnet18", "resnet34", "resnet50",
    "resnext101_32x8d", "resnext50_32x4d", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5",
    "shufflenet_v2_x2_0", "squeezenet1_0", "squeezenet1_1", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16",
    "vgg16_bn", "vgg19", "vgg19_bn", "wide_resnet101_2", "wide_resnet50_2",
)  # fmt: skip
COLUMNS = ["params", "flops", "energy", "lat", "ci_low", "ci_high", "p5", "p95", "samples", "FLOPS"]


def line(name: str, device: str, seconds: float) -> str:
    more = {"init_weights": False} if name == "googlenet" else {}
    model = torchvision.models.get_model(name, weights=None, **more).eval()
    data = rasp.stat(
        model, input_shape=(1, 3, 224, 224), device=device, timing="whole", seconds=seconds, report_type="node",
        report_fields=COLUMNS, print_stat=False, returns="data",
    )  # fmt: skip
    row: dict[str, Any] = data.iloc[-1].to_dict()
    return (
        f"| {name} | {units.count(row['params'])} | {units.count(row['flops'])} | {units.count(row['energy'])} | "
        f"{row['lat']:.2f} | {row['ci_low']:.2f} – {row['ci_high']:.2f} | {row['p5']:.2f} – {row['p95']:.2f} | "
        f"{row['samples']:.0f} | {units.count(row['FLOPS'])} |"
    )


def page(device: str, seconds: float) -> str:
    about = rasp.devices.get(device).describe()
    machine = f"{about.get('gpu', about['processor'])}, {about['cores']} cores, torch threads: {about['threads']}"
    lines = [
        "# torchvision's models, timed",
        "",
        f"RASP's results table, with the spread: 1 × 3 × 224 × 224, float32, evaluation mode, on `{device}`",
        f"({machine}, torch {about['torch']}, {time.strftime('%Y-%m-%d')}). Made by",
        "`python benchmarks/timing_torchvision.py --write docs/timing-torchvision.md`.",
        "",
        "Params and FLOPs by convention `rasp`; energy is RASP's estimate, not measured; latency is the median of",
        "whole runs without any instrument, beside its 95 % interval and the 5th and 95th percentiles of the runs.",
        "",
        "| model | Params | FLOPs | Energy (pJ, estimated) | Latency (ms) | 95 % interval | p5 – p95 | runs | FLOPS |",
        "| :-- | --: | --: | --: | --: | :-- | :-- | --: | --: |",
    ]
    on = rasp.devices.get(device)
    before, began = on.state(), time.perf_counter()
    for name in MODELS:
        print(f"  {name} …", file=sys.stderr, flush=True)
        lines.append(line(name, device, seconds))
    remarks = rasp.devices.remarks(before, on.state(), time.perf_counter() - began)
    return "\n".join([*lines, "", *(f"While this ran, {remark}." for remark in remarks)]).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="write the page here")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each model")
    parser.add_argument("--threads", type=int, help="of torch")
    asked = parser.parse_args()
    if asked.threads:
        torch.set_num_threads(asked.threads)
    text = page(asked.device, asked.seconds)
    print(text)
    if asked.write:
        asked.write.write_text(text, encoding="utf-8")
    sys.exit("nan" in text or "None" in text)


if __name__ == "__main__":
    main()
