"""PyTorch's CUDA caching allocator: rounding, two pools, best fit, splitting, merging, segments.

The rules are those of c10/cuda/CUDACachingAllocator.cpp (torch 2.11), re-stated: a request is rounded up to 512 bytes;
up to 1 MiB it is served from the small pool, else from the large one; the smallest free block that is large enough is
taken, the lowest address among equals; where there is none a segment is asked of the device (2 MiB for small requests,
20 MiB for large ones below 10 MiB, else the request rounded up to 2 MiB); what a block has too much is split off if it
is at least 512 bytes (small pool) or more than 1 MiB (large pool); a freed block merges with free neighbours of its
segment. memory_allocated counts blocks handed out, so what was not split off counts too.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

from . import Allocator, OutOfMemory, allocator
from ._settings import Settings, read

MIB = 1 << 20
SMALL_REQUEST, SMALL_SEGMENT = 1 * MIB, 2 * MIB
LARGE_SEGMENT, LARGE_REQUEST, ROUND_LARGE = 20 * MIB, 10 * MIB, 2 * MIB


class Block:
    """A stretch of a segment; `before` and `after` are its neighbours there."""

    __slots__ = ("address", "after", "before", "free", "pool", "size")

    def __init__(self, pool: Pool, address: int, size: int) -> None:
        self.pool, self.address, self.size = pool, address, size
        self.before: Block | None = None
        self.after: Block | None = None
        self.free = False


class Pool:
    """Free blocks of one pool, by size and then address."""

    def __init__(self, *, small: bool) -> None:
        self.small = small
        self.order: list[tuple[int, int]] = []
        self.blocks: dict[int, Block] = {}
        self.end: Block | None = None  # the last block of the growing segment, where segments grow

    def add(self, block: Block) -> None:
        block.free = True
        insort(self.order, (block.size, block.address))
        self.blocks[block.address] = block

    def remove(self, block: Block) -> None:
        block.free = False
        del self.order[bisect_left(self.order, (block.size, block.address))]
        del self.blocks[block.address]

    def best(self, size: int) -> Block | None:
        """The smallest free block that holds `size`; the lowest address among equals."""
        at = bisect_left(self.order, (size, 0))
        return self.blocks[self.order[at][1]] if at < len(self.order) else None


@allocator("cuda")
class Cuda(Allocator):
    """The caching allocator of one device and one stream; `settings` as in PYTORCH_CUDA_ALLOC_CONF."""

    def __init__(self, settings: str = "") -> None:
        super().__init__(settings)
        self.settings: Settings = read(settings)
        self.small, self.large = Pool(small=True), Pool(small=False)
        self.next_address = 0

    def size_of(self, nbytes: int) -> int:
        return self.settings.rounded(nbytes)

    def take(self, nbytes: int) -> Any:
        if nbytes <= 0:
            return None
        size = self.size_of(nbytes)
        pool = self.small if size <= SMALL_REQUEST else self.large
        block = self._found(pool, size) or self._segment(pool, size)
        self._split(pool, block, size)
        self.allocated += block.size
        self.most = max(self.most, self.allocated)
        return block

    def give_back(self, handle: Any) -> None:
        if handle is None:
            return
        block: Block = handle
        self.allocated -= block.size
        pool = block.pool
        if block.before is not None and block.before.free:
            block = self._joined(block.before, block)
        if block.after is not None and block.after.free:
            block = self._joined(block, block.after)
        pool.add(block)

    def charged(self, handle: Any) -> int:
        return 0 if handle is None else int(handle.size)

    def _found(self, pool: Pool, size: int) -> Block | None:
        block = pool.best(size)
        if block is None or not self.settings.may_serve(block.size, size):
            return None
        pool.remove(block)
        return block

    def _segment(self, pool: Pool, size: int) -> Block:
        """A new segment of the device; or, where segments grow, more of the one there is."""
        if self.settings.expandable:
            return self._grown(pool, size)
        if pool.small:
            taken = SMALL_SEGMENT
        else:
            taken = LARGE_SEGMENT if size < LARGE_REQUEST else -(-size // ROUND_LARGE) * ROUND_LARGE
        block = Block(pool, self.next_address, taken)
        self.next_address += taken + ROUND_LARGE  # segments never touch
        self._reserve(taken)
        return block

    def _grown(self, pool: Pool, size: int) -> Block:
        """Map further pages at the end of the pool's one segment, as many as the request lacks."""
        page = SMALL_SEGMENT if pool.small else LARGE_SEGMENT
        last = pool.end
        spare = last if last is not None and last.free else None
        lacking = -(-(size - (spare.size if spare else 0)) // page) * page
        self._reserve(lacking)
        if spare is not None:
            pool.remove(spare)
            spare.size += lacking
            return spare
        start = (0 if pool.small else 1 << 50) if last is None else last.address + last.size
        block = Block(pool, start, lacking)
        if last is not None:
            last.after, block.before = block, last
        pool.end = block
        return block

    def _reserve(self, nbytes: int) -> None:
        """Take bytes from the device; where it has no more, segments that are wholly free are given back first."""
        if self.limit is not None and self.reserved + nbytes > self.limit:
            self._give_back_segments()
            if self.reserved + nbytes > self.limit:
                raise OutOfMemory
        self.reserved += nbytes
        self.most_reserved = max(self.most_reserved, self.reserved)

    def _give_back_segments(self) -> None:
        for pool in (self.small, self.large):
            for block in [block for block in pool.blocks.values() if block.before is None and block.after is None]:
                pool.remove(block)
                self.reserved -= block.size
                if pool.end is block:
                    pool.end = None

    def _split(self, pool: Pool, block: Block, size: int) -> None:
        """Give what the block has too much back to its pool, where that is worth it."""
        rest = block.size - size
        if not self.settings.splits(pool.small, size, rest):
            return
        spare = Block(pool, block.address + size, rest)
        block.size = size
        spare.before, spare.after = block, block.after
        if block.after is not None:
            block.after.before = spare
        block.after = spare
        if pool.end is block:
            pool.end = spare
        pool.add(spare)

    def _joined(self, first: Block, second: Block) -> Block:
        """Two neighbours as one block; the free ones among them leave the pool."""
        pool = first.pool
        for block in (first, second):
            if block.free:
                pool.remove(block)
        first.size += second.size
        first.after = second.after
        if second.after is not None:
            second.after.before = first
        if pool.end is second:
            pool.end = first
        return first
