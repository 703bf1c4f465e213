"""Two runs in one results directory at a time: the second is refused, and loses nothing of the first."""

from __future__ import annotations

import pytest
from harness import Bench, log_of, wait_for

from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.results import manifest, merge
from pytest_a2a_bench.results.lock import InUseError, held


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["alone", "workers"])
def test_a_second_run_is_refused_until_the_first_is_gone(
    pytester: pytest.Pytester, desk: Bench, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DESK_TASKS", "slow-600")
    process = desk.popen(*workers)
    wait_for(lambda: len(log_of(pytester)) == 1 or process.poll() is not None)
    monkeypatch.setenv("DESK_TASKS", "ok")
    result = desk(*workers)
    assert result.ret == 4
    (line,) = [line for line in result.errlines if line.strip()]
    assert f"results directory {pytester.path}/a2a-results is in use by pytest, process {process.pid} on " in line
    desk("--a2a-results=another").assert_outcomes(passed=1)
    assert log_of(pytester) == ["slow-600", "ok"]
    process.kill()
    process.communicate()
    desk(*workers).assert_outcomes(passed=1)
    assert not (pytester.path / "a2a-results" / "run.lock").exists()


def test_commands_that_write_wait_their_turn_and_others_do_not(pytester: pytest.Pytester, desk: Bench) -> None:
    desk().assert_outcomes(passed=1)
    directory = pytester.path / "a2a-results"
    with held(directory, "pytest"):
        with pytest.raises(InUseError, match="a2a-results is in use by pytest, process "):
            merge.write_rescored(manifest.load_selected(directory), [], directory, "rescored")
        assert main(["merge", "a2a-results", "-o", "whole"]) == 0
        assert main(["export", "html", "a2a-results"]) == 0
    assert not (pytester.path / "whole" / "run.lock").exists()
