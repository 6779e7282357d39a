"""A saved profile: all of it comes back, without torch, and what is not one is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rasp
from rasp import archive
from rasp.ledger import Given
from rasp.profile import Profile
from rasp.records import OpSpec
from traces import Builder, blocks, random_trace, spec

INFO = {"model": "Blocks", "capture_mode": "meta", "capture_reason": None, "mode": "eval"}
SCHEMA = Path(archive.__file__).parent / "profile.schema.json"


def test_everything_comes_back(tmp_path: Path) -> None:
    whole = Profile(blocks(), INFO)
    found = rasp.load(whole.save(tmp_path / "p.json"))
    assert found.rows() == whole.rows()
    assert found.info == INFO
    assert str(found) == str(whole)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_any_trace_comes_back(seed: int) -> None:
    trace = random_trace(seed)
    with tempfile.TemporaryDirectory() as folder:
        found, _, _ = archive.load(Profile(trace, INFO).save(Path(folder) / "p.json"))
    assert (found.ops, found.calls, found.modules, found.tensors, found.storages) == (
        trace.ops,
        trace.calls,
        trace.modules,
        trace.tensors,
        trace.storages,
    )
    for a, b in zip(found.specs, trace.specs, strict=True):
        assert (a.name, a.overload, a.args, a.kwargs, a.out) == (b.name, b.overload, b.args, b.kwargs, b.out)


def test_arguments_of_every_kind_come_back(tmp_path: Path) -> None:
    b = Builder()
    b.enter("")
    values = (None, True, 3, 0.5, float("inf"), -float("inf"), "mean", (1, (2, spec(3))), 2**63 - 1)
    b.trace.specs.append(
        OpSpec("a::b", "x", values, {"k": {"inner": spec(2, 2)}, "t": (1, 2)}, (spec(1), None), (1,), True)
    )
    b.leave()
    b.trace.modules[0].hyper = {"stride": (2, 2), "name": "n", "nested": {"a": [1, 2]}}
    found = rasp.load(Profile(b.trace, INFO).save(tmp_path / "p.json")).trace
    made, kept = b.trace.specs[0], found.specs[0]
    assert (made.args, made.kwargs, made.out, made.same, made.mutates) == (
        kept.args,
        kept.kwargs,
        kept.out,
        kept.same,
        kept.mutates,
    )
    assert found.modules[0].hyper == {"stride": (2, 2), "name": "n", "nested": {"a": (1, 2)}}


def test_not_a_number_comes_back(tmp_path: Path) -> None:
    b = Builder()
    b.enter("")
    b.trace.specs.append(OpSpec("a::b", "x", (float("nan"),), {}, None))
    b.leave()
    value = rasp.load(Profile(b.trace, INFO).save(tmp_path / "p.json")).trace.specs[0].args[0]
    assert value != value


def test_the_file_keeps_to_its_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA.read_text())
    checker = jsonschema.Draft202012Validator(schema)
    checker.check_schema(schema)
    for seed in range(10):
        path = Profile(random_trace(seed), INFO).save(tmp_path / "p.json")
        checker.validate(json.loads(path.read_text()))
    with pytest.raises(jsonschema.ValidationError):
        checker.validate({"schema": "rasp.profile", "version": 1})


def test_a_spec_is_written_once(tmp_path: Path) -> None:
    small, large = (Profile(blocks(n), INFO).save(tmp_path / f"{n}.json").stat().st_size for n in (2, 200))
    assert large < 100 * small
    data = json.loads((tmp_path / "200.json").read_text())
    assert len(data["tensor_specs"]) == len(json.loads((tmp_path / "2.json").read_text())["tensor_specs"])


def test_work_of_own_rules_is_saved_along(tmp_path: Path, own_rules: None) -> None:
    from rasp import rules

    b = Builder()
    b.enter("")
    b.module("odd", "Odd")
    b.enter("odd", (spec(4, 8),), (spec(4, 8),))
    b.op("mylib::odd", spec(4, 8), out=spec(4, 8))
    b.leave()
    b.module("ruled", "Ruled")
    b.enter("ruled", (spec(4, 8),), (spec(4, 8),))
    b.op("mylib::inner", spec(4, 8), out=spec(4, 8))
    b.leave()
    b.leave()
    rasp.rule("mylib::odd")(lambda call: rasp.Work(mac=5))
    rasp.module_rule("Ruled")(lambda call: rasp.Work(mac=70))
    whole = Profile(b.trace, INFO)
    assert whole.total("macs") == 75
    path = whole.save(tmp_path / "p.json")
    del rules.RULES["mylib::odd"], rules.MODULE_RULES["Ruled"]
    found = rasp.load(path)
    assert found.total("macs") == 75
    assert found.uncounted == []
    assert rasp.load(found.save(tmp_path / "again.json")).total("macs") == 75
    assert Profile(b.trace, INFO, Given()).uncounted != []


def test_loads_and_renders_without_torch(tmp_path: Path) -> None:
    path = Profile(blocks(), INFO).save(tmp_path / "p.json")
    program = f"""
import sys
class Blocker:
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("torch", "numpy", "pandas"):
            raise ImportError(f"{{name}} is not there")
sys.meta_path.insert(0, Blocker())
import rasp
p = rasp.load({str(path)!r})
print(p)
print(p.table()); print(p.tree()); print(p.by_op()); print(p.by_type())
for suffix in ("csv", "md", "txt", "json"):
    p.save({str(tmp_path / "out")!r} + "." + suffix)
p.table().save({str(tmp_path / "report.json")!r})
assert p._repr_html_()
assert not any(name.split(".")[0] in ("torch", "numpy") for name in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "layers.0-2 ×3" in done.stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "not a profile, or cut off"),
        ("[1, 2]", "it has no 'schema'"),
        ('{"schema": "else"}', "has the schema 'else'"),
        ('{"schema": "rasp.profile", "version": 2}', "Update rasp"),
        ('{"schema": "rasp.profile", "version": "x"}', "Update rasp"),
        ('{"schema": "rasp.profile", "version": 1}', "damaged"),
    ],
)
def test_what_is_no_profile_is_refused(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(rasp.FileError, match=words):
        rasp.load(path)


def test_a_report_is_refused_by_name(tmp_path: Path) -> None:
    path = Profile(blocks(), INFO).table().save(tmp_path / "r.json")
    with pytest.raises(rasp.FileError, match="is a report"):
        rasp.load(path)


def test_a_cut_or_damaged_file_is_refused(tmp_path: Path) -> None:
    path = Profile(blocks(), INFO).save(tmp_path / "p.json")
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    with pytest.raises(rasp.FileError, match="cut off"):
        rasp.load(path)
    for change in ({"specs": []}, {"calls": []}, {"modules": []}, {"tensor_specs": []}, {"tensors": [{}]}):
        path.write_text(json.dumps(json.loads(text) | change))
        with pytest.raises(rasp.FileError, match="damaged"):
            rasp.load(path)
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(rasp.FileError, match="not a text file"):
        rasp.load(tmp_path / "b.json")
    with pytest.raises(rasp.FileError, match="could not be read"):
        rasp.load(tmp_path / "none.json")


def test_unknown_keys_are_ignored(tmp_path: Path) -> None:
    path = Profile(blocks(), INFO).save(tmp_path / "p.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"later": 1}))
    assert rasp.load(path).total("macs") == Profile(blocks(), INFO).total("macs")


def test_a_second_save_is_the_same_file(tmp_path: Path) -> None:
    first = Profile(blocks(), INFO).save(tmp_path / "a.json")
    second = rasp.load(first).save(tmp_path / "b.json")
    assert first.read_text() == second.read_text()
