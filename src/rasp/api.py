"""What `import rasp` offers: profile, stat, load, and the lists of columns and conventions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import render
from .branch import Branch
from .columns import COLUMNS, Column, find
from .columns import load as load_columns
from .contrast import Contrast
from .conventions import CONVENTIONS, Convention
from .conventions import get as get_convention
from .conventions import load as load_conventions
from .devices import as_kept, machine_here, sheet
from .energy import check_intensity
from .errors import InputError, UncountedError, UnknownName
from .explain import Explanation
from .fits import fits
from .memory import allocators
from .memory.plan import Settings
from .memory.targets import target as target_of
from .profile import REPORTS, TABLE, TIMED, Profile, load
from .report import Report

if TYPE_CHECKING:
    import torch

__all__ = ["columns", "compare_times", "conventions", "explain", "fits", "load", "load_report", "profile", "stat"]

RETURNS = ("data", "tree", "sum")
MEASURED = {"energy": "energy_measured", "kernels": "kernel_time"}  # columns that an option of `measuring` adds
MEMORY = ("net_dev_mem", "dev_mem_alloc", "dev_max_mem_alloc")


def profile(
    model: torch.nn.Module,
    inputs: Any = None,
    *,
    input_shape: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    dtypes: Any = None,
    mode: str | None = None,
    device: Any = None,
    backward: bool = False,
    optimizer: Any = None,
    loss: Any = None,
    dtype: Any = None,
    autocast: Any = None,
    strict: bool = False,
    convention: str | None = None,
    functions: bool = False,
    memory: bool = False,
    target: str | int = "h200",
    allocator: str = "cuda",
    allocator_settings: str = "",
    keep_gradients: bool = False,
    roof: str | None = None,
    timing: bool | str = False,
    batches: int | None = None,
    warmup: int | None = None,
    seconds: float | None = None,
    precision: float | None = None,
    channels_last: bool = False,
    copy_inputs: bool = False,
    compiled: bool | Mapping[str, Any] = False,
    progress: bool | None = None,
    energy: bool = False,
    grid_intensity: float | None = None,
    kernels: bool | None = None,
    keep_trace: str | Path | None = None,
) -> Profile:
    """Run a model once, by default without data or memory, and keep the record that every number is read from.

    Give `inputs` (tensors, nested as the model takes them) or `input_shape` (batch included; a list or dict for
    several, with `dtypes`). `mode` is 'eval' ('train' with backward=True) unless given; 'as-is' keeps the model's own
    flags. `strict=True` raises UncountedError when an operator has no rule. `convention` is the way of counting when
    none is named later; `functions=True` also records the torch functions called, as conventions of level 'function'
    need (they ask for it themselves while the model lives). The model is left as it was.

    `memory=True` takes the kernels of `target` (a machine, or a size such as '24GiB'), so that `.memory` tells what the
    run takes there; `allocator` is 'cuda', 'cpu' or 'none' (bytes as they are), with settings as in
    PYTORCH_CUDA_ALLOC_CONF. On a CUDA device it is measured as well. `keep_gradients`: zero_grad does not free them.

    `roof` is the machine whose ceilings the roofline columns take (least_time, attainable, bound): one of the sheet, or
    'cpu' or 'cuda' as `rasp calibrate` measured it; the target unless given.

    `timing=True` also runs the model for real on `device` (where it lives, unless given), for `.latency`, `.samples`,
    `.verdict` and the columns lat, net_lat, lat[%], FLOPS, median …; 'whole' leaves the modules out. It takes as many
    runs as make the median known to `precision` (0.01) within `seconds` (3); `batches` and `warmup`, or
    rasp.CFG.profile.num_batches and .warmup_batches, are exact counts. With `backward` it is a training step.
    `copy_inputs`: from the host in each run. `compiled`: the whole under torch.compile too (a dict: its options).
    `progress`: told on stderr, on a terminal unless given.

    `energy=True` reads the device's meters while it runs for `seconds` (3), for `.energy` and the columns
    energy_measured, power, energy_per_sample and, at `grid_intensity` grams of CO2-equivalent per kWh, co2; where there
    is no meter, these are None and say why. `kernels=True` (with timing on a CUDA device unless given) records what
    kernels ran for which module, for `.kernels`; `keep_trace` is a file for torch.profiler's own trace of these runs.
    """
    from .capture import capture, spelled_later, ways_of  # torch is imported here and not before
    from .measure.memory import cuda_of, measured_memory

    functions = functions or get_convention(convention).level == "function"
    settings = Settings(target, allocator, allocator_settings, keep_gradients)
    machine = target_of(target)
    allocators.get(allocator, allocator_settings)
    given = {"inputs": inputs, "input_shape": input_shape, "kwargs": kwargs, "dtypes": dtypes}
    how = {
        "mode": mode,
        "backward": backward,
        "optimizer": optimizer,
        "loss": loss,
        "dtype": dtype,
        "autocast": autocast,
    }
    measuring = timing or energy or kernels or keep_trace is not None
    check_intensity(grid_intensity)
    settings_of_time = None
    if measuring:
        settings_of_time = _timing(
            timing or "whole", batches=batches, warmup=warmup, seconds=seconds, precision=precision,
            channels_last=channels_last, copy_inputs=copy_inputs, compiled=compiled, progress=progress,
        )  # fmt: skip
    else:
        _refuse_unused(batches=batches, warmup=warmup, seconds=seconds, precision=precision, compiled=compiled,
                       copy_inputs=copy_inputs, channels_last=channels_last)  # fmt: skip
    on_cuda = cuda_of(model, device) if memory else None
    trace, info = capture(
        model,
        **given,
        **how,
        device=None if on_cuda is not None or measuring else device,
        functions=functions,
        ways=ways_of(machine) if memory and allocator != "cpu" else None,
    )
    if convention is not None:
        info["convention"] = convention
    if roof is not None or machine.name in sheet():
        info["machine"] = as_kept(roof if roof is not None else machine.name)
    if memory:
        info["memory"] = asdict(settings)
        if on_cuda is not None:
            info["measured_memory"] = measured_memory(model, on_cuda, given, how)
    if settings_of_time is not None:
        run = (model, given, how, device, trace, settings_of_time)
        steps = [lambda: _timed(*run, roof)] if timing else []
        steps.append(lambda: _kernels(*run, keep_trace) if _wants_kernels(kernels, keep_trace, info) else {})
        steps += [lambda: _energy(*run, 3.0 if seconds is None else seconds, grid_intensity)] if energy else []
        _measure(steps, info, trace)
    asked = {
        "mode": mode,
        "device": None if measuring else device,
        "dtypes": dtypes,
        "dtype": dtype,
        "autocast": autocast,
    }
    found = Profile(trace, info, functions=spelled_later(trace, model, inputs, input_shape, kwargs, asked))
    if strict:
        _refuse_gaps(found)
    return found


def _measure(steps: Sequence[Callable[[], dict[str, Any]]], info: dict[str, Any], trace: Any) -> None:
    """One measurement after the other, until one is interrupted; what was measured before that is kept, and it said."""
    measured = False
    for number, step in enumerate(steps):
        try:
            found = step()
        except KeyboardInterrupt:
            if not measured:
                raise
            found = {"interrupted": True}
        measured = measured or bool(found)
        info |= found
        parts = (found, found.get("samples", {}), found.get("measured_energy", {}))
        if any(part.get("interrupted") or part.get("partial") for part in parts) and number + 1 < len(steps):
            info["interrupted"] = True
        if "interrupted" in info:
            trace.notes.append("interrupted (Ctrl-C): not all that was asked for was measured")
            return


def _refuse_unused(**options: Any) -> None:
    """Options of a measurement where none was asked for: they would do nothing, without a word."""
    unused = [f"{name}={value!r}" for name, value in options.items() if value]
    if unused:
        raise InputError(f"{', '.join(unused)}: how to measure, but nothing is measured; add timing=True.")


def _timing(timing: bool | str, **options: Any) -> Any:
    """How the time is to be measured, checked before anything runs."""
    from .measure.timing import Settings as TimeSettings

    if timing not in (True, "whole", "modules"):
        raise InputError(f"timing={timing!r}: give True (modules too) or 'whole' (the model alone).")
    return TimeSettings.of(modules=timing != "whole", **options)


def _timed(
    model: Any, given: Any, how: Any, device: Any, trace: Any, settings: Any, roof: str | None
) -> dict[str, Any]:
    """What a profile keeps of a measurement, and the ceilings of the machine it was made on, where they are known."""
    from .measure.timing import timed

    samples = timed(model, given, how, device, trace, settings)
    ceilings = roof or machine_here(samples.device, samples.environment.get("gpu"))
    samples.how["ceilings"] = ceilings is not None
    found: dict[str, Any] = {"samples": samples.as_dict()}
    return found if ceilings is None else {**found, "machine": as_kept(ceilings)}


def compare_times(
    a: torch.nn.Module,
    b: torch.nn.Module,
    inputs: Any = None,
    *,
    input_shape: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    dtypes: Any = None,
    device: Any = None,
    mode: str | None = None,
    backward: bool = False,
    optimizer: Any = None,
    loss: Any = None,
    dtype: Any = None,
    autocast: Any = None,
    batches: int | None = None,
    warmup: int | None = None,
    seconds: float = 12.0,
    channels_last: bool = False,
    progress: bool | None = None,
    names: tuple[str, str] = ("a", "b"),
) -> Contrast:
    """Run two models in turns, A B, B A …, and say whether they differ, and in which modules: `.different`, `.modules`.

    Neighbouring runs are compared with each other, so that other load and drift slow both alike. `batches` is how many
    pairs; else as many as `seconds` allow, 24 at least.
    """
    from .measure.timing import Settings as TimeSettings
    from .measure.turns import in_turns

    settings = TimeSettings.of(batches, warmup, seconds, channels_last=channels_last, progress=progress)
    given = {"inputs": inputs, "input_shape": input_shape, "kwargs": kwargs, "dtypes": dtypes}
    how = {
        "mode": mode,
        "backward": backward,
        "optimizer": optimizer,
        "loss": loss,
        "dtype": dtype,
        "autocast": autocast,
    }
    return in_turns((a, b), given, how, device, settings, names)


def _wants_kernels(kernels: bool | None, keep_trace: Any, info: dict[str, Any]) -> bool:
    """Asked for, or part of a measurement of time on a CUDA device: a verdict there rests on them."""
    timed_on = str(info.get("samples", {}).get("device", ""))
    return kernels or (kernels is None and (keep_trace is not None or timed_on.startswith("cuda")))


def _kernels(*run: Any) -> dict[str, Any]:
    """What a profile keeps of its kernels, and where torch's own trace of them was written."""
    from .measure.kernels import kernels_of

    keep_trace = run[-1]
    found: dict[str, Any] = {"kernels": kernels_of(*run)}
    return found if keep_trace is None else {**found, "trace_file": str(keep_trace)}


def _energy(*run: Any) -> dict[str, Any]:
    """What a profile keeps of measured energy."""
    from .measure.energy import energy_of

    return {"measured_energy": energy_of(*run)}


def explain(profile: Profile, a: str, b: str, column: str = "flops") -> Explanation:
    """Why two conventions differ on a profile: `.lines` that add up to `.difference`, each with its reason."""
    return profile.explain(a, b, column)


def stat(
    model: torch.nn.Module,
    input_shape: Any = None,
    inputs: Any = None,
    device: Any = None,
    *,
    timing: bool | str = False,
    memory: bool = False,
    print_stat: bool = True,
    returns: str | Sequence[str] | None = None,
    report_type: str | None = "tape",
    include_root: bool = False,
    report_fields: Sequence[str] | None = None,
    includes: Sequence[str] | None = None,
    excludes: Sequence[str] | None = None,
    save_path: str | Path | None = None,
    convention: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dtypes: Any = None,
    mode: str = "eval",
    dtype: Any = None,
    autocast: Any = None,
    strict: bool = False,
    target: str | int = "h200",
    **measuring: Any,
) -> Any:
    """Print a model's cost layer by layer, in evaluation mode without gradients, and return what `returns` names.

    `returns`: 'data' (a DataFrame, the total its last row), 'tree' (the root Branch), 'sum' (the printed text); several
    give a list. `report_fields` are the columns, `excludes` leaves some out, `includes` adds some at the end.
    `save_path`: a folder gets <model>.csv, a file is written by its suffix. `memory=True` adds RASP's columns of device
    memory: measured on a CUDA device, elsewhere predicted for `target`. `timing=True` runs the model for real on
    `device` and adds RASP's columns of time; `measuring` takes rasp.profile's options for that (batches, seconds …).
    """
    wanted = _names(returns, "returns")
    for name in wanted:
        if name not in RETURNS:
            raise UnknownName("return value", name, RETURNS)
    if report_type is not None and report_type not in REPORTS:
        raise UnknownName("report type", report_type, [*REPORTS, "None"])
    start = TIMED if timing and report_fields is None else report_fields
    added = [*(MEMORY if memory else ()), *(column for option, column in MEASURED.items() if measuring.get(option))]
    fields = choose(start, [*_names(includes, "includes"), *added], excludes)
    levels = {get_convention(name).level for name in (convention, *(find(field).convention for field in fields))}
    found = profile(
        model,
        inputs,
        input_shape=input_shape,
        kwargs=kwargs,
        dtypes=dtypes,
        mode=mode,
        device=device,
        dtype=dtype,
        autocast=autocast,
        strict=strict,
        functions="function" in levels,
        memory=memory,
        target=target,
        timing=timing,
        **measuring,
    )
    if report_type is None:
        return None
    report = found.table(report_type, fields, convention, include_root)
    report.asked = (*_names(report_fields, "report_fields"), *_names(includes, "includes"))
    if save_path is not None:
        save_report(report, save_path)
    if print_stat:
        render.show(report)
    made = [_returned(name, report, found, convention) for name in wanted]
    return made[0] if len(made) == 1 else made or None


def choose(
    fields: Sequence[str] | None, includes: Sequence[str] | None = None, excludes: Sequence[str] | None = None
) -> list[str]:
    """The columns of a report: the chosen or default ones, less the excluded, then the included in the order given."""
    start = _names(fields, "report_fields") if fields is not None else list(TABLE)
    added, left_out = _names(includes, "includes"), _names(excludes, "excludes")
    for name in (*start, *added, *left_out):
        get_convention(find(name).convention)
    kept = [name for name in start if name not in left_out]
    chosen = list(dict.fromkeys([*kept, *added]))
    if not chosen:
        raise InputError("No column is left: excludes takes away all that report_fields names.")
    return chosen


def save_report(report: Report, path: str | Path) -> Path:
    """Write a report: into a folder as <model>.csv, else in the format of the suffix."""
    target = Path(path)
    if target.is_dir() or not target.suffix:
        target = target / f"{report.title}.csv"
    return report.save(target)


def load_report(path: str | Path) -> Any:
    """A saved report (csv or json) as a pandas DataFrame."""
    return render.read_frame(path)


def columns() -> list[Column]:
    """Every column that can be asked for."""
    load_columns()
    return list(COLUMNS.values())


def conventions() -> list[Convention]:
    """Every way of counting, with its source."""
    load_conventions()
    return list(CONVENTIONS.values())


def _returned(name: str, report: Report, found: Profile, convention: str | None) -> Any:
    if name == "data":
        return report.to_pandas()
    return str(report) if name == "sum" else Branch.root(found.view(convention))


def _names(given: str | Iterable[str] | None, option: str) -> list[str]:
    """Names as a new list, from a list or from words with commas between."""
    if given is None:
        return []
    names = [word.strip() for word in given.split(",")] if isinstance(given, str) else list(given)
    if not all(isinstance(name, str) and name for name in names):
        raise InputError(f"{option} takes names; got {given!r}.")
    return names


def _refuse_gaps(found: Profile) -> None:
    gaps = found.uncounted
    if gaps:
        words = "; ".join(f"{gap['op']} ×{gap['calls']} in {', '.join(gap['modules'][:3])}" for gap in gaps)
        raise UncountedError(
            f"strict=True, and no rule counts: {words}. Add one with @rasp.rule(name), or leave strict out: "
            "the report then lists them with a bound."
        )
