"""Options of the conformance suites: keys for signed cards, and where push notifications are received."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from acts_agent import BEHAVIORS, acts_agent
from builtin_server import served
from faulty_server import start_faulty
from harness import Bench, junit_cases

from pytest_a2a_bench.platforms.process import free_port

KEYS = "/.well-known/jwks.json"


@pytest.fixture(scope="module")
def signed_url() -> Iterator[str]:
    """URL of an agent whose card is signed."""
    with start_faulty(variant="signed") as agent:
        yield agent.url.rstrip("/")


@pytest.fixture
def keys(signed_url: str, tmp_path: Path) -> Path:
    """A file with that agent's keys."""
    path = tmp_path / "keys.json"
    path.write_text(httpx.get(signed_url + KEYS).text)
    return path


def test_signatures_are_verified_with_keys_from_file_url_or_ini(bench: Bench, signed_url: str, keys: Path) -> None:
    result = bench("--a2a-endpoint", signed_url, "--a2a-suite", "card", "-k", "SIGN", "-rs")
    result.assert_outcomes(passed=5, skipped=3)
    result.stdout.fnmatch_lines(["*no keys to verify the signatures with; set card-jwks*"])
    for source in (keys, signed_url + KEYS):
        run = ("--a2a-endpoint", signed_url, "--a2a-suite", "card", "-k", "SIGN", "--a2a-set", f"card-jwks={source}")
        bench(*run).assert_outcomes(passed=8)
    (bench.path / "keys.json").write_text(keys.read_text())
    bench.makepyprojecttoml("[tool.a2a-bench]\ncard-jwks = 'keys.json'\n")
    bench("--a2a-endpoint", signed_url, "--a2a-suite", "card", "-k", "SIGN-004").assert_outcomes(passed=1)


def test_a_signature_that_does_not_verify_fails(bench: Bench, keys: Path) -> None:
    with start_faulty("sign-stale") as agent:
        url = agent.url.rstrip("/")
        run = ("--a2a-suite", "card", "-k", "SIGN-004", "--a2a-set", f"card-jwks={url}{KEYS}")
        result = bench("--a2a-endpoint", url, *run)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*SIGN-004* it does not match the card*"])


def test_push_notifications_come_to_the_place_that_was_named(bench: Bench, signed_url: str) -> None:
    port = free_port()
    place = (f"--a2a-set=webhook-bind=127.0.0.1:{port}", f"--a2a-set=webhook-url=http://localhost:{port}/a")
    run = ("--a2a-suite", "protocol", "-k", "PUSH-016 or PUSH-013", *place)
    bench("--a2a-endpoint", signed_url, *run).assert_outcomes(passed=6)


@pytest.mark.slow
def test_collecting_shows_what_a_profile_runs(bench: Bench) -> None:
    run = ("--a2a-endpoint=builtin:echo", "-k", "(SEND or VAL) and JSONRPC", "--co", "-q")
    found = {}
    for profile in ("safe", "standard", "full"):
        lines = bench(*run, f"--a2a-conformance-profile={profile}").outlines
        found[profile] = {line.partition("[")[2] for line in lines if line.startswith("a2a/protocol")}
    assert found["safe"] < found["standard"] <= found["full"]
    assert "VAL-001-JSONRPC]" in found["standard"] - found["safe"]


def test_a_profile_vouches_for_no_more_than_it_judged(bench: Bench) -> None:
    with served("echo?transport=jsonrpc") as agent:
        result = bench("--a2a-endpoint", agent.url, "-m", "conformance", "-k", "CARD-001 or VAL")
    result.stdout.fnmatch_lines(
        ["A2A 1.0: *in what was chosen: * judged; * need --a2a-conformance-profile full to be judged wholly*"]
    )
    assert result.ret == 0


def test_a_transport_that_the_card_has_not(bench: Bench) -> None:
    with served("noop?transport=jsonrpc&protocol=1.0") as agent:
        result = bench("--a2a-endpoint", agent.url, "--a2a-suite=protocol", "-kGET-002", "--a2a-transport=grpc")
    result.stdout.fnmatch_lines(["a2a: --a2a-protocol=auto --a2a-transport=grpc: the card declares 1.0 JSONRPC only"])


def test_a_recommendation_that_fails_alone_is_judged(bench: Bench) -> None:
    with start_faulty("card-no-cache-control") as agent:
        result = bench("--a2a-endpoint", agent.url, "a2a/card::test_card[CARD-013]", "--a2a-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["A2A 1.0: not conformant: SHOULD 0/1; *"])


# Tests of ACTS files as items of pytest.


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
def options(tmp_path: Path) -> tuple[str, ...]:
    """The files, as options name them."""
    (tmp_path / "mine.acts.yaml").write_text(FILE)
    (tmp_path / "known.yaml").write_text(BEHAVIORS)
    return (f"--a2a-set=acts={tmp_path}/mine.acts.yaml", f"--a2a-set=acts-behaviors={tmp_path}/known.yaml")


def test_each_test_is_an_item_per_binding(bench: Bench, url: str, options: tuple[str, ...], tmp_path: Path) -> None:
    result = bench("--a2a-endpoint", url, *options, "-v", "--junit-xml", str(tmp_path / "junit.xml"))
    result.assert_outcomes(passed=3, failed=1)
    assert result.parseoutcomes()["warned"] == 1
    result.stdout.fnmatch_lines_random(
        [
            "*a2a/acts::test_acts[[]MINE-DONE-HTTP+JSON[]] PASSED*",
            "*a2a/acts::test_acts[[]MINE-WRONG-JSONRPC[]] FAILED*",
            "*a2a/acts::test_acts[[]MINE-ADVICE-GRPC[]] WARNED*",
            "A2A 1.0 by ACTS: not conformant: MUST 3/4, SHOULD 0/1",
            "FAILED *a2a/acts::test_acts[[]MINE-WRONG-JSONRPC[]] - step get: the answer is error TaskNotFoundError*",
            "*repeat: curl -sS -i -X POST*",
        ]
    )
    assert len(list(junit_cases(tmp_path / "junit.xml"))) == 5


@pytest.mark.slow
def test_in_ini_they_choose_nothing(bench: Bench, url: str, options: tuple[str, ...]) -> None:
    path = options[0].partition("acts=")[2]
    bench.makepyprojecttoml(f"[tool.a2a-bench]\nacts = '{path}'\n")
    bench.makepyfile("def test_own(): pass")
    bench("--a2a-endpoint", url).assert_outcomes(passed=1)
