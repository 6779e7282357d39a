"""Layers of detectors against torchvision's and against loops; what a detector gives are boxes in the image."""

from __future__ import annotations

import math

import pytest
import torch

import rasp
import rasp.zoo
from rasp.zoo._regions import Detections, PriorBox, Proposal, PSRoIPool, RoIPool, chosen, clipped, moved


def boxes_in(image, count, batch=1):
    height, width = image
    corners = torch.rand(batch, count, 2) * torch.tensor([width - 1.0, height - 1.0])
    ends = corners + 1 + torch.rand(batch, count, 2) * torch.tensor([float(width), float(height)])
    return torch.cat((corners, torch.minimum(ends, torch.tensor([float(width), float(height)]))), -1)


@pytest.mark.parametrize(("places", "side"), [((38, 54), 7), ((3, 5), 7), ((9, 4), 3), ((50, 20), 2)])
def test_pooled_regions_are_torchvisions_and_so_are_their_gradients(places, side, seeded):
    ops = pytest.importorskip("torchvision").ops
    boxes = boxes_in([16 * n for n in places], 40, batch=2)
    boxes[0, 0] = torch.tensor([0, 0, 16 * places[1], 16 * places[0]])
    x = torch.randn(2, 3, *places, requires_grad=True)
    weights = torch.randn(80, 3, side, side)
    ours, theirs = RoIPool(side)(x, boxes), ops.roi_pool(x, list(boxes), side, 1 / 16)
    assert torch.equal(ours, theirs)
    gradients = [torch.autograd.grad((pooled * weights).sum(), x)[0] for pooled in (ours, theirs)]
    torch.testing.assert_close(*gradients)


def test_means_of_parts_are_those_of_a_loop(seeded):
    """Caffe's PSROIPooling, one part after the other."""
    side, channels, height, width = 3, 2, 9, 12
    x, boxes = torch.randn(1, channels * side * side, height, width), boxes_in((16 * height, 16 * width), 8)
    found = PSRoIPool(side)(x, boxes)
    for n, (left, top, right, bottom) in enumerate(boxes[0].tolist()):
        start = round(left) / 16, round(top) / 16
        size = [max((round(end) + 1) / 16 - begin, 0.1) / side for end, begin in zip((right, bottom), start)]
        for i in range(side):
            for j in range(side):
                rows = slice(max(0, math.floor(i * size[1] + start[1])), math.ceil((i + 1) * size[1] + start[1]))
                columns = slice(max(0, math.floor(j * size[0] + start[0])), math.ceil((j + 1) * size[0] + start[0]))
                for c in range(channels):
                    part = x[0, (c * side + i) * side + j, rows, columns]
                    expected = part.mean() if part.numel() else torch.tensor(0.0)
                    torch.testing.assert_close(found[n, c, i, j], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("most", [0.0, 0.3, 0.7])
def test_the_choice_is_torchvisions(most, seeded):
    ops = pytest.importorskip("torchvision").ops
    boxes, scores = boxes_in((300, 400), 50, batch=3), torch.rand(3, 50)
    indices, present = chosen(boxes, scores, 50, most)
    for one, score, index, there in zip(boxes, scores, indices, present):
        assert index[there].tolist() == ops.nms(one, score, most).tolist()
    few, _ = chosen(boxes, scores, 3, most)
    assert torch.equal(few, indices[:, :3])


def test_offsets_of_nothing_leave_a_box_and_clipping_keeps_it_inside():
    box = torch.tensor([[10.0, 20.0, 30.0, 60.0]])
    assert torch.equal(moved(box, torch.zeros(1, 4)), box)
    assert moved(box, torch.tensor([[0.5, 0.0, math.log(2), 0.0]])).tolist()[0] == pytest.approx([10, 20, 50, 60])
    outside = torch.tensor([[-50.0, -50.0, -10.0, 10.0], [90.0, 90.0, 500.0, 95.0], [500.0, 0.0, 600.0, 9.0]])
    assert clipped(outside, (100, 80)).tolist() == [[0, 0, 1, 10], [79, 90, 80, 95], [79, 0, 80, 9]]


def test_boxes_around_places():
    prior = PriorBox(30, 60, (2.0,))
    boxes, factors = prior(torch.zeros(1, 8, 2, 3), (100, 300))
    assert boxes.shape == (2 * 3 * 4, 4)
    assert boxes[0].tolist() == pytest.approx([50 - 15, 25 - 15, 50 + 15, 25 + 15])
    sides = [(box[2:] - box[:2]).tolist() for box in boxes[-4:]]
    root = math.sqrt(2)
    assert sides[0] == pytest.approx([30, 30])
    assert sides[1] == pytest.approx([math.sqrt(1800)] * 2)
    assert sides[2:] == [pytest.approx([30 * root, 30 / root]), pytest.approx([30 / root, 30 * root])]
    assert factors[5].tolist() == pytest.approx([0.1, 0.1, 0.2, 0.2])
    anchors = Proposal(1).anchors(torch.zeros(1, 1, 2, 2)).reshape(2, 2, 9, 4)
    assert torch.allclose((anchors[1, 0, :, :2] + anchors[1, 0, :, 2:]) / 2, torch.tensor([8.0, 24.0]), atol=1e-3)
    areas = (anchors[0, 0, :, 2:] - anchors[0, 0, :, :2]).prod(-1)
    assert areas.tolist() == pytest.approx([128.0**2, 256.0**2, 512.0**2] * 3, rel=1e-4)


def test_the_best_box_of_a_class_comes_first_and_hides_those_under_it():
    regions = torch.tensor([[[0.0, 0, 10, 10], [1.0, 0, 11, 10], [50.0, 50, 60, 60]]])
    chances = torch.tensor([[[0.1, 0.9, 0.0], [0.2, 0.8, 0.0], [0.3, 0.0, 0.7]]])
    (found,) = Detections(kept=4)(regions, torch.zeros(1, 3, 4), chances, (100, 100))
    assert found["labels"][:2].tolist() == [1, 2]
    assert found["scores"].tolist() == pytest.approx([0.9, 0.7, 0, 0])
    assert torch.equal(found["boxes"][:2], regions[0, [0, 2]])


# -- whole detectors ---------------------------------------------------------------------------------------------------

SMALL = {"ssd-pascal-mobilenet-ft": 150, "rfcn-res50-pascal": (96, 128)}
LARGE = {
    "ssd-pascal-vggvd-300": 300, "ssd-pascal-vggvd-512": 512, "rfcn-res101-pascal": (96, 128),
    "faster-rcnn-vggvd-pascal": (96, 128),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE)])
def test_a_detector_gives_boxes_in_the_image(name, seeded):
    item = rasp.zoo.get(name)
    (images,) = item.inputs(batch=2, size={**SMALL, **LARGE}[name])
    with torch.no_grad():
        found = item.build().eval()(images)
    assert len(found) == 2
    for image in found:
        left, top, right, bottom = image["boxes"].unbind(1)
        assert (left >= 0).all()
        assert (left < right).all()
        assert (right <= images.shape[3]).all()
        assert (top >= 0).all()
        assert (top < bottom).all()
        assert (bottom <= images.shape[2]).all()
        assert ((image["scores"] >= 0) & (image["scores"] <= 1)).all()
        assert (image["scores"].diff() <= 0).all()
        assert set(image["labels"].tolist()) <= set(range(1, 21))


def test_the_number_of_regions_is_the_users_and_the_published_digits_fit_some_numbers():
    item = rasp.zoo.get("faster-rcnn-vggvd-pascal")
    digits = {}
    for rois in (70, 78, 79, 85, 300):
        with torch.device("meta"):
            model = item.build(rois=rois)
        profile = rasp.profile(model, item.inputs(), convention="burden")
        digits[rois] = round(profile.total("feat_mem") / 2**20), round(profile.total("flops") / 1e9)
    assert digits[78] == digits[79] == digits[85] == (600, 172)
    assert digits[70][1] == 171
    assert digits[300] == (628, 198)
