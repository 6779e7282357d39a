"""The published pages: what they say adds up, labels never collide, the same numbers give the same bytes."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import rasp
import rasp.zoo
from rasp.errors import FileError, InputError
from rasp.pages import Layer, Point, Results, Subject, along, scatter, words, write
from rasp.pages._labels import Box, around
from rasp.pages._scales import counted, even, grid, limits
from rasp.zoo import _measured
from rasp.zoo._published import tables

DOCS = Path(__file__).resolve().parents[2] / "docs" / "zoo"
THOPLW = {  # printed by thoplw's README: MACs in M, parameters in M
    "alexnet": (714.22, 61.10), "vgg11": (7610, 132.86), "vgg13": (11310, 133.05), "vgg16": (15470, 138.36),
    "vgg19": (19630, 143.67), "resnet18": (1820, 11.70), "resnet34": (3680, 21.81), "resnet50": (4130, 25.61),
    "resnet101": (7870, 44.65), "resnet152": (11600, 60.34), "wide_resnet50_2": (11460, 68.95),
    "wide_resnet101_2": (22840, 127.02), "resnext50_32x4d": (4290, 25.10), "resnext101_32x8d": (16540, 88.99),
    "densenet121": (2900, 8.06), "densenet161": (7850, 28.90), "densenet169": (3440, 14.31),
    "densenet201": (4390, 20.24), "googlenet": (1510, 6.64), "inception_v3": (5750, 23.87),
    "squeezenet1.0": (818.93, 1.25), "squeezenet1.1": (349.16, 1.24), "mobilenet_v2": (327.49, 3.54),
    "mobilenet_v3_small": (62.17, 2.55), "mobilenet_v3_large": (234.21, 5.51), "shufflenet_v2_x0.5": (44.57, 1.37),
    "shufflenet_v2_x1.0": (152.71, 2.29), "mnasnet_0.5": (116.72, 2.24), "mnasnet_1.0": (336.24, 4.42),
}  # fmt: skip


def points(count, spread, seed=0):
    draw = random.Random(seed)
    names = [f"model_{at}_{'x' * (at % 9)}" for at in range(count)]
    places = [(10 ** draw.uniform(8, 8 + spread), 10 ** draw.uniform(6, 6 + spread)) for _ in names]
    return [Point(name, f"f{at % 7}", *place) for at, (name, place) in enumerate(zip(names, places))]


@pytest.mark.parametrize(
    "given",
    [
        [Point(name, re.match("[a-z]+", name)[0], macs * 1e6, params * 1e6) for name, (macs, params) in THOPLW.items()],
        points(40, 2.5),
        points(30, 0.2, seed=1),
        points(100, 1.0, seed=2),
        [Point(f"the same place {at}", "one", 1e9, 1e7) for at in range(12)],
        [Point("alone", "", 12345.0, 678.0)],
    ],
    ids=["thoplw", "spread", "crowd", "many", "one place", "alone"],
)
def test_labels_lie_on_nothing_and_inside(given):
    plan = scatter.layout(given)
    found = [box for box in plan.labels if box is not None]
    for at, box in enumerate(found):
        assert box.within(plan.frame)
        assert not any(box.meets(other) for other in found[at + 1 :])
        assert not any(box.meets(around(spot)) for spot in plan.spots)
    assert len(found) >= (len(given) if len(given) < 50 else 0.7 * len(given))
    drawn = scatter.drawn(given, "a title & more")
    assert drawn.count("textLength") == len(found)
    assert drawn.count("<circle") >= len(given)
    assert ("no room" in drawn) == (len(found) < len(given))
    ET.fromstring(drawn)


def test_points_stand_where_their_numbers_are():
    plan = scatter.layout([Point("a", "f", 1e8, 1e6), Point("b", "f", 1e9, 1e7), Point("c", "f", 1e10, 1e6)])
    (ax, ay), (bx, by), (cx, cy) = plan.spots
    assert bx - ax == pytest.approx(cx - bx)
    assert ay == cy > by
    assert plan.across[0] < 1e8
    assert plan.across[1] > 1e10


def test_a_family_is_one_line_in_order_of_macs():
    given = [Point("b", "f", 3e9, 2e6), Point("a", "f", 1e9, 1e6), Point("other", "g", 2e9, 9e6)]
    assert scatter.families(given) == {"f": [1, 0], "g": [2]}
    drawn = scatter.drawn(given, "t")
    assert len(re.findall(r'<g stroke="[^"]*" stroke-width="1.2"><path', drawn)) == 1
    assert "No model" in scatter.drawn([Point("none", "", 0, 5)], "t")


def test_axes():
    assert even(3.2) == [0, 1, 2, 3, 4]
    assert even(0) == [0, 1]
    assert even(1.0)[-1] == 1.0
    low, high = limits(44.6e6, 22.8e9)
    assert low < 44.6e6 < 22.8e9 < high
    assert [value for value, named in grid(1e8, 1e9) if named] == pytest.approx([1e8, 2e8, 5e8, 1e9])
    assert [counted(value) for value in (1e6, 2e7, 5e8, 1e12, 30)] == ["1 M", "20 M", "500 M", "1 T", "30"]


def test_a_box_meets_what_it_overlaps_only():
    box = Box(0, 0, 10, 5)
    assert box.meets(Box(9, 4, 20, 20))
    assert not box.meets(Box(10, 0, 20, 5))


# -- a model's numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["alexnet", "ssd-pascal-mobilenet-ft", "mobilenet_v2", "googlenet"])
def test_bars_add_up_to_the_model(name):
    item = rasp.zoo.get(name)
    subject = _measured.of_reference(item)
    profile = rasp.profile(item.build(), item.inputs(), convention="burden")
    for column, attribute in (("param_mem", "param_mem"), ("feat_mem", "feat_mem"), ("flops", "flops")):
        assert sum(getattr(layer, attribute) for layer in subject.layers) == profile.total(column)
    assert subject.params == sum(parameter.numel() for parameter in item.build().parameters())
    ET.fromstring(along.drawn(subject))


def test_every_number_of_a_page_that_was_printed_is_compared():
    subject = _measured.of_reference(rasp.zoo.get("alexnet"))
    assert len(words.compared(subject)) == 3 + 6 * 7
    assert all(printed == ours for printed, ours in words.compared(subject))
    page = words.page(subject, "figures/alexnet.svg")
    assert "Of 45 values that convnet-burden printed of this model, 45 are the same." in page
    assert "232.56 MiB | 243.86 MB | 233 MB" in page
    assert "| 114 × 114 | 2 × 2 × 256 |" in page


def test_points_are_named_by_what_tells_them_apart():
    def called(name):
        return Subject(name, "f", "", "", 1, 1, 1, 1, 1, 1, [])

    names = [point.name for point in _measured.points([called(n) for n in ("timm:a", "timm:b", "torchvision:b", "c")])]
    assert names == ["a", "timm:b", "torchvision:b", "c"]


def test_parameters_of_layers_that_never_ran_are_shown():
    import torch

    class Idle(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = torch.nn.Linear(4, 4), torch.nn.Linear(100, 100)

        def forward(self, x):
            return self.used(x)

    layers = _measured.layers(rasp.profile(Idle(), input_shape=(1, 4), convention="burden"))
    assert (layers[-1].name, layers[-1].kind) == ("idle", "Linear, not run")
    assert sum(layer.param_mem for layer in layers) == 4 * (20 + 10100)


# -- files -------------------------------------------------------------------------------------------------------------


def links(page):
    return re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))


def test_pages_of_ones_own_models(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def net():\n    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU())\n"
        "def strict():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 2))\n"
        "def bad():\n    raise ValueError('no weights today')\n"
    )
    names = [f"{tmp_path}/mine.py:{name}" for name in ("net", "bad")]
    files = rasp.zoo.report([*names, "vgg-f", "no_such_model"], tmp_path / "out")
    assert all(file.is_file() for file in files)
    index = files[0].read_text(encoding="utf-8")
    assert "no weights today" in index
    assert "There is no built-in model named" in index
    assert "1×1×224×224" in index
    for page in (tmp_path / "out").glob("*.md"):
        assert all((page.parent / target).is_file() for target in links(page))
    strict = rasp.zoo.report([f"{tmp_path}/mine.py:strict"], tmp_path / "two", input_shape=(1, 3, 32, 32))
    page = next(file for file in strict if file.suffix == ".md" and file.name != "index.md").read_text(encoding="utf-8")
    assert "| 32 × 32 | 12.0" in page
    assert re.search(r"\| 16 × 16 \| [^|]*(shape|mat)", page), "a size that it cannot take says why"


def test_pages_refuse_what_they_cannot_do(tmp_path):
    with pytest.raises(InputError, match="no models"):
        rasp.zoo.report([], tmp_path)
    with pytest.raises(InputError, match="No model could be run"):
        rasp.zoo.report(["no_such_model"], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="could not be written"):
        write([], tmp_path / "file")


def test_names_become_files_that_every_system_has():
    def called(name):
        return Subject(name, "", "", "", 0, 0, 0, 0, 0, 0, [Layer("", "", 0, 0, 0)])

    names = ["timm:a/b", "a|b c", "A-B-c", "index", "...", "timm:a:b"]
    assert words.files([called(name) for name in names]) == [
        "timm-a-b",
        "a-b-c",
        "A-B-c-2",
        "index-2",
        "model",
        "timm-a-b-2",
    ]
    assert "a\\|b c" in words.page(called("a|b c"), "x.svg")


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    subject = _measured.of_reference(rasp.zoo.get("vgg-f"))
    results = [Results("r", "w", "r.svg", _measured.points([subject]))]
    one, two = (write([subject], tmp_path / name, results=results) for name in ("a", "b"))
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]


# -- the pages in the repository ---------------------------------------------------------------------------------------


def test_the_committed_pages_are_whole():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    values = re.search(r"\*\*([\d,]+) of ([\d,]+) values", index)
    assert values[1] == values[2], "every value that was printed is the same"
    for name in tables():
        assert f"[{name}]({name}.md)" in index
        assert (DOCS / "figures" / f"{name}.svg").is_file()
    for page in DOCS.glob("*.md"):
        assert all((page.parent / target).is_file() for target in links(page)), page.name
    assert sum(file.stat().st_size for file in DOCS.rglob("*") if file.is_file()) < 4_000_000


@pytest.mark.parametrize("name", ["alexnet", "rfcn-res50-pascal"])
def test_the_committed_pages_are_what_is_made_today(name):
    subject = _measured.of_reference(rasp.zoo.get(name))
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == words.page(subject, f"figures/{name}.svg")
    assert (DOCS / "figures" / f"{name}.svg").read_text(encoding="utf-8") == along.drawn(subject), "run `make zoo`"


def test_thoplws_results_are_all_there():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w.\\]+) \| [^|]+ \| (\S+ [KMG]) \| (\S+ M) \| (\S+ [KMG]) \| (\S+ M) \|$", index, re.M)
    assert len(rows) == 33
    for name, *values in rows:
        assert values[:2] == values[2:], name
    macs = {name.replace("\\", ""): float(v.split()[0]) * {"M": 1, "G": 1000}[v.split()[1]] for name, v, *_ in rows}
    assert {name: value for name, value in macs.items() if name in THOPLW} == {n: v[0] for n, v in THOPLW.items()}


@pytest.mark.slow
def test_thoplws_results_computed_again():
    pytest.importorskip("torchvision")
    for point in _measured.results():
        assert (rasp.units.count(point.macs), rasp.units.count(point.params)) == point.printed
