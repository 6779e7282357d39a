"""A profile as a JSON file: the whole Trace in tables, each tensor spec once. Described in docs/schema.md.

`VERSION` grows when an older rasp could no longer read the file; unknown keys are ignored, so that keys may be added.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import FileError
from .ledger import Given
from .records import FunctionCall, ModuleCall, ModuleInfo, OpCall, OpSpec, Storage, TensorInfo, TensorSpec, Trace
from .rules import FIELDS, Work

SCHEMA = "rasp.profile"
VERSION = 1
MODULE_KEYS = ("path", "type", "parent", "tensors", "training", "hyper", "children", "names")
LATER_MODULE_KEYS = ("lineage", "again", "extra")  # absent from files of earlier versions
STORAGE_KEYS = ("nbytes", "kind", "born", "died")


def dumps(trace: Trace, info: dict[str, Any], given: Given) -> str:
    """The text of a profile file."""
    data = {"schema": SCHEMA, "version": VERSION, "info": info, **_Writer().trace(trace)}
    data["rules"] = {
        "specs": {str(index): _work(work) for index, work in given.specs.items()},
        "calls": {str(index): _work(work) for index, work in given.calls.items()},
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False) + "\n"


def load(path: str | Path) -> tuple[Trace, dict[str, Any], Given]:
    """Read a profile file; anything that is not one raises FileError."""
    data = read_json(path)
    if not isinstance(data, dict) or "schema" not in data:
        raise FileError(f"{path} is JSON, but not a profile written by rasp: it has no 'schema'.")
    if data["schema"] == "rasp.report":
        raise FileError(
            f"{path} is a report (a table), not a profile: it holds too little to be loaded. "
            "Save the profile itself with rasp.profile(...).save('name.json')."
        )
    if data["schema"] != SCHEMA:
        raise FileError(f"{path} has the schema {data['schema']!r}; rasp.load reads {SCHEMA!r}.")
    version = data.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise FileError(f"{path} is of version {version}; this rasp reads up to {VERSION}. Update rasp to load it.")
    try:
        return _Reader(data).trace(), dict(data["info"]), _given(data.get("rules", {}))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise FileError(f"{path} is damaged: {type(error).__name__}: {error}.") from error


def read_json(path: str | Path) -> Any:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not a text file, so it is no profile written by rasp.") from error
    except OSError as error:
        raise FileError(f"{path} could not be read: {error.strerror or error}.") from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FileError(f"{path} is not a profile, or cut off: {error}.") from error


class _Writer:
    """Turns records into JSON values; tensor specs become indices into one table."""

    def __init__(self) -> None:
        self.table: dict[TensorSpec, int] = {}

    def trace(self, trace: Trace) -> dict[str, Any]:
        found = {
            "specs": [self.op_spec(spec) for spec in trace.specs],
            "ops": {name: [_listed(getattr(op, name)) for op in trace.ops] for name in OpCall._fields},
            "calls": [self.call(call) for call in trace.calls],
            "modules": [self.module(module) for module in trace.modules],
            "tensors": [self.tensor(tensor) for tensor in trace.tensors],
            "storages": {key: [getattr(storage, key) for storage in trace.storages] for key in STORAGE_KEYS},
            "inputs": [[name, self.index(spec)] for name, spec in trace.inputs],
            "outputs": [self.index(spec) for spec in trace.outputs],
            "notes": trace.notes,
            "untraced": trace.untraced,
            "turn": trace.turn,
            "returned": trace.returned,
            "serves": [list(pair) for pair in trace.serves.items()],
            "functions": None if trace.functions is None else [self.function(call) for call in trace.functions],
        }
        table = [[list(s.shape), list(s.stride), s.dtype, *([] if s.nnz is None else [s.nnz])] for s in self.table]
        return {"tensor_specs": table, **found}

    def index(self, spec: TensorSpec) -> int:
        return self.table.setdefault(spec, len(self.table))

    def op_spec(self, spec: OpSpec) -> dict[str, Any]:
        found = {"op": spec.name, "overload": spec.overload, "args": self.plain(spec.args), "out": self.plain(spec.out)}
        optional = {"kwargs": self.entries(spec.kwargs), "same": list(spec.same), "mutates": spec.mutates}
        return found | {key: value for key, value in optional.items() if value}

    def call(self, call: ModuleCall) -> list[Any]:
        specs = [[self.index(spec) for spec in group] for group in (call.inputs, call.outputs)]
        given = [] if call.args is None else [self.plain(call.args), self.entries(call.kwargs or {})]
        if call.returned is not None:
            given = [*(given or [None, {}]), self.plain(call.returned)]
        return [call.module, call.parent, call.number, *specs, call.start, call.end, *given]

    def module(self, module: ModuleInfo) -> dict[str, Any]:
        later = {key: value for key in LATER_MODULE_KEYS if (value := getattr(module, key))}
        return {key: self.plain(value) for key, value in {**_named(module, MODULE_KEYS), **later}.items()}

    def function(self, call: FunctionCall) -> list[Any]:
        given = [self.plain(call.args), self.entries(call.kwargs), self.plain(call.out)]
        return [call.name, *given, call.owner, call.parent, call.start, call.end, *([call.place] if call.place else [])]

    def tensor(self, tensor: TensorInfo) -> dict[str, Any]:
        fields = {key: getattr(tensor, key) for key in ("names", "kind", "trainable", "storage", "logical")}
        return fields | {"spec": self.index(tensor.spec)}

    def entries(self, value: dict[str, Any]) -> dict[str, Any]:
        return {str(key): self.plain(item) for key, item in value.items()}

    def plain(self, value: Any) -> Any:
        """A value as JSON: a tensor spec is {"t": index}, a dict {"d": {…}}, a float that JSON lacks {"f": "inf"}."""
        if isinstance(value, TensorSpec):
            return {"t": self.index(value)}
        if isinstance(value, (tuple, list)):
            return [self.plain(item) for item in value]
        if isinstance(value, dict):
            return {"d": self.entries(value)}
        if isinstance(value, float) and not math.isfinite(value):
            return {"f": repr(value)}
        return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


class _Reader:
    """The way back."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.specs = [TensorSpec(tuple(s[0]), tuple(s[1]), s[2], *s[3:]) for s in data["tensor_specs"]]

    def trace(self) -> Trace:
        data, ops = self.data, self.data["ops"]
        rows = zip(
            ops["spec"], ops["owner"], ops["phase"], map(tuple, ops["reads"]), map(tuple, ops["writes"]), strict=True
        )
        trace = Trace(
            specs=[self.op_spec(item) for item in data["specs"]],
            ops=[OpCall(*row) for row in rows],
            calls=[self.call(item) for item in data["calls"]],
            modules=[self.module(item) for item in data["modules"]],
            tensors=[self.tensor(item) for item in data["tensors"]],
            storages=[Storage(*row) for row in zip(*(data["storages"][key] for key in STORAGE_KEYS), strict=True)],
            inputs=[(name, self.specs[index]) for name, index in data["inputs"]],
            outputs=[self.specs[index] for index in data["outputs"]],
            notes=list(data["notes"]),
            untraced=list(data["untraced"]),
            functions=[self.function(item) for item in functions]
            if (functions := data.get("functions"))
            else functions,
            turn=data.get("turn"),
            returned=list(data.get("returned", ())),
            serves=dict(data.get("serves", ())),
        )
        _check(trace)
        return trace

    def op_spec(self, item: dict[str, Any]) -> OpSpec:
        kwargs = self.named(item.get("kwargs", {}))
        same, mutates = tuple(item.get("same", ())), bool(item.get("mutates", False))
        return OpSpec(
            item["op"], item["overload"], self.value(item["args"]), kwargs, self.value(item["out"]), same, mutates
        )

    def call(self, item: list[Any]) -> ModuleCall:
        module, parent, number, inputs, outputs, start, end, *given = item
        taken, made = (tuple(self.specs[index] for index in group) for group in (inputs, outputs))
        args, kwargs = (self.value(given[0]), self.named(given[1]) or None) if given else (None, None)
        returned = self.value(given[2]) if given[2:] else None
        return ModuleCall(module, parent, number, taken, made, start, end, args, kwargs, returned)

    def function(self, item: list[Any]) -> FunctionCall:
        name, args, kwargs, out, *rest = item  # the place may be absent
        return FunctionCall(name, self.value(args), self.named(kwargs), self.value(out), *rest)

    def named(self, values: dict[str, Any]) -> dict[str, Any]:
        return {key: self.value(value) for key, value in values.items()}

    def module(self, item: dict[str, Any]) -> ModuleInfo:
        lists = {key: list(item[key]) for key in ("tensors", "children", "names")}
        return ModuleInfo(
            path=item["path"], type=item["type"], parent=item["parent"], training=item["training"],
            hyper=self.value(item["hyper"]), lineage=tuple(item.get("lineage", ())),
            again=[(place, name, module) for place, name, module in item.get("again", ())], extra=item.get("extra"),
            **lists,
        )  # fmt: skip

    def tensor(self, item: dict[str, Any]) -> TensorInfo:
        fields = {key: item[key] for key in ("names", "kind", "trainable", "storage", "logical")}
        return TensorInfo(spec=self.specs[item["spec"]], **fields)

    def value(self, item: Any) -> Any:
        if isinstance(item, list):
            return tuple(self.value(part) for part in item)
        if not isinstance(item, dict):
            return item
        if "t" in item:
            return self.specs[item["t"]]
        return float(item["f"]) if "f" in item else {key: self.value(part) for key, part in item["d"].items()}


def _check(trace: Trace) -> None:
    """Every index points to something, so that a damaged file is met here and not in the middle of a table."""
    limits: list[tuple[str, int, Callable[[], list[int]]]] = [
        ("operator", len(trace.specs), lambda: [op.spec for op in trace.ops]),
        ("call", len(trace.calls), lambda: [op.owner for op in trace.ops] + [call.parent for call in trace.calls]),
        ("call", len(trace.calls), lambda: [function.owner for function in trace.functions or ()]),
        (
            "module",
            len(trace.modules),
            lambda: (
                [call.module for call in trace.calls] + [max(m.parent, -1) for m in trace.modules]
            ),  # -2: not registered
        ),
        ("tensor", len(trace.tensors), lambda: [t for module in trace.modules for t in module.tensors]),
    ]
    for kind, limit, indices in limits:
        wrong = [index for index in indices() if index >= limit or index < -1]
        if wrong:
            raise ValueError(f"there is no {kind} {wrong[0]}")


def _named(record: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: getattr(record, key) for key in keys}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _work(work: Work) -> dict[str, int]:
    return {name: value for name in FIELDS if (value := getattr(work, name))}


def _given(data: dict[str, Any]) -> Given:
    specs, calls = (
        {int(index): Work(**{"read": 0, "write": 0, **work}) for index, work in data.get(kind, {}).items()}
        for kind in ("specs", "calls")
    )
    return Given(specs, calls)
