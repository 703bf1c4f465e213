import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faulty_server import start_faulty
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench import cassettes
from pytest_a2a_bench.a2a.card import parse_card
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.codec import Artifact, ArtifactUpdate, InEvent, InMessage, InTask, OutMessage, StatusUpdate
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.turn import AgentReply
from pytest_a2a_bench.cassettes import (
    CASSETTE,
    Exchange,
    compare,
    read_error,
    read_event,
    write_error,
    write_event,
    write_send,
)
from pytest_a2a_bench.errors import (
    AgentOutcomeError,
    AuthenticationError,
    CassetteError,
    ConfigurationError,
    InfrastructureError,
    ProtocolError,
    ReplyLimitError,
    TransportError,
)
from pytest_a2a_bench.model import Part, TrialKey

TEXT = st.text(max_size=8)
MAYBE = st.none() | st.text(min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
PARTS = st.lists(st.builds(Part.of_text, TEXT) | st.builds(Part.of_data, JSON), max_size=3).map(tuple)
MESSAGES = st.builds(InMessage, st.sampled_from(["agent", "user"]), PARTS, MAYBE, MAYBE, OBJECT)
ARTIFACTS = st.builds(Artifact, TEXT, PARTS, TEXT, OBJECT)
TASKS = st.builds(
    InTask,
    MAYBE,
    MAYBE,
    MAYBE,
    st.none() | MESSAGES,
    st.lists(ARTIFACTS, max_size=2).map(tuple),
    st.lists(MESSAGES, max_size=2).map(tuple),
    OBJECT,
)
UPDATES = st.builds(StatusUpdate, MAYBE, MAYBE, MAYBE, st.none() | MESSAGES, st.booleans(), OBJECT)
PIECES = st.builds(ArtifactUpdate, MAYBE, MAYBE, ARTIFACTS, st.booleans(), OBJECT, st.booleans())


@pytest.mark.slow
@given(MESSAGES | TASKS | UPDATES | PIECES)
def test_every_event_comes_back(event: InEvent) -> None:
    assert read_event(json.loads(json.dumps(write_event(event)))) == event


@given(JSON)
def test_a_damaged_event_is_reported(data: Any) -> None:
    with pytest.raises(ValueError, match="not an event"):
        read_event(data if isinstance(data, dict) else {"kind": data} if isinstance(data, str) else {})


@pytest.mark.parametrize(
    "error",
    [
        TransportError("busy", status_code=503, retry_after=2.0),
        ReplyLimitError("too large", limit="bytes"),
        ProtocolError("no such method", code=-32601),
        AuthenticationError("no"),
    ],
)
def test_errors_come_back_as_they_were(error: InfrastructureError) -> None:
    again = read_error(json.loads(json.dumps(write_error(error))))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_an_error_of_another_version_is_infrastructure_trouble() -> None:
    assert isinstance(read_error({"type": "Exception", "message": "x"}), InfrastructureError)
    assert str(read_error({"type": "NewerError", "message": "x"})) == "NewerError: x"


def test_the_random_id_of_a_message_is_no_difference_and_everything_else_is() -> None:
    def send(message_id: str, text: str) -> dict[str, Any]:
        return write_send(OutMessage(message_id, (Part.of_text(text),), "c", None, {"k": 1}), stream=False)

    compare(send("1", "hello\nyou"), send("2", "hello\nyou"), key="k", number=1, where="f.json")
    with pytest.raises(CassetteError) as caught:
        compare(send("1", "hello\nyou"), send("2", "hello\nme"), key="k", number=3, where="f.json")
    assert "k: request 3 is not the one that f.json recorded" in str(caught.value)
    assert '-you"' in str(caught.value)
    assert '+me"' in str(caught.value)


@pytest.mark.parametrize("data", [None, [], {}, {"schema_version": 2}, {"schema_version": 1, "exchanges": 3}])
def test_an_invalid_cassette_is_reported(data: Any) -> None:
    with pytest.raises(CassetteError, match=r"c\.json cannot be replayed: it is no cassette"):
        CASSETTE.parse(json.dumps(data).encode(), Path("c.json"))


def test_secrets_are_in_no_file(tmp_path: Path) -> None:
    card = parse_card({"name": "n", "url": "http://a.example", "note": "s3cr3t-t0ken"}, "http://a.example")
    cassettes.write_agent(tmp_path, "http://a.example", card, ["s3cr3t-t0ken"])
    tape = cassettes.recorder(tmp_path, ["s3cr3t-t0ken"])(TrialKey("a", "b", "c"))
    tape._cassette.exchanges.append(Exchange({"text": "s3cr3t-t0ken"}))  # type: ignore[attr-defined]
    tape.keep()
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    assert not [f for f in files if "s3cr3t" in f.read_text()]
    assert {f.stat().st_mode & 0o777 for f in files} == {0o600}
    assert cassettes.read_endpoint(tmp_path) == "http://a.example"


def test_a_missing_or_damaged_cassette_says_what_to_do(tmp_path: Path) -> None:
    key = TrialKey("a", "b", "c")
    with pytest.raises(CassetteError, match="has no cassette of it; record it with --a2a-record"):
        cassettes.player(tmp_path)(key)
    (tmp_path / f"{key.file_stem}.json").write_text("{")
    with pytest.raises(CassetteError, match="cannot be replayed"):
        cassettes.player(tmp_path)(key)
    with pytest.raises(ConfigurationError, match=r"holds no cassettes: it has no agent\.json"):
        cassettes.read_card(tmp_path)
    (tmp_path / cassettes.AGENT).write_text("[]")
    with pytest.raises(ConfigurationError, match="does not tell of an agent"):
        cassettes.read_endpoint(tmp_path)


def test_where_events_stand_in_a_text_is_no_difference() -> None:
    def asked(text: str, start: int) -> dict[str, Any]:
        return {
            "parts": [{"text": text, "metadata": {"a": {"events": [{"kind": "user", "start": start, "length": 4}]}}}]
        }

    compare(asked("same", 3), asked("same", 40), key="k", number=1, where="f")
    with pytest.raises(CassetteError, match="other"):
        compare(asked("same", 3), asked("other", 3), key="k", number=1, where="f")


# Conversations with real agents, recorded and replayed, whatever carried them.


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


def record(folder: Path, config: ClientConfig, words: list[str]) -> tuple[list[AgentReply | str], list[float]]:
    with AgentConnection(config) as connection:
        tape = cassettes.recorder(folder)(KEY)
        cassettes.write_agent(folder, config.endpoint, connection.card())
        found = talk(connection, tape, words)
        tape.keep()
    return found


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
            made[transport, streaming] = Recording(folder, config, *record(folder, config, WORDS))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "streaming"), WIRES)
def test_a_recording_is_replayed_without_the_agent(
    recordings: dict[tuple[str, str], Recording], transport: str, streaming: str
) -> None:
    recorded = recordings[transport, streaming]
    assert len(recorded.said) == len(WORDS)
    for _ in range(2):
        with AgentConnection(recorded.config, cassettes.read_card(recorded.folder)) as connection:
            replayed, again = talk(connection, cassettes.player(recorded.folder)(KEY), WORDS)
        assert [_said(r) for r in replayed] == [_said(r) for r in recorded.said]
        assert again == pytest.approx(recorded.seconds)


def _said(reply: AgentReply | str) -> Any:
    return reply if isinstance(reply, str) else (reply.parts, reply.kind, reply.state, reply.context_id, reply.usage)


def test_another_request_is_a_mismatch_and_a_further_one_too(tmp_path: Path, noop_url: str) -> None:
    config = ClientConfig(endpoint=noop_url)
    record(tmp_path, config, ["one"])
    with AgentConnection(config, cassettes.read_card(tmp_path)) as connection:
        with pytest.raises(CassetteError, match="request 1 is not the one"):
            talk(connection, cassettes.player(tmp_path)(KEY), ["two"])
        with pytest.raises(CassetteError, match="ends after 1 requests"):
            talk(connection, cassettes.player(tmp_path)(KEY), ["one", "two"])


def test_attempts_that_failed_are_passed_over(tmp_path: Path, noop_url: str) -> None:
    config = ClientConfig(endpoint=noop_url)
    record(tmp_path, config, ["one"])
    [path] = [p for p in tmp_path.iterdir() if p.name != cassettes.AGENT]
    # As a recording looks when the first attempt met a busy server.
    data = json.loads(path.read_text())
    failed = {**data["exchanges"][0], "events": [], "error": {"type": "TransportError", "message": "503"}}
    data["exchanges"][0]["attempt"] = 2
    data["exchanges"].insert(0, failed)
    path.write_text(json.dumps(data))
    with AgentConnection(config, cassettes.read_card(tmp_path)) as connection:
        said, _ = talk(connection, cassettes.player(tmp_path)(KEY), ["one"])
    assert len(said) == 1
