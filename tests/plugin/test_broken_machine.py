"""A disk that is full or read-only, and a clock that jumps: what was finished stays, and nothing passes for it."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Bench, log_of

TRIALS = " ".join(f"ok-0-{i}" for i in range(12))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a few files."""
    mount = shutil.which("mount")
    place = tmp_path / "disk"
    place.mkdir()
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def finished(results: Path) -> list[Path]:
    """Return the trial files, each of which can be read."""
    files = sorted((results / "trials").glob("*.json"))
    for file in files:
        assert json.loads(file.read_bytes())["status"] == "evaluated"
    return files


def test_a_full_disk_loses_nothing_finished(small_disk: Path, desk: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.tasks(TRIALS)
    monkeypatch.setenv("COLUMNS", "80")
    results = small_disk / "results"
    full = desk(f"--a2a-results={results}")
    assert full.ret == 1
    kept = finished(results)
    assert 0 < len(kept) < 12
    outcomes = full.parseoutcomes()
    assert outcomes["passed"] == len(kept)
    assert outcomes["errors"] == 12 - len(kept)
    text = full.stdout.str()
    assert "No space left on device" in text
    assert "a bug in pytest-a2a-bench" not in text
    assert "exception" not in text
    # What has no file is missing from no denominator.
    full.stdout.re_match_lines([rf"infra errors +{12 - len(kept)}$"])
    assert not list(results.rglob("*.tmp"))
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    (desk.path / "log.txt").unlink()
    desk(f"--a2a-results={results}", "--a2a-resume").assert_outcomes(passed=12)
    assert len(log_of(desk)) == 12 - len(kept)


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        ("shutil.rmtree('a2a-results/trials')", "a2a: 2 trial files in * are gone or cannot be read, so this run *"),
        ("pathlib.Path('a2a-results/run.json').unlink()", "a2a: */run.json is gone, so this run does not pass*"),
        ("pathlib.Path('a2a-results/verdict.json').mkdir()", "a2a: the verdict cannot be written to *"),
    ],
)
def test_a_run_whose_files_get_lost_does_not_pass(desk: Bench, damage: str, line: str) -> None:
    desk.tasks("ok-0-1 ok-0-2")
    hook = f"def pytest_runtest_logfinish(nodeid):\n    if 'ok-0-2' in nodeid:\n        {damage}\n"
    desk.add_to_conftest(f"\nimport pathlib\nimport shutil\n{hook}")
    result = desk("-q", "--a2a-min-pass=0.5")
    result.stdout.fnmatch_lines([line, "3 passed in *"])
    assert result.ret == 1


def test_a_clock_that_jumps_changes_no_result(desk: Bench) -> None:
    desk.tasks("ok-0-1 ok-0-2 bad-0-1 ok-0-3")
    desk.add_to_conftest("""
import time
real, jumped = time.time, []
def pytest_runtest_logfinish(nodeid):
    jumped.append(nodeid)
def pytest_unconfigure():
    time.time = real
time.time = lambda: real() + 86_400 * (len(jumped) > 1)
""")
    desk("--a2a-trial-timeout=3600", "--a2a-timeout=600", "-rN").assert_outcomes(passed=3, failed=1)
    for file in finished(desk.path / "a2a-results"):
        assert 0 <= json.loads(file.read_bytes())["duration"] < 600
