"""Workers that another program starts, with no disk that both sides see: what they write comes back to the controller."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from harness import Bench, junit_properties

from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.store import Store

HIDDEN = """
mount -t tmpfs none {hidden} && hostname elsewhere && cd {place} && exec "$@"
"""


def statuses(results: Path) -> dict[str, str]:
    return {str(r.key).removeprefix("desk/front/").removesuffix("#0"): r.status for r in Store(results).read_all()}


@pytest.fixture
def place(pytester: pytest.Pytester, desk: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same project in another directory, as another machine has it."""
    found = tmp_path / "srv" / "project"
    shutil.copytree(pytester.path, found)
    # What tasks leave behind is looked for beside the controller's.
    return found


def test_results_come_back_over_the_connection(
    pytester: pytest.Pytester, desk: Bench, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TASKS", "ok-0-1 ok-0-2 bad-0-1 down-0-1 crash-0.1 ok-0-3")
    tx = f"2*popen//python=env -C {place} {sys.executable}"
    arguments = ("--dist=load", "--tx", tx, "--junitxml=j.xml", "-pxdist.plugin")
    desk.apart(*arguments)
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
    again = desk.apart(*arguments, "--a2a-resume")
    again.assert_outcomes(passed=3, failed=1)
    assert not (place / "log.txt").exists(), "a stored trial was held again"
