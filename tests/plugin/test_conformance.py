import contextlib
import time
from collections.abc import Iterator

import pytest
from builtin_server import served
from faulty_server import start_faulty
from gateway_faults import FAULTS
from gateway_proxy import Fault, gateway_proxy
from harness import Bench, ids, junit_cases, junit_properties
from raw_agent import Request, raw_agent, stream_head
from scripted import Features, full_agent


@pytest.fixture(scope="module")
def bad_url() -> Iterator[str]:
    """URL of an agent whose card has no name."""
    with start_faulty("card-no-name") as agent:
        yield agent.url


def trickle(_: Request) -> Iterator[bytes]:
    """Serve a card a byte at a time, and never to its end."""
    yield stream_head("application/json") + b"{"
    while True:  # until the other side closes
        yield b" "
        time.sleep(0.1)


@contextlib.contextmanager
def behind(fault: Fault) -> Iterator[tuple[tuple[str, ...], tuple[str, str]]]:
    """Serve an agent behind a gateway; give the options that judge it, and the one that names it directly."""
    with gateway_proxy(fault) as proxy, full_agent(Features(public=proxy.url, grpc=False)) as direct:
        proxy.target = direct
        yield ("--a2a-endpoint", proxy.url, "-m", "conformance"), ("--a2a-direct", direct)


def test_an_interrupted_run_calls_no_agent_conformant(bench: Bench, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        stopper="def pytest_runtest_setup(item):\n    if 'SEND-' in item.name:\n        raise KeyboardInterrupt"
    )
    pytester.syspathinsert()
    with start_faulty() as agent:
        chosen = ("-m", "conformance", "-k", "CARD-001 or SEND-003")
        result = bench("-p", "stopper", "--a2a-endpoint", agent.url, *chosen)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["A2A 1.0: not judged completely: MUST *not made, because the run ended early*"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("transport", "least", "columns"),
    [("jsonrpc", 120, "group *card *JSONRPC*"), ("all", 250, "group *card *JSONRPC *HTTP+JSON *GRPC*")],
)
def test_a_correct_agent_passes_everything(bench: Bench, transport: str, least: int, columns: str) -> None:
    with start_faulty(transport=transport) as agent:
        result = bench("--a2a-endpoint", agent.url, "-m", "conformance")
    found = result.parseoutcomes()
    assert result.ret == 0
    assert found["passed"] > least
    assert not {"failed", "errors", "error", "warned"} & set(found)
    result.stdout.fnmatch_lines(["*a2a conformance summary*", columns, "A2A 1.0: fully conformant in *"])


def test_a_failure_shows_the_requirement_and_how_to_repeat_it(bench: Bench, bad_url: str) -> None:
    path = bench.path / "junit.xml"
    result = bench("--a2a-endpoint", bad_url, "--a2a-suite", "card", f"--junitxml={path}")
    assert result.ret == 1
    assert result.parseoutcomes()["failed"] == 1
    result.stdout.fnmatch_lines(
        [
            "*a2a CARD-003 [[]card[]]*",
            "CARD-003 [[]card[]] MUST (1.0.1 *",
            "  error: *name*",
            "*fix: *",
            "A2A 1.0: not conformant: *",
            "FAILED a2a/card::test_card[[]CARD-003[]] - name is missing (MUST, *",
        ]
    )
    case = junit_cases(path)["test_card[CARD-003]"]
    properties = junit_properties(case)
    assert properties["a2a.check"] == "1.0/CARD-003[card]"
    assert properties["a2a.check_status"] == "failed"
    failure = case.find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("name is missing (MUST, ")


def test_a_should_warns_and_strict_makes_it_fail(bench: Bench) -> None:
    with start_faulty("card-no-etag") as agent:
        run = ("--a2a-endpoint", agent.url, "--a2a-suite", "card")
        lax, strict = bench(*run), bench(*run, "--a2a-strict")
        warnings_are_errors = bench(*run, "-Werror::pytest_a2a_bench.errors.ConformanceWarning")
    assert lax.ret == 0
    assert lax.parseoutcomes()["warned"] == 1
    # Without a line of ours.
    assert "test_conformance.py" not in lax.stdout.str()
    lax.stdout.fnmatch_lines(
        ["*a2a/card:1: ConformanceWarning: CARD-014 *", "A2A 1.0: conformant in its card alone: *"]
    )
    for result in (strict, warnings_are_errors):
        assert result.ret == 1
        assert result.parseoutcomes()["failed"] == 1
        assert "errors" not in result.parseoutcomes()


def test_a_waived_failure_is_not_published(bench: Bench, bad_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (bench.path / "waivers.toml").write_text(
        '[[waiver]]\nid = "CARD-003"\nreason = "named in release 2"\n[[waiver]]\nid = "CARD-004"\nreason = "gone"\n'
    )
    files = ("--a2a-waivers=waivers.toml", "--a2a-markdown=run.md")
    result = bench("--a2a-endpoint", bad_url, "--a2a-suite", "card", *files, "-rx")
    assert result.ret == 0
    assert result.parseoutcomes()["xfailed"] == 1
    result.stdout.fnmatch_lines(
        [
            "removable waiver: CARD-004 (its check passes)",
            "*1 waived*",
            "XFAIL *a2a/card::test_card[[]CARD-003[]] - waived: named in release 2*",
        ]
    )
    assert not any(line.startswith("::") for line in result.outlines)
    published = (bench.path / "run.md").read_text()
    assert "missed" not in published
    assert "- A2A 1.0: not conformant: MUST " in published
    assert "1 waived" in published
    # There was none.
    assert "user simulator" not in published


@pytest.mark.parametrize(
    ("expression", "some", "other"),
    [
        (("-m", 'conformance(level="SHOULD")'), "CARD-014", "CARD-004"),
        (("-m", 'conformance(id="SEND-003")'), "SEND-003-GRPC", "SEND-001"),
        (("-k", "list-tasks and GRPC"), "LIST-013-GRPC", "LIST-013-JSONRPC"),
    ],
)
def test_groups_levels_and_ids_choose(bench: Bench, expression: tuple[str, str], some: str, other: str) -> None:
    found = ids(bench("--co", "-q", "--a2a-endpoint", "http://127.0.0.1:1", *expression))
    assert any(some in nodeid for nodeid in found)
    assert not any(other in nodeid for nodeid in found)


def test_an_undeclared_binding_is_one_skip(bench: Bench) -> None:
    with served("noop?transport=jsonrpc&protocol=1.0") as agent:
        result = bench("--a2a-endpoint", agent.url, "--a2a-suite", "protocol", "-k", "GRPC", "-rs")
    assert result.parseoutcomes()["skipped"] == 1
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] *the card declares no GRPC interface of version 1.0"])


@pytest.mark.slow
def test_protocol_and_transport_narrow_it_down(bench: Bench) -> None:
    with served("noop") as agent:
        run = ("--a2a-endpoint", agent.url, "--a2a-suite", "protocol", "-k", "DM-001 or DM-003", "-v")
        result = bench(*run, "--a2a-protocol", "1.0", "--a2a-transport", "rest")
    names = {line.split()[0] for line in result.outlines if line.startswith("a2a/protocol::")}
    assert names
    assert all("-HTTP+JSON]" in name and "V03" not in name for name in names)


def test_a_card_that_trickles_in_or_is_not_there_is_a_usage_error(bench: Bench) -> None:
    with raw_agent(trickle, {}) as agent:
        said = bench.refused("--a2a-endpoint", agent.url, "--a2a-suite", "card", "--a2a-timeout", "1")
    said.fnmatch_lines(["*no complete answer within 1 s*"])
    bench.refused("--a2a-endpoint", "http://127.0.0.1:1", "-m", "conformance")


def test_a_card_that_cannot_be_used_is_a_finding(bench: Bench) -> None:
    with start_faulty("card-array") as agent:
        result = bench("--a2a-endpoint", agent.url, "--a2a-suite", "card,protocol", "--a2a-html=p.html")
    assert result.ret == 1
    found = result.parseoutcomes()
    assert (found["failed"], found["errors"]) == (1, 1)
    result.stdout.fnmatch_lines(["*there is no agent card that can be read*"])
    page = (bench.path / "p.html").read_text(encoding="utf-8")
    unjudged = page.split("DECLARED [card] MUST</span>")[1].split("</details>")[0]
    assert "1.0.1 §4.4.6" in unjudged
    assert "there is no agent card that can be read" in unjudged


def test_fixtures_for_tests_of_ones_own(bench: Bench, bad_url: str) -> None:
    bench.makepyfile(
        """
        import pytest

        def test_card(card_findings):
            assert [f.rule for f in card_findings] == ["CARD-003"]

        def test_everything(conformance_findings):
            assert {f.rule for f in conformance_findings if f.severity == "error"} == {"CARD-003"}

        def test_raw(a2a_wire):
            reply = a2a_wire.call("GetTask", {"id": "no-such-task"})
            assert reply.error.name == "TaskNotFoundError"
            assert reply.exchange.request.startswith("{")
            sent = a2a_wire.send("hello", binding="HTTP+JSON")
            assert sent.status == 200
            assert "task" in sent.result

        @pytest.mark.conformance("protocol", group="get-task", binding="JSONRPC")
        def test_mine(conformance_check):
            assert conformance_check.passed
        """
    )
    found = bench("--a2a-endpoint", bad_url, "test_fixtures_for_tests_of_ones_own.py").parseoutcomes()
    assert "failed" not in found
    assert "errors" not in found
    assert found["passed"] >= 8


@pytest.mark.parametrize("mark", ["skip(reason='known')", "xfail(reason='known')"])
def test_a_defect_does_not_hide_behind_an_item_that_says_nothing(bench: Bench, mark: str) -> None:
    bench.makeconftest(
        f"""
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                if "PUSH-008" in item.name:
                    item.add_marker(pytest.mark.{mark})
        """
    )
    with start_faulty("push-undeclared-code", variant="bare", transport="jsonrpc") as agent:
        result = bench("--a2a-endpoint", agent.url, "-k", "PUSH-008 or ERR-JSON-PushNotificationNotSupported")
    found = result.parseoutcomes()
    assert found.get("failed") == 1, found
    assert "explained" not in result.stdout.str()


def test_a_gateway_has_an_item_for_each_requirement(bench: Bench) -> None:
    with behind(next(fault for fault in FAULTS if fault.name == "port lost")) as (judged, direct):
        chosen = (*judged, "-k", "GW-001 or GW-005 or CARD-029 or VAL-006")
        result = bench(*chosen, *direct, "-rs", "-v")
        out = result.stdout.str()
        found = result.parseoutcomes()
        assert (found["failed"], found["passed"], found["skipped"]) == (1, 3, 2), out
        assert "a2a/gateway::test_gateway[GW-001]" in out
        assert "wrong without the gateway, too: the agent's own" in out
        assert "the gateway breaks GW-001 in " in out
        # Without the agent there is nothing to compare with.
        assert not [line for line in ids(bench(*chosen, "--co", "-q")) if "gateway" in line]


@pytest.mark.slow
def test_what_follows_from_the_gateway_is_explained_by_it(bench: Bench) -> None:
    with behind(next(fault for fault in FAULTS if fault.name == "version lost")) as (judged, direct):
        result = bench(*judged, *direct, "-k", "JSONRPC and (GW-006 or GET-002)", "-rs")
    out = result.stdout.str()
    assert (result.parseoutcomes()["failed"], result.parseoutcomes()["skipped"]) == (1, 1), out
    assert "explained by GW-006 [JSONRPC]" in out
    assert "GET-002 [JSONRPC] GetTask of an unknown task: not the error: error VersionNotSupportedError" in out
