"""The settings of PyTorch's CUDA allocator, read from the string that PYTORCH_CUDA_ALLOC_CONF holds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...errors import InputError

MIB = 1 << 20
MIN_BLOCK = 512
LARGE_BUFFER = 20 * MIB
SMALL_REQUEST = 1 * MIB
KNOWN = ("max_split_size_mb", "expandable_segments", "roundup_power2_divisions")
IGNORED = ("garbage_collection_threshold", "backend", "pinned_use_cuda_host_register", "pinned_num_register_threads",
           "release_lock_on_cudamalloc", "pinned_use_background_threads", "graph_capture_record_stream_reuse",
           "per_process_memory_fraction", "throw_on_cudamalloc_oom", "large_segment_size_mb")  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What decides how blocks are rounded, served and split."""

    max_split: int | None = None
    expandable: bool = False
    divisions: tuple[tuple[int, int], ...] = field(default=())  # (up to this many MiB, divisions), the last open-ended

    def rounded(self, nbytes: int) -> int:
        """A request in the allocator's grain: multiples of 512 bytes, or equal divisions between powers of two."""
        if nbytes < MIN_BLOCK:
            return MIN_BLOCK
        divisions = self._divisions(nbytes)
        if divisions > 1 and nbytes > MIN_BLOCK * divisions:
            step = (1 << (nbytes.bit_length() - 1)) // divisions
            return -(-nbytes // step) * step
        return -(-nbytes // MIN_BLOCK) * MIN_BLOCK

    def _divisions(self, nbytes: int) -> int:
        """The number of divisions set for the power of two, in MiB, that a request lies under."""
        found = 0
        for limit, divisions in self.divisions:
            found = divisions
            if nbytes < 2 * limit * MIB:
                break
        return found

    def may_serve(self, block: int, size: int) -> bool:
        """Whether a free block may be used for a request: large ones are kept whole under max_split_size_mb."""
        if self.max_split is None or self.expandable:
            return True
        if size < self.max_split:
            return block < self.max_split
        return block < size + LARGE_BUFFER

    def splits(self, small: bool, size: int, rest: int) -> bool:
        """Whether the rest of a block is split off."""
        if small or self.expandable:
            return rest >= MIN_BLOCK
        return (self.max_split is None or size < self.max_split) and rest > SMALL_REQUEST


def read(text: str) -> Settings:
    """'max_split_size_mb:128,expandable_segments:True,roundup_power2_divisions:[256:1,512:2,>:8]' → Settings."""
    values: dict[str, str] = dict(re.findall(r"(\w+)\s*:\s*(\[[^\]]*\]|[^,\[\]]+)", text))
    for name in values:
        if name not in KNOWN + IGNORED:
            raise InputError(f"The allocator has no setting {name!r}. Settings that count here: {', '.join(KNOWN)}.")
    try:
        limit = values.get("max_split_size_mb")
        return Settings(
            max_split=None if limit is None else int(limit) * MIB,
            expandable=values.get("expandable_segments", "False").strip().lower() == "true",
            divisions=_divisions(values.get("roundup_power2_divisions", "")),
        )
    except ValueError as error:
        raise InputError(f"The allocator settings {text!r} cannot be read: {error}.") from error


def _divisions(text: str) -> tuple[tuple[int, int], ...]:
    if not text:
        return ()
    if not text.startswith("["):
        return ((1 << 30, int(text)),)
    pairs = (pair.split(":") for pair in text.strip("[]").split(","))
    return tuple((1 << 30 if limit.strip() == ">" else int(limit), int(divisions)) for limit, divisions in pairs)
