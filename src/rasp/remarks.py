"""The words around a table: what was run and how, what the numbers mean, what was not counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import coverage, units
from .records import PHASES, Trace
from .samples import Samples
from .shares import weights
from .spread import Latency
from .verdict import of_model
from .view import View

NAMES_SHOWN = 4


def facts(trace: Trace, info: dict[str, Any]) -> dict[str, str]:
    """What was run: inputs, mode, phases, and where it was captured."""
    named = [(f"{name} " if not name.replace(".", "").isdigit() else "", spec) for name, spec in trace.inputs]
    inputs = ", ".join(f"{name}{spec.shape} {spec.dtype}" for name, spec in named)
    seen = {op.phase for op in trace.ops}
    phases = " + ".join(name for phase, name in enumerate(PHASES) if phase == 0 or phase in seen)
    mode = str(info.get("mode") or "eval")
    supposed = {f"as if {name}": str(info[name]) for name in ("dtype", "autocast") if info.get(name)}
    return {"input": inputs or "none", "mode": mode, "phases": phases, **supposed, "captured on": place(info)}


def place(info: dict[str, Any]) -> str:
    return "meta" if info.get("capture_mode", "meta") == "meta" else str(info.get("device") or "its device")


def notes(view: View, info: dict[str, Any], columns: Sequence[str]) -> list[str]:
    """What a reader of these columns should know."""
    of_columns = [*_weighing(view, columns), *_remarks(view, columns), *_memory(view, columns), *_roofs(view, columns)]
    of_columns += _above_roof(view, columns)
    of_columns += _energy(view, columns)
    of_columns += [*_times(view, columns), *_kernels(view, columns)]
    return [*of_columns, *_capture(info), *_gaps(view), *_idle(view), *view.trace.notes]


def _weighing(view: View, columns: Sequence[str]) -> list[str]:
    """Which convention the numbers follow, where they follow one."""
    found: dict[str, list[str]] = {}
    for spelling in columns:
        asked = view.asked(spelling)
        under = view.under(asked.convention).convention
        if (asked.column.weighed or asked.column.name in under.charges) and not asked.share:
            found.setdefault(under.name, []).append(asked.column.name)
    return [
        f"{', '.join(names)} counted by convention {name!r}: {view.under(name).convention.title}"
        for name, names in found.items()
    ]


def _remarks(view: View, columns: Sequence[str]) -> list[str]:
    """What columns say of themselves."""
    shown = [view.asked(spelling).column for spelling in columns]
    return list(dict.fromkeys(f"{column.name}: {column.remark}" for column in shown if column.remark))


MEASURABLE = ("net_dev_mem", "dev_mem_alloc", "dev_max_mem_alloc")
PREDICTED = ("mem_predicted", "live", "peak", "saved")
ALLOCATORS = {"cuda": "as its CUDA allocator counts", "none": "in bytes as asked for", "cpu": "as the CPU's counts"}


def _memory(view: View, columns: Sequence[str]) -> list[str]:
    """Whether device memory was measured, and on what, or for what it was predicted."""
    names = [view.asked(name).column.name for name in columns]
    asked = [name for name in names if name in (*MEASURABLE, *PREDICTED, "mem_measured")]
    if not asked:
        return []
    on, memory = view.ledger.readings.measured, view.ledger.memory
    measured = [name for name in asked if on and name in (*MEASURABLE, "mem_measured")]
    predicted = [name for name in asked if name not in measured and name != "mem_measured"]
    counts = ALLOCATORS.get(memory.settings.allocator, f"as allocator {memory.settings.allocator!r} counts")
    said = [f"{', '.join(measured)} measured on {on}"] if measured else []
    if predicted:
        said.append(f"{', '.join(predicted)} predicted for {memory.target.name}, {counts}")
        said += [OLDER] if memory.target.generation and not memory.target.measured else []
    return said + ([NOT_MEASURED] if "mem_measured" in asked and not on else [])


OLDER = "its kernels' workspaces were not measured: those of an H200 stand in"
NOT_MEASURED = "mem_measured needs a CUDA device: profile with memory=True on one"


OF_ENERGY = ("energy_measured", "energy_gross", "energy_per_sample", "co2", "power")
CO2_UNKNOWN = "co2 needs the grid's grams of CO2-equivalent per kWh: give grid_intensity="


def _energy(view: View, columns: Sequence[str]) -> list[str]:
    """How energy was measured, by what rows share it, and at which intensity of the grid."""
    named = list(dict.fromkeys(name for c in columns if (name := view.asked(c).column.name) in OF_ENERGY))
    found = view.ledger.energy
    if not named:
        return []
    if not found.available:
        return [f"{', '.join(named)} not available: {found.reason}"]
    notes = found.notes
    if shared := [name for name in named if name != "power"]:
        notes.append(f"{', '.join(shared)} of rows are estimates: the measured total, split by {weights(view)[0]}")
    if "co2" in named:
        given = found.grid_intensity
        notes.append(CO2_UNKNOWN if given is None else f"co2 at {given:g} g of CO2-equivalent per kWh, as given")
    return notes


OF_ROOFLINE = ("least_time", "attainable", "bound")


def _roofs(view: View, columns: Sequence[str]) -> list[str]:
    """Whose ceilings were taken, and where they come from."""
    named = [name for name in columns if view.asked(name).column.name.startswith(OF_ROOFLINE)]
    if not named:
        return []
    machine = view.ledger.machine
    source = machine.source if machine.how == "measured" else f"published peaks, without sparsity: {machine.source}"
    return [f"{', '.join(named)} predicted for {machine.name} ({source})"]


def _above_roof(view: View, columns: Sequence[str]) -> list[str]:
    """Rows that were faster than the roof allows, and why that can be."""
    if not any(view.asked(name).column.name == "roof%" for name in columns):
        return []
    shares = [view.value("roof%", view.part(entry)) for entry in view.ledger.entries]
    above = sum(share is not None and share > 1 for share in shares)
    if not above:
        return []
    rows = "1 row is" if above == 1 else f"{above} rows are"
    return [f"{rows} above the roof: their data was still in a cache, and the roof takes it from memory"]


OF_TIME = ("lat", "net_lat", "lat[%]", "FLOPS", "median", "mean", "std", "p5", "p95", "ci_low", "ci_high", "roof%")


def _times(view: View, columns: Sequence[str]) -> list[str]:
    """How the time was measured, how far it spreads, what watching cost, and what to know of it."""
    asked = {view.asked(name).column.name for name in columns}.intersection((*OF_TIME, "verdict", "samples"))
    clocked = view.ledger.clocked
    if not asked:
        return []
    if clocked is None:
        return [f"{', '.join(sorted(asked))}: nothing was timed; profile with timing=True"]
    samples = clocked.samples
    found = [f"lat measured on {where_timed(samples.environment)}: {samples.latency}, {timed_as(samples)}"]
    if samples.watching is not None and clocked.series.calls:
        call = samples.instrument.get("call")
        cost = ""
        if call is not None and clocked.whole:
            share = call * len(clocked.series.calls) / clocked.whole
            cost = f", {share:.2%} by the clocks, {call * 1e6:.0f} ns a call"
        found.append(
            f"net_lat of modules from {len(clocked.series.watched)} more runs with a clock at every door "
            f"({samples.watching:+.1%} on the whole{cost}, taken off)"
        )
    compiled = clocked.series.others.get("compiled")
    if compiled:
        found.append(f"under torch.compile: {Latency(tuple(compiled))}")
    verdict = of_model(view)
    return [*found, *samples.remarks, *([] if verdict is None else [str(verdict)])]


OF_KERNELS = ("kernel_time", "kernel_time_bwd", "kernels", "kernel_gap", "host_time")


def _kernels(view: View, columns: Sequence[str]) -> list[str]:
    """How kernels were recorded, and what of them belongs to no row."""
    asked = [name for column in columns if (name := view.asked(column).column.name) in OF_KERNELS]
    if not asked:
        return []
    found = view.ledger.kernels
    return [f"{', '.join(asked)}: not recorded; profile with kernels=True"] if found is None else found.notes


def where_timed(environment: dict[str, Any]) -> str:
    """'cuda:0 (NVIDIA H200), torch 2.14.1': a machine in a few words."""
    what = environment.get("gpu") or environment.get("processor") or ""
    threads = "" if environment.get("gpu") or "threads" not in environment else f", {environment['threads']} threads"
    return f"{environment.get('device', '')} ({what}{threads}), torch {environment.get('torch', '')}"


def timed_as(samples: Samples) -> str:
    """What a run was: a forward or a training step, and what was special about it."""
    how = samples.how
    words = ["training step" if how.get("backward") else "forward", f"{len(samples.time.warmup)} warm-up runs apart"]
    words += [f"as {how[name]}" for name in ("dtype",) if how.get(name)]
    words += [f"autocast {how['autocast']}"] if how.get("autocast") else []
    words += ["channels_last"] if how.get("channels_last") else []
    words += ["inputs copied each time"] if how.get("copy_inputs") else []
    words += ["PARTIAL"] if samples.partial else []
    return ", ".join(words)


def _capture(info: dict[str, Any]) -> list[str]:
    """Why the model had to run for real, where it did not by choice."""
    reason = info.get("capture_reason")
    if not reason:
        return []
    at = f" ({reason['where']})" if reason.get("where") else ""
    inside = f" in {reason['module']}" if reason.get("module") else ""
    why = str(reason.get("why") or "it could not run on meta")
    op = f"{reason['op']}: " if reason.get("op") and str(reason["op"]) not in why else ""
    return [f"run for real on {place(info)}, since {op}{why}{inside}{at}"]


def _gaps(view: View) -> list[str]:
    """Operators that were not counted."""
    found = []
    for gap in coverage.gaps(view.ledger):
        bound = "no telling how much" if gap.bound is None else f"at most {units.count(gap.bound, 'FLOP')}"
        found.append(
            f"not counted: {gap.op} ×{gap.calls} in {_some(gap.modules)}: no rule, {bound}; sums are lower bounds"
        )
    return found


def _idle(view: View) -> list[str]:
    """Modules that never ran."""
    idle = coverage.idle(view.ledger)
    if not idle:
        return []
    total = units.count(sum(params for _, params in idle))
    plural = "s" if len(idle) > 1 else ""
    return [f"never called: {len(idle)} module{plural} with {total} parameters: {_some([path for path, _ in idle])}"]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
