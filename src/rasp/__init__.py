"""rasp: what each part of a PyTorch model costs.

>>> import rasp
>>> rasp.stat(model, input_shape=(1, 3, 224, 224))       # a table, layer by layer        # doctest: +SKIP
>>> profile = rasp.profile(model, input_shape=(1, 3, 224, 224))                           # doctest: +SKIP
>>> profile.total("macs"), profile.rows(), profile.save("model.json")                     # doctest: +SKIP

Importing this package imports neither torch nor anything else of weight: names are found when they are first used.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import columns as columns
    from .api import compare_times as compare_times
    from .api import conventions as conventions
    from .api import explain as explain
    from .api import load as load
    from .api import load_report as load_report
    from .api import profile as profile
    from .api import stat as stat
    from .config import CFG as CFG
    from .config import get_config as get_config
    from .config import set_config as set_config
    from .contrast import Contrast as Contrast
    from .errors import CaptureError as CaptureError
    from .errors import FileError as FileError
    from .errors import InputError as InputError
    from .errors import MeterError as MeterError
    from .errors import ModelError as ModelError
    from .errors import NotBuiltError as NotBuiltError
    from .errors import NotRecorded as NotRecorded
    from .errors import RaspError as RaspError
    from .errors import RuleError as RuleError
    from .errors import UncountedError as UncountedError
    from .errors import UnknownName as UnknownName
    from .profile import Profile as Profile
    from .report import Report as Report
    from .rules import Work as Work
    from .rules import module_rule as module_rule
    from .rules import rule as rule
    from .sweep import sweep as sweep

__version__ = "0.1.0"

_HOMES = {
    "api": ("compare_times", "explain", "fits", "load", "load_report", "profile", "stat"),
    "config": ("CFG", "get_config", "set_config"),
    "errors": (
        "CaptureError", "FileError", "InputError", "MeterError", "ModelError", "NotBuiltError", "NotRecorded",
        "RaspError", "RuleError", "UncountedError", "UnknownName",
    ),
    "contrast": ("Contrast",),
    "fits": ("Fits",),
    "profile": ("Profile",),
    "report": ("Report",),
    "sweep": ("sweep",),
    "rules": ("Work", "module_rule", "rule"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = ("columns", "conventions")  # folders that can be called: rasp.columns() lists what is in rasp/columns
_FOLDERS = (
    "compat",
    "devices",
    "measure",
    "zoo",
)  # folders that are imported when they are first named: rasp.zoo.get("mobilenet_v2")
__all__ = sorted((*_HOME_OF, *_ROOMS))


def __getattr__(name: str) -> Any:
    if name in (*_ROOMS, *_FOLDERS):
        return importlib.import_module(f"rasp.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rasp' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"rasp.{_HOME_OF[name]}"), name)
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Room(ModuleType):
    """A folder that is a public function as well: called, it is the function of that name in rasp.api."""

    def __call__(self) -> Any:
        return getattr(importlib.import_module("rasp.api"), self.__name__.rpartition(".")[2])()


class _Package(ModuleType):
    """Keeps `rasp.profile` the function when Python, having imported rasp/profile.py, would put the module there."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _ROOMS:
            value.__class__ = _Room
        if not isinstance(value, ModuleType) or name not in _HOME_OF:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
