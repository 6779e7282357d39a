"""Settings that a person may change for the process: rasp.CFG.profile.num_batches = 200."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import InputError, UnknownName

DEFAULTS: dict[str, dict[str, Any]] = {"profile": {"num_batches": 100, "warmup_batches": 10}}


class Section:
    """Named settings; a name that does not exist is refused, and so is a value of another type."""

    def __init__(self, values: Mapping[str, Any], where: str = "") -> None:
        made = {k: Section(v, f"{where}{k}.") if isinstance(v, Mapping) else v for k, v in values.items()}
        object.__setattr__(self, "_values", made)
        object.__setattr__(self, "_where", where)
        object.__setattr__(self, "_given", set())

    def __getattr__(self, name: str) -> Any:
        values: dict[str, Any] = object.__getattribute__(self, "_values")
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in values:
            raise UnknownSetting(f"{self._where}{name}", [f"{self._where}{known}" for known in values])
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        old = getattr(self, name)
        if isinstance(old, Section):
            old.update(value)
            return
        _check(f"{self._where}{name}", value)
        self._values[name] = value
        self._given.add(name)

    def __delattr__(self, name: str) -> None:
        """Put a setting back to its default."""
        getattr(self, name)
        self._values[name] = _default(f"{self._where}{name}")
        self._given.discard(name)

    def given(self, name: str) -> bool:
        """Whether a setting was set by name, be it to its default."""
        return name in object.__getattribute__(self, "_given")

    def update(self, values: Mapping[str, Any]) -> None:
        """Set many, to any depth; settings not named keep their value. Nothing changes when one of them is refused."""
        if not isinstance(values, Mapping):
            raise InputError(f"Settings of {self._where.rstrip('.') or 'rasp'} are given as a dict; got {values!r}.")
        self._dry_run(values)
        for name, value in values.items():
            setattr(self, name, value)
            if value == _default(f"{self._where}{name}"):
                self._given.discard(name)  # as when all settings are put back

    def _dry_run(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            old = getattr(self, name)
            if not isinstance(old, Section):
                _check(f"{self._where}{name}", value)
            elif isinstance(value, Mapping):
                old._dry_run(value)
            else:
                raise InputError(f"Settings of {self._where}{name} are given as a dict; got {value!r}.")

    def as_dict(self) -> dict[str, Any]:
        return {k: v.as_dict() if isinstance(v, Section) else v for k, v in self._values.items()}

    def __dir__(self) -> list[str]:
        return [*self._values, "update", "as_dict", "given"]

    def __repr__(self) -> str:
        return f"CFG({self.as_dict()})"


class UnknownSetting(UnknownName, AttributeError):  # type: ignore[misc]  # both have a `name`
    """A setting that does not exist."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__("setting", name, known)


def _default(name: str) -> Any:
    found: Any = DEFAULTS
    for part in name.split("."):
        found = found[part]
    return found


def _check(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{name} is a whole number of 0 or more; got {value!r}.")


CFG = Section(DEFAULTS)


def set_config(config: Mapping[str, Any] | None = None, **sections: Any) -> None:
    """Change settings: set_config({'profile': {'num_batches': 200}}); those not named stay as they are."""
    CFG.update({**(config or {}), **sections})


def get_config() -> dict[str, Any]:
    """All settings, as a dict that set_config takes."""
    return CFG.as_dict()
