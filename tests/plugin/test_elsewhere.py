"""Workers that another program starts, with no disk that both sides see: their results come back to the controller."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from harness import Bench, junit_properties, verdict_of

from pytest_a2a_bench.plugin.ray_launcher import Terms
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.store import Store

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "scale.md").read_text(encoding="utf-8")
TOOLS = {
    # What each tool makes of its arguments, with a mount namespace for the other machine.
    "docker": 'shift 2; test "$1" = -w; there=$2; shift 3',
    "kubectl": "shift 4; there=/",
    "srun": 'while test "${1#--}" != "$1"; do there=${1#--chdir=}; shift; done',
    "ssh": 'shift 2; there=/; set -- sh -c "$*"',
}
HOST = """#!/bin/sh
{arguments}
export there
exec unshare --user --map-root-user --mount --uts --pid --fork --kill-child sh -c '
    mount -t tmpfs none /srv && mkdir /srv/project && mount --bind {place} /srv/project &&
    mount -t tmpfs none {hidden} && hostname elsewhere && cd $there &&
    exec env -i PATH=$PATH DESK_TASKS="$DESK_TASKS" \\
        PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTEST_PLUGINS=$PYTEST_PLUGINS "$@"' host "$@"
"""


def rewards(results: Path) -> dict[str, tuple[str, float | None]]:
    """Return status and reward by task."""
    stored = Store(results).read_all()
    return {r.key.task_id: (r.status, r.reward if r.status == "evaluated" else None) for r in stored}


def once_each(path: Path, many: int) -> list[dict[str, str]]:
    """Return the properties of a junit file's test cases, in which each of so many trials is once."""
    cases = [junit_properties(case) for case in ElementTree.parse(path).iter("testcase")]
    found = Counter(case["a2a.key"] for case in cases if "a2a.key" in case)
    assert (len(found), set(found.values())) == (many, {1})
    return cases


@pytest.fixture
def place(desk: Bench, tmp_path: Path) -> Path:
    """The same project in another directory, as another machine has it."""
    found = tmp_path / "srv" / "project"
    shutil.copytree(desk.path, found)
    return found


@pytest.mark.slow
def test_results_come_back_over_the_connection(desk: Bench, place: Path) -> None:
    desk.tasks("ok-0-1 ok-0-2 bad-0-1 down-0-1 crash-0.1 ok-0-3")
    arguments = ("--dist=load", "--junitxml=j.xml", "-pxdist.plugin", "--tx")
    tx = f"popen//python=env -C {place} {sys.executable}"
    desk(*arguments, tx)
    results = desk.path / "a2a-results"
    assert rewards(results) == {
        **{f"ok-0-{i}": ("evaluated", 1.0) for i in (1, 2, 3)},
        "bad-0-1": ("evaluated", 0.0),
        "down-0-1": ("infrastructure_error", None),
        "crash-0.1": ("infrastructure_error", None),
    }
    assert len(manifest.load(results).keys) == 6
    assert not list(place.rglob("a2a-results")), "a worker wrote into a directory of its own machine"
    cases = once_each(desk.path / "j.xml", 6)
    paths = {Path(case["a2a.transcript"]) for case in cases if case.get("a2a.status") == "evaluated"}
    assert all(desk.path.joinpath(path).is_file() for path in paths), paths

    desk.tasks("ok-0-1 ok-0-2 bad-0-1 ok-0-3")
    (place / "log.txt").unlink()
    desk(*arguments, tx, "--a2a-resume").assert_outcomes(passed=3, failed=1)
    assert not (place / "log.txt").exists(), "a stored trial was run again"


def recipes() -> dict[str, str]:
    """Return the guide's specifications for workers elsewhere, by the tool that reaches them."""
    found = re.findall(r"--tx '([^']+)'", GUIDE)
    return {next(tool for tool in (*TOOLS, "?") if tool in spec): spec for spec in found}


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_the_guides_recipes_reach_another_machine(
    desk: Bench, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    allowed = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--uts", "--pid", "--fork", "true"])
    if allowed.returncode:
        pytest.skip("namespaces are not allowed here")
    (place / ".venv").symlink_to(sys.prefix)
    (desk.path / "only-here").touch()
    (place / "conftest.py").write_text(
        (place / "conftest.py").read_text() + "\nimport os, platform\nassert platform.node() == 'elsewhere'\n"
        f"assert os.getcwd() == '/srv/project' and not os.path.exists({str(desk.path / 'only-here')!r})\n"
    )
    script = tmp_path / "bin" / tool
    script.parent.mkdir()
    script.write_text(HOST.format(arguments=TOOLS[tool], place=place, hidden=desk.path))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    desk.tasks("ok-0-1 ok-0-2 bad-0-1 ok-0-3")
    over_ssh = re.search(r"```sh\n(# over-ssh.sh.*?)```", GUIDE, re.DOTALL)
    assert over_ssh is not None
    (desk.path / "over-ssh.sh").write_text(over_ssh[1])
    result = desk("--dist=load", f"--tx={recipes()[tool].replace('4*', '2*')}", "-pxdist.plugin")
    result.assert_outcomes(passed=3, failed=1)
    assert len(rewards(desk.path / "a2a-results")) == 4


def test_every_recipe_of_the_guide_is_tried() -> None:
    assert set(recipes()) == set(TOOLS)
    for spec in recipes().values():
        assert shlex.split(spec.partition("python=")[2])


# Workers on a Ray cluster: two real nodes on this machine, one of which is killed while trials are in flight.


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


@pytest.mark.slow
def test_a_cluster_gives_what_one_machine_gives_and_may_lose_a_node(desk: Bench, nodes: Nodes) -> None:
    # A busy machine takes its time for a placement, and only what will never be placed has to be given up soon.
    options = ["--a2a-ray", nodes.address, "--a2a-set=ray-cpus=1", "--a2a-set=ray-wait=300", "-n4"]
    variables = "--a2a-set=ray-env=DESK_TASKS,PYTHONPATH,PYTEST_DISABLE_PLUGIN_AUTOLOAD,PYTEST_PLUGINS"
    desk.tasks(" ".join(f"{'bad' if i % 3 else 'ok'}-0-{i}" for i in range(500)))
    here = desk.popen("-n2", "--a2a-results=here")
    here.communicate()
    there = desk.popen(*options, variables, "--a2a-concurrency=4", "--a2a-results=there", "--junitxml=j.xml")
    said = there.communicate()[0].decode()
    assert there.returncode == here.returncode == 1, said
    assert len(rewards(desk.path / "here")) == 500
    assert rewards(desk.path / "there") == rewards(desk.path / "here"), said[-3000:]
    once_each(desk.path / "j.xml", 500)

    desk.tasks(" ".join(f"ok-0.5-{i}" for i in range(48)))
    gates = ("--a2a-min-pass=0.01", "--a2a-set=ray-wait=30", "--max-worker-restart=2")
    run = desk.popen(*options, variables, "--a2a-results=killed", "--junitxml=k.xml", *gates)
    trials = desk.path / "killed" / "trials"
    while run.poll() is None and len(list(trials.glob("*.json")) if trials.is_dir() else ()) < 8:
        time.sleep(0.1)
    nodes.kill_one()
    said = run.communicate()[0].decode()
    assert run.returncode == 1, said[-3000:]
    message = Counter(status for status, _ in rewards(desk.path / "killed").values())
    assert set(message) == {"evaluated", "infrastructure_error"}, (message, said[-3000:])
    once_each(desk.path / "k.xml", 48)
    assert verdict_of(desk, "killed")["failed"] is True

    # The node that is left has room for two.
    again = desk.popen(*options[:-1], variables, "-n2", "--a2a-results=killed", "--a2a-resume")
    said = again.communicate()[0].decode()
    assert again.returncode == 0, said[-3000:]
    assert {status for status, _ in rewards(desk.path / "killed").values()} == {"evaluated"}
    assert f"{message['evaluated']}" in said

    refused = desk.popen(*options, variables)
    said = refused.communicate()[0].decode()
    assert refused.returncode == 4
    assert "has 2 CPUs, and 4 workers with 1 each" in said


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
