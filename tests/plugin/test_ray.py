"""Workers on a Ray cluster: two real nodes on this machine, one of which is killed while trials are in flight."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from harness import Bench, junit_properties, verdict_of

from pytest_a2a_bench.plugin.xdist.ray_launcher import Terms
from pytest_a2a_bench.results.store import Store

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
few = {"num_cpus": 2, "object_store_memory": 80 * 2**20}
cluster = Cluster(initialize_head=True, head_node_args={**few, "include_dashboard": False})
second = cluster.add_node(**few)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for line in sys.stdin:
    cluster.remove_node(second, allow_graceful=False)
    print("killed", flush=True)
cluster.shutdown()
"""


class Nodes:
    """A cluster of two nodes with two CPUs each, in processes of their own."""

    def __init__(self) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("A2A_", "PYTEST_", "DESK_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.address = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill_one(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        assert self._line() == "killed"

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(120)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    pytest.importorskip("ray")
    found = Nodes()
    assert found.address
    yield found
    found.close()


def rewards(results: Path) -> dict[str, tuple[str, float | None]]:
    return {str(r.key): (r.status, r.reward if r.status == "evaluated" else None) for r in Store(results).read_all()}


@pytest.mark.slow
def test_a_cluster_gives_what_one_machine_gives_and_may_lose_a_node(
    pytester: pytest.Pytester, desk: Bench, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine takes its time for a placement, and only what will never be placed has to be given up soon.
    options = ["--a2a-ray", nodes.address, "--a2a-set=ray-cpus=1", "--a2a-set=ray-wait=300", "-n4"]
    variables = "--a2a-set=ray-env=DESK_TASKS,PYTHONPATH,PYTEST_DISABLE_PLUGIN_AUTOLOAD"
    monkeypatch.setenv("DESK_TASKS", " ".join(f"{'bad' if i % 3 else 'ok'}-0-{i}" for i in range(500)))
    here = desk.popen("-n2", "--a2a-results=here")
    here.communicate()
    there = desk.popen(*options, variables, "--a2a-concurrency=4", "--a2a-results=there", "--junitxml=j.xml")
    said = there.communicate()[0].decode()
    assert there.returncode == here.returncode == 1, said
    assert len(rewards(pytester.path / "here")) == 500
    assert rewards(pytester.path / "there") == rewards(pytester.path / "here"), said[-3000:]
    cases = [junit_properties(c) for c in ElementTree.parse(pytester.path / "j.xml").iter("testcase")]
    assert set(Counter(c["a2a.key"] for c in cases if "a2a.key" in c).values()) == {1}

    monkeypatch.setenv("DESK_TASKS", " ".join(f"ok-0.5-{i}" for i in range(48)))
    gates = ("--a2a-min-pass=0.01", "--a2a-set=ray-wait=30", "--max-worker-restart=2")
    run = desk.popen(*options, variables, "--a2a-results=killed", "--junitxml=k.xml", *gates)
    trials = pytester.path / "killed" / "trials"
    while run.poll() is None and len(list(trials.glob("*.json")) if trials.is_dir() else ()) < 8:
        time.sleep(0.1)
    nodes.kill_one()
    said = run.communicate()[0].decode()
    assert run.returncode == 1, said[-3000:]
    found = rewards(pytester.path / "killed")
    told = Counter(status for status, _ in found.values())
    assert set(told) == {"evaluated", "infrastructure_error"}, (told, said[-3000:])
    cases = [junit_properties(c) for c in ElementTree.parse(pytester.path / "k.xml").iter("testcase")]
    named = Counter(c["a2a.key"] for c in cases if "a2a.key" in c)
    assert len(named) == 48
    assert set(named.values()) == {1}
    verdict = verdict_of(pytester, "killed")
    assert verdict["failed"] is True

    # The node that is left has room for two.
    again = desk.popen(*options[:-1], variables, "-n2", "--a2a-results=killed", "--a2a-resume")
    said = again.communicate()[0].decode()
    assert again.returncode == 0, said[-3000:]
    assert {status for status, _ in rewards(pytester.path / "killed").values()} == {"evaluated"}
    assert f"{told['evaluated']}" in said

    refused = desk.popen(*options, variables)
    said = refused.communicate()[0].decode()
    assert refused.returncode == 4
    assert "has 2 CPUs, and 4 workers with 1 each" in said


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--a2a-ray=auto"], "add -n N"),
        (["--a2a-ray=auto", "-n2", "--a2a-set=ray-runtime-env=no.json"], "no.json: cannot be read"),
        (["--a2a-ray=auto", "-n2", "--a2a-set=ray-cpus=0"], "'0': input should be greater than 0"),
        (["--a2a-ray=auto", "-n2", "--a2a-endpoint=builtin:noop"], "listens on this machine only"),
    ],
)
def test_wrong_options_are_refused(desk: Bench, arguments: list[str], problem: str) -> None:
    result = desk(*arguments)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*{problem}*"])


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_a_usage_error(desk: Bench) -> None:
    pytest.importorskip("ray")
    run = desk.popen("-n2", "--a2a-ray=127.0.0.1:9")
    said = run.communicate()[0].decode()
    assert run.returncode == 4, said
    assert "--a2a-ray=127.0.0.1:9: no Ray cluster answers" in said


def test_terms_are_one_word_that_execnet_takes() -> None:
    terms = Terms("ray://host:10001", 0.25, 3.0, ("A", "B"), {"working_dir": "s3://bucket/x?y"}, "/srv/a b", 7)
    word = terms.to_argument()
    assert Terms.of(word) == terms
    assert not set(word) & set("/'\" \\")
