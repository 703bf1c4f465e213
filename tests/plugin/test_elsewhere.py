"""Workers that another program starts, with no disk that both sides see: their results come back to the controller."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from harness import Bench, junit_properties

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
    exec env -i PATH=$PATH DESK_TASKS="$DESK_TASKS" PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 "$@"' host "$@"
"""


def statuses(results: Path) -> dict[str, str]:
    return {str(r.key).removeprefix("desk/front/").removesuffix("#0"): r.status for r in Store(results).read_all()}


@pytest.fixture
def place(pytester: pytest.Pytester, desk: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same project in another directory, as another machine has it."""
    found = tmp_path / "srv" / "project"
    shutil.copytree(pytester.path, found)
    return found


def test_results_come_back_over_the_connection(
    pytester: pytest.Pytester, desk: Bench, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok-0-1 ok-0-2 bad-0-1 down-0-1 crash-0.1 ok-0-3")
    arguments = ("--dist=load", "--junitxml=j.xml", "-pxdist.plugin", "--tx")
    tx = f"popen//python=env -C {place} {sys.executable}"
    desk(*arguments, f"2*{tx}")
    results = pytester.path / "a2a-results"
    told = statuses(results)
    assert told == {
        **{f"ok-0-{i}": "evaluated" for i in (1, 2, 3)},
        "bad-0-1": "evaluated",
        "down-0-1": "infrastructure_error",
        "crash-0.1": "infrastructure_error",
    }
    assert len(manifest.load(results).keys) == 6
    assert not list(place.rglob("a2a-results")), "a worker wrote into a directory of its own machine"
    cases = [junit_properties(case) for case in ElementTree.parse(pytester.path / "j.xml").iter("testcase")]
    found = Counter(case["a2a.key"] for case in cases if "a2a.key" in case)
    assert len(found) == 6
    assert set(found.values()) == {1}
    paths = {Path(case["a2a.transcript"]) for case in cases if case.get("a2a.status") == "evaluated"}
    assert all(pytester.path.joinpath(path).is_file() for path in paths), paths

    monkeypatch.setenv("DESK_TASKS", "ok-0-1 ok-0-2 bad-0-1 ok-0-3")
    (place / "log.txt").unlink()
    again = desk(*arguments, tx, "--a2a-resume")
    again.assert_outcomes(passed=3, failed=1)
    assert not (place / "log.txt").exists(), "a stored trial was run again"


def recipes() -> dict[str, str]:
    """Return the guide's specifications for workers elsewhere, by the tool that reaches them."""
    found = re.findall(r"--tx '([^']+)'", GUIDE)
    return {next(tool for tool in (*TOOLS, "?") if tool in spec): spec for spec in found}


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_the_guides_recipes_reach_another_machine(
    pytester: pytest.Pytester,
    desk: Bench,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
) -> None:
    allowed = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--uts", "--pid", "--fork", "true"])
    if allowed.returncode:
        pytest.skip("namespaces are not allowed here")
    (place / ".venv").symlink_to(sys.prefix)
    (pytester.path / "only-here").touch()
    (place / "conftest.py").write_text(
        (place / "conftest.py").read_text() + "\nimport os, platform\nassert platform.node() == 'elsewhere'\n"
        f"assert os.getcwd() == '/srv/project' and not os.path.exists({str(pytester.path / 'only-here')!r})\n"
    )
    script = tmp_path / "bin" / tool
    script.parent.mkdir()
    script.write_text(HOST.format(arguments=TOOLS[tool], place=place, hidden=pytester.path))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    monkeypatch.setenv("DESK_TASKS", "ok-0-1 ok-0-2 bad-0-1 ok-0-3")
    over_ssh = re.search(r"```sh\n(# over-ssh.sh.*?)```", GUIDE, re.DOTALL)
    assert over_ssh is not None
    (pytester.path / "over-ssh.sh").write_text(over_ssh[1])
    result = desk("--dist=load", f"--tx={recipes()[tool].replace('4*', '2*')}", "-pxdist.plugin")
    result.assert_outcomes(passed=3, failed=1)
    assert statuses(pytester.path / "a2a-results") == {
        name: "evaluated" for name in ("ok-0-1", "ok-0-2", "bad-0-1", "ok-0-3")
    }


def test_every_recipe_of_the_guide_is_tried() -> None:
    assert set(recipes()) == set(TOOLS)
    for spec in recipes().values():
        assert shlex.split(spec.partition("python=")[2])
