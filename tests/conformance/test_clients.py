"""``check --client`` and ``a2a_observed_agent``: planted faults of clients are found, a correct client is silent."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from small_client import FAULTS, Cut, Refused, SmallClient, webhook

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.cli import main
from pytest_a2a_bench.conformance.card.judge import check_card
from pytest_a2a_bench.conformance.clients.agent import CARDS, SITUATIONS
from pytest_a2a_bench.conformance.clients.observed import ObservedAgent
from pytest_a2a_bench.conformance.clients.serving import CARD_PATH
from pytest_a2a_bench.conformance.report import Report
from pytest_a2a_bench.conformance.wire import webhook as receiving
from pytest_a2a_bench.errors import ConfigurationError, InfrastructureError
from pytest_a2a_bench.model import Part
from pytest_a2a_bench.reports.findings import FORMATS, render

PLACES = [(b, v) for v in ("1.0", "0.3") for b in ("JSONRPC", "HTTP+JSON", "GRPC")]


def test_a_rule_without_an_occasion_is_not_observed() -> None:
    with ObservedAgent() as agent:
        client = SmallClient(agent, "JSONRPC", "1.0")
        assert client.connect()
        client.send("slow")
        report = agent.report()
    reasons = [j.reason for j in report.rows if j.id == "STREAM-019"]
    assert reasons == ["not observed: say `reconnect` in a streaming request"]
    assert report.levels[0].text.startswith("fully conformant in what was observed")


def test_without_a_word_each_conversation_gets_the_next_situation() -> None:
    with ObservedAgent(retry_after=0) as agent:
        client = SmallClient(agent, "GRPC", "1.0")
        assert client.connect("GRPC", "1.0")
        states = [client.send("hello", wait=False)["task"]["status"]["state"] for _ in range(2)]
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING"]


def test_the_same_text_in_each_conversation_is_no_message_sent_again() -> None:
    with ObservedAgent(retry_after=600) as agent:
        client = SmallClient(agent, "JSONRPC", "1.0", "no-retry-after no-reconnect")
        assert client.connect()
        for _ in range(2 * len(SITUATIONS)):
            with contextlib.suppress(Refused, Cut, httpx.HTTPError):
                client.call("SendStreamingMessage", {"message": client.message("hello")})
        found = {j.id for j in agent.report().rows if j.is_finding}
    # It follows no task whose stream was cut, and that is all.
    assert found == {"STREAM-019"}


def test_the_same_situation_of_another_interface_is_no_message_sent_again() -> None:
    with ObservedAgent(retry_after=600) as agent:
        for binding in ("JSONRPC", "HTTP+JSON"):
            client = SmallClient(agent, binding, "1.0")
            assert client.connect(binding, "1.0")
            client.token = "Bearer of the user"
            for situation in ("drop", "expired-token", "retry-429"):
                with contextlib.suppress(Refused, httpx.HTTPError):
                    client.call("SendMessage", {"message": client.message(situation)})
                # A user may say it twice.
                with contextlib.suppress(Refused, httpx.HTTPError):
                    client.call("SendStreamingMessage", {"message": client.message(situation)})
        assert agent.findings == []


def test_each_card_that_changes_is_judged_alone() -> None:
    with ObservedAgent() as agent:
        # Each of two clients fetches it for the first time.
        for _ in range(2):
            assert SmallClient(agent, "JSONRPC", "1.0").connect("reversed", "card-change")
        client = SmallClient(agent, "JSONRPC", "1.0")
        for names in (("JSONRPC", "card-change"), ("card-change",)):
            client.etag = ""
            assert client.connect(*names)
            client.send("slow")
            with contextlib.suppress(Refused):
                client.send("slow")
        found = {f.rule: f.found for f in agent.findings}
    # Each was fetched once: no fetch again without a condition, and the first is no second fetch of the other.
    assert found == {"CARD-013": "goes on with the URLs of a card that is to be fetched again (no-cache)"}


def test_what_a_client_does_in_one_version_is_not_said_of_another() -> None:
    with ObservedAgent() as agent:
        old, new = SmallClient(agent, "JSONRPC", "0.3"), SmallClient(agent, "JSONRPC", "1.0")
        for client in (old, new):
            assert client.connect("JSONRPC", client.version)
            client.send("slow")
        # One tries the first interface and gives up, the other does not try it.
        assert old.connect("JSONRPC", "0.3", "dead-interface")
        card = httpx.get(agent.at("JSONRPC", "1.0", "dead-interface") + CARD_PATH, trust_env=False).json()
        new.interface = card["supportedInterfaces"][1]
        new.send("slow")
        found = {(f.rule, f.spec.split()[0]) for f in agent.findings}
    assert found == {("CLIENT-002", "0.3.0"), ("CLIENT-001", "1.0.1")}


def test_a_report_has_every_format() -> None:
    report = go_through("JSONRPC", "1.0", "agent-role", "input")
    assert [format for format in FORMATS if "DM-004" not in render(report, format)] == []


def test_the_cards_are_right() -> None:
    names = [(), *((c,) for c in CARDS if c != "unknown-fields"), ("1.0",), ("0.3",), ("GRPC",)]
    with ObservedAgent() as agent:
        cards = [httpx.get(agent.at(*each) + CARD_PATH, trust_env=False).json() for each in names]
    assert [f for card in cards for f in check_card(card) if f.severity != "note"] == []


def test_requests_of_browsers_and_probes_are_not_the_clients() -> None:
    with ObservedAgent() as agent:
        asked = {"Access-Control-Request-Headers": "a2a-version", "Origin": "http://page.example"}
        url = f"{agent.url}/at/1.0/jsonrpc"
        allowed = httpx.request("OPTIONS", url, headers=asked, trust_env=False)
        assert httpx.get(agent.url, trust_env=False).status_code == 404
        assert agent.requests == 0
    assert allowed.status_code == 204
    assert allowed.headers["access-control-allow-headers"] == "a2a-version"
    assert allowed.headers["access-control-allow-origin"] == "*"


def test_a_connection_that_is_held_open_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "_READ_SECONDS", 3600.0)
    with ObservedAgent() as agent:
        host, port = agent.url.removeprefix("http://").split(":")
        connection = socket.create_connection((host, int(port)))
        ask(agent.url)
    connection.close()


def test_a_card_that_there_is_not_is_refused() -> None:
    with ObservedAgent() as agent, pytest.raises(ConfigurationError, match="there is no card old; there are reversed"):
        agent.at("old")


def check(*arguments: str, client: Callable[[str], object]) -> int:
    """Run ``check --client`` and, once it listens, a client."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        place = f"127.0.0.1:{reserved.getsockname()[1]}"
    codes: list[int] = []
    listening = threading.Thread(target=lambda: codes.append(main.main(["check", "--client", place, *arguments])))
    listening.start()
    while listening.is_alive():
        with contextlib.suppress(httpx.HTTPError):
            client(f"http://{place}")
            break
        time.sleep(0.05)
    listening.join()
    return codes[0]


def ask(url: str, role: str = "ROLE_USER") -> None:
    """Send one message over JSON-RPC."""
    message = {"messageId": "m", "role": role, "parts": [{"text": "hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    httpx.post(f"{url}/at/1.0/jsonrpc", json=body, headers={"A2A-Version": "1.0"}, trust_env=False)


def test_the_command_ends_after_a_count_and_judges(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--count", "1", client=ask) == 0
    out = capsys.readouterr().out
    assert "A2A 1.0: fully conformant in what was observed" in out
    assert check("--count", "1", client=lambda url: ask(url, "ROLE_AGENT")) == 1
    out = capsys.readouterr().out
    assert "DM-004 [JSONRPC] sends a message with the role 'ROLE_AGENT'" in out
    assert "repeat: curl" not in out


def test_the_fixture_judges_a_client(a2a_observed_agent: ObservedAgent) -> None:
    ask(a2a_observed_agent.url, "ROLE_AGENT")
    assert [(f.rule, f.severity, f.spec) for f in a2a_observed_agent.findings] == [
        ("DM-004", "error", "1.0.1 §4.1.5, 5.5")
    ]
    (exchange,) = a2a_observed_agent.findings[0].exchanges
    assert "ROLE_AGENT" in exchange.request


def test_waivers_are_for_clients_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waivers = tmp_path / "waivers.toml"
    waivers.write_text(
        '[[waiver]]\nid = "DM-004"\nreason = "reported"\n\n[[waiver]]\nid = "CLIENT-001"\nreason = "r"\n'
    )
    arguments = ("--count", "1", "--waivers", str(waivers), "-o", str(tmp_path / "report.json"), "--format", "json")
    assert check(*arguments, client=lambda url: ask(url, "ROLE_AGENT")) == 0
    assert json.loads((tmp_path / "report.json").read_text())["counts"]["waived"] == 1


def test_a_report_that_cannot_be_written_is_said_before_a_client_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main.main(["check", "--client", "127.0.0.1:0", "--count", "1", "-o", str(tmp_path / "file" / "report")]) == 2
    assert f"-o {tmp_path / 'file' / 'report'}: cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_signal_ends_the_command_and_nobody_came(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "pytest_a2a_bench.cli", "check", "--client", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "an agent that judges its client is at http://127.0.0.1:" in process.stderr.readline()
        process.send_signal(number)
        out, error = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert error.endswith("a2a-bench: no client came\n")


def go_through(binding: str, version: str, fault: str = "", *situations: str, retry_after: int = 0) -> Report:
    """Have the client go through situations, and return the report on it."""
    with ObservedAgent(retry_after=retry_after) as agent, webhook(fault) as hook:
        client = SmallClient(agent, binding, version, fault)
        if client.connect(*((binding, version) if binding == "GRPC" else ())):
            client.go_through(hook, *situations)
        return agent.report()


@pytest.mark.parametrize(("binding", "version"), PLACES)
def test_a_correct_client_has_no_finding(binding: str, version: str) -> None:
    seconds = int(binding == "JSONRPC")
    report = go_through(binding, version, "", *SITUATIONS, "cards", retry_after=seconds)
    assert [(j.name, [f.found for f in j.findings]) for j in report.rows if j.findings] == []
    # What gRPC has no headers and paths for is not observed there.
    assert sum(j.status == "passed" for j in report.rows) >= 18


def test_a_client_that_goes_by_the_order_of_the_card_has_no_finding() -> None:
    report = go_through("JSONRPC", "1.0", "", "order")
    assert [j.status for j in report.rows if j.id == "CLIENT-001"] == ["passed"]
    assert report.is_clean


# Each binding, each version and both ways of asking by default, and all of them together at night.
OWN = [("JSONRPC", "1.0", "on"), ("HTTP+JSON", "0.3", "on"), ("GRPC", "1.0", "off")]
FURTHER = [(*place, streaming) for place in PLACES for streaming in ("on", "off") if (*place, streaming) not in OWN]


@pytest.mark.parametrize(
    ("binding", "version", "streaming"), [*OWN, *(pytest.param(*each, marks=pytest.mark.slow) for each in FURTHER)]
)
def test_our_own_client_has_no_finding(binding: str, version: str, streaming: str) -> None:
    # It has no extensions, and streams where the user says so: what the agent answers is what is wanted.
    cards = ("dead-interface", "card-change", "tenant", "unknown-fields", *(["plain"] if streaming == "off" else []))
    with ObservedAgent(retry_after=0) as agent:
        for names in ((), ("reversed",), (binding, version), *((binding, version, card) for card in cards)):
            config = ClientConfig(agent.at(*names), auth=Credentials("token"), streaming=streaming)
            with AgentConnection(config) as connection:
                for situation in SITUATIONS if len(names) == 2 else ("slow", "slow"):
                    session = connection.session()
                    with contextlib.suppress(InfrastructureError):
                        reply = session.send([Part.of_text(situation)])
                        if reply.state == "input-required":
                            session.send([Part.of_text(reply.text.split()[-1].rstrip("."))])
        report = agent.report()
    # HTTP+JSON is sent as application/json, which servers read that do not know A2A's own media type.
    found = [j for j in report.rows if j.is_finding and j.id != "HJ-002"]
    assert [(j.name, [f.found for f in j.findings]) for j in found] == []


FIRST = {fault[4]: fault for fault in reversed(FAULTS)}


@pytest.mark.parametrize(
    ("fault", "binding", "version", "situations", "id"),
    [pytest.param(*fault, marks=[pytest.mark.slow] * (FIRST[fault[4]] != fault)) for fault in FAULTS],
)
def test_a_planted_fault_is_found_and_named(fault: str, binding: str, version: str, situations: str, id: str) -> None:
    report = go_through(binding, version, fault, *situations.split(), retry_after=600)
    found = {j.id: [f.found for f in j.findings] for j in report.rows if j.is_finding}
    assert set(found) == {id}, found
