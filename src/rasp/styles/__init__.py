"""Styles: layouts of a whole profile as text, one per file. A style is a function of the profile and its options.

To add one, put a file here (it is found by itself); `profile.text("names", sep=", ")` calls it:

>>> from rasp.styles import style
>>> @style("names")
... def names(profile, sep=" "):
...     '''The modules by name.'''
...     return sep.join(module.path for module in profile.trace.modules)
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..registry import Registry, once

if TYPE_CHECKING:
    from ..profile import Profile

Style = Callable[..., str]  # (profile, **options) → text

STYLES: Registry[Style] = Registry("style")
COUNTED: dict[str, str] = {}  # styles that always count one way, and which


def style(name: str, convention: str | None = None) -> Callable[[Style], Style]:
    """Register `function(profile, **options)` that returns text; `convention`: the only one that it counts by."""

    def register(function: Style) -> Style:
        if convention is not None:
            COUNTED[name] = convention
        return STYLES.add(name, function)

    return register


@once
def load() -> None:
    """Import every file of this folder once."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def get(name: str) -> Style:
    load()
    return STYLES[name]


def write(profile: Profile, name: str, options: dict[str, Any]) -> str:
    """A profile in a style."""
    function = get(name)
    known = list(inspect.signature(function).parameters)[1:]
    for option in options:
        if option not in known:
            raise InputError(f"Style {name!r} has no option {option!r}; it has: {', '.join(known) or 'none'}.")
    return function(profile, **options)
