"""Commands that do again what a run did: exactly that, whatever agents and users said."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_trials import made_trial

from pytest_a2a_bench.a2a.messages import InMessage, OutMessage
from pytest_a2a_bench.cassettes.form import Cassette, Exchange, write_event, write_send
from pytest_a2a_bench.model import Part, ProtocolMetrics, TrialResult
from pytest_a2a_bench.reports.again import hold_again
from pytest_a2a_bench.reports.exchanges import recorded
from pytest_a2a_bench.secret import dump_json

URL = "http://agent.example/rpc"


def made(directory: Path, method: str, url: str = URL, said: str = "it's $HOME `x` \u202e") -> TrialResult:
    """Return a trial of which one message was recorded."""
    parts = (Part.of_text(said), Part.of_data({"a": [1]}))
    sent = write_send(OutMessage("m1", parts, "c1", metadata={"who": "me"}), stream=False)
    answer = write_event(InMessage("agent", (Part.of_text("fine \x1b[31m"),)))
    exchange = Exchange(sent, [answer], method=method, status_code=200, seconds=0.25)
    metric = ProtocolMetrics("r1", url, method, 200, 12.5, "2026-01-02T03:04:05.678")
    result = dataclasses.replace(made_trial("made/even/1#0"), metrics=(metric,))
    path = directory / f"{result.key.file_stem}.json"
    path.write_text(dump_json(Cassette(str(result.key), [exchange]).to_json()), encoding="utf-8")
    return result


def command_of(told: dict[str, Any]) -> tuple[list[str], Any]:
    words = shlex.split(told["curl"])
    return words, json.loads(words[words.index("-d") + 1])


@pytest.mark.parametrize(
    ("method", "url", "role", "has_version"),
    [
        ("SendMessage", URL, "ROLE_USER", True),
        ("message/send", URL, "user", False),
        ("POST /message:send", "http://agent.example/message:send", "ROLE_USER", True),
        ("POST /message:send", "http://agent.example/v1/message:send", "ROLE_USER", False),
    ],
)
def test_a_message_is_sent_again_as_its_binding_has_it(
    tmp_path: Path, method: str, url: str, role: str, has_version: bool
) -> None:
    (told,) = recorded(tmp_path, "A2A_AUTH_TOKEN")(made(tmp_path, method, url))
    words, body = command_of(told)
    assert (words[0], words[-1]) == ("curl", url)
    assert ("A2A-Version: 1.0" in words) is has_version
    assert "Authorization: Bearer $A2A_AUTH_TOKEN" in words
    params = body["params"] if "jsonrpc" in body else body
    assert body.get("method", method) == method
    assert (params["message"]["role"], params["message"]["contextId"]) == (role, "c1")
    assert "it's $HOME `x` \u202e" in json.dumps(params, ensure_ascii=False)
    assert told["curl"].isascii()
    assert (told["method"], told["status"], told["ms"]) == (method, 200, 250.0)
    assert not set(told["answer"] + told["request"]) & set("\x1b\u202e")


def test_what_is_no_message_over_http_is_shown_only(tmp_path: Path) -> None:
    (told,) = recorded(tmp_path)(made(tmp_path, "SendMessage", "grpc://agent.example:1"))
    assert told["curl"] == ""
    assert "it's" in told["request"]
    assert recorded(tmp_path)(made_trial("made/even/2#0")) == []
    (tmp_path / f"{made_trial('made/even/3#0').key.file_stem}.json").write_text("{")
    assert recorded(tmp_path)(made_trial("made/even/3#0")) == []


@given(st.text(min_size=1, max_size=30).filter(lambda text: text.isprintable() and text == " ".join(text.split())))
def test_a_node_id_is_one_word(name: str) -> None:
    # Behind a file's name, as always: what begins with "::" would be a command to a CI system, and is broken up.
    nodeid = f"test_own.py::test[{name.replace('##', '')}]"
    words = shlex.split(hold_again(nodeid, "http://h/?a=b&c"))
    assert words[:3] == ["pytest", "--a2a-endpoint", "http://h/?a=b&c"]
    assert words[3:] == [nodeid]
