"""The plain data of one run: a Trace of module calls, operator calls, tensors and storages. No torch here.

Operators repeat (the same operator on the same shapes), so a Trace stores each distinct one once, as an OpSpec, and
every occurrence as a light OpCall that points to it. A rule is a function of an OpSpec, so its result is shared as
well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, Literal, NamedTuple

ITEMSIZE: dict[str, float] = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    "complex32": 4, "complex64": 8, "complex128": 16, "qint8": 1, "quint8": 1, "qint32": 4,
    "quint4x2": 1, "quint2x4": 1,
    "bits8": 1, "bits16": 2, "uint1": 1, "uint2": 1, "uint3": 1, "uint4": 1, "uint5": 1, "uint6": 1, "uint7": 1,
    "int1": 1, "int2": 1, "int3": 1, "int4": 1, "int5": 1, "int6": 1, "int7": 1,
}  # fmt: skip
FLOATING = ("float", "bfloat", "complex")

Phase = Literal["forward", "backward", "recompute", "optimiser"]
PHASES: tuple[Phase, ...] = ("forward", "backward", "recompute", "optimiser")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Shape, strides and dtype of a tensor; `nnz` for a sparse one."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    nnz: int | None = None

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return int(ITEMSIZE.get(self.dtype, 4))

    @property
    def is_floating(self) -> bool:
        return self.dtype.startswith(FLOATING)

    @property
    def nbytes(self) -> int:
        return self.numel * self.itemsize

    @property
    def touched(self) -> int:
        """Elements in memory that this tensor covers: an expanded dimension counts once, overlapping windows once."""
        if not self.stride:
            return self.numel if self.nnz is None else self.nnz
        if 0 in self.shape:
            return 0
        distinct = prod(n for n, s in zip(self.shape, self.stride) if s != 0)
        span = 1 + sum((n - 1) * abs(s) for n, s in zip(self.shape, self.stride))
        return min(distinct, span)

    @property
    def touched_bytes(self) -> int:
        return self.touched * self.itemsize


@dataclass(slots=True, eq=False)
class OpSpec:
    """One distinct operator call: what a rule looks at.

    `args` are the positional arguments with defaults filled in, `kwargs` the keyword-only ones likewise; every tensor
    is a TensorSpec, every list a tuple, dtypes are plain names ("float32"). `out` is a TensorSpec, a tuple of them, or
    None. `same` lists the positions (in `tensors`) of inputs that are the very same view as an earlier input.
    """

    name: str
    overload: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any
    same: tuple[int, ...] = ()
    mutates: bool = False

    @property
    def tensors(self) -> list[TensorSpec]:
        """Every tensor among the arguments, in order, lists flattened."""
        return [*leaves(self.args), *leaves(self.kwargs)]

    @property
    def outputs(self) -> list[TensorSpec]:
        return list(leaves(self.out))


def leaves(value: Any) -> Iterator[TensorSpec]:
    """The TensorSpecs in a nest of tuples, lists and dicts."""
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)


class OpCall(NamedTuple):
    """One occurrence of an operator: which (`spec`, an index), in which phase, for which module call, on which
    storages.
    """

    spec: int
    owner: int
    phase: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]


StorageKind = Literal[
    "parameter", "buffer", "input", "constant", "activation", "gradient", "optimiser state", "temporary"
]


class Storage(NamedTuple):
    """A block of memory: alive from operator `born` (-1: before the run) until just before operator `died` (None: to
    the end).
    """

    nbytes: int
    kind: StorageKind
    born: int = -1
    died: int | None = None


@dataclass(slots=True)
class TensorInfo:
    """A parameter or buffer of the model. `names` has every path it is reachable by; the first is where it is
    registered first.
    """

    names: list[str]
    spec: TensorSpec
    kind: Literal["parameter", "buffer"]
    trainable: bool
    storage: int
    logical: int  # elements it stands for: more than its own where values are packed (4-bit weights)

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes


@dataclass(slots=True)
class ModuleInfo:
    """A module of the model: `path` ("" for the root), class, own tensors (indices into Trace.tensors), plain
    attributes.
    """

    path: str
    type: str
    parent: int
    tensors: list[int]
    training: bool
    hyper: dict[str, Any] = field(default_factory=dict)
    children: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # every path, when the module is shared
    lineage: tuple[str, ...] = ()  # its class and those it derives from, below Module: "torch.nn.Conv2d"
    again: list[tuple[int, str, int]] = field(default_factory=list)  # children met before: place, name, module
    extra: str | None = None  # what the module prints of itself; noted with the function level


@dataclass(slots=True)
class ModuleCall:
    """One call of one module, its `number`-th; operators `start:end` ran inside it (descendants included)."""

    module: int
    parent: int
    number: int
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    start: int = 0
    end: int = 0
    args: tuple[Any, ...] | None = None  # positional arguments, nested; None: `inputs` says it all
    kwargs: dict[str, Any] | None = None
    returned: Any = None  # what came out, nested; None: its first tensor is the first of `outputs`


class FunctionCall(NamedTuple):
    """One call of a torch function as it was spelled ("torch.nn.functional.linear", "torch.Tensor.__matmul__"), for
    module call `owner`, inside the function call `parent` (-1: none); operators `start:end` ran in it. `place`: where
    it was found at that moment ("torch.nn.functional.linear"), so that a tool which stands there hears of the call;
    empty where the model held the function from before, and for functions before which no tool stands.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any
    owner: int
    parent: int = -1
    start: int = 0
    end: int = 0
    place: str = ""


@dataclass
class Trace:
    """What happened in one run. Index 0 of `calls` is the root module's call; operators point to calls, calls to
    modules.
    """

    specs: list[OpSpec]
    ops: list[OpCall]
    calls: list[ModuleCall]
    modules: list[ModuleInfo]
    tensors: list[TensorInfo]
    storages: list[Storage]
    inputs: list[tuple[str, TensorSpec]] = field(default_factory=list)
    outputs: list[TensorSpec] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    untraced: list[dict[str, Any]] = field(
        default_factory=list
    )  # work that no operator shows: {op, module, call, bytes}
    functions: list[FunctionCall] | None = None  # None: not recorded
    turn: int | None = None  # the first operator after the loss; None: no backward
    returned: list[int] = field(default_factory=list)  # storages that the outputs lie in
    serves: dict[int, int] = field(default_factory=dict)  # gradient or optimiser state → the parameter's storage

    @cached_property
    def spec_counts(self) -> dict[int, int]:
        """How often each OpSpec occurs, over all phases."""
        counts: dict[int, int] = {}
        for op in self.ops:
            counts[op.spec] = counts.get(op.spec, 0) + 1
        return counts
