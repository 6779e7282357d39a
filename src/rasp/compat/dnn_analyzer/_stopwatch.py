"""How long each call of a layer takes, as rasp.measure times it; a few runs, since the analysis is printed at once."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ...clocked import Clocked
from ...errors import RaspError
from ...measure.timing import Settings, timed
from ...profile import Profile

RUNS = Settings(batches=3, warmup=1, progress=False)


class NotRun(Exception):
    """Why a model could not be run for real."""


def shares(model: nn.Module, shape: tuple[int, ...], profile: Profile, calls: Sequence[int]) -> list[float]:
    """Each call's part of all durations; the profile keeps the samples."""
    if any(map(nn.parameter.is_lazy, model.parameters())):
        raise NotRun("the model has lazy layers, which a forward would initialise")
    try:
        samples = timed(model, {"input_shape": shape}, {"mode": "eval"}, None, profile.trace, RUNS)
    except RaspError as error:
        raise NotRun(str(error)) from error
    profile.info["samples"] = samples.as_dict()
    clocked = Clocked(profile.trace, samples)
    found = [clocked.total(call) for call in calls]
    known = [milliseconds for milliseconds in found if milliseconds is not None]
    if len(known) < len(found):
        raise NotRun("run for real, it calls other layers than when it was counted")
    whole = sum(known)
    return [milliseconds / whole if whole else 1 / len(known) for milliseconds in known]
