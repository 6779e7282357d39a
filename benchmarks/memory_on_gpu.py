"""Predicted memory beside measured, on a machine with a CUDA device: one command, no network.

    python benchmarks/memory_on_gpu.py --json out/memory.json --write docs/memory-gpu.md
    python benchmarks/memory_on_gpu.py --from out/memory.json --write docs/memory-gpu.md    the page again, anywhere

Three parts, each of which can be asked for alone (--parts): `layers`, RASP's three columns of mobilenet_v2's 141 rows;
`peaks`, whole runs of models that no rule was made from, inference and an AdamW step; `fits`, the largest batch that
really runs, by bisection, beside the predicted one. A row that fails says so and does not end the others; what was
measured is written after every row, and --minutes ends the measuring early.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = ROOT / "tests" / "data" / "rasp_mobilenet_v2.csv"
COLUMNS = ("net_dev_mem", "dev_mem_alloc", "dev_max_mem_alloc")
PARTS = ("layers", "peaks", "fits")
VISION = ("resnet18", "regnet_y_400mf", "mnasnet1_0", "squeezenet1_1", "googlenet", "mobilenet_v3_large", "swin_t",
          "convnext_tiny", "resnext50_32x4d", "efficientnet_v2_s", "vit_b_32", "vgg11")  # fmt: skip
LANGUAGE = ("bert", "llama", "t5")
FITTED = ("resnet50", "vit_b_16", "gpt2")
BATCH, TOKENS = 16, 512
CLOSE = 0.03  # of the largest batch that ran


# ---- models ----------------------------------------------------------------------------------------------------------


def built(name: str) -> Any:
    """A model with random weights; transformers' from a configuration, so that nothing is fetched."""
    if name in ("gpt2", *LANGUAGE):
        import transformers as hf

        small = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16}
        return {
            "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config()),
            "bert": lambda: hf.BertModel(hf.BertConfig()),
            "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**small)),
            "t5": lambda: hf.T5Model(hf.T5Config()),
        }[name]()
    import torchvision

    plain = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return torchvision.models.get_model(name, weights=None, **plain)


def inputs_of(name: str, batch: int, device: str, dtype: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch

    if name in ("gpt2", *LANGUAGE):
        ids = torch.zeros(batch, TOKENS, dtype=torch.long, device=device)
        return (), {"input_ids": ids, **({"decoder_input_ids": ids} if name == "t5" else {})}
    size = 299 if name == "inception_v3" else 224
    return (torch.zeros(batch, 3, size, size, dtype=dtype, device=device),), {}


def predicted(name: str, batch: int, *, train: bool, dtype: str = "float32") -> dict[str, int]:
    """base, peak, peak_first and the range of the peak, without touching the GPU."""
    import torch

    import rasp

    model = built(name)
    args, kwargs = inputs_of(name, batch, "cpu", torch.float32)
    how: dict[str, Any] = {"backward": True, "optimizer": torch.optim.AdamW} if train else {}
    if dtype != "float32":
        how["dtype"] = dtype
    memory = rasp.profile(model, args, kwargs=kwargs, memory=True, target="h200", **how).memory
    low, high = memory.range
    return {"base": memory.base, "peak": memory.peak, "peak_first": memory.peak_first, "low": low, "high": high}


# ---- measuring -------------------------------------------------------------------------------------------------------


def empty() -> None:
    import torch

    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def _loss(out: Any) -> Any:
    import torch

    from rasp.capture.running import default_loss

    return out.float().mean() if isinstance(out, torch.Tensor) else default_loss(out)


def measured(name: str, batch: int, *, train: bool, dtype: str = "float32") -> dict[str, int]:
    """base, peak and peak_first of a run in a process whose libraries a step before has warmed up."""
    import torch

    kind = getattr(torch, dtype)
    empty()
    model = built(name).to("cuda", kind).train(train)
    args, kwargs = inputs_of(name, batch, "cuda", kind)

    def step(optimizer: Any) -> None:
        if optimizer is None:
            with torch.no_grad():
                model(*args, **kwargs)
            return
        optimizer.zero_grad(set_to_none=True)
        _loss(model(*args, **kwargs)).backward()
        optimizer.step()

    step(torch.optim.AdamW(model.parameters()) if train else None)
    model.zero_grad(set_to_none=True)
    empty()
    found = {"base": torch.cuda.memory_allocated()}
    optimizer = torch.optim.AdamW(model.parameters()) if train else None
    for moment in ("peak_first", "peak"):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        step(optimizer)
        torch.cuda.synchronize()
        found[moment] = torch.cuda.max_memory_allocated()
    return found


def runs(name: str, batch: int) -> bool:
    """Whether two training steps of a batch run."""
    import torch

    try:
        empty()
        model = built(name).cuda().train()
        args, kwargs = inputs_of(name, batch, "cuda", torch.float32)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            _loss(model(*args, **kwargs)).backward()
            optimizer.step()
        torch.cuda.synchronize()
    except torch.OutOfMemoryError:
        return False
    finally:
        model = args = kwargs = optimizer = None
        empty()
    return True


def largest(guess: int, works: Callable[[int], bool], grain: float = 0.005) -> tuple[int, int]:
    """(a batch that ran, a batch that did not), at most a grain apart, found from a guess outwards by bisection."""
    step = max(guess // 32, 1)
    low, high = 0, 0
    probe = guess
    while not (low and high):
        if works(probe):
            low = probe
            probe = low + step
        else:
            high = probe
            probe = max(high - step, 1)
            if high == 1:
                return 0, 1
        step *= 2
    while high - low > max(1, int(low * grain)):
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low, high


# ---- the parts: each yields rows that hold what was found, or why not ------------------------------------------------


def layers() -> Iterator[dict[str, Any]]:
    """RASP's three columns of every row of mobilenet_v2, predicted here and measured on the device."""
    import rasp

    model = built("mobilenet_v2").eval()
    names = ["name", *COLUMNS]
    head = {"convention": "rasp-head", "columns": names}
    told = rasp.profile(model, input_shape=(1, 3, 224, 224), memory=True).rows(**head)
    empty()
    device = rasp.profile(model.cuda(), input_shape=(1, 3, 224, 224), memory=True, device="cuda")
    found = device.rows(**head)
    with PUBLISHED.open(newline="") as file:
        published = list(csv.DictReader(file))
    for number, (said, seen) in enumerate(zip(told, found)):
        if said["kind"] == "total":
            continue
        printed = published[number] if number < len(published) else {}
        yield {
            "row": number, "name": said["name"], "predicted": [said[n] for n in COLUMNS],
            "measured": [seen[n] for n in COLUMNS], "published": [printed.get(n) for n in COLUMNS],
        }  # fmt: skip


def peaks() -> Iterator[dict[str, Any]]:
    for name in (*VISION, *LANGUAGE):
        for train, dtype, batch in (
            (False, "float32", 1), (False, "bfloat16", BATCH), (True, "float32", BATCH),
        ):  # fmt: skip
            row: dict[str, Any] = {"model": name, "train": train, "dtype": dtype, "batch": batch}
            try:
                row["predicted"] = predicted(name, batch, train=train, dtype=dtype)
                row["measured"] = measured(name, batch, train=train, dtype=dtype)
            except Exception as error:
                row["failed"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            yield row


def fitted() -> Iterator[dict[str, Any]]:
    import torch

    import rasp

    for name in FITTED:
        row: dict[str, Any] = {"model": name}
        try:
            args, kwargs = inputs_of(name, 1, "cpu", torch.float32)
            how: dict[str, Any] = {"train": True, "optimizer": torch.optim.AdamW, "max_batch": True, "advice": False}
            empty()
            free = torch.cuda.mem_get_info()[0]
            row["free"] = free
            row["predicted"] = rasp.fits(built(name), args, kwargs=kwargs, target="h200", **how).max_batch
            row["predicted_free"] = rasp.fits(built(name), args, kwargs=kwargs, target=free, **how).max_batch
            row["ran"], row["failed_at"] = largest(row["predicted_free"], partial(runs, name))
        except Exception as error:
            row["failed"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        yield row


# ---- the page --------------------------------------------------------------------------------------------------------


def error_of(row: dict[str, Any], over: str) -> float:
    """Of the predicted rise, over own and measured peak ('whole') or over the measured rise ('rise')."""
    said = row["predicted"]["peak"] - row["predicted"]["base"]
    rise = row["measured"]["peak"] - row["measured"]["base"]
    return float((said - rise) / (row["measured"]["peak"] if over == "whole" else max(rise, 1)))


def page(found: dict[str, Any]) -> str:
    """All that was measured, in Markdown."""
    lines = [
        "# Predicted memory beside a GPU's\n",
        f"Made by `python benchmarks/memory_on_gpu.py` on {found['date']}: {found['device']}, torch {found['torch']}, "
        f"CUDA {found['cuda']}, cuDNN {found['cudnn']}, Python {found['python']}.\n",
    ]
    for part, told in (("layers", _layers), ("peaks", _peaks), ("fits", _fits)):
        rows = found.get(part)
        if rows:
            lines += [*told(rows), ""]
    for note in found.get("notes", []):
        lines.append(f"- {note}")
    return "\n".join(lines).rstrip() + "\n"


def _layers(rows: list[dict[str, Any]]) -> list[str]:
    usable = [row for row in rows if "failed" not in row]
    off = [row for row in usable if row["predicted"] != row["measured"]]
    lines = ["## RASP's three columns of mobilenet_v2, row by row\n"]
    lines += [f"Failed: {row['failed']}" for row in rows if "failed" in row]
    lines.append(f"{len(usable) - len(off)} of {len(usable)} rows are equal in all of {', '.join(COLUMNS)}.\n")
    lines += ["| row | layer | predicted | measured | |", "|---|---|---|---|---|"]
    for row in usable:
        said, seen = (" / ".join("" if n is None else f"{n:,}" for n in row[key]) for key in ("predicted", "measured"))
        lines.append(f"| {row['row']} | `{row['name']}` | {said} | {seen} | {'differs' if row in off else ''} |")
    return lines


def _peaks(rows: list[dict[str, Any]]) -> list[str]:
    usable = [row for row in rows if "measured" in row]
    lines = ["## Whole runs of models that no rule was made from\n"]
    for over, words in (("whole", "base and measured rise"), ("rise", "the measured rise alone")):
        errors = [abs(error_of(row, over)) for row in usable]
        if errors:
            shares = " and ".join(
                f"{sum(e <= b for e in errors) / len(errors):.0%} within {b:.0%}" for b in (0.02, 0.05)
            )
            lines.append(f"Error over {words}: {shares} (worst {max(errors):.1%}, {len(errors)} runs).\n")
    lines += [
        "Rises in MiB.\n",
        "| model | run | dtype | batch | predicted | range | measured | over whole | over rise |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        start = f"| {row['model']} | {'training' if row['train'] else 'inference'} | {row['dtype']} | {row['batch']} |"
        if "measured" not in row:
            lines.append(f"{start} failed: {row.get('failed', 'not run')} | | | | |")
            continue
        said, base = row["predicted"], row["predicted"]["base"]
        rise = row["measured"]["peak"] - row["measured"]["base"]
        lines.append(
            f"{start} {_mib(said['peak'] - base)} | {_mib(said['low'] - base)} to {_mib(said['high'] - base)} | "
            f"{_mib(rise)} | {error_of(row, 'whole'):+.2%} | {error_of(row, 'rise'):+.2%} |"
        )
    return lines


def _fits(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## The largest batch of an AdamW step\n",
        "By bisection on the card, beside what `rasp.fits` says of an H200, and of the bytes that the card had free.\n",
        "| model | predicted for h200 | predicted for the free bytes | largest that ran | did not | error | |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "ran" not in row:
            lines.append(f"| {row['model']} | failed: {row.get('failed', 'not run')} | | | | | |")
            continue
        error = row["predicted"] / max(row["ran"], 1) - 1
        verdict = "" if abs(error) <= CLOSE else f"beyond {CLOSE:.0%}"
        lines.append(
            f"| {row['model']} | {row['predicted']} | {row['predicted_free']} | {row['ran']} | {row['failed_at']} | "
            f"{error:+.1%} | {verdict} |"
        )
    return lines


def _mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):,.1f}"


# ---- running ---------------------------------------------------------------------------------------------------------


def environment() -> dict[str, Any]:
    import torch

    return {
        "date": date.today().isoformat(), "device": torch.cuda.get_device_name(0), "torch": torch.__version__,
        "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "python": platform.python_version(),
    }  # fmt: skip


def collect(
    parts: list[str], seconds: float, keep: Callable[[dict[str, Any]], Any], found: dict[str, Any],
    made: dict[str, Callable[[], Iterator[dict[str, Any]]]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run the parts until the time is over; what fails is a row that says so, and every row is kept at once."""
    start = time.perf_counter()
    for part in parts:
        rows = found[part] = []
        try:
            for row in (made or {"layers": layers, "peaks": peaks, "fits": fitted})[part]():
                rows.append(row)
                keep(found)
                if time.perf_counter() - start > seconds:
                    found.setdefault("notes", []).append(f"Ended in {part} after {seconds:.0f} seconds.")
                    keep(found)
                    return found
        except Exception as error:
            rows.append({"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300], "model": part,
                         "train": False, "dtype": "", "batch": ""})  # fmt: skip
            keep(found)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=Path("memory_on_gpu.json"), help="where the measurements go")
    parser.add_argument("--from", dest="source", type=Path, help="write the page of measurements made before")
    parser.add_argument("--write", type=Path, help="a page to write")
    parser.add_argument("--parts", default=",".join(PARTS), help="layers,peaks,fits")
    parser.add_argument("--minutes", type=float, default=8, help="end the measuring after so long")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    if asked.source is None:
        import torch

        if not torch.cuda.is_available():
            print(
                "torch sees no CUDA device here; --from FILE writes the page of earlier measurements", file=sys.stderr
            )
            return 2
        asked.json.parent.mkdir(parents=True, exist_ok=True)

        def keep(found: dict[str, Any]) -> None:
            asked.json.write_text(json.dumps(found, indent=1))
            if asked.write:
                asked.write.write_text(page(found))

        found = collect(asked.parts.split(","), asked.minutes * 60, keep, environment())
    else:
        found = json.loads(asked.source.read_text())
    text = page(found)
    if asked.write:
        asked.write.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
