"""Addons: what a user switches on by importing it (`import rasp.addons.energy`). A file has the name of its column."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Switch every addon on, as the command line does."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
