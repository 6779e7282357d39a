"""Every error a user can meet, in one tree.

RaspError
├── InputError          what was given cannot be profiled as it stands
│   └── UnknownName     a column, convention, format, device or model that does not exist
├── ModelError          the model itself raised; its own exception is the __cause__
├── CaptureError        the model cannot be run the way that was asked for
├── UncountedError      strict=True and an operator has no rule
├── NotRecorded         a profile was asked for what was not recorded in it
├── MeterError          a meter (time, energy) cannot tell what it was asked for
├── CellsFailed         a sweep is done, and some of its cells failed
├── NotBuiltError       a documented option whose feature is not built yet
├── FileError           a file that cannot be read as a profile or report, or written
└── RuleError           a rule that is registered twice, or that returned nonsense
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

NAMES_LISTED = 40  # of the names that exist, in a message about one that does not


class RaspError(Exception):
    """Base of all errors raised on purpose by rasp."""


class InputError(RaspError, ValueError):
    """The model, the inputs or the options cannot be used as given."""


class UnknownName(InputError):
    """A name that is not registered; the message lists what is, and the nearest match."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
        more = f" and {len(names) - NAMES_LISTED} more" if len(names) > NAMES_LISTED else ""
        listed = ", ".join(names[:NAMES_LISTED]) or "none"
        super().__init__(f"There is no {kind} named {name!r}.{hint} Known: {listed}{more}.")
        self.kind, self.name, self.known = kind, name, names


class ModelError(RaspError, RuntimeError):
    """The model raised while it was being run; see __cause__ for its own exception."""


class CaptureError(RaspError, RuntimeError):
    """The model cannot be captured in the way that was asked for."""


class UncountedError(RaspError):
    """An operator without a rule was met and strict=True was given."""


class NotRecorded(RaspError):
    """A profile was asked for something that its run did not record."""


class MeterError(RaspError, RuntimeError):
    """A meter cannot tell: there is no such counter, it broke off, or the time was too short for it."""


class CellsFailed(RaspError):
    """A sweep is done, and some of its cells failed; their rows say why."""


class NotBuiltError(RaspError, NotImplementedError):
    """An option that is documented but not built yet."""


class FileError(RaspError, OSError):
    """A file could not be read or written as what it should be."""


class RuleError(RaspError, ValueError):
    """A rule was registered twice, or returned something that is not Work."""
