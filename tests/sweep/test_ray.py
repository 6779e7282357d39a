"""Sweeps on Ray: a cluster of several nodes on this machine, of which one is lost."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import rasp
from rasp.errors import InputError
from sweep_models import model

ENOUGH = 240.0  # seconds that anything here may take on a busy machine

# A cluster is made and joined in a process of its own: Ray keeps threads, signal handlers and a token of its own.
CLUSTER = """
import json, os, sys, threading, time
from pathlib import Path
from ray.cluster_utils import Cluster
import ray, rasp

if __name__ == "__main__":
    model, out, flags, loses = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4] == "lose"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=2), cluster.add_node(num_cpus=2)]
    if not loses:
        ray.init(address=cluster.address, log_to_driver=False)

    def lose():
        while len(list(flags.glob("ran-*"))) < 3:
            time.sleep(0.05)
        cluster.remove_node(nodes[1], allow_graceful=False)

    if loses:
        threading.Thread(target=lose, daemon=True).start()
    on = cluster.address if loses else "auto"
    found = rasp.sweep({"slow": model}, sizes=16, batches=range(1, 13), out=out, on=on, progress=False)
    result = {"rows": found.rows, "ran": found.ran, "joined": ray.is_initialized()}
    Path(sys.argv[5]).write_text(json.dumps(result))
    ray.shutdown()
    cluster.shutdown()
"""


@pytest.fixture
def environment(tmp_path, flags):
    """Ray's token and its sockets, whose paths must be short, in folders of the test."""
    pytest.importorskip("ray")
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as place:
        paths = os.pathsep.join(filter(None, sys.path))
        quick = {f"RAY_health_check_{name}": value for name, value in HEALTH.items()}
        yield {
            **os.environ, **quick, "HOME": place, "RAY_TMPDIR": place, "RAY_USAGE_STATS_ENABLED": "0",
            "SWEEP_TEST_FLAGS": str(flags), "SWEEP_TEST_SECONDS": "1", "PYTHONPATH": paths,
        }  # fmt: skip


HEALTH = {"period_ms": "500", "timeout_ms": "2000", "failure_threshold": "5"}


def loopback() -> list[str]:
    """What to put before a command so that it sees no network but 127.0.0.1; nothing where that cannot be had."""
    alone = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    try:
        done = subprocess.run([*alone, "true"], capture_output=True, check=False)
    except OSError:
        return []
    return [] if done.returncode else alone


def run(script, environment, *arguments):
    """Run a script to its end; its session, with whatever Ray left in it, ends too."""
    process = subprocess.Popen(
        [*loopback(), sys.executable, str(script), *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        _, said = process.communicate(timeout=ENOUGH)
    finally:
        end_session(process.pid)
    assert process.returncode == 0, said[-3000:]


def end_session(session):
    """End every process of a session: those of Ray's, of this test and of no other."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == session:
                os.kill(int(entry.name), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


@pytest.mark.skipif(sys.platform != "linux", reason="ends what Ray leaves by Linux's /proc")
@pytest.mark.parametrize("how", ["lose", pytest.param("keep", marks=pytest.mark.slow)])
def test_a_cluster_finds_what_one_process_finds(tmp_path, flags, environment, how):
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER)
    run(script, environment, model("slow"), tmp_path / "out", flags, how, tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    alone = rasp.sweep({"slow": model("net")}, sizes=16, batches=range(1, 13), on="here", progress=False)
    assert [row["macs"] for row in found["rows"]] == [row["macs"] for row in alone]
    assert {row["status"] for row in found["rows"]} == {"ok"}
    assert found["ran"] == 12
    assert found["joined"] == (how == "keep"), "a Ray that was joined before stays so"
    if how == "keep":
        assert len(list(flags.glob("ran-*"))) == 12
    assert rasp.sweep({"slow": model("slow")}, sizes=16, batches=range(1, 13), out=tmp_path / "out").ran == 0


STARTED = """
import json, sys, rasp
from pathlib import Path

if __name__ == "__main__":
    names = ["net", "fells", "killed", "exits", "hangs", "raises"]
    models = {name: f"{sys.argv[1]}:{name}" for name in names}
    found = rasp.sweep(models, sizes=16, on="ray", workers=2, timeout=20, retries=1, progress=False)
    Path(sys.argv[2]).write_text(json.dumps(found.rows))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ends what Ray leaves by Linux's /proc")
def test_cells_that_fail_on_ray_are_rows_with_their_reasons(tmp_path, environment):
    script = tmp_path / "started.py"
    script.write_text(STARTED)
    run(script, environment, model("net").rpartition(":")[0], tmp_path / "rows.json")
    rows = {row["model"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert rows["net"]["status"] == "ok"
    assert rows["net"]["macs"] == rasp.sweep(model("net"), sizes=16, on="here").rows[0]["macs"]
    assert rows["fells"]["status"] == "ok", "a worker that is killed costs nothing"
    assert (rows["killed"]["status"], rows["exits"]["status"]) == ("crashed", "crashed")
    assert "SIGKILL" in rows["killed"]["reason"]
    assert "exit code 7" in rows["exits"]["reason"]
    assert rows["hangs"]["status"] == "timeout"
    assert rows["raises"]["status"] == "failed"


# -- addresses ---------------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_an_address_where_nothing_answers_is_told(form):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="nothing answers there"):
        rasp.sweep("vgg-f", on=form.format(free_port()))


def test_something_else_at_an_address_is_told(monkeypatch):
    """A port where something listens that is no Ray: Ray itself would end the process, or wait for minutes."""
    pytest.importorskip("ray")
    monkeypatch.setattr(importlib.import_module("rasp.sweep.cluster"), "ANSWER", 3.0)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(InputError, match="as Ray does"):
            rasp.sweep("vgg-f", on=f"127.0.0.1:{listener.getsockname()[1]}")


@pytest.mark.parametrize("on", ["127.0.0.1", "127.0.0.1:port", ":6379", "127.0.0.1:99999", "clusterr"])
def test_an_address_that_is_none_is_told(on):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="not known"):
        rasp.sweep("vgg-f", on=on)


def test_without_ray_that_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'torch-rasp\[ray\]'"):
        rasp.sweep("vgg-f", on="auto")
