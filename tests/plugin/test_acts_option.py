"""Tests of ACTS files as items of pytest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from acts_agent import BEHAVIORS, acts_agent
from harness import Bench, junit_cases

from pytest_a2a_bench.conformance.catalogue import ADDED

FILE = """
acts_version: "1.0"
spec_version: "1.0"
suites:
  - id: mine
    name: Mine
    tests:
      - id: MINE-DONE
        name: A task is completed
        level: must
        requires_behaviors: [tck-complete-task]
        steps:
          - id: send
            operation: send_message
            params: {message: {role: ROLE_USER, parts: [{text: tck-complete-task}]}}
            expect: {body: {task: {status: {state: TASK_STATE_COMPLETED}}}}
      - id: MINE-WRONG
        name: An unknown task is there
        level: must
        transport: [jsonrpc]
        steps:
          - {id: get, operation: get_task, params: {id: nobody}, expect: {body: {id: nobody}}}
      - id: MINE-ADVICE
        name: An unknown task is told in verse
        level: should
        transport: [grpc]
        steps:
          - {id: get, operation: get_task, params: {id: nobody}, expect_error: {message: {contains: roses}}}
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of an agent that does what the prefixes say."""
    with acts_agent() as found:
        yield found


@pytest.fixture
def options(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The files, as options name them."""
    (tmp_path / "mine.acts.yaml").write_text(FILE)
    (tmp_path / "known.yaml").write_text(BEHAVIORS)
    yield (
        "--a2a-set",
        f"acts={tmp_path / 'mine.acts.yaml'!s}",
        "--a2a-set",
        f"acts-behaviors={tmp_path / 'known.yaml'!s}",
    )
    ADDED.clear()


def test_each_test_is_an_item_for_each_binding(
    bench: Bench, url: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    result = bench("--a2a-endpoint", url, *options, "-v", "--junit-xml", str(tmp_path / "junit.xml"))
    # The one is a warning, which this project's own configuration makes a failure of.
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines_random(
        [
            "*a2a/acts::test_acts[[]MINE-DONE-HTTP+JSON[]] PASSED*",
            "*a2a/acts::test_acts[[]MINE-WRONG-JSONRPC[]] FAILED*",
            "*a2a/acts::test_acts[[]MINE-ADVICE-GRPC[]] FAILED*",
            "A2A 1.0 by ACTS: not conformant: MUST 3/4, SHOULD 0/1",
            "FAILED *a2a/acts::test_acts[[]MINE-WRONG-JSONRPC[]] - step get: the answer is error TaskNotFoundError*",
            "*repeat: curl -sS -i -X POST*",
        ]
    )
    assert len(list(junit_cases(tmp_path / "junit.xml"))) == 5


@pytest.mark.slow
def test_workers_share_them(bench: Bench, url: str, options: tuple[str, ...]) -> None:
    result = bench("--a2a-endpoint", url, *options, "-n2")
    result.assert_outcomes(passed=3, failed=1, warnings=1)


@pytest.mark.slow
def test_they_are_chosen_as_all_others(bench: Bench, url: str, options: tuple[str, ...]) -> None:
    result = bench("--a2a-endpoint", url, *options, "-k", "MINE-DONE and GRPC")
    assert result.parseoutcomes()["passed"] == 1
    assert "failed" not in result.parseoutcomes()
    bench("--a2a-endpoint", url, *options, "a2a/acts::test_acts[MINE-DONE-JSONRPC]").assert_outcomes(passed=1)
    # Without an agent to ask, and beside the others of the conformance suite.
    found = bench("--co", "-q", "--a2a-suite", "conformance", *options).outlines
    assert "a2a/acts::test_acts[MINE-WRONG-JSONRPC]" in found
    assert "a2a/protocol::test_protocol[SEND-003-GRPC]" in found


@pytest.mark.slow
def test_in_ini_they_choose_nothing(
    bench: Bench, url: str, options: tuple[str, ...], pytester: pytest.Pytester
) -> None:
    _, _, path = options[1].partition("=")
    pytester.makepyprojecttoml(f"[tool.a2a-bench]\nacts = '{path}'\n")
    pytester.makepyfile("def test_own(): pass")
    bench("--a2a-endpoint", url).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(
            ("--a2a-suite", "acts"),
            "*a2a/acts has the tests of ACTS files: name them with --a2a-set acts=PATH*",
            marks=pytest.mark.slow,
        ),
        (("--a2a-set", "acts=/no/such.yaml"), "ERROR: */no/such.yaml: it cannot be read: No such file or directory*"),
        pytest.param(
            ("--a2a-suite", "card", "--a2a-set", "acts-behaviors=x"),
            "ERROR: acts-behaviors: give --a2a-set acts=PATH*",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_bad_options_are_usage_errors(bench: Bench, url: str, words: tuple[str, ...], told: str) -> None:
    result = bench("--a2a-endpoint", url, *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])
