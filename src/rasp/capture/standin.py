"""Stand-ins for the user's model: a tree of new module objects whose tensors are on meta (or share the real storage).

The user's modules are read, never written. Every module gets a shadow of the same class with a copied `__dict__`;
parameters and buffers become stand-ins by one identity map, so ties stay ties; attributes that hold tensors, modules,
bound methods or containers of those are mapped likewise.
"""

from __future__ import annotations

import contextlib
import functools
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..records import ModuleInfo, TensorInfo, TensorSpec
from .blueprint import Blueprint, look, put, take
from .plans import META, shut
from .recorder import Recorder
from .specs import known_spec as _spec_get
from .specs import spec_of, tensor_spec
from .values import Values

Tensor = torch.Tensor
Parameter = nn.Parameter
OWN = frozenset(nn.Module().__dict__) | {"_is_hf_initialized", "_forward_module", "_is_fsdp_managed_module"}
HOOKS = tuple(name for name in nn.Module().__dict__ if "hooks" in name and "state_dict" not in name)
ATOMS = (
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    type(None),
    type,
    torch.dtype,
    torch.device,
    torch.Size,
    types.FunctionType,
)
PLAIN = frozenset((int, float, bool, str))
SMALL_BUFFER = 4096
SMALL_COPY = 1 << 24  # bytes: a real run gets a copy of buffers up to this size
STRIDED = torch.strided
new_object = object.__new__
set_attribute = object.__setattr__
empty_strided = torch.empty_strided
make_subclass = torch.Tensor._make_subclass


def unwrapped(module: nn.Module) -> nn.Module:
    """The module inside torch.compile, DataParallel and DistributedDataParallel wrappers."""
    while True:
        kind = type(module).__name__
        if kind == "OptimizedModule" and "_orig_mod" in module._modules:
            module = module._modules["_orig_mod"]  # type: ignore[assignment]
        elif kind in ("DataParallel", "DistributedDataParallel") and "module" in module._modules:
            module = module._modules["module"]  # type: ignore[assignment]
        else:
            return module


def is_scripted(module: nn.Module) -> bool:
    return isinstance(module, torch.jit.ScriptModule)


class StandIns:
    """Builds the shadow tree and keeps what is known of it: modules, tensors, and who stands for whom."""

    def __init__(
        self, recorder: Recorder, values: Values, *, device: torch.device | None, dtype: torch.dtype | None
    ) -> None:
        self.rec = recorder
        self.values = values
        self.device = device  # META for shapes alone; a real device for a real run; None = where each tensor lives
        self.dtype = dtype
        self.modules: list[ModuleInfo] = []
        self.tensors: list[TensorInfo] = []
        self.shadows: dict[int, Any] = {}
        self.stand_ins: dict[int, Tensor] = {}
        self.infos: dict[int, TensorInfo] = {}
        self.originals: dict[int, tuple[Any, Any]] = {}
        self.keep: list[Any] = []  # the user's modules, in the order of `pending`
        self.kept_tensors: list[Tensor] = []
        self.indices: dict[int, int] = {}
        self.scripted: list[nn.Module] = []
        self.lazy = False
        self.classes: set[type[nn.Module]] = set()
        self.pending: list[tuple[Any, dict[str, Any], ModuleInfo]] = []  # every shadow, its attributes, its record
        self.mapped: list[tuple[Any, dict[str, Any], ModuleInfo]] = []  # those whose attributes must be looked at
        self.facts: list[list[Any]] = []  # of every module in `pending`: what its tensors and children look like
        self.slotted: list[tuple[nn.Module, Any]] = []  # modules that hold something outside their __dict__
        self.blueprint: Blueprint | None = None

    def build(
        self, root: nn.Module, boundary: Callable[[Any, int], Any], training: bool | None, *, keep: bool = False
    ) -> Any:
        """The shadow of a model. `boundary(shadow, index)` makes the callable that stands at each module's door.

        `keep` takes the stand-ins of the last capture of the same model, where nothing has changed since.
        """
        self.boundary, self.training = boundary, training
        blueprint = take(root) if keep else None
        shadow = None if blueprint is None else blueprint.renew(root, self)
        if shadow is None:
            shadow = self._module(root, "", -1)
            count = len(self.modules)
            self.mapped = self.pending[:]
            plain = [
                _plain_attributes(module.__dict__, state, info.hyper)
                for module, (_, state, info) in zip(self.keep, self.mapped, strict=True)
            ]
            if keep and not self.scripted and not self.lazy:
                blueprint = Blueprint(self, plain)
            for entry, names in zip(self.mapped, plain):
                if names is None:
                    self._attributes(*entry)
            for entry in self.pending[len(self.mapped) :]:
                self._attributes(*entry)
            for module, twin in self.slotted:
                for slot in slots_of(type(module)):
                    if hasattr(module, slot):
                        set_attribute(twin, slot, self.map(getattr(module, slot), slot))
            self.blueprint = blueprint if len(self.modules) == count and not self.slotted else None
        else:
            count = len(self.modules)
            for entry in self.mapped:
                self._attributes(*entry)
            if len(self.modules) != count:  # an attribute now holds a module that was not there: build anew
                self.rec.restart()
                self.__init__(self.rec, self.values, device=self.device, dtype=self.dtype)  # type: ignore[misc]
                return self.build(root, boundary, training)
            self.blueprint = blueprint
        return shadow

    def note_extras(self) -> None:
        """What each module prints of itself, for layouts that show it; a module that cannot say has none."""
        for module in self.keep:
            with contextlib.suppress(Exception):
                self.modules[self.indices[id(module)]].extra = str(module.extra_repr()) or None

    def finished(self, root: nn.Module) -> None:
        """Keep the blueprint for the next time, if the run left it as it was."""
        if self.blueprint is not None and self.blueprint.intact():
            put(root, self.blueprint)

    @staticmethod
    def part_hooks(state: dict[str, Any]) -> None:
        """Places for hooks of a shadow's own, so that a forward that registers one leaves the user's module alone."""
        for name in HOOKS:
            if not state[name]:
                state[name] = OrderedDict()
        state["_non_persistent_buffers_set"] = set(state["_non_persistent_buffers_set"])

    # -- modules --------------------------------------------------------------------------------------------------

    def _module(self, module: nn.Module, path: str, parent: int) -> Any:
        """The shadow of one module and of all below it; a shared module has one shadow and several names."""
        kind = module.__class__
        if kind not in self.classes:
            module = unwrapped(module)
            kind = module.__class__
        shadow = self.shadows.get(id(module))
        if shadow is not None:
            if path:
                self._met_again(self.indices[id(module)], path, parent)
            return shadow
        index = len(self.modules)
        scripted = kind not in self.classes and is_scripted(module)
        type_name = str(getattr(module, "original_name", kind.__name__)) if scripted else kind.__name__
        info = ModuleInfo(path, type_name, parent, [], module.training, {}, [], [path], lineage(kind))  # type: ignore[arg-type]
        self.modules.append(info)
        self.indices[id(module)] = index
        if parent >= 0 and not type_name.endswith("PackedParams"):  # a holder of packed weights is no layer of its own
            self.modules[parent].children.append(index)
        if scripted:
            return self._scripted(module, info, index)
        self.classes.add(kind)
        shadow = new_object(kind)
        state = module.__dict__.copy()
        set_attribute(shadow, "__dict__", state)
        self.shadows[id(module)] = shadow
        if self.training is not None:
            state["training"] = self.training
        prefix = path + "." if path else ""
        children = state["_modules"]
        facts: list[Any] = [*children, *map(id, children.values())] if children else []
        tensors = state["_parameters"]
        state["_parameters"] = self._registered_all(tensors, prefix, info, "parameter", facts) if tensors else {}
        tensors = state["_buffers"]
        state["_buffers"] = self._registered_all(tensors, prefix, info, "buffer", facts) if tensors else {}
        state["_modules"] = (
            {k: None if m is None else self._module(m, prefix + k, index) for k, m in children.items()}
            if children
            else {}
        )
        if hasattr(kind, "_weight_bias") and not children:
            self._packed(module, prefix, info)
        self.part_hooks(state)
        state["_compiled_call_impl"] = self.boundary(shadow, index)
        self.keep.append(module)
        self.facts.append(facts)
        self.pending.append((shadow, state, info))
        if slots_of(kind):
            self.slotted.append((module, shadow))
        return shadow

    def _met_again(self, index: int, path: str, parent: int) -> None:
        """A shared module under another name."""
        self.modules[index].names.append(path)
        if parent >= 0:
            above = self.modules[parent]
            above.again.append((len(above.children) + len(above.again), path.rpartition(".")[2], index))

    def _scripted(self, module: nn.Module, info: ModuleInfo, index: int) -> Any:
        """A TorchScript module has no Python state to copy: it runs itself, its tensors are replaced as they reach the
        mode.
        """
        self.scripted.append(module)
        for name, parameter in module.named_parameters():
            self._registered(parameter, f"{info.path}.{name}".lstrip("."), info, "parameter")
        for name, tensor in module.named_buffers():
            self._registered(tensor, f"{info.path}.{name}".lstrip("."), info, "buffer")
        shadow = _Door(module, self.boundary, index)
        self.shadows[id(module)] = shadow
        return shadow

    def _packed(self, module: Any, prefix: str, info: ModuleInfo) -> None:
        """Weights of a quantised layer are packed out of sight of parameters(): note what they unpack to."""
        owner = self.modules[info.parent] if info.type.endswith("PackedParams") and info.parent >= 0 else info
        prefix = f"{owner.path}." if owner.path else ""
        for name, tensor in zip(("weight", "bias"), module._weight_bias()):
            if tensor is not None:
                spec = TensorSpec(tuple(tensor.shape), (), str(tensor.dtype).removeprefix("torch."))
                owner.tensors.append(len(self.tensors))
                storage = self.rec._opaque(tensor, "parameter")
                self.rec.born[storage] = -1
                self.tensors.append(
                    TensorInfo(
                        [prefix + name], spec, "parameter", trainable=False, storage=storage, logical=tensor.numel()
                    )
                )

    # -- tensors --------------------------------------------------------------------------------------------------

    def _registered_all(
        self, tensors: dict[str, Any], prefix: str, info: ModuleInfo, kind: Any, facts: list[Any]
    ) -> dict[str, Any]:
        """Stand-ins of a module's parameters or buffers. Flat, as a model has thousands of them.

        The short way is for the usual case on meta: a dense tensor that fills a storage of its own.
        """
        if self.device is not META or self.dtype is not None:
            return {k: None if t is None else self._registered(t, prefix + k, info, kind) for k, t in tensors.items()}
        rec, originals, held = self.rec, self.originals, {}
        for name, tensor in tensors.items():
            cls = tensor.__class__
            if (cls is not Parameter and cls is not Tensor) or tensor.layout is not STRIDED or id(tensor) in self.infos:
                held[name] = None if tensor is None else self._registered(tensor, prefix + name, info, kind)
                look(name, tensor, facts)
                continue
            storage = tensor.untyped_storage()
            address, size = storage._cdata, storage.nbytes()
            shape, stride, dtype, wanted = tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad
            facts += (name, id(tensor), shape, stride, dtype, wanted, address)
            spec = _spec_get((shape, stride, dtype)) or spec_of(shape, stride, dtype)
            count = tensor.numel()
            if address in originals or not size or size != count * tensor.element_size():
                held[name] = self._registered(tensor, prefix + name, info, kind)
                continue
            stand_in = empty_strided(shape, stride, dtype=dtype, device=META)
            shut(stand_in)
            originals[address] = (stand_in, storage)
            index = rec.lasting(stand_in, size, kind)
            if cls is Parameter:
                stand_in = make_subclass(Parameter, stand_in, wanted)
            elif wanted and tensor.is_leaf:
                stand_in.requires_grad_()
            held[name] = self.stand_ins[id(tensor)] = stand_in
            record = TensorInfo([prefix + name], spec, kind, wanted, index, count)
            self.infos[id(tensor)] = record
            info.tensors.append(len(self.tensors))
            self.tensors.append(record)
            if kind == "buffer":
                self._know(tensor, index)
        return held

    def _registered(self, tensor: Tensor, name: str, info: ModuleInfo, kind: Any) -> Tensor:
        """The stand-in of any parameter or buffer, noted under its name."""
        known = self.infos.get(id(tensor))
        if known is not None:
            known.names.append(name)
            info.tensors.append(self.tensors.index(known))
            return self.stand_ins[id(tensor)]
        stand_in = self._stand_in(tensor)
        lazy = _uninitialised(tensor)
        storage = -1 if lazy else self.rec.before(stand_in, kind)
        spec = tensor_spec(torch.empty(0) if lazy else stand_in)
        record = TensorInfo([name], spec, kind, tensor.requires_grad, storage, _logical(tensor))
        self.infos[id(tensor)] = record
        info.tensors.append(len(self.tensors))
        self.tensors.append(record)
        if kind == "buffer" and self.device is META and storage >= 0:
            self._know(tensor, storage)
        return stand_in

    def _know(self, tensor: Tensor, storage: int) -> None:
        """Integer buffers and small ones keep their values."""
        if tensor.is_meta or tensor.layout is not STRIDED:
            return
        if not tensor.dtype.is_floating_point or (tensor.numel() <= SMALL_BUFFER and self.dtype is None):
            self.values.know(storage, tensor)

    def _stand_in(self, tensor: Tensor) -> Tensor:
        """The tensor that stands for a user's tensor, made once."""
        held: Any = self.stand_ins.get(id(tensor))
        if held is None:
            held = self._on_meta(tensor) if self.device == META else self._for_real(tensor)
            if isinstance(tensor, Parameter) and not _uninitialised(tensor):
                wants = tensor.requires_grad and (held.is_floating_point() or held.is_complex())
                wants = wants and not held.is_inference()  # made in inference mode, it can have no gradient
                held = torch.Tensor._make_subclass(Parameter, held, wants)
            elif tensor.requires_grad and tensor.is_leaf and not _uninitialised(tensor):
                held.requires_grad_()
            self.stand_ins[id(tensor)] = held
            self.kept_tensors.append(tensor)
        return held

    def _on_meta(self, tensor: Tensor) -> Tensor:
        if _uninitialised(tensor):
            self.lazy = True
            return _unshaped(tensor, META)  # type: ignore[call-arg]
        if tensor.layout is not torch.strided:
            raise NotImplementedError(f"a {tensor.layout} tensor has no meta form")
        dtype = self.dtype if self.dtype is not None and tensor.is_floating_point() else tensor.dtype
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        base = self.originals.get(storage._cdata, (None, None))[0]
        if base is None and size == tensor.nbytes and size:
            base = torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device=META)
            shut(base)
            self.originals[storage._cdata] = (base, storage)
            return base
        if base is None:
            base = torch.empty(size // max(tensor.element_size(), 1), dtype=dtype, device=META)
            shut(base)
            self.originals[storage._cdata] = (base, storage)
        if base.dtype != dtype:
            base = base.view(dtype)
        return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _for_real(self, tensor: Tensor) -> Tensor:
        """The same storage under a version counter of its own; a copy where another device or dtype is asked for."""
        if _uninitialised(tensor):
            self.lazy = True
            return _unshaped(tensor, self.device or tensor.device)  # type: ignore[call-arg]
        dtype = self.dtype if self.dtype is not None and tensor.is_floating_point() else tensor.dtype
        device = self.device or tensor.device
        with torch.no_grad():
            small = not isinstance(tensor, Parameter) and tensor.layout is STRIDED and not tensor.is_nested
            if small and device == tensor.device and dtype == tensor.dtype and tensor.nbytes <= SMALL_COPY:
                return self._copied(tensor)  # kernels write running statistics without saying so in their schema
            return tensor.data.to(device=device, dtype=dtype)

    def _copied(self, tensor: Tensor) -> Tensor:
        """The same view of a copy of its storage, which is copied once: what shared memory still does."""
        storage = tensor.untyped_storage()
        odd = tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or type(tensor.data) is not Tensor
        if odd or storage.nbytes() > SMALL_COPY:
            return tensor.data.clone()
        if storage._cdata not in self.originals:
            self.originals[storage._cdata] = (storage.clone(), storage)
        copy = self.originals[storage._cdata][0]
        like = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return like.set_(copy, tensor.storage_offset(), tensor.shape, tensor.stride())

    # -- everything else a module holds ---------------------------------------------------------------------------

    def _attributes(self, shadow: Any, state: dict[str, Any], info: ModuleInfo) -> None:
        """Map the plain attributes of a shadow; note those that are plain values."""
        hyper = info.hyper
        for name in _names_to_read(tuple(state)):
            value = state[name]
            if value.__class__ in PLAIN:
                if name[0] != "_":
                    hyper[name] = value
                continue
            if value is None or isinstance(value, ATOMS):
                continue
            if value.__class__ is tuple and PLAIN.issuperset(map(type, value)):
                hyper[name] = value
                continue
            state[name] = self.map(value, f"{info.path}.{name}" if info.path else name)
        if any(map(state.__getitem__, HOOKS)):
            for name in HOOKS:
                hooks = state.get(name)
                if hooks:
                    state[name] = type(hooks)((k, self.map(h, "")) for k, h in hooks.items())
        if "_initialize_hook" in state:
            for name in ("_initialize_hook", "_load_hook"):
                if name in state:
                    state[name] = _Handle(state["_forward_pre_hooks"], state[name].id)

    def map(self, value: Any, name: str, depth: int = 0) -> Any:
        """The stand-in of any value: containers are copied, what cannot hold tensors is left alone."""
        if isinstance(value, ATOMS) or depth > 8:
            return value
        if isinstance(value, Tensor):
            return self._stand_in(value) if value.layout is torch.strided or self.device != META else value
        if isinstance(value, nn.Module):
            return self._stray(value, name)
        if isinstance(value, types.MethodType):
            owner = self.shadows.get(id(value.__self__))
            return value if owner is None else types.MethodType(value.__func__, owner)
        if isinstance(value, functools.partial):
            args = [self.map(a, name, depth + 1) for a in value.args]
            return functools.partial(self.map(value.func, name), *args, **self.map(value.keywords, name, depth + 1))
        if isinstance(value, weakref.ref) and type(value) is weakref.ref:
            owner = self.shadows.get(id(value()))
            return value if owner is None else weakref.ref(owner)
        return self._container(value, name, depth + 1)

    def _container(self, value: Any, name: str, depth: int) -> Any:
        kind = type(value)
        if kind is list:
            if PLAIN.issuperset(map(type, value)):
                return value.copy()
            return [self.map(v, f"{name}.{i}", depth) for i, v in enumerate(value)]
        if kind is tuple:
            return tuple(self.map(v, f"{name}.{i}", depth) for i, v in enumerate(value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*(self.map(v, f"{name}.{i}", depth) for i, v in enumerate(value)))
        if kind in (dict, OrderedDict):
            return kind((k, self.map(v, f"{name}.{k}", depth)) for k, v in value.items())
        if kind is set:
            return {self.map(v, name, depth) for v in value}
        if kind is deque:
            return deque((self.map(v, name, depth) for v in value), value.maxlen)
        return value

    def _stray(self, module: nn.Module, name: str) -> Any:
        """A module held by a plain attribute or list: one of the tree, or one that was never registered."""
        shadow = self.shadows.get(id(unwrapped(module)))
        return self._module(module, name, -2) if shadow is None else shadow


@functools.lru_cache(maxsize=4096)
def lineage(kind: Any) -> tuple[str, ...]:
    """A module's class and the modules it derives from: ("torch.nn.ReLU6", "torch.nn.Hardtanh")."""
    classes = [c for c in kind.__mro__ if issubclass(c, nn.Module) and c is not nn.Module]
    places = ("torch.nn" if c.__module__.startswith("torch.nn.modules.") else c.__module__ for c in classes)
    return tuple(f"{place}.{c.__qualname__}" for place, c in zip(places, classes))


def slots_of(kind: type) -> tuple[str, ...]:
    """The attributes a module's class keeps in __slots__, by the names they go by inside."""
    return _slots(kind)


@functools.lru_cache(maxsize=4096)
def _slots(kind: Any) -> tuple[str, ...]:
    found = []
    for cls in kind.__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            hidden = name.startswith("__") and not name.endswith("__")
            found.append(f"_{cls.__name__.lstrip('_')}{name}" if hidden else name)
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))


@functools.lru_cache(maxsize=4096)
def _names_to_read(names: tuple[str, ...]) -> tuple[str, ...]:
    """The attributes of a module that are its own, not nn.Module's."""
    return tuple(n for n in names if n not in OWN)


def _plain_attributes(original: dict[str, Any], state: dict[str, Any], hyper: dict[str, Any]) -> tuple[str, ...] | None:
    """Names of a module's own attributes when all are plain values that need no stand-in; None otherwise.

    Plain lists of the shadow become its own, and plain values are noted as hyper-parameters.
    """
    if any(map(original.__getitem__, HOOKS)) or "_initialize_hook" in original:
        return None
    names = _names_to_read(tuple(original))
    for name in names:
        value = original[name]
        kind = value.__class__
        if kind in PLAIN:
            if name[0] != "_":
                hyper[name] = value
        elif kind is tuple or kind is list:
            if not PLAIN.issuperset(map(type, value)):
                return None
            if kind is tuple:
                hyper[name] = value
            else:
                state[name] = value.copy()
        elif value is not None and not isinstance(value, ATOMS):
            return None
    return names


class _Door:
    """Stands for a TorchScript module: calls pass the boundary, everything else is the module's own."""

    def __init__(self, module: nn.Module, boundary: Callable[[Any, int], Any], index: int) -> None:
        self._module = module
        self._call_impl = module.__call__
        self._boundary = boundary(self, index)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._boundary(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Handle:
    """A hook handle over the copied dict, so that removing the hook leaves the user's module alone."""

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self.hooks, self.key = hooks, key

    def remove(self) -> None:
        self.hooks.pop(self.key, None)


def _unshaped(tensor: Any, device: torch.device) -> Any:
    """Another uninitialised parameter or buffer of the same kind."""
    return type(tensor)(device=device, dtype=tensor.dtype)


def _uninitialised(tensor: Tensor) -> bool:
    return isinstance(tensor, nn.parameter.UninitializedTensorMixin)  # type: ignore[attr-defined]


def _logical(tensor: Tensor) -> int:
    """Elements a tensor stands for: packed 4-bit weights hold more than their own."""
    if _uninitialised(tensor):
        return 0
    state = getattr(tensor, "quant_state", None)
    shape = getattr(state, "shape", None)
    if shape is not None:
        return int(torch.Size(shape).numel())
    per_element = {"quint4x2": 2, "quint2x4": 4, "float4_e2m1fn_x2": 2}.get(str(tensor.dtype).removeprefix("torch."), 1)
    return tensor.numel() * (per_element if "fn_x2" in str(tensor.dtype) else 1)
