import socket

import pytest
from builtin_server import served
from harness import Bench, counts, log_of
from one_test import in_one_test
from raw_agent import raw_agent, response

NOWHERE = "http://127.0.0.1:9"
CARD = ".well-known/agent-card.json"


def test_an_unreachable_endpoint_is_found_once(desk: Bench, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    said = desk.refused("--a2a-endpoint", f"{NOWHERE}/?key=s3cret")
    assert len([line for line in said.lines if line.startswith(f"ERROR: --a2a-endpoint={NOWHERE}/?...: ")]) == 1
    assert "s3cret" not in said.str()
    assert not log_of(desk)
    assert not (desk.path / "a2a-results").exists()
    monkeypatch.setenv("A2A_ENDPOINT", NOWHERE)
    assert len([line for line in bench.refused().lines if line.startswith(f"ERROR: A2A_ENDPOINT={NOWHERE}")]) == 1


@in_one_test("flag", ["--co", "--fixtures", "--setup-plan", "--markers", "--fixtures-per-test"])
def test_nothing_is_asked_when_nothing_runs(desk: Bench, flag: str) -> None:
    assert desk("--a2a-endpoint", NOWHERE, flag).ret == 0


def test_an_interface_that_the_agent_does_not_offer(desk: Bench) -> None:
    with served("noop?protocol=1.0") as agent:
        found = desk.refused("--a2a-endpoint", agent.url, "--a2a-protocol=0.3")
    # The option overrides the card, so the interface is asked in the version that it does not speak.
    said = "* speaks A2A 1.0, and not 0.3, as --a2a-protocol says; leave that out"
    found.fnmatch_lines([f"ERROR: --a2a-endpoint={agent.url}: {said}"])


@pytest.mark.slow
def test_a_taken_port_for_tools_is_found_once(desk: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        result = desk.apart("--a2a-tools=mcp", f"--a2a-set=mcp-bind={place}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = f"ERROR: --a2a-set mcp-bind={place}: the tools' server cannot listen on {place}: Address already in use; *"
    result.stderr.fnmatch_lines([said])
    assert not log_of(desk)


def test_fixtures_for_tests_of_ones_own(bench: Bench, noop_url: str) -> None:
    bench.makepyfile(
        """
        import dataclasses, pytest
        from pytest_a2a_bench.model import Part

        @pytest.fixture(scope="session")
        def a2a_client_config(a2a_client_config):
            return dataclasses.replace(a2a_client_config, max_retries=7)

        def test_card(agent_card):
            assert agent_card.name

        def test_client(a2a_client):
            assert a2a_client.config.max_retries == 7
            session = a2a_client.session()
            assert session.send([Part.of_text("hello")]).text
            assert session.context_id
        """
    )
    result = bench("--a2a-endpoint", noop_url)
    result.assert_outcomes(passed=2)
    assert "a2a benchmark summary" not in result.stdout.str()
    assert "no test used the agent" not in result.stdout.str()


def test_an_endpoint_that_nothing_used_says_how_to_name_a_suite(bench: Bench, noop_url: str) -> None:
    bench.makepyfile("def test_mine(): pass")
    line = "a2a: no test used the agent; name a suite (--a2a-suite airline) or choose from all (-k airline)"
    assert line in bench("--a2a-endpoint", noop_url).outlines


def test_an_agent_at_the_servers_root_is_not_the_one_that_was_meant(desk: Bench, noop_url: str) -> None:
    said = desk.refused("--a2a-endpoint", f"{noop_url}foo/bar")
    (error,) = [line for line in said.lines if line.startswith("ERROR: ")]
    assert error.startswith(f"ERROR: --a2a-endpoint={noop_url}foo/bar: no agent card found for {noop_url}foo/bar; ")
    assert f"the card at the server's root, {noop_url}.well-known/agent-card.json, is of another agent" in error
    assert "jsonrpc 1.0 at " in error


def test_an_interfaces_own_url_is_an_endpoint_too(desk: Bench) -> None:
    with raw_agent(lambda request: response("no", "404 Not Found")) as agent:
        agent.card["supportedInterfaces"].append(
            {"url": f"{agent.url}/api/v0", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}
        )
        card, agent.card = agent.card, {}
        agent.handler = lambda request: (
            response(card) if request.path == f"/{CARD}" else response("no", "404 Not Found")
        )
        result = desk("--a2a-endpoint", f"{agent.url}/api/v0?key=s3cret")
    result.assert_outcomes(passed=1)
    used = f"interface A2A 0.3 jsonrpc at {agent.url}/api/v0"
    assert f"a2a: card {agent.url}/{CARD}; {used}" in result.outlines
    assert "s3cret" not in result.stdout.str()


def test_the_header_names_the_card_and_the_interface(bench: Bench, noop_url: str) -> None:
    result = bench("--a2a-endpoint", noop_url, "--a2a-suite=conformance", "-k", "CARD-001")
    result.stdout.fnmatch_lines([f"a2a: card {noop_url}{CARD}; interface A2A 1.0 jsonrpc at {noop_url}*"])


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("a2a_client_config", "None", "a ClientConfig; it returned None"),
        ("a2a_message_metadata", "None", "a dict of JSON; it returned None"),
        ("a2a_message_metadata", "{1: 2}", "a dict of JSON; it returned {1: 2}"),
        ("a2a_message_metadata", "{'a': {1}}", "a dict of JSON; it returned {'a': {1}}"),
    ],
)
def test_a_fixture_that_returns_something_else_is_named(desk: Bench, name: str, value: str, wanted: str) -> None:
    desk.add_to_conftest(f"\nimport pytest\n@pytest.fixture(scope='session')\ndef {name}(): return {value}\n")
    result = desk()
    assert counts(result) == {"errors": 1}
    assert f"the fixture {name} must return {wanted}" in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
