"""import rasp is light: no torch, and next to no time."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rasp


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


HEAVY = "{'torch', 'numpy', 'pandas', 'rich', 'cyclopts', 'jinja2', 'torchvision', 'transformers'}"


def test_import_brings_nothing_heavy() -> None:
    assert run(f"import sys, rasp; print({HEAVY} & set(sys.modules))").strip() == "set()"


def test_settings_errors_and_lists_need_no_torch() -> None:
    program = "import sys, rasp; rasp.CFG; rasp.columns(); rasp.conventions(); rasp.rule; print('torch' in sys.modules)"
    assert run(program).strip() == "False"


def test_import_takes_at_most_50_ms_more_than_python() -> None:
    program = "import time; start = time.process_time(); import rasp; print(time.process_time() - start)"
    assert min(float(run(program)) for _ in range(5)) < 0.05


def test_every_public_name_is_there() -> None:
    for name in rasp.__all__:
        assert getattr(rasp, name) is not None
    assert {"profile", "stat", "load", "rule", "module_rule", "Work", "UncountedError", "CFG"} <= set(rasp.__all__)
    assert set(rasp.__all__) <= set(dir(rasp))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rasp.nothing  # noqa: B018


def test_rooms_with_the_name_of_a_function_stay_both() -> None:
    program = """
import rasp
from rasp.profile import Profile
import rasp.columns, rasp.conventions
from rasp.columns import Column
assert callable(rasp.profile) and rasp.profile.__name__ == "profile"
assert isinstance(rasp.columns()[0], Column) and rasp.columns.COLUMNS
assert [c.name for c in rasp.conventions()] and rasp.conventions.get("rasp")
"""
    run(program)
    run("import rasp\nassert rasp.columns() and rasp.conventions()\nfrom rasp.columns import column")


def test_threads_that_ask_first_wait_for_the_lists() -> None:
    program = """
import sys, threading
import rasp
sys.setswitchinterval(1e-6)
found = []
def ask():
    found.append((len(rasp.columns()), len(rasp.conventions())))
threads = [threading.Thread(target=ask) for _ in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
print(len(found), len(set(found)))
"""
    assert run(program).split() == ["8", "1"]
