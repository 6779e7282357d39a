"""What a sweep finds is what rasp.profile finds; its table in every format; its models of every kind."""

from __future__ import annotations

import csv
import io
import json

import pytest
import torch
from torch import nn

import rasp
from rasp.errors import InputError, UnknownName
from rasp.sweep import Results
from rasp.sweep.executors import may_start
from sweep_models import Language, Two, model, net

COLUMNS = ["params", "macs", "flops", "mem_rw"]


def totals(module, **given):
    found = rasp.profile(module, **given)
    return [found.total(name) for name in COLUMNS]


def numbers(row):
    return [row[name] for name in COLUMNS]


def test_every_row_is_what_a_profile_says(swept):
    found = swept("net", sizes="8,16x24", batches=[1, 3], dtypes=[None, "float16"], measures="static,memory")
    assert len(found.rows) == 8
    assert not found.failed
    for row in found.rows:
        shape = (row["batch"], 3, row["height"], row["width"])
        alone = rasp.profile(net(), input_shape=shape, dtype=row["dtype"], memory=True)
        assert numbers(row) == [alone.total(name) for name in COLUMNS]
        assert row["peak"] == alone.total("peak")
        assert row["out_shape"] == (row["batch"], 2)
        assert found.profile(row).total("macs") == row["macs"]


def test_here_and_in_processes_are_the_same(swept):
    given = {"sizes": "8,16", "batches": "1,2"}
    assert swept("net", "strict", **given).rows == swept("net", "strict", out="here", on="here", **given).rows


def test_what_is_done_is_not_done_again(swept):
    first = swept("net", sizes="8,16")
    assert first.ran == 2
    more = swept("net", sizes="8,16,24")
    assert more.ran == 1
    assert more.rows[:2] == first.rows
    assert swept("net", sizes="8,16", resume=False).ran == 2


def test_other_columns_are_read_from_the_profiles(swept):
    swept("net")
    more = swept("net", columns=["params", "mem_r", "macs@burden"])
    assert more.ran == 0
    alone = rasp.profile(net(), input_shape=(1, 3, 16, 16))
    assert more.rows[0]["mem_r"] == alone.total("mem_r")
    assert more.rows[0]["macs@burden"] == alone.total("macs@burden")


def test_without_profiles_other_columns_are_counted_anew(swept):
    first = swept("net", keep_profiles=False)
    assert not list((first.folder / "profiles").rglob("*.json"))
    with pytest.raises(rasp.NotRecorded, match="no profile"):
        first.profile(0)
    more = swept("net", columns=["mem_r"], keep_profiles=False)
    assert more.ran == 1
    assert more.rows[0]["mem_r"] > 0


def test_a_changed_model_is_counted_anew(tmp_path):
    file = tmp_path / "mine.py"
    text = "from torch import nn\nfrom part import WIDTH\n\ndef net():\n    return nn.Linear(4, WIDTH)\n"
    file.write_text(text)
    part = tmp_path / "part.py"
    ran = []
    for width in (2, 2, 30):
        part.write_text(f"WIDTH = {width}\n")
        found = rasp.sweep(f"{file}:net", input_shape=(1, 4), out=tmp_path / "out", progress=False)
        ran.append((found.ran, found.rows[0]["params"]))
    assert ran == [(1, 10), (0, 10), (1, 150)]


# -- models of every kind ----------------------------------------------------------------------------------------------


def test_models_as_they_come(tmp_path):
    """Names, functions, modules; by words of the zoo and of torchvision."""
    pytest.importorskip("torchvision")
    found = rasp.sweep(
        ["mobilenet_v2", "torchvision:resnet18", net, nn.Sequential(nn.Conv2d(3, 2, 1))], sizes=64, progress=False
    )
    from torchvision.models import resnet18

    assert [row["model"] for row in found] == ["mobilenet_v2", "torchvision:resnet18", "net", "Sequential"]
    assert numbers(found.rows[1]) == totals(resnet18(), input_shape=(1, 3, 64, 64))
    assert numbers(found.rows[2]) == totals(net(), input_shape=(1, 3, 64, 64))
    assert found.rows[3]["macs"] == 64 * 64 * 3 * 2
    assert not found.failed


def test_names_with_a_star_are_the_models_they_fit():
    found = rasp.sweep("vgg-*", on="here", progress=False)
    names = [name for name in rasp.zoo.list() if name.startswith("vgg-")]
    assert [row["model"] for row in found] == names
    assert len(names) > 3


def test_lengths_for_models_of_text():
    found = rasp.sweep(Language, input_shape={"input_ids": (1, 7)}, tokens="4:12:4", batches="1,2", on="here")
    assert [(row["tokens"], row["batch"]) for row in found] == [(n, b) for n in (4, 8, 12) for b in (1, 2)]
    for row in found:
        shape = {"input_ids": (row["batch"], row["tokens"])}
        assert numbers(row) == totals(Language(), input_shape=shape)


def test_a_language_model_from_a_configuration(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=100)
    config.architectures = ["GPT2LMHeadModel"]
    config.save_pretrained(tmp_path)
    found = rasp.sweep(f"hf:{tmp_path}", tokens=[8, 16], sizes=224, on="here")
    assert [row["tokens"] for row in found] == [8, 16]
    assert found.rows[0]["macs"] < found.rows[1]["macs"]


def test_sizes_change_images_and_nothing_else():
    shapes = {"image": (1, 3, 8, 8), "numbers": (1, 5)}
    found = rasp.sweep(Two, input_shape=shapes, sizes="8,16", batches="1,4", on="here")
    for row in found:
        given = {"image": (row["batch"], 3, row["height"], row["width"]), "numbers": (row["batch"], 5)}
        assert numbers(row) == totals(Two(), input_shape=given)


def test_input_shapes_by_model():
    found = rasp.sweep(
        {"a": nn.Linear(4, 2), "b": nn.Linear(8, 2)}, input_shape={"a": (1, 4), "b": (1, 8)}, batches=3, on="here"
    )
    assert [row["macs"] for row in found] == [3 * 8, 3 * 16]


def test_a_detector_takes_lists_of_images():
    pytest.importorskip("torchvision")
    found = rasp.sweep("torchvision:ssdlite320_mobilenet_v3_large", sizes=96, batches=2, on="here", progress=False)
    assert found.rows[0]["status"] == "ok", found.rows[0]["reason"]
    assert found.rows[0]["params"] > 1e6


def test_large_batches_of_known_models_take_no_memory(tmp_path):
    """A batch of 4096 images of 224 × 224 would be 2.4 GB."""
    found = rasp.sweep("vgg-f", batches=4096, memory="1GiB", progress=False)
    assert found.rows[0]["status"] == "ok", found.rows[0]["reason"]
    assert found.rows[0]["macs"] == 4096 * rasp.sweep("vgg-f", on="here").rows[0]["macs"]


def test_a_trunk_ends_at_its_layer(swept):
    found = swept("strict", sizes="16,32", trunk="0")
    assert [row["status"] for row in found] == ["ok", "ok"]
    alone = rasp.profile(nn.Conv2d(3, 4, 3), input_shape=(1, 3, 32, 32))
    assert found.rows[1]["params"] == alone.total("params") == 112
    assert found.rows[1]["macs"] == alone.total("macs")
    assert found.rows[1]["out_shape"] == (1, 4, 30, 30)


@pytest.mark.parametrize(("name", "trunk"), [("vgg-f", "features"), ("vgg-m", "auto"), ("resnet-50", "auto")])
def test_trunks_cost_what_the_reports_of_convnet_burden_say(name, trunk):
    found = rasp.sweep(
        name, scales=[0.5, 2], batches=128, trunk=trunk, columns=["flops@burden", "feat_mem@burden"], on="here"
    )
    for row, told in zip(found.rows, rasp.zoo.burden_report(name, batch=128, scales=(0.5, 2)), strict=True):
        assert (row["height"], row["width"], row["status"]) == (told["input_h"], told["input_w"], "ok")
        assert row["flops@burden"] == told["flops"]
        assert row["feat_mem@burden"] == told["feat_mem"]


def test_a_model_without_a_trunk_of_its_own_says_so(swept):
    assert "no trunk of its own" in swept("net", trunk="auto").rows[0]["reason"]


def test_columns_that_a_run_did_not_record_are_counted_anew(swept):
    assert swept("net").ran == 1
    more = swept("net", columns=["flops@burden"])
    assert more.ran == 1
    assert more.rows[0]["flops@burden"] > 0
    assert swept("net", columns=["macs", "flops@burden"]).ran == 0


def test_a_trunk_by_model_and_one_that_does_not_exist(swept):
    found = swept("net", "strict", trunk={"net": "layer9"})
    assert found.by_name["strict"]["status"] == "ok"
    assert "layer9" in found.by_name["net"]["reason"]
    with pytest.raises(UnknownName, match="nett"):
        swept("net", trunk={"nett": "0"})


def test_a_trunk_leaves_the_model_as_it_was():
    mine = net()
    before = repr(mine)
    found = rasp.sweep(mine, sizes=16, trunk="1", on="here")
    assert found.rows[0]["params"] == 112
    assert repr(mine) == before
    assert not mine[1]._forward_hooks
    assert mine(torch.rand(1, 3, 16, 16)).shape == (1, 2)


def test_options_of_a_profile_are_taken(swept):
    found = swept("net", columns=["macs_bwd"], backward=True)
    alone = rasp.profile(net(), input_shape=(1, 3, 16, 16), backward=True)
    assert found.rows[0]["macs_bwd"] == alone.total("macs_bwd") > 0


def test_time_is_measured_in_a_cell_of_its_own(swept):
    found = swept("net", batches="1,2", measures="static,timing", seconds=0.2)
    for row in found:
        assert row["status"] == "ok", row["reason"]
        assert row["ci_low"] <= row["lat"] <= row["ci_high"]
        assert row["samples"] >= 1
        assert row["macs"]
        assert found.profile(row).latency.median == row["lat"]
    assert found.ran == 4
    assert swept("net", batches="1,2", seconds=0.2).ran == 0


def test_a_device_that_is_not_there_is_a_row_with_its_reason(swept):
    found = swept("net", measures="static,timing", devices="cpu,cuda:7", seconds=0.2)
    assert [row["status"] for row in found] == ["ok", "failed"]
    assert found.rows[1]["reason"].startswith("timing: ")
    assert all(row["macs"] for row in found), "what was counted is shown all the same"


def test_energy_is_measured_or_it_is_said_why_not(swept):
    row = swept("net", measures="energy", seconds=0.2).rows[0]
    assert row["status"] == "ok", row["reason"]
    assert (row["energy_measured"] is None) == row["reason"].startswith("no energy: ")


def test_energy_that_is_estimated_is_a_column(swept):
    assert swept("net", columns=["energy"]).rows[0]["energy"] > 0


def job(timed, device=None):
    return {"timed": timed, "device": device}


@pytest.mark.parametrize(
    ("new", "running", "may"),
    [
        (job(False), [], True),
        (job(False), [job(False)] * 2, True),
        (job(False), [job(False)] * 9, False),
        (job(False), [job(True)], False),
        (job(True), [], True),
        (job(True), [job(False)], False),
        (job(True), [job(True)], False),
        (job(True, "cuda:0"), [job(True, "cuda:1")], True),
        (job(True, "cuda:0"), [job(True, "cuda:0")], False),
        (job(True, "cuda:0"), [job(True, "cpu")], False),
        (job(True, "cpu"), [job(True, "cuda:0")], False),
    ],
)
def test_timed_cells_bear_no_neighbour_on_their_device(new, running, may):
    assert may_start(new, running, workers=2) is may


# -- formats -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    return rasp.sweep({"net": net, "bad": torch.nn.Linear(7, 2)}, sizes="8,16", on="here", progress=False)


def test_csv(table, tmp_path):
    rows = list(csv.DictReader(io.StringIO(table.to_csv(tmp_path / "t.csv"))))
    assert (tmp_path / "t.csv").read_text() == table.to_csv()
    assert [row["status"] for row in rows] == [row["status"] for row in table] == ["ok", "ok", "failed", "failed"]
    assert rows[0]["out_shape"] == "1x2"
    assert int(rows[1]["macs"]) == table.rows[1]["macs"]
    assert rows[2]["macs"] == ""
    assert rows[2]["reason"]


def test_pandas_keeps_whole_numbers_whole(table):
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert list(frame.columns[:5]) == ["model", "height", "width", "tokens", "batch"]
    assert str(frame["macs"].dtype) == "Int64"
    assert frame["macs"].isna().tolist() == [False, False, True, True]
    assert frame["macs"][0] == table.rows[0]["macs"]


def test_parquet(table, tmp_path):
    pytest.importorskip("pyarrow")
    import pandas

    frame = pandas.read_parquet(table.to_parquet(tmp_path / "t.parquet"))
    assert frame["params"][0] == table.rows[0]["params"]
    assert frame["out_shape"][0] == "1x2"
    assert frame["status"].tolist() == [row["status"] for row in table]


@pytest.mark.parametrize("suffix", ["csv", "md", "json", "txt"])
def test_saved_as_the_suffix_says(table, tmp_path, suffix):
    path = table.save(tmp_path / f"t.{suffix}")
    text = path.read_text()
    assert "failed" in text
    if suffix == "json":
        assert json.loads(text)


def test_the_table_says_what_failed(table):
    assert "2 of 4 rows failed" in str(table)
    assert isinstance(table, Results)
    assert "2 failed" in repr(table)
    assert len(table.failed) == 2


# -- wrong use ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "options", "says"),
    [
        ([], {}, "no models"),
        ("", {}, "no models"),
        ("resnet51", {}, "Did you mean"),
        ("torchvision:resnet51", {}, "Did you mean"),
        ("torchvision:*zzz*", {}, "torchvision model like"),
        ("nowhere.py:net", {}, "nowhere.py"),
        (7, {}, "A model of a sweep is"),
        ("vgg-f", {"sizes": []}, "sizes is empty"),
        ("vgg-f", {"batches": 0}, "batches"),
        ("vgg-f", {"measures": "speed"}, "speed"),
        ("vgg-f", {"measures": []}, "measures is empty"),
        ("vgg-f", {"columns": ["mac"]}, "macs"),
        ("vgg-f", {"columns": ["macs@burdn"]}, "burden"),
        ("vgg-f", {"shard": "3/2"}, "shard"),
        ("vgg-f", {"dtypes": "float17"}, "float17"),
        ("vgg-f", {"dtypes": "int8"}, "int8"),
        ("vgg-f", {"devices": "gpu0"}, "gpu0"),
        ("vgg-f", {"devices": "cuda@H100"}, "cuda@H100"),
        ("vgg-f", {"batchs": 1}, "batchs"),
        ("vgg-f", {"on": "processs"}, "processs"),
        ("vgg-f", {"workers": 0}, "workers"),
        ("vgg-f", {"timeout": 3}, "starts no process"),
        ({"a": "vgg-f", "b": 3}, {}, "A model of a sweep is"),
        ([net, lambda: None, lambda: 1], {}, "<lambda>"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_use_is_told(models, options, says):
    if str(models).startswith("torchvision:"):
        pytest.importorskip("torchvision")
    with pytest.raises(InputError) as told:
        rasp.sweep(models, **{"on": "here", "progress": False, **options})
    assert says in str(told.value)


def test_what_cannot_be_sent_is_told():
    with pytest.raises(InputError, match="loss"):
        rasp.sweep("vgg-f", backward=True, loss=lambda out: out.sum(), progress=False)


def test_a_sweep_inside_a_cell_is_told(monkeypatch):
    monkeypatch.setenv("RASP_SWEEP_CELL", "1")
    with pytest.raises(InputError, match="__main__"):
        rasp.sweep(model("net"), sizes=16)
