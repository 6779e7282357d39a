"""The buffer of a reduction that several blocks of a CUDA kernel share.

A re-statement of how ATen configures its reduction kernel (aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig,
torch 2.11): where an output has very many inputs and there are few outputs, several blocks work on one output and put
what they have into global memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..records import TensorSpec

WARP, MOST_THREADS = 32, 512
LEAST_VALUES, MOST_VALUES = 16, 256  # values for each thread


@dataclass(frozen=True)
class Card:
    """What the configuration asks of a card."""

    multiprocessors: int
    threads: int = 2048  # for each multiprocessor


@dataclass
class Axes:
    """Axes of a reduction, neighbours joined where memory allows: (extent, stride), the fastest first."""

    reduced: list[tuple[int, int]]
    kept: list[tuple[int, int]]


def axes(spec: TensorSpec, over: tuple[int, ...]) -> Axes:
    """The axes that are reduced and those that are kept."""
    every = [(n, s, axis in over) for axis, (n, s) in enumerate(zip(spec.shape, spec.stride)) if n != 1]
    every.sort(key=lambda axis: axis[1])
    return Axes(
        _joined([(n, s) for n, s, reduced in every if reduced]),
        _joined([(n, s) for n, s, reduced in every if not reduced]),
    )


def _joined(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for extent, stride in found:
        if joined and joined[-1][0] * joined[-1][1] == stride:
            joined[-1] = (joined[-1][0] * extent, joined[-1][1])
        else:
            joined.append((extent, stride))
    return joined


def buffer(spec: TensorSpec, over: tuple[int, ...], accumulator: int, card: Card) -> int:
    """Bytes of global memory that a reduction of `spec` over these axes takes, 0 for most."""
    shape = axes(spec, over)
    inputs, outputs = _count(shape.reduced), _count(shape.kept)
    if not spec.numel or not shape.reduced:
        return 0
    inner = not shape.kept or shape.reduced[0][1] < shape.kept[0][1]
    first, second = (inputs, outputs) if inner else (outputs, inputs)
    vector = 1
    if inner and shape.reduced[0][1] == 1 and first > 128 and not shape.kept and len(shape.reduced) == 1:
        first //= 4
    elif not inner and shape.kept[0][1] == 1:
        vector = _vector(shape)
        first //= vector
    width, height = _block(first, second, MOST_THREADS // vector)
    return _shared(inputs, outputs, accumulator, vector, width, height, inner, card)


def _shared(
    inputs: int, outputs: int, accumulator: int, vector: int, width: int, height: int, inner: bool, card: Card
) -> int:
    """What blocks that share an output put into global memory."""
    step_in, step_out = (width, 1) if inner else (1, width)
    across = -(-inputs // step_in) >= min(height * 16, MOST_VALUES)
    if across:
        step_in *= height
    else:
        step_out *= height
    values = -(-inputs // step_in)
    aimed = card.multiprocessors * (card.threads // (width * height))
    grid = -(-(outputs // vector) // step_out)
    if not across or values < MOST_VALUES or grid > aimed:
        return 0
    blocks = max(min(-(-aimed // grid), -(-values // LEAST_VALUES)), -(-values // MOST_VALUES))
    if blocks <= 1:
        return 0
    size = accumulator * outputs * blocks
    return size if inner else size * width * vector


def _count(found: list[tuple[int, int]]) -> int:
    total = 1
    for extent, _ in found:
        total *= extent
    return total


def _vector(shape: Axes) -> int:
    """How many outputs a thread reads at once: as many as divide their number and every other stride, at most 4."""
    vector = 4
    for number in (shape.kept[0][0], *(s for _, s in shape.reduced), *(s for _, s in shape.kept[1:])):
        while number % vector:
            vector //= 2
    return vector


def _block(first: int, second: int, most: int) -> tuple[int, int]:
    wide, high = (1 << (min(max(n, 1), most).bit_length() - 1) for n in (first, second))
    width = min(wide, WARP)
    height = min(high, most // width)
    return min(wide, most // height), height
