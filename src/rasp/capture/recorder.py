"""The growing record of one run: operators, module calls, storages with birth and death."""

from __future__ import annotations

import bisect
import weakref
from collections.abc import Iterable
from typing import Any

import torch

from ..records import PHASES, ModuleCall, OpCall, OpSpec, Storage, TensorSpec
from .lent import Lent
from .specs import tensor_spec

FORWARD, BACKWARD, RECOMPUTE, OPTIMISER = range(len(PHASES))


class _Watch(weakref.ref[Any]):
    """A weak reference to a storage that knows which storage it watches; it fires at the last release."""

    __slots__ = ("address", "index")
    index: int
    address: int


class Recorder:
    """Written to by the dispatch mode and the module boundaries while the model runs."""

    def __init__(self, *, grad: bool) -> None:
        self.grad = grad
        self.phase = FORWARD
        self.spec_index: dict[OpSpec, int] = {}
        self.ops: list[tuple[int, int, int, tuple[int, ...], tuple[int, ...]]] = []
        self.calls: list[ModuleCall] = []
        self.stack: list[int] = []
        self.calls_of: dict[int, list[int]] = {}
        self.sequence: list[int] = []
        self.sequence_owner: list[int] = []
        self.sizes: list[int] = []
        self.kinds: list[str] = []
        self.born: list[int] = []
        self.died: list[int | None] = []
        self.by_address: dict[int, int] = {}
        self.watches: list[_Watch] = []
        self.hollow: set[int] = set()
        self.lent = Lent()
        self.untraced: dict[tuple[int, str], int] = {}
        self.turn: int | None = None
        self.returned: list[int] = []
        self.serves: dict[int, int] = {}
        self.closed = False

    # -- storages ------------------------------------------------------------------------------------------------

    def birth(self, tensor: torch.Tensor, nbytes: int, kind: str = "activation") -> int:
        """Note a new storage, under its address until it is released."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        index = len(self.sizes)
        self.sizes.append(nbytes)
        self.kinds.append(kind)
        self.born.append(len(self.ops))
        self.died.append(None)
        self.by_address[address] = index
        watch = _Watch(storage, self._death)
        watch.index = index
        watch.address = address
        self.watches.append(watch)
        return index

    def lasting(self, tensor: torch.Tensor, nbytes: int, kind: str) -> int:
        """Note a storage that was there before and stays: the run holds it, so its release need not be watched."""
        index = len(self.sizes)
        self.sizes.append(nbytes)
        self.kinds.append(kind)
        self.born.append(-1)
        self.died.append(None)
        self.by_address[tensor.untyped_storage()._cdata] = index
        return index

    def restart(self) -> None:
        """Forget the storages noted so far."""
        self.sizes, self.kinds, self.born, self.died, self.by_address = [], [], [], [], {}

    def _death(self, watch: _Watch) -> None:
        if not self.closed:
            self.died[watch.index] = len(self.ops)
            if self.by_address.get(watch.address) == watch.index:
                del self.by_address[watch.address]

    def before(self, tensor: torch.Tensor, kind: str) -> int:
        """Note a storage that was there before the run (parameter, buffer, input); the same one twice is one."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse and other layouts own no single storage
            return self._opaque(tensor, kind)
        index = self.by_address.get(storage._cdata)
        if index is None:
            index = self.birth(tensor, storage.nbytes(), kind)
            self.born[index] = -1
        return index

    def becomes(self, tensor: torch.Tensor, kind: str, parameter: int | None) -> None:
        """A tensor turned out to be a gradient or optimiser state, of the parameter in this storage."""
        index = self.by_address.get(tensor.untyped_storage()._cdata)
        if index is not None:
            self.kinds[index] = kind
            if parameter is not None:
                self.serves[index] = parameter

    def _opaque(self, tensor: torch.Tensor, kind: str) -> int:
        index = len(self.sizes)
        spec = tensor_spec(tensor)
        self.sizes.append((spec.nnz if spec.nnz is not None else spec.numel) * spec.itemsize)
        self.kinds.append(kind)
        self.born.append(len(self.ops) if kind == "activation" else -1)
        self.died.append(None)
        return index

    # -- operators ----------------------------------------------------------------------------------------------

    def op(self, spec: OpSpec, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        """Note one operator call for the module call that owns it now."""
        index = self.spec_index.get(spec)
        if index is None:
            index = self.spec_index[spec] = len(self.spec_index)
        if self.hollow:
            self._check_hollow(spec, reads, writes)
        if self.phase == FORWARD:
            self.ops.append((index, self.stack[-1] if self.stack else 0, FORWARD, reads, writes))
        else:
            owner, phase = self._late_owner()
            self.ops.append((index, owner, phase, reads, writes))

    def _late_owner(self) -> tuple[int, int]:
        """Owner of an operator after the forward: of a recomputation its module call, else of the autograd node."""
        if self.phase == OPTIMISER:
            return 0, OPTIMISER
        if len(self.stack) > 1:
            return self.stack[-1], RECOMPUTE
        node = torch._C._current_autograd_node()  # type: ignore[attr-defined]
        if node is None:
            return 0, BACKWARD
        at = bisect.bisect_right(self.sequence, node._sequence_nr()) - 1
        return (self.sequence_owner[at] if at >= 0 else 0), BACKWARD

    def _check_hollow(self, spec: OpSpec, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        """A storage that was allocated empty and is read before any operator wrote it was filled out of our sight."""
        for index in reads:
            if index in self.hollow and index not in writes:
                self.note_untraced(spec.name, index)
        self.hollow.difference_update(writes)

    def check_outputs(self, tensors: Iterable[torch.Tensor]) -> None:
        """Note where the outputs lie; one allocated empty and written by no operator was filled out of our sight."""
        for tensor in tensors:
            if tensor.layout is torch.strided and not tensor.is_nested:
                index = self.by_address.get(tensor.untyped_storage()._cdata)
                if index is not None and index not in self.returned:
                    self.returned.append(index)
                if self.lent and index is not None:
                    self.check_lent([tensor], [index])
                if index in self.hollow and self.sizes[index]:
                    self.note_untraced("empty", index)
                elif index is None and tensor.device.type != "meta" and not tensor.untyped_storage().resizable():
                    self.note_untraced("outside of torch", self.before(tensor, "activation"))

    def check_lent(self, tensors: Iterable[torch.Tensor], indices: Iterable[int]) -> None:
        """A storage handed out of torch that holds something new was written out of our sight."""
        for index in self.lent.changed(tensors, indices):
            self.note_untraced("outside of torch", index)

    def note_untraced(self, name: str, index: int) -> None:
        self.hollow.discard(index)
        if not self.sizes[index]:
            return
        key = (self.stack[-1] if self.stack else 0, name)
        self.untraced[key] = self.untraced.get(key, 0) + self.sizes[index]

    # -- module calls -------------------------------------------------------------------------------------------

    def enter(
        self,
        module: int,
        inputs: tuple[TensorSpec, ...],
        given: tuple[Any, ...] | None = None,
        named: dict[str, Any] | None = None,
    ) -> int:
        """Open a call of a module; during backward (checkpointing) the forward's call is entered again."""
        earlier = self.calls_of.get(module)
        if earlier is not None and self.phase:
            index = earlier[-1]
        else:
            index = len(self.calls)
            if earlier is None:
                earlier = self.calls_of[module] = []
            stack, start = self.stack, len(self.ops)
            above = stack[-1] if stack else -1
            self.calls.append(ModuleCall(module, above, len(earlier), inputs, (), start, start, given, named))
            earlier.append(index)
        self.stack.append(index)
        if self.grad:
            self._mark(index)
        return index

    def leave(self, index: int, outputs: tuple[TensorSpec, ...]) -> None:
        self.stack.pop()
        if self.grad:
            self._mark(self.stack[-1] if self.stack else 0)
        if not self.phase:
            call = self.calls[index]
            call.outputs = outputs
            call.end = len(self.ops)

    def _mark(self, owner: int) -> None:
        self.sequence.append(torch._C._autograd._get_sequence_nr())  # type: ignore[attr-defined]
        self.sequence_owner.append(owner)

    # -- the end ------------------------------------------------------------------------------------------------

    def finished(self) -> tuple[list[OpSpec], list[OpCall], list[Storage]]:
        """Stop watching and hand over plain records."""
        self.closed = True
        self.watches.clear()
        storages = list(map(Storage._make, zip(self.sizes, self.kinds, self.born, self.died, strict=True)))
        return list(self.spec_index), list(map(OpCall._make, self.ops)), storages
