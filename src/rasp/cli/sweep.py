"""rasp sweep: models over sizes, batches, dtypes and devices, as one table."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from .. import render
from ..errors import CellsFailed, InputError
from ..sweep import sweep as run
from . import say, words, write
from .stat import Mode, option


def sweep(
    *models: Annotated[str, option("What to sweep; see rasp --help. timm:resnet* is every model of such a name.")],
    sizes: Annotated[
        list[str] | None, option("Heights and widths: 224,600x850 or 128:512:64.", "--sizes", "--size")
    ] = None,
    scales: Annotated[
        list[str] | None, option("Factors of each model's own size: 0.5:3:0.5.", "--scales", "--scale")
    ] = None,
    batches: Annotated[list[str] | None, option("Batch sizes.", "--batches", "--batch")] = None,
    tokens: Annotated[list[str] | None, option("Lengths, for models of text.")] = None,
    dtypes: Annotated[list[str] | None, option("What if they were of these dtypes.", "--dtypes", "--dtype")] = None,
    devices: Annotated[list[str] | None, option("Devices to measure on.", "--devices", "--device")] = None,
    measures: Annotated[list[str] | None, option("static, memory, timing, energy.")] = None,
    columns: Annotated[list[str] | None, option("Columns, with commas; see rasp columns.", "-c", "--columns")] = None,
    convention: Annotated[str | None, option("A way of counting; see rasp conventions.")] = None,
    trunk: Annotated[str | None, option("Run the models up to this layer; auto: as reported.")] = None,
    input: Annotated[
        list[str] | None, option("Shape with its batch, where a model tells none.", "-i", "--input")
    ] = None,
    backward: Annotated[bool, option("Count the backward as well, in train mode.")] = False,
    mode: Annotated[Mode | None, option("eval, train, or as-is: the model's own.")] = None,
    target: Annotated[str | None, option("The machine that memory is predicted for: h200, 24GiB.")] = None,
    seconds: Annotated[float | None, option("Seconds that a model is timed for.")] = None,
    strict: Annotated[bool, option("A cell with an operator without a rule fails.")] = False,
    out: Annotated[Path | None, option("A folder that keeps every finished cell.", "-o", "--out")] = None,
    table: Annotated[Path | None, option("Write the table: .csv, .parquet, .md, .json, .txt.")] = None,
    format: Annotated[str | None, option("table, md, csv or json, on the screen.", "-f", "--format")] = None,
    on: Annotated[str, option("processes, here, ray, or a Ray address: auto, host:port.")] = "processes",
    workers: Annotated[int | None, option("Cells at a time; one for each core.", "--workers", "--jobs", "-j")] = None,
    threads: Annotated[int | None, option("Threads of a cell; 1, of a timed one all cores.")] = None,
    timeout: Annotated[float | None, option("Seconds that a cell may take.")] = None,
    memory: Annotated[str | None, option("Memory that a cell may take: 4GiB.")] = None,
    retries: Annotated[int, option("Times that a cell which died is tried again.")] = 2,
    shard: Annotated[str | None, option("One part of the sweep: 2/8.")] = None,
    again: Annotated[bool, option("Do every cell anew.")] = False,
    retry_failed: Annotated[bool, option("Do the cells anew that failed.")] = False,
    profiles: Annotated[bool, option("Keep each cell's profile.", "--profiles", "--no-profiles")] = True,
    quiet: Annotated[bool, option("No progress on stderr.", "-q", "--quiet")] = False,
) -> None:
    """Models over sizes, batches, dtypes and devices, as one table."""
    _check(models, format, table)
    given = words.inputs(input) if input else {"input_shape": None, "dtypes": None}
    options: dict[str, Any] = {"convention": convention, "mode": mode, "target": target, "seconds": seconds}
    options = {name: value for name, value in options.items() if value is not None}
    options |= {name: True for name, value in (("backward", backward), ("strict", strict)) if value}
    with _ended_politely():
        found = run(
            list(models),
            sizes=sizes,
            scales=scales,
            batches=batches or 1,
            tokens=tokens,
            dtypes=dtypes,
            devices=devices,
            measures=words.names(measures) or ("static",),
            columns=words.names(columns),
            trunk=trunk,
            input_shape=given["input_shape"],
            input_dtypes=given["dtypes"],
            out=out,
            resume=not again,
            retry_failed=retry_failed,
            keep_profiles=profiles,
            on=on,
            workers=workers,
            threads=threads,
            timeout=timeout,
            memory=memory,
            retries=retries,
            shard=shard,
            progress=not quiet,
            **options,
        )
    if table is not None:
        say(f"written to {found.save(table)}")
    _show(found, format)
    if found.failed:
        raise CellsFailed(f"{len(found.failed)} of {len(found.rows)} rows failed; each says why.")


def _check(models: tuple[str, ...], format: str | None, table: Path | None) -> None:
    """Refuse what could not be written before hours of work."""
    if not models:
        raise InputError("There are no models to sweep: name at least one, as in rasp sweep mobilenet_v2.")
    if format not in (None, "table", "csv"):
        render.get(format)
    if table is not None and table.suffix.lower() not in (".csv", ".parquet"):
        render.of_suffix(table)


def _show(found: Any, format: str | None) -> None:
    if format == "csv":
        write(found.to_csv())
    elif format in (None, "table"):
        render.show(found.report())
    else:
        write(found.report().render(format))


@contextmanager
def _ended_politely() -> Iterator[None]:
    """A SIGTERM, as Slurm sends before it kills, ends a sweep as Ctrl-C does: nothing finished is lost."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        say("interrupted. With -o what was finished is kept; the same command goes on from there.")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
