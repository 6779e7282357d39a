"""Workspaces of cuDNN's convolutions: what one may be made of, and which of them a shape gets.

Tensor-core kernels read channels last. A convolution of tensors that are not laid out so takes one workspace for
transposed copies of its input, output and weight (channels padded to 4 or 8), alive only while it runs; a reduction
that is split takes partial results, several times the output in float32; Winograd's transform takes tiles. The sizes
are arithmetic. Which kernel runs is cuDNN's own heuristic, which is not published: a decision tree, grown from
measured convolutions, stands for it (data; one per generation of GPUs).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from ..records import OpSpec, TensorSpec

PASSES = ("forward", "data_grad", "weight_grad")
SPLITS = (32, 64, 96, 128, 256)  # summands of one part of a split reduction
TIMES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)  # parts of a split weight gradient
Sizes = dict[str, int]


@dataclass(frozen=True)
class Convolution:
    """The geometry of one convolution; `size` and `made` are the spatial extents of its input and output."""

    batch: int
    channels: int
    made_channels: int
    groups: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    size: int
    made: int
    itemsize: int
    transposed: bool = False
    channels_last: bool = False

    @cached_property
    def volume(self) -> int:
        return prod(self.kernel)

    @property
    def input_bytes(self) -> int:
        return self.batch * self.channels * self.size * self.itemsize

    @property
    def output_bytes(self) -> int:
        return self.batch * self.made_channels * self.made * self.itemsize

    @property
    def weight_bytes(self) -> int:
        return self.channels * self.made_channels // self.groups * self.volume * self.itemsize

    @property
    def whole(self) -> int:
        """Input, output and weight together: the measure of a workspace."""
        return self.input_bytes + self.output_bytes + self.weight_bytes

    def padded(self, to: int) -> tuple[int, int, int]:
        """Bytes of input, output and weight with channels of each group padded to a multiple."""
        inner, outer = (-(-n // self.groups // to) * to for n in (self.channels, self.made_channels))
        images = self.batch * self.groups * self.itemsize
        return (
            images * inner * self.size,
            images * outer * self.made,
            inner * outer * self.groups * self.volume * self.itemsize,
        )

    @cached_property
    def features(self) -> dict[str, float]:
        """What the heuristic is taken to look at."""
        inner, outer = self.channels // self.groups, self.made_channels // self.groups
        i, o, w = self.input_bytes, self.output_bytes, self.weight_bytes
        rows = self.batch * self.made
        return {
            "half": self.itemsize == 2, "channels_last": self.channels_last, "three_dimensions": len(self.kernel) > 2,
            "transposed": self.transposed, "groups": self.groups, "depthwise": self.groups > 1 and inner == 1,
            "inner": inner, "outer": outer, "channels": self.channels, "made_channels": self.made_channels,
            "volume": self.volume, "widest": max(self.kernel), "narrowest": min(self.kernel),
            "stride": max(self.stride), "dilation": max(self.dilation), "padding": max(self.padding),
            "batch": self.batch, "size": self.size, "made": self.made, "rows": rows, "depth": inner * self.volume,
            "inputs": i / self.itemsize, "outputs": o / self.itemsize, "weights": w / self.itemsize,
            "work": rows * self.made_channels * inner * self.volume,
            "inner_odd": inner % 8 != 0, "outer_odd": outer % 8 != 0, "inner_odd4": inner % 4 != 0,
            "size_odd": self.size % 8 != 0, "made_odd": self.made % 8 != 0, "size_odd4": self.size % 4 != 0,
            "tiles": -(-rows // 128) * -(-outer // 128) * self.groups,
            "weight_tiles": -(-outer // 128) * -(-(inner * self.volume) // 128) * self.groups,
            "input_per_output": i / o, "input_per_weight": i / w, "output_per_weight": o / w,
            "thinner": min(inner, outer), "wider": max(inner, outer),
        }  # fmt: skip

    def sizes(self, part: str) -> Sizes:
        """Every workspace that a pass may take, by name."""
        i, o, w = self.input_bytes, self.output_bytes, self.weight_bytes
        i8, o8, w8 = self.padded(8)
        found = {
            "nothing": 0, "all": i + o + w, "all/8": i8 + o8 + w8, "all/4": sum(self.padded(4)), "input+output": i + o,
            "input+weight": i + w, "output+weight": o + w, "input+weight/8": i8 + w8, "output+weight/8": o8 + w8,
            "input": i, "output": o,
        }  # fmt: skip
        single = 4 / self.itemsize if self.itemsize < 4 else 1
        if part == "weight_grad":
            return found | self._weight_parts(i + o, i8 + o8, int(w * single))
        parts, depth = (o, self.channels) if part == "forward" else (i, self.made_channels)
        depth = depth // self.groups * (self.volume if part == "forward" else 1)
        result = int(parts * single)
        found |= {f"split/{step}": -(-depth // step) * result for step in SPLITS}
        found |= {f"{times} parts": times * result for times in (2, 4, 8, 16)}
        found["all+part"] = i + o + w + result
        return found

    def _weight_parts(self, images: int, images8: int, weight: int) -> Sizes:
        found = {f"{times} weights": times * weight for times in TIMES}
        found |= {f"images+{times} weights": images + times * weight for times in TIMES}
        found |= {f"images/8+{times} weights": images8 + times * weight for times in TIMES}
        single = images * 4 // self.itemsize if self.itemsize < 4 else images
        found["winograd"] = 9 * single // 4 + 4 * weight  # tiles of 6 x 6 for 4 x 4 outputs
        return found


@dataclass(frozen=True)
class Choice:
    """A leaf of a tree: the workspace that costs least in error, and between which shares of `whole` most lie."""

    name: str
    low: float
    high: float


class Heuristic:
    """Which workspace a convolution takes: one decision tree for each pass, read from a file of data."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def trees(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def choice(self, convolution: Convolution, part: str) -> Choice:
        node: Any = self.trees[part]
        features = convolution.features
        while len(node) == 4:
            feature, threshold, below, above = node
            node = below if features[feature] <= threshold else above
        return Choice(*node)

    def bytes(self, convolution: Convolution, part: str) -> tuple[int, int, int]:
        """The likely workspace, and the least and the most that it may be."""
        choice = self.choice(convolution, part)
        likely = convolution.sizes(part)[choice.name]
        low, high = int(choice.low * convolution.whole), int(choice.high * convolution.whole)
        return likely, min(low, likely), max(high, likely)


def of_operator(spec: OpSpec) -> Convolution | None:
    """The geometry of aten::convolution or aten::convolution_backward; None where cuDNN is not asked."""
    backward = spec.name == "aten::convolution_backward"
    start = 1 if backward else 0
    data, weight = spec.args[start : start + 2]
    stride, padding, dilation, transposed, _, groups = spec.args[(4 if backward else 3) :][:6]
    result = spec.args[0] if backward else spec.out
    if not data.is_floating or 0 in data.shape or 0 in weight.shape or not isinstance(result, TensorSpec):
        return None
    kernel = weight.shape[2:]
    dims = len(kernel)
    return Convolution(
        batch=data.shape[0], channels=data.shape[1], made_channels=result.shape[1], groups=groups,
        kernel=(1, *kernel) if dims == 1 else kernel, stride=_spread(stride, dims, 1),
        padding=_spread(padding, dims, 0), dilation=_spread(dilation, dims, 1),
        size=prod(data.shape[2:]), made=prod(result.shape[2:]), itemsize=data.itemsize, transposed=transposed,
        channels_last=is_channels_last(data) or is_channels_last(weight),
    )  # fmt: skip


def _spread(values: Any, dims: int, filler: int) -> tuple[int, ...]:
    """One value an axis; a convolution over one axis runs as one over two."""
    found = tuple(values) * (dims if len(values) == 1 else 1)
    return (filler, *found) if dims == 1 else found


def is_channels_last(spec: TensorSpec) -> bool:
    """Whether a tensor is laid out channels last and not, at the same time, the usual way."""
    if len(spec.shape) < 4:
        return False
    return not is_dense(spec) and is_dense(spec, (0, *range(2, len(spec.shape)), 1))


def is_dense(spec: TensorSpec, order: tuple[int, ...] = ()) -> bool:
    """Whether the elements follow each other without a gap, axes in this order."""
    expected = 1
    for axis in reversed(order or range(len(spec.shape))):
        if spec.shape[axis] != 1 and spec.stride[axis] != expected:
            return False
        expected *= spec.shape[axis]
    return True
