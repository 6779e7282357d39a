"""What a model is and takes, found out in a process of its own: its digest, its default size or length, its inputs."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch
from torch import nn

from ..capture.inputs import as_dtype, is_of_ids
from ..errors import InputError, ModelError, RaspError, UnknownName
from ..zoo import adapters
from ..zoo import list as zoo_names
from .cells import spelled
from .subjects import unpickled

LIBRARY = {"torchvision": "torchvision", "timm": "timm", "hf": "transformers"}


def expanded(words: str) -> list[str]:
    """'timm:resnet*' → every model whose name fits; other words as they are."""
    origin, colon, pattern = words.rpartition(":")
    if not any(mark in words for mark in "*?[") or "/" in words or origin not in ("", "torchvision", "timm"):
        return [words]
    names = _names(origin)
    found = [f"{origin}{colon}{name}" for name in names if fnmatchcase(name, pattern)]
    if not found:
        raise UnknownName(f"{origin or 'built-in'} model like", pattern, names)
    return found


def _names(origin: str) -> list[str]:
    if origin == "torchvision":
        return list(adapters._library("torchvision.models", "torchvision").list_models())
    if origin == "timm":
        return list(adapters._library("timm", "timm").list_models())
    return zoo_names()


def refused(words: tuple[str, str]) -> dict[str, str]:
    """What is wrong with the name of a dtype or device, if anything."""
    option, name = words
    try:
        if option == "devices":
            torch.device(name.partition("@")[0])
        elif not as_dtype(name).is_floating_point:
            return {"error": f"dtypes={name!r} is not a floating dtype: it says what the model's floats would be."}
    except (RuntimeError, InputError) as error:
        return {"error": f"{option}={name!r} is not known: {str(error).splitlines()[0]}"}
    return {}


def describe(packet: Mapping[str, Any]) -> dict[str, Any]:
    """Digest, kind, size and length of one model. What fails is told with its kind: a wrong name, or a model's own."""
    try:
        if packet.get("words") is not None:
            found = _of_words(packet["words"])
        else:
            found = _of_thing(unpickled(packet) if "pickled" in packet else packet["thing"])
        shapes = _given(packet["given"]) or found.pop("inputs")
    except InputError as error:
        return {"error": str(error), "refused": True}
    except RaspError as error:
        return {"error": str(error), "refused": False}
    except Exception as error:  # noqa: BLE001 - a model's own code may raise anything; its cells will say so
        return {"error": f"{type(error).__name__}: {error}", "refused": False}
    return {**found, **_kind(shapes)}


def _of_words(words: str) -> dict[str, Any]:
    source = adapters.source(words)
    origin, colon, rest = words.partition(":")
    if colon and origin in LIBRARY:
        identity = [words, metadata.version(LIBRARY[origin]), *_texts(rest if origin == "hf" else "")]
    elif colon:
        place = words.rpartition(":")[0]
        home = sys.modules.get(Path(place).stem if place.endswith(".py") else place)
        identity = [
            words,
            *_texts(place),
            *_sources(vars(home) if home else {}, place),
            *_sources(_names_of(source.build)),
        ]
    else:
        identity = [words]
    return {"digest": _digest(identity), "inputs": _default(source)}


def _default(source: adapters.Source) -> list[tuple[tuple[int, ...], bool]]:
    """Shapes of the inputs that the model takes by default, and whether they are floats."""
    if source.given is None:
        return []
    try:
        taken = source.given(1)
    except InputError:
        return []
    if "inputs" in taken:
        return list(_tensors(taken["inputs"]))
    return _given(taken)


def _given(taken: Mapping[str, Any]) -> list[tuple[tuple[int, ...], bool]]:
    shapes, dtypes = taken.get("input_shape"), taken.get("dtypes")
    if shapes is None:
        return []
    if isinstance(shapes, Mapping):
        kinds = dtypes if isinstance(dtypes, Mapping) else {}
        return [(tuple(shape), takes_floats(kinds.get(name), name)) for name, shape in shapes.items()]
    many = list(shapes) if shapes and isinstance(shapes[0], (tuple, list)) else [shapes]
    kinds_of = list(dtypes) if isinstance(dtypes, (tuple, list)) else [dtypes] * len(many)
    return [(tuple(shape), takes_floats(dtype)) for shape, dtype in zip(many, kinds_of)]


def takes_floats(dtype: Any, name: str = "") -> bool:
    """Whether an input is of floats, by its dtype or else by its name, as rasp.profile makes it."""
    return not is_of_ids(name) if dtype is None else as_dtype(dtype).is_floating_point


def _tensors(value: Any) -> Iterator[tuple[tuple[int, ...], bool]]:
    if isinstance(value, torch.Tensor):
        yield tuple(value.shape), value.is_floating_point()
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _kind(shapes: list[tuple[tuple[int, ...], bool]]) -> dict[str, Any]:
    """An image has its height and width last; tokens are whole numbers, batch × length."""
    for shape, is_float in shapes:
        if is_float and len(shape) >= 3:
            return {"kind": "pixels", "size": (shape[-2], shape[-1])}
    for shape, is_float in shapes:
        if not is_float and len(shape) == 2:
            return {"kind": "tokens", "length": shape[-1]}
    return {"kind": "other" if shapes else None}


# -- identity ----------------------------------------------------------------------------------------------------------


def _of_thing(thing: Any) -> dict[str, Any]:
    """A module by its structure and code (its weights do not count), a function by its own and its module's source."""
    if isinstance(thing, nn.Module):
        return {"digest": _digest([*_structure(thing), *_classes(thing)]), "inputs": []}
    named = [getattr(thing, "__qualname__", repr(type(thing)))]
    code = getattr(thing, "__code__", None)
    if code is not None:
        named += [_plain(code), _plain(getattr(thing, "__defaults__", None))]
        named += [_plain(cell.cell_contents) for cell in getattr(thing, "__closure__", None) or ()]
    if hasattr(thing, "func"):  # functools.partial
        named += [_plain((thing.args, thing.keywords)), _of_thing(thing.func)["digest"]]
    return {"digest": _digest([*named, *_sources(_names_of(thing), getattr(thing, "__module__", ""))]), "inputs": []}


def _structure(model: nn.Module) -> Iterator[str]:
    for path, module in model.named_modules(remove_duplicate=False):
        yield f"{path} {type(module).__module__}.{type(module).__qualname__} {module.training} {module.extra_repr()}"
        for name, value in sorted(vars(module).items()):
            if not name.startswith("_"):
                yield f"{name}={_plain(value)}"
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None:
                yield f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.layout} {tensor.device}"
                yield f"{name} {tensor.requires_grad}"
    tied: dict[int, str] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        if tied.setdefault(id(tensor), name) != name:
            yield f"{name} is {tied[id(tensor)]}"


def _classes(model: nn.Module) -> list[str]:
    """Source of the files that the model's own classes stand in."""
    return _sources({kind.__qualname__: kind for module in model.modules() for kind in type(module).__mro__})


def _plain(value: Any, depth: int = 4) -> str:
    """A value in words that are the same in every process: no address, no order of a set."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, complex)):
        return repr(value)
    if isinstance(value, torch.Tensor):
        return f"tensor {tuple(value.shape)} {value.dtype}"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{_plain(k, depth)}:{_plain(v, depth - 1)}" for k, v in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ",".join(sorted(_plain(item, depth - 1) for item in value)) + "}"
    if isinstance(value, (tuple, list)):
        return "[" + ",".join(_plain(item, depth - 1) for item in value) + "]"
    if isinstance(value, CodeType):
        return spelled(value)
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return f"{getattr(value, '__module__', '')}.{name}"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, (torch.dtype, torch.device, nn.Module)) or depth <= 0:
        return kind if isinstance(value, nn.Module) or depth <= 0 else str(value)
    return f"{kind}({_plain(getattr(value, '__dict__', None), depth - 1)})"


def _sources(namespace: Mapping[str, Any], place: str = "") -> list[str]:
    """Text of the user's own files that these names lead to, one to the next; the version of what is installed."""
    found: dict[str, str] = {}
    open_ones = list(namespace.values())
    while open_ones:
        value = open_ones.pop()
        home = value if isinstance(value, ModuleType) else sys.modules.get(_home(value))
        file = _is_own(home)
        if file and file not in found:
            found[file] = _digest(_texts(file))
            open_ones += [*list(vars(home).values()), *_imported(home, file)]
    installed = place and not place.endswith(".py") and not _is_own(sys.modules.get(place))
    return [*sorted(found.values()), *([_version(place.partition(".")[0])] if installed else [])]


def _imported(module: Any, file: str) -> Iterator[ModuleType]:
    """The modules that a file imports: of `from sizes import WIDTH` only a number is left among its names."""
    for node in ast.walk(ast.parse(Path(file).read_text(errors="replace"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = (getattr(module, "__package__", "") or "").split(".")
            above = package[: len(package) - node.level + 1] if node.level else []
            names = [".".join(filter(None, [*above, node.module or ""]))]
        else:
            continue
        yield from (sys.modules[name] for name in names if name in sys.modules)


def _home(value: Any) -> str:
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def _names_of(thing: Any) -> Mapping[str, Any]:
    """The names that a function or class is written with: its module's, and itself."""
    thing = inspect.unwrap(thing) if callable(thing) else thing
    return getattr(thing, "__globals__", None) or {"itself": thing}


def _is_own(module: Any) -> str:
    """The file of a module that is neither installed nor part of Python or rasp; empty else."""
    file = getattr(module, "__file__", None) or ""
    places = (*_INSTALLED, str(Path(__file__).resolve().parent.parent))
    return file if file.endswith(".py") and not str(Path(file).resolve()).startswith(places) else ""


_INSTALLED = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except (metadata.PackageNotFoundError, ValueError):
        return package


def _texts(path: str) -> list[str]:
    """What a file says, or the configuration in a folder."""
    place = Path(path) / "config.json" if path and Path(path).is_dir() else Path(path)
    return [place.read_text(errors="replace")] if path and place.is_file() else []


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def refuse(found: Mapping[str, Any], name: str) -> None:
    """Raise what a description was refused with."""
    if found.get("refused"):
        raise InputError(f"{name}: {found['error']}")
    if "error" in found:
        raise ModelError(f"{name}: {found['error']}")
