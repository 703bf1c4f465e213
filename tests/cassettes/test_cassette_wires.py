"""Conversations with real agents, recorded and replayed, whatever carried them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faulty_server import start_faulty

from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.turn import AgentReply
from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.cassettes import library
from pytest_a2a_bench.errors import AgentOutcomeError, CassetteError
from pytest_a2a_bench.model import Part, TrialKey

KEY = TrialKey("a", "b", "c")


def talk(connection: AgentConnection, tape: Any, words: list[str]) -> tuple[list[AgentReply | str], list[float]]:
    session = connection.session({"x": 1}, tape)
    said: list[AgentReply | str] = []
    for text in words:
        try:
            said.append(session.send([Part.of_text(text)]))
        except AgentOutcomeError as error:
            said.append(str(error))
    session.finish()
    return said, session.turn_seconds


WORDS = ["hello", "slow please", "chunks", "file", "fail"]
WIRES = list(itertools.product(("jsonrpc", "rest", "grpc"), ("on", "off")))


class Recording(NamedTuple):
    """A conversation on tape, and what the agent really said and how long that took."""

    folder: Path
    config: ClientConfig
    said: list[AgentReply | str]
    seconds: list[float]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Recording]:
    """One conversation over every wire, with an agent that is gone by the time they are replayed."""
    made = {}
    with start_faulty(step=0.05) as agent:
        for transport, streaming in WIRES:
            folder = tmp_path_factory.mktemp(f"{transport}-{streaming}")
            config = ClientConfig(endpoint=agent.url, transport=transport, streaming=streaming, poll_interval=0.01)
            with AgentConnection(config) as connection:
                tape = library.recorder(folder)(KEY)
                library.write_agent(folder, agent.url, connection.card())
                made[transport, streaming] = Recording(folder, config, *talk(connection, tape, WORDS))
                tape.keep()
    return made


@pytest.mark.parametrize(("transport", "streaming"), WIRES)
def test_what_was_recorded_is_said_again_without_the_agent(
    recordings: dict[tuple[str, str], Recording], transport: str, streaming: str
) -> None:
    recorded = recordings[transport, streaming]
    assert len(recorded.said) == len(WORDS)
    for _ in range(2):
        with AgentConnection(recorded.config, library.read_card(recorded.folder)) as connection:
            replayed, again = talk(connection, library.player(recorded.folder)(KEY), WORDS)
        assert [_said(r) for r in replayed] == [_said(r) for r in recorded.said]
        assert again == pytest.approx(recorded.seconds)


def _said(reply: AgentReply | str) -> Any:
    return reply if isinstance(reply, str) else (reply.parts, reply.kind, reply.state, reply.context_id, reply.usage)


def test_another_request_is_a_mismatch_and_a_further_one_too(tmp_path: Path, noop_url: str) -> None:
    config = ClientConfig(endpoint=noop_url)
    with AgentConnection(config) as connection:
        tape = library.recorder(tmp_path)(KEY)
        library.write_agent(tmp_path, noop_url, connection.card())
        talk(connection, tape, ["one"])
        tape.keep()
    with AgentConnection(config, library.read_card(tmp_path)) as connection:
        with pytest.raises(CassetteError, match="request 1 is not the one"):
            talk(connection, library.player(tmp_path)(KEY), ["two"])
        with pytest.raises(CassetteError, match="ends after 1 requests"):
            talk(connection, library.player(tmp_path)(KEY), ["one", "two"])


def test_attempts_that_failed_are_passed_over(tmp_path: Path) -> None:
    with start_builtin("noop") as agent:
        url = agent.url
        with AgentConnection(ClientConfig(endpoint=url)) as connection:
            tape = library.recorder(tmp_path)(KEY)
            library.write_agent(tmp_path, url, connection.card())
            talk(connection, tape, ["one"])
            tape.keep()
    [path] = [p for p in tmp_path.iterdir() if p.name != library.AGENT]
    # As a recording looks when the first attempt met a busy server.
    import json

    data = json.loads(path.read_text())
    failed = {**data["exchanges"][0], "events": [], "error": {"type": "TransportError", "message": "503"}}
    data["exchanges"][0]["attempt"] = 2
    data["exchanges"].insert(0, failed)
    path.write_text(json.dumps(data))
    with AgentConnection(ClientConfig(endpoint=url), library.read_card(tmp_path)) as connection:
        said, _ = talk(connection, library.player(tmp_path)(KEY), ["one"])
    assert len(said) == 1
