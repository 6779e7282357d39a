"""Boxes in images: anchors, prior boxes, proposals, pooling over regions, and the choice of the best boxes.

Boxes are left, top, right, bottom in pixels. How many there are never depends on the data: a choice of the best gives
as many as it was asked for, so a network of these layers runs on the meta device as it does on any other. Every layer
here is one module, as it is one layer in Caffe.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LARGEST = log(1000 / 16)  # of a change in size, so that its exponential stays a box
VARIANCES = (0.1, 0.1, 0.2, 0.2)  # what SSD multiplies offsets with
Boxes = dict[str, Tensor]


def moved(boxes: Tensor, offsets: Tensor) -> Tensor:
    """Boxes moved by offsets of their centre, in widths and heights, and grown by their exponentials."""
    corner, end = boxes[..., :2], boxes[..., 2:]
    side = end - corner
    centre = corner + side / 2 + offsets[..., :2] * side
    half = side * offsets[..., 2:].clamp(max=LARGEST).exp() / 2
    return torch.cat((centre - half, centre + half), -1)


def clipped(boxes: Tensor, image: Sequence[int]) -> Tensor:
    """The parts of boxes inside an image of that height and width, at least a pixel of each."""
    sides = boxes.new_tensor((image[1], image[0]))
    corner = torch.minimum(boxes[..., :2].clamp(min=0), sides - 1)
    return torch.cat((corner, torch.maximum(torch.minimum(boxes[..., 2:], sides), corner + 1)), -1)


def chosen(boxes: Tensor, scores: Tensor, count: int, most: float) -> tuple[Tensor, Tensor]:
    """Greedy choice in each group: the best box, then the best that overlaps no chosen one by more than `most` …

    boxes (groups, n, 4) and scores (groups, n) → indices (groups, count), and whether a box was left to choose; where
    none was, the index is that of some box. Overlap is the common area over that of both.
    """
    left = scores.detach()
    corners, ends = boxes.detach().transpose(1, 2).chunk(2, 1)
    areas = (ends - corners).prod(1)
    table = torch.cat((corners, ends, areas[:, None]), 1)
    found, present = [], []
    for _ in range(count):
        value, best = left.max(1, keepdim=True)
        found.append(best)
        present.append(value)
        corner, end, area = torch.split(table.gather(2, best[:, None].expand(-1, 5, -1)), [2, 2, 1], 1)
        common = (torch.minimum(ends, end) - torch.maximum(corners, corner)).clamp(min=0).prod(1)
        left = left.masked_fill(common * (1 + most) > (areas + area[:, 0]) * most, -torch.inf)
    return torch.cat(found, 1), torch.cat(present, 1) > -torch.inf


def taken(values: Tensor, indices: Tensor) -> Tensor:
    """Rows (groups, n, k) at indices (groups, m)."""
    return values.gather(1, indices[..., None].expand(-1, -1, values.shape[-1]))


class Proposal(nn.Module):
    """Anchors moved by the offsets that were told for them, the best of them by score (Ren et al., NIPS 2015).

    `rois` is how many regions every image gets. With thresholds alone their number depends on the image: choose it as
    you measured it.
    """

    def __init__(
        self,
        rois: int,
        stride: int = 16,
        scales: Sequence[int] = (8, 16, 32),
        ratios: Sequence[float] = (0.5, 1, 2),
        candidates: int = 6000,
        most: float = 0.7,
    ) -> None:
        super().__init__()
        self.rois, self.stride, self.candidates, self.most = rois, stride, candidates, most
        self.sides = [(stride * s / sqrt(r), stride * s * sqrt(r)) for r in ratios for s in scales]

    def anchors(self, like: Tensor) -> Tensor:
        """Boxes of every shape around each place of a map: (height · width · shapes, 4)."""
        height, width = like.shape[2:]
        half = like.new_tensor(self.sides) / 2
        x = (torch.arange(width, device=like.device) + 0.5) * self.stride
        y = (torch.arange(height, device=like.device) + 0.5) * self.stride
        centres = torch.stack((x.expand(height, -1), y[:, None].expand(-1, width)), -1)[:, :, None].to(half.dtype)
        return torch.cat((centres - half, centres + half), -1).flatten(0, 2)

    def forward(self, scores: Tensor, offsets: Tensor, image: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Maps of the chance of an object, 2 a shape, and of offsets, 4 a shape → scores (batch, rois) and boxes."""
        batch = len(scores)
        objects = scores[:, len(self.sides) :].permute(0, 2, 3, 1).flatten(1)
        moves = offsets.permute(0, 2, 3, 1).reshape(batch, -1, 4)
        boxes = clipped(moved(self.anchors(scores), moves), image)
        objects, best = objects.topk(min(self.candidates, objects.shape[1]), 1)
        boxes = taken(boxes, best)
        indices, _ = chosen(boxes, objects, self.rois, self.most)
        return objects.gather(1, indices), taken(boxes, indices)


def bins(start: Tensor, size: Tensor, count: int, places: int) -> tuple[Tensor, Tensor]:
    """Where each of `count` parts of a region starts and ends on an axis of a map, in whole places of it."""
    at = torch.arange(count, device=start.device, dtype=start.dtype)
    part, begin = (size / count)[..., None], start[..., None]
    return (at * part + begin).floor().clamp(0, places), ((at + 1) * part + begin).ceil().clamp(0, places)


class RoIPool(nn.Module):
    """The largest value in each of side × side parts of regions (Girshick: Fast R-CNN, ICCV 2015).

    Maxima over windows of 1, 2, 4 … places are made once; four of them cover any part.
    """

    def __init__(self, side: int = 7, stride: int = 16) -> None:
        super().__init__()
        self.side, self.stride = side, stride

    def forward(self, x: Tensor, boxes: Tensor) -> Tensor:
        """Maps (batch, channels, height, width) and boxes (batch, n, 4) → (batch · n, channels, side, side)."""
        channels, height, width = x.shape[1:]
        low, high = boxes.detach().chunk(2, -1)
        tall, wide = self._levels(height), self._levels(width)
        windows = [
            F.pad(F.max_pool2d(x, (2**i, 2**j), 1), (0, 2**j - 1, 0, 2**i - 1))
            for i in range(tall)
            for j in range(wide)
        ]
        table = torch.stack(windows, 1).permute(0, 1, 3, 4, 2).flatten(1, 3)
        rows, row_level, no_row = self._covered(low[..., 1], high[..., 1], height, tall)
        columns, column_level, no_column = self._covered(low[..., 0], high[..., 0], width, wide)
        level = (row_level[..., :, None] * wide + column_level[..., None, :]) * (height * width)
        best = None
        for row in rows:
            for column in columns:
                index = (level + row[..., :, None] * width + column[..., None, :]).flatten(1)
                found = taken(table, index)
                best = found if best is None else torch.maximum(best, found)
        assert best is not None
        empty = (no_row[..., :, None] | no_column[..., None, :]).flatten(1)[..., None]
        return best.masked_fill(empty, 0).reshape(-1, self.side, self.side, channels).permute(0, 3, 1, 2)

    def _levels(self, places: int) -> int:
        """How many widths of windows: the largest is at least half of the largest part."""
        return min(places, -(-(places + 1) // self.side) + 1).bit_length()

    def _covered(self, low: Tensor, high: Tensor, places: int, levels: int) -> tuple[list[Tensor], Tensor, Tensor]:
        """For each part: where the first and the last window begin that cover it, the windows' level, and emptiness."""
        start, last = (low / self.stride).round(), (high / self.stride).round()
        starts, ends = bins(start, (last - start + 1).clamp(min=1), self.side, places)
        size = (ends - starts).clamp(min=1)
        level = size.log2().floor().clamp(max=levels - 1)
        reach = 2**level
        begins = [torch.minimum(starts, places - reach).long(), (ends - reach).clamp(min=0).long()]
        return begins, level.long(), ends <= starts


class PSRoIPool(nn.Module):
    """The mean in each of side × side parts of regions, every part from maps of its own (Dai et al., NIPS 2016)."""

    def __init__(self, side: int = 7, stride: int = 16) -> None:
        super().__init__()
        self.side, self.stride = side, stride

    def forward(self, x: Tensor, boxes: Tensor) -> Tensor:
        """Maps (batch, k · side², height, width) and boxes (batch, n, 4) → (batch · n, k, side, side)."""
        low, high = boxes.detach().chunk(2, -1)
        rows = self._weights(low[..., 1], high[..., 1], x.shape[2])
        columns = self._weights(low[..., 0], high[..., 0], x.shape[3])
        maps = torch.unflatten(x, 1, (-1, self.side, self.side))
        return torch.einsum("briy,bcijyx,brjx->brcij", rows, maps, columns).flatten(0, 1)

    def _weights(self, low: Tensor, high: Tensor, places: int) -> Tensor:
        """What each place of an axis counts for in each part: one over the part's places, or nothing."""
        start, end = low.round() / self.stride, (high.round() + 1) / self.stride
        starts, ends = bins(start, (end - start).clamp(min=0.1), self.side, places)
        at = torch.arange(places, device=low.device)
        inside = (at >= starts[..., None]) & (at < ends[..., None])
        return inside / (ends - starts).clamp(min=1)[..., None]


class PriorBox(nn.Module):
    """Boxes around each place of a map, of the same shapes everywhere (Liu et al.: SSD, ECCV 2016).

    Shapes: a square of the smaller size, one of the geometric mean with the larger, and the ratios and their inverses.
    """

    def __init__(self, smaller: float, larger: float | None, ratios: Sequence[float]) -> None:
        super().__init__()
        self.sides = [(smaller, smaller)]
        if larger is not None:
            self.sides.append((sqrt(smaller * larger),) * 2)
        for ratio in ratios:
            for r in (ratio, 1 / ratio):
                self.sides.append((smaller * sqrt(r), smaller / sqrt(r)))

    def forward(self, x: Tensor, image: tuple[int, int]) -> Tensor:
        """Boxes, and what their offsets are multiplied with: (2, places · shapes, 4)."""
        height, width = x.shape[2:]
        half = x.new_tensor(self.sides) / 2
        across = (torch.arange(width, device=x.device) + 0.5) * (image[1] / width)
        down = (torch.arange(height, device=x.device) + 0.5) * (image[0] / height)
        centres = torch.stack((across.expand(height, -1), down[:, None].expand(-1, width)), -1)[:, :, None]
        boxes = torch.cat((centres - half, centres + half), -1).flatten(0, 2)
        return torch.stack((boxes, x.new_tensor(VARIANCES).expand_as(boxes)))


class Detections(nn.Module):
    """The best boxes of all classes, those of one class not over one another; places left over have the score 0."""

    def __init__(self, kept: int = 200, candidates: int = 400, most: float = 0.45, priors: bool = False) -> None:
        super().__init__()
        self.kept, self.candidates, self.most, self.priors = kept, candidates, most, priors

    def forward(
        self, regions: Tensor, offsets: Tensor, chances: Tensor, image: tuple[int, int], more: Boxes | None = None
    ) -> list[Boxes]:
        """For each image boxes, labels (from 1) and scores, the best first, and its part of what is told besides.

        regions (batch, n, 4), or prior boxes, are moved by offsets, four or four a class, nothing being the first
        class; chances are one a class. Both may be of any shape that is in this order.
        """
        batch, count = len(chances) if self.priors else len(regions), regions.shape[1]
        offsets, chances = offsets.reshape(batch, count, -1, 4), chances.reshape(batch, count, -1)[..., 1:]
        if self.priors:
            regions, offsets = regions[:1], offsets * regions[1][:, None]
        classes = chances.shape[2]
        offsets = offsets[:, :, 1:] if offsets.shape[2] > 1 else offsets
        boxes = clipped(moved(regions[:, :, None], offsets), image).expand(-1, -1, classes, -1)
        boxes, scores = self._of_classes(boxes.transpose(1, 2).flatten(0, 1), chances.transpose(1, 2).flatten(0, 1))
        each = scores.shape[1]
        scores, best = scores.reshape(batch, -1).topk(min(self.kept, classes * each), 1)
        boxes = taken(boxes.reshape(batch, -1, 4), best)
        told = {"boxes": boxes, "labels": best // each + 1, "scores": scores, **(more or {})}
        return [{name: values[at] for name, values in told.items()} for at in range(batch)]

    def _of_classes(self, boxes: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The best boxes of each class, by itself, and their scores."""
        scores, best = scores.topk(min(self.candidates, scores.shape[1]), 1)
        boxes = taken(boxes, best)
        indices, present = chosen(boxes, scores, min(self.kept, scores.shape[1]), self.most)
        return taken(boxes, indices), scores.gather(1, indices) * present
