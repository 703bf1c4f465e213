"""Values of options that pytest takes for places of tests, because it reads its command line before it knows us."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import Bench

SUITE = ("--a2a-endpoint=builtin:noop", "-k", "mock and create_task_1-t0 or own")


@pytest.fixture
def elsewhere(pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytester.makeini("[pytest]\ntestpaths = tests\n")
    for folder in ("tests", "others"):
        (pytester.path / folder).mkdir()
        (pytester.path / folder / f"test_{folder}.py").write_text("def test_own():\n    pass\n")
    return tmp_path_factory.mktemp("elsewhere")


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)])
@pytest.mark.parametrize("exists", [False, True])
def test_a_directory_elsewhere_is_refused_before_other_tests_are_run(
    pytester: pytest.Pytester, bench: Bench, elsewhere: Path, workers: tuple[str, ...], exists: bool
) -> None:
    target = elsewhere if exists else elsewhere / "new"
    result = bench(*SUITE, *workers, "--a2a-results", str(target))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: --a2a-results {target}: pytest takes*tox.ini*equals sign: --a2a-results={target}"]
    )


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)])
def test_with_an_equals_sign_it_is_no_place_of_tests(bench: Bench, elsewhere: Path, workers: tuple[str, ...]) -> None:
    for _ in range(2):
        result = bench(*SUITE, *workers, f"--a2a-results={elsewhere / 'new'}")
        result.assert_outcomes(failed=1, passed=1)
    assert len(list((elsewhere / "new" / "trials").glob("*.json"))) == 1


def test_every_wrong_one_is_named(bench: Bench, elsewhere: Path) -> None:
    result = bench(*SUITE, "--a2a-results", str(elsewhere), "--a2a-crm-data", str(elsewhere))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--a2a-results=*; --a2a-crm-data *--a2a-crm-data=*"])


def test_a_directory_inside_needs_no_equals_sign(pytester: pytest.Pytester, bench: Bench, elsewhere: Path) -> None:
    for _ in range(2):
        bench(*SUITE, "--a2a-results", "mine").assert_outcomes(failed=1, passed=1)
    assert len(list((pytester.path / "mine" / "trials").glob("*.json"))) == 1


def test_named_tests_and_a_named_ini_file_decide(pytester: pytest.Pytester, bench: Bench, elsewhere: Path) -> None:
    result = bench(*SUITE, "-c", "tox.ini", "--a2a-results", str(elsewhere))
    result.assert_outcomes(failed=1, passed=1)
