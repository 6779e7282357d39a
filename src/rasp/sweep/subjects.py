"""The models of a sweep: names, functions, modules → what another process can build them from, and what they take."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import InputError

ADVICE = (
    "Give a function or class from the top of a module, its name (package.module:factory, file.py:factory), "
    "or sweep with on='here', which starts no process."
)


@dataclass(frozen=True)
class Subject:
    """A model before it is built: words that name it, or the function or module itself, and inputs the user gave."""

    name: str
    words: str | None = None
    thing: Any = None
    given: dict[str, Any] = field(default_factory=dict)  # input_shape and dtypes, as rasp.profile takes them

    def packet(self, here: bool) -> dict[str, Any]:
        """What a cell builds the model from: here the thing itself, in another process its pickle."""
        found: dict[str, Any] = {"name": self.name, "words": self.words, "given": self.given}
        if self.words is None and here:
            found["thing"] = self.thing
        elif self.words is None:
            found["pickled"], found["main"] = pickled(self.thing, self.name), main_file()
        return found


@dataclass(frozen=True)
class Described:
    """A model as the plan needs it. `kind`: it takes 'pixels' (`size`), 'tokens' (`length`), or what is not known."""

    name: str
    digest: str
    subject: Subject
    kind: str | None = None
    size: tuple[int, int] | None = None
    length: int | None = None

    @property
    def given(self) -> str:
        return repr(sorted(self.subject.given.items()))


def subjects(models: Any, input_shape: Any = None, input_dtypes: Any = None) -> list[Subject]:
    """One model, several, or a dict of names → Subjects with names that differ."""
    named = list(models.items()) if isinstance(models, Mapping) else [(None, one) for one in _each(models)]
    if not named:
        raise InputError("There are no models to sweep: give at least one.")
    found = [_subject(name, one) for name, one in named]
    if isinstance(input_shape, Mapping) and not isinstance(models, str):
        shapes: Callable[[str], Any] = _by_model(input_shape, [one.name for one in found])
    else:
        shapes = lambda name: input_shape  # noqa: E731
    return _unlike([replace(one, given=_given(shapes(one.name), input_dtypes)) for one in found])


def _by_model(shapes: Mapping[str, Any], names: list[str]) -> Callable[[str], Any]:
    """A dict is by model where its keys are models', else by argument of the forward."""
    if any(name in shapes for name in names):
        return lambda name: shapes.get(name)
    return lambda name: dict(shapes)


def _given(shape: Any, dtypes: Any) -> dict[str, Any]:
    return {} if shape is None else {"input_shape": shape, **({"dtypes": dtypes} if dtypes is not None else {})}


def _each(models: Any) -> Iterable[Any]:
    if isinstance(models, str):
        return [word.strip() for word in models.split(",") if word.strip()]
    if callable(models) or _is_module(models) or not isinstance(models, Iterable):
        return [models]
    return models


def _subject(name: str | None, one: Any) -> Subject:
    if isinstance(one, str):
        return Subject(name or one, words=one)
    if _is_module(one):
        return Subject(name or type(one).__name__, thing=one)
    if callable(one):
        return Subject(str(name or getattr(one, "__name__", type(one).__name__)), thing=one)
    raise InputError(f"A model of a sweep is a name, a torch.nn.Module or a function that makes one; got {one!r}.")


def _unlike(found: list[Subject]) -> list[Subject]:
    """The same name twice is one model; two models of one name are refused."""
    by_name: dict[str, Subject] = {}
    for one in found:
        other = by_name.setdefault(one.name, one)
        if other.words != one.words or other.thing is not one.thing:
            raise InputError(f"Two models are called {one.name!r}. Give a dict with a name for each.")
    return list(by_name.values())


def _is_module(one: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(one, torch.nn.Module)


# -- to another process ------------------------------------------------------------------------------------------------


def pickled(thing: Any, name: str) -> bytes:
    """A function or module as bytes; by value (by cloudpickle, where installed) if it has no name to find it by."""
    local = getattr(thing, "__module__", None) == "__main__" and main_file() is None
    if not local:
        try:
            return pickle.dumps(thing)
        except Exception as error:  # noqa: BLE001 - whatever the model's own pickling raises
            reason: Exception | None = error
    else:
        reason = None
    with contextlib.suppress(Exception):
        return bytes(_by_value(thing))
    said = f": {type(reason).__name__}: {reason}." if reason else ": it was defined at a prompt."
    raise InputError(f"The model {name!r} cannot be sent to a process of its own{said} {ADVICE}")


def _by_value(thing: Any) -> bytes:
    for place in ("cloudpickle", "ray.cloudpickle"):
        with contextlib.suppress(ImportError):
            made: bytes = importlib.import_module(place).dumps(thing)
            return made
    raise InputError("cloudpickle is not installed")


def main_file() -> str | None:
    """The script that runs, where it is a file: what it defines is found there again."""
    main = sys.modules.get("__main__")
    path = str(getattr(main, "__file__", None) or "")
    return os.path.abspath(path) if path.endswith(".py") and getattr(main, "__spec__", None) is None else None


def unpickled(packet: Mapping[str, Any]) -> Any:
    """The function or module again, in another process."""
    if packet.get("main"):
        _as_main(packet["main"])
    return pickle.loads(packet["pickled"])


def _as_main(path: str) -> None:
    """Run the user's script once under another name, so that its classes are found; its guarded part does not run."""
    from multiprocessing import spawn

    main = sys.modules.get("__main__")
    if getattr(main, "__file__", None) != path:
        spawn._fixup_main_from_path(path)  # type: ignore[attr-defined]
