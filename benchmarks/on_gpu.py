"""Time, kernels and energy held against a GPU: each figure of rasp beside one that was read without it.

    python benchmarks/on_gpu.py                                 on the screen, and gpu.json
    python benchmarks/on_gpu.py --write docs/gpu-timing.md      the page as well

Four parts, each in a process of its own, so that one that fails (or a GPU in a bad state) takes no other along:

- watching   latency of whole models beside a bare loop before and after it; what per-module timing costs
- kernels    kernel time summed over modules beside the latency as a CUDA graph, ten models, fp32, batch 32
- verdicts   what small and large models are said to be bound by, and the evidence
- energy     watts of a window beside NVML's counter, read by this script before and after a loop of its own

Needs torchvision; gpt2 needs transformers and is left out without it. Nothing is downloaded. About five minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TEN = (
    "alexnet", "vgg16", "resnet18", "resnet50", "mobilenet_v2", "densenet121", "efficientnet_b0", "shufflenet_v2_x1_0",
    "vit_b_16", "convnext_tiny",
)  # fmt: skip
WATCHED = ("resnet50", "mobilenet_v2", "vit_b_16", "gpt2")
VERDICTS = (("mobilenet_v2", 1, True), ("densenet201", 1, True), ("vgg16", 32, False))  # launch-bound, or not
LIMIT = {"watching": 120, "kernels": 150, "verdicts": 60, "energy": 90}  # seconds
BATCH = 32
SECONDS = 1.5
WINDOW = 3.0


def built(name: str, batch: int) -> tuple[Any, tuple[Any, ...]]:
    """A model with random weights on the GPU, and its inputs."""
    import torch

    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        return GPT2LMHeadModel(GPT2Config()).eval().cuda(), (torch.randint(0, 20000, (8, 128), device="cuda"),)
    import torchvision

    model = torchvision.models.get_model(name, weights=None).eval().cuda()
    return model, (torch.rand(batch, 3, 224, 224, device="cuda"),)


def bare(model: Any, inputs: tuple[Any, ...], seconds: float) -> tuple[float, int]:
    """The loop a person writes: median milliseconds of a run, and how many there were."""
    import torch

    times = []
    with torch.no_grad():
        for _ in range(5):
            model(*inputs)
        torch.cuda.synchronize()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter()
            model(*inputs)
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times), len(times)


def each(names: Any, work: Callable[[Any], dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each; one that fails says how, and the others go on."""
    import torch

    rows = []
    for name in names:
        try:
            rows.append(work(name))
        except Exception as error:
            rows.append({"model": str(name), "failed": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})
        torch.cuda.empty_cache()
    return rows


def watching() -> list[dict[str, Any]]:
    """Bare loop, rasp, bare loop; and runs with every module's door open beside those without."""
    import rasp

    def one(name: str) -> dict[str, Any]:
        model, inputs = built(name, BATCH)
        before, _ = bare(model, inputs, SECONDS)
        found = rasp.profile(model, inputs, timing=True, device="cuda", seconds=2 * SECONDS, progress=False)
        after, _ = bare(model, inputs, SECONDS)
        latency, series = found.latency, found.samples.time
        watched = statistics.median(series.watched)
        around = (before + after) / 2
        return {
            "model": name, "batch": inputs[0].shape[0], "bare_before_ms": before, "rasp_ms": latency.median,
            "bare_after_ms": after, "difference": latency.median / around - 1,
            "noise": abs(before - after) / around + latency.precision,
            "watched_ms": watched, "cost_of_watching": watched / latency.median - 1, "runs": len(series.whole),
            "remainder_ms": found.remainder,
        }  # fmt: skip

    return each(WATCHED, one)


def kernels() -> list[dict[str, Any]]:
    """Kernel time over modules beside the latency as a CUDA graph."""
    import rasp

    def one(name: str) -> dict[str, Any]:
        model, inputs = built(name, BATCH)
        found = rasp.profile(
            model, inputs, timing="whole", kernels=True, device="cuda", seconds=SECONDS, progress=False
        )
        *rows, total = found.rows(columns=["kernel_time", "kernels"])
        summed = sum(row["kernel_time"] or 0.0 for row in rows)
        graph = found.kernels.graph_latency
        return {
            "model": name, "eager_ms": found.latency.median, "kernels": total["kernels"], "kernel_ms": 1e3 * summed,
            "rows_sum_to_the_total": summed == total["kernel_time"], "outside_ms": 1e3 * found.kernels.outside,
            "graph_ms": None if graph is None else 1e3 * graph, "why_no_graph": found.kernels.why_no_graph,
            "off_by": None if graph is None else summed / graph - 1, "busy_ms": 1e3 * found.kernels.busy,
        }  # fmt: skip

    return each(TEN, one)


def verdicts() -> list[dict[str, Any]]:
    """What limits a model, by its verdict."""
    import rasp

    def one(case: tuple[str, int, bool]) -> dict[str, Any]:
        name, batch, launch = case
        model, inputs = built(name, batch)
        found = rasp.profile(model, inputs, timing=True, kernels=True, device="cuda", seconds=SECONDS, progress=False)
        verdict = found.verdict
        graph = found.kernels.graph_latency
        return {
            "model": name, "batch": batch, "eager_ms": found.latency.median,
            "graph_ms": None if graph is None else 1e3 * graph, "verdict": verdict.kind, "evidence": verdict.evidence,
            "as_expected": (verdict.kind == "launch-bound") == launch,
        }  # fmt: skip

    return each(VERDICTS, one)


def energy() -> list[dict[str, Any]]:
    """Watts of rasp's window between two windows of a loop of this script's, all by NVML's counter."""
    import torch

    import rasp

    read = counter()

    def outside(model: Any, inputs: tuple[Any, ...]) -> float:
        with torch.no_grad():
            start, began, passes = read(), time.perf_counter(), 0
            while time.perf_counter() - began < WINDOW:
                model(*inputs)
                torch.cuda.synchronize()
                passes += 1
        return (read() - start) / 1e3 / (time.perf_counter() - began)

    def one(name: str) -> dict[str, Any]:
        model, inputs = built(name, BATCH)
        bare(model, inputs, 1.0)
        before = outside(model, inputs)
        found = rasp.profile(model, inputs, energy=True, timing=True, device="cuda", seconds=WINDOW, progress=False)
        after = outside(model, inputs)
        told, around = found.energy, (before + after) / 2
        *rows, total = found.rows(columns=["energy_measured"])
        return {
            "model": name, "meter": [meter.name for meter in told.meters], "reason": told.reason,
            "seconds": told.seconds, "joules": told.gross, "watts": told.power, "idle_watts": told.idle_power,
            "nvml_before_watts": before, "nvml_after_watts": after,
            "off_by": None if told.power is None else told.power / around - 1,
            "joules_per_pass_net": told.per_pass,
            "rows_sum_to_the_total": sum(row["energy_measured"] or 0.0 for row in rows) == total["energy_measured"],
        }  # fmt: skip

    return each(("resnet50", "vit_b_16"), one)


def counter() -> Callable[[], int]:
    """NVML's energy counter of the first GPU in millijoules, without rasp."""
    import ctypes

    import torch

    library = ctypes.CDLL("libnvidia-ml.so.1")
    library.nvmlInit_v2()
    handle, value = ctypes.c_void_p(), ctypes.c_ulonglong()
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}".encode()
    if library.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)):
        raise RuntimeError(f"NVML does not give {uuid.decode()}")

    def read() -> int:
        if library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(value)):
            raise RuntimeError("NVML has no energy counter of this GPU")
        return value.value

    return read


PARTS = {"watching": watching, "kernels": kernels, "verdicts": verdicts, "energy": energy}


def machine() -> dict[str, Any]:
    """What this ran on."""
    from rasp import devices

    return devices.get("cuda:0").describe()


def in_a_process(part: str) -> dict[str, Any]:
    """One part on its own: its rows, or how it failed."""
    began = time.perf_counter()
    command = [sys.executable, __file__, "--part", part]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT[part], check=False)
    except subprocess.TimeoutExpired:
        return {"rows": [], "failed": f"it took more than {LIMIT[part]} s"}
    seconds = time.perf_counter() - began
    if done.returncode:
        return {"rows": [], "failed": done.stderr.strip()[-2000:], "seconds": seconds}
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": seconds}


# -- the page ----------------------------------------------------------------------------------------------------------

HEAD = """# Time, kernels and energy on a GPU

Written by `benchmarks/on_gpu.py --write docs/gpu-timing.md`: figures of rasp beside figures that were read without it,
on one machine in one run. Models have random weights; inputs are fp32 at 224 x 224.
"""
NOT_RUN = """
**It has not been run yet.** The parts of rasp that read CUDA events, kernels, CUDA graphs and NVML were written without
a GPU at hand and are tested on made-up events, counters and clocks; run the script above on a machine with a GPU to
have them held against it.
"""
WORDS = {
    "watching": (
        "Latency beside a bare loop, and what watching costs",
        "`noise` is by how much the two bare loops differ, and the half-width of the interval of rasp's median. "
        "`cost of watching` is what a run with every module timed takes more than one without; the latency that rasp "
        "reports is that without.",
    ),
    "kernels": (
        "Kernel time beside the latency as a CUDA graph",
        "`kernel ms` is summed over module rows. A replayed graph takes what its kernels take, and the small gaps "
        "between them.",
    ),
    "verdicts": (
        "Verdicts",
        "mobilenet_v2 and densenet201 at batch 1 wait for their launches; vgg16 at batch 32 does not.",
    ),
    "energy": (
        "Energy beside NVML's counter",
        "`nvml` is the mean power of a loop of the script's own before and after rasp's window, by NVML's counter.",
    ),
}


def page(found: dict[str, Any]) -> str:
    lines = [HEAD]
    if not found:
        return HEAD + NOT_RUN
    where = found["machine"]
    told = ", ".join(
        f"{key} {where[key]}" for key in ("gpu", "driver", "torch", "cuda", "power_limit_watts") if key in where
    )
    lines.append(f"\nMeasured on {told}; {found['day']}.\n")
    for part, (title, words) in WORDS.items():
        result = found["parts"].get(part, {"rows": [], "failed": "it was not run"})
        lines += [f"\n## {title}\n\n{words}\n"]
        if result.get("failed"):
            lines.append(f"\nThis part failed: `{' '.join(result['failed'].split())[-300:]}`\n")
        good = [row for row in result["rows"] if "failed" not in row]
        if good:
            lines.append("\n" + table(good))
        lines += [f"\n{row['model']}: {row['failed']}\n" for row in result["rows"] if "failed" in row]
    return "".join(lines)


def table(rows: list[dict[str, Any]]) -> str:
    heads = list(rows[0])
    body = [[cell(head, row.get(head)) for head in heads] for row in rows]
    lines = ["| " + " | ".join(head.replace("_", " ") for head in heads) + " |", "|" + " :-- |" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)]) + "\n"


def cell(head: str, value: Any) -> str:
    if value is None:
        return "–"
    if head in ("difference", "noise", "cost_of_watching", "off_by"):
        return f"{100 * value:+.1f} %"
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(value) if isinstance(value, list) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=PARTS, help="one part alone, its rows as JSON")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS), help="these parts")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"), help="where all figures go")
    parser.add_argument("--empty", action="store_true", help="with --write: the page as it is before any run")
    parser.add_argument("--write", type=Path, help="where the page goes")
    given = parser.parse_args()
    if given.empty:
        given.write.write_text(page({}))
        return 0
    import torch

    if not torch.cuda.is_available():
        print("There is no CUDA device here: run this on a machine with one.", file=sys.stderr)
        return 2
    if given.part:
        print(json.dumps({"rows": PARTS[given.part]()}))
        return 0
    found: dict[str, Any] = {"machine": machine(), "day": time.strftime("%Y-%m-%d"), "parts": {}}
    for part in given.only:
        print(f"{part} …", file=sys.stderr)
        found["parts"][part] = in_a_process(part)
        given.out.write_text(json.dumps(found, indent=1))
    text = page(found)
    print(text)
    if given.write:
        given.write.write_text(text)
    return int(any(part.get("failed") for part in found["parts"].values()))


if __name__ == "__main__":
    raise SystemExit(main())
