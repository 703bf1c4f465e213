"""--a2a-tau2-data, from the command line to the summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Bench
from tau2_checkouts import make_checkout, retitled

from pytest_a2a_bench.benchmarks.tau2 import index

ONE = "a2a/mock::test_mock[create_task_1-t0]"
ORACLE = "--a2a-endpoint=builtin:oracle"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "checkout", retitled)


def test_a_run_on_a_checkout_says_so_everywhere(pytester: pytest.Pytester, bench: Bench, checkout: Path) -> None:
    first = bench(ORACLE, ONE, "--a2a-results=r", "--a2a-markdown=first.md")
    first.assert_outcomes(passed=1)
    distribution = index.find_installation().distribution
    first.stdout.fnmatch_lines([f"a2a: builtin:oracle*; tau2 data: {distribution}", "mock  *"])
    assert "data of" not in (pytester.path / "first.md").read_text()

    # The built-in agent finds the golds of the same edition, and no result of another is reused.
    option = f"--a2a-tau2-data={checkout}"
    second = bench(
        ORACLE, ONE, option, "--a2a-results=r", "--a2a-resume", "--a2a-markdown=second.md", "--a2a-html=page.html"
    )
    second.assert_outcomes(passed=1)
    [stored] = (pytester.path / "r" / "trials").iterdir()
    name = json.loads(stored.read_text())["provenance"]["edition"]["name"]
    second.stdout.fnmatch_lines(
        [
            f"a2a: builtin:oracle*; tau2 data: {checkout}",
            f"mock (data of {name})  *",
            f"tau2's data: {checkout} (mock: {name})",
            f"benchmark: {distribution} with data of {name}; *",
            f"run again, because what was stored is of other data (--a2a-resume): 1 of 1 trials ({distribution})",
        ]
    )
    for file in ("second.md", "page.html"):
        assert f"data of {name}" in (pytester.path / file).read_text()
    assert json.loads((pytester.path / "r" / "run.json").read_text())["settings"]["tau2_data"] == str(checkout)

    third = bench(ORACLE, ONE, option, "--a2a-results=r", "--a2a-resume")
    third.stdout.fnmatch_lines(["reused, not run again (--a2a-resume): 1 of 1 trials *"])


def test_only_the_checkouts_domains_are_collected(bench: Bench, checkout: Path) -> None:
    result = bench("--co", "-q", ORACLE, "--a2a-suite=tau2", f"--a2a-tau2-data={checkout}")
    nodes = [line for line in result.outlines if "::" in line]
    assert nodes
    assert all(line.startswith("a2a/mock::") for line in nodes)
    result = bench("--co", "-q", ORACLE, "--a2a-suite=airline", f"--a2a-tau2-data={checkout}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *airline is not in tau2's data in {checkout / 'data'}; it has: mock"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("nowhere", "*--a2a-tau2-data: */nowhere is not a directory; name a checkout of tau2-bench"),
        (".", "*has no data of tau2's (neither data/tau2/domains nor tau2/domains)*"),
    ],
)
def test_one_line_for_data_that_cannot_be_had(
    bench: Bench, value: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = bench(ORACLE, ONE, f"--a2a-tau2-data={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in result.errlines if line.strip()]
    result.stderr.fnmatch_lines([f"ERROR: {expected}"])
    assert "geheim" not in line


def test_the_option_in_the_environment_and_in_an_ini_file(
    pytester: pytest.Pytester, bench: Bench, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyprojecttoml(f"[tool.a2a-bench]\ntau2-data = '{checkout}'\n")
    assert bench("--co", "-q", ORACLE, "--a2a-suite=airline").ret == pytest.ExitCode.USAGE_ERROR
    monkeypatch.setenv("A2A_TAU2_DATA", "installed")
    assert bench("--co", "-q", ORACLE, "--a2a-suite=airline").ret == 0
