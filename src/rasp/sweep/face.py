"""rasp.sweep: what is asked for is checked, planned, run, and given back as a table."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import InputError, UnknownName
from . import axes, limits
from . import measures as measuring
from .cells import Plan
from .driver import Driver
from .executors import Executor, Here, Processes, cores
from .progress import Progress
from .results import Results
from .store import Store
from .subjects import Described, Subject, subjects

HERE, PROCESSES = "here", "processes"
OWN = ("inputs", "input_shape", "kwargs", "dtypes", "device", "dtype", "memory", "timing", "energy", "keep_trace")


def sweep(
    models: Any,
    *,
    sizes: Any = None,
    scales: Any = None,
    batches: Any = 1,
    tokens: Any = None,
    dtypes: Any = None,
    devices: Any = None,
    measures: Any = ("static",),
    columns: Any = None,
    trunk: str | Mapping[str, str] | None = None,
    input_shape: Any = None,
    input_dtypes: Any = None,
    out: str | Path | None = None,
    resume: bool = True,
    retry_failed: bool = False,
    keep_profiles: bool = True,
    on: str = PROCESSES,
    workers: int | None = None,
    timeout: float | None = None,
    memory: int | str | None = None,
    retries: int = 2,
    shard: str | None = None,
    threads: int | None = None,
    resources: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Results:
    """Profile every model at every size, batch, dtype and device, each in a process of its own, as one table.

    `models`: names as the command line has them ('torchvision:resnet50', 'timm:resnet*', 'file.py:factory'), functions
    that make a model, models, a list of these or a dict of names. `sizes` are heights and widths (224, (600, 850),
    '128:512:64'), `scales` factors of each model's own (True: 0.5, 1 … 3), for models of images; `tokens` lengths, for
    those of text. `trunk` names the layer up to which a model is run (a dict: by model; 'auto': that of a built-in
    model). `measures`: static, memory, timing, energy. `input_shape` (batch included; a dict: by model) is for models
    that do not tell what they take.

    With `out`, a folder, what is done stays done: the same sweep goes on where it was ended, however that happened.
    A cell that raises, dies, takes longer than `timeout` seconds or more than `memory` is a row with its reason; one
    that dies is tried again, `retries` times. `on`: 'processes', 'here' (this process), 'ray' (started here), or the
    address of a Ray cluster, whose `resources` each timed cell then asks for. `shard='2/8'` does the second of eight
    parts. Other keywords are those of rasp.profile (convention, backward, target, seconds that are timed …).
    """
    asked = measuring.chosen(measures)
    _check_options(options, on)
    wanted = measuring.columns(asked, columns)
    over = axes.Axes.of(sizes, scales, tokens, batches, dtypes, devices, shard)
    may_take = limits.limits(timeout, memory, retries, threads)
    given = subjects(models, input_shape, input_dtypes)
    _check_devices(over.devices, on)
    cores(workers)
    if on == HERE and (timeout is not None or memory is not None):
        raise InputError("on='here' starts no process that could be ended: leave timeout= and memory= out, or on=.")
    if os.environ.get("RASP_SWEEP_CELL"):
        raise InputError(
            "rasp.sweep was called inside a cell of a sweep: the script that defines the model runs again there. "
            'Put the call under `if __name__ == "__main__":`.'
        )
    with Store(out) as store, closing(_executor(on, workers, given, resources)) as executor:
        _check_names(over, executor)
        given = _expanded(given, executor)
        packets = [one.packet(here=on == HERE) for one in given]
        models = described(given, packets, executor)
        plan = Plan(models, asked, trunks=_trunks(trunk, models), options=options, axes=over)
        with Progress(len(plan), progress) as shown:
            driver = Driver(plan, store, executor, packets, wanted, may_take, shown)
            driver.resume, driver.retry_failed, driver.keep = resume, retry_failed, keep_profiles
            driver.run()
        return Results(plan, store, wanted, driver.seconds, driver.ran)


def _check_names(over: axes.Axes, executor: Executor) -> None:
    """A dtype or device that does not exist is refused before anything runs."""
    words = [("dtypes", name) for name in over.dtypes if name] + [("devices", name) for name in over.devices if name]
    for answer in executor.ask("check", words) if words else ():
        if "error" in answer:
            raise InputError(answer["error"])


def described(given: Sequence[Subject], packets: Sequence[Mapping[str, Any]], executor: Executor) -> list[Described]:
    """Each model with its digest, kind and size; a name that does not exist is refused before anything runs."""
    found = []
    for one, answer in zip(given, executor.ask("describe", packets)):
        if answer.get("refused"):
            raise InputError(answer["error"])
        size = answer.get("size")
        digest = answer.get("digest") or f"{one.name}: {answer['error']}"  # its cells will say so, each in its row
        found.append(Described(one.name, digest, one, answer.get("kind"), size and tuple(size), answer.get("length")))
    return found


def _expanded(given: Sequence[Subject], executor: Executor) -> list[Subject]:
    """Names with * in them as the models they stand for."""
    patterns = [one for one in given if one.words is not None and any(mark in one.words for mark in "*?[")]
    if not patterns:
        return list(given)
    answers = dict(zip((one.name for one in patterns), executor.ask("expand", [one.words for one in patterns])))
    found: dict[str, Subject] = {}
    for one in given:
        names = answers.get(one.name, [one.words])
        if isinstance(names, dict):
            raise InputError(names["error"])
        for words in names:
            name = one.name if words == one.words else words
            found.setdefault(name, replace(one, name=name, words=words))
    return list(found.values())


def _executor(on: str, workers: int | None, given: Sequence[Subject], resources: Mapping[str, Any] | None) -> Executor:
    if on == HERE:
        return Here()
    words = [one.words for one in given if one.words is not None]
    if on == PROCESSES:
        return Processes(cores(workers), words)
    from .cluster import Cluster

    return Cluster(on, workers, words, resources or {})


def _check_options(options: Mapping[str, Any], on: str) -> None:
    known = measuring.profile_options() - set(OWN)
    for name in options:
        if name not in known:
            raise UnknownName("option of a sweep", name, known)
        if on != HERE:
            _check_sendable(name, options[name])


def _check_sendable(name: str, value: Any) -> None:
    try:
        pickle.dumps(value)
    except Exception as error:
        raise InputError(
            f"The option {name}={value!r} cannot be sent to a process of its own: {error}. Give a function from the "
            "top of a module, or sweep with on='here', which starts no process."
        ) from error


def _check_devices(devices: Sequence[str | None], on: str) -> None:
    """A kind of machine, as in cuda@H100, is something a cluster has."""
    if on in (HERE, PROCESSES):
        for device in devices:
            if device is not None and "@" in device:
                raise InputError(
                    f"devices={device!r} names a kind of machine, which only a Ray cluster can find: give on=."
                )


def _trunks(trunk: str | Mapping[str, str] | None, models: Sequence[Described]) -> Mapping[str, str] | str | None:
    if isinstance(trunk, Mapping):
        for name in trunk:
            if name not in {model.name for model in models}:
                raise UnknownName("model of this sweep", name, [model.name for model in models])
    return trunk
