"""The platform's side of a controller, with controllers that are wrong in one way each."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest
from controlled import Control
from threaded_http import Handler, HttpServer

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.platforms.once import ControllerError, reset_agent
from pytest_a2a_bench.secret import Secret

Answers = Callable[[str, int], tuple[int, object]]


@contextlib.contextmanager
def answering(answers: Answers) -> Iterator[str]:
    """Serve what a function of the request ("GET /agents") and its number (from 0) returns: status and JSON."""
    asked: list[str] = []

    class Controller(Handler):
        def do_GET(self) -> None:
            self.body()
            line = f"{self.command} {self.path}"
            status, found = answers(line, asked.count(line))
            asked.append(line)
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.answer(status, body)

        do_POST = do_GET

    with HttpServer(Controller) as server:
        yield server.url


def reset(url: str, token: Secret | None = None, seconds: float = 30.0) -> str:
    return loop.run(reset_agent(url, token, seconds))


def test_moments_of_trouble_in_a_reset_are_waited_out() -> None:
    def answers(line: str, number: int) -> tuple[int, object]:
        if line == "GET /agents":
            return 200, {"first": {"state": "running"}, "second": {}}
        if line == "POST /agents/first/reset":
            return 200, {"message": "requested"}
        # As AgentBeats' own does while it moves files about.
        return [(500, b"Internal Server Error"), (200, {"state": "starting"}), (200, {"state": "running"})][number]

    with answering(answers) as url:
        assert reset(f"{url}/") == f"{url}/to_agent/first"


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        (lambda line, number: (200, {}), "keeps no agent"),
        (lambda line, number: (200, b"<html>"), "GET http://127.0.0.1:.*/agents: HTTP 200 <html>"),
        (lambda line, number: (200, ["x"]), "HTTP 200"),
        (lambda line, number: (401, {}), "HTTP 401 .*--controller-auth-env"),
        (lambda line, number: (200 if line == "GET /agents" else 503, {"a": {}}), "POST .*/agents/a/reset: HTTP 503"),
        (lambda line, number: (200, {"a": {}, "state": "starting"}), "is starting after its reset"),
        (
            lambda line, number: (200, {"a": {}, "state": "finished(2)", "stderr_log": "x\n no key "}),
            "saying 'x no key'",
        ),
    ],
)
def test_what_is_wrong_with_a_controller_is_told(answers: Answers, complaint: str) -> None:
    with answering(answers) as url, pytest.raises(ControllerError, match=complaint):
        reset(url, seconds=0.1)


def test_a_controller_that_is_not_there_is_told() -> None:
    with pytest.raises(ControllerError, match=r"GET http://127\.0\.0\.1:9/agents: .*Connect"):
        reset("http://127.0.0.1:9")


def test_the_token_is_shown(control: Control) -> None:
    at = control(host="0.0.0.0", token=Secret("t0ken-of-the-platform"))
    at.wait("running")
    with pytest.raises(ControllerError, match="HTTP 401"):
        reset(at.url)
    with pytest.raises(ControllerError, match="HTTP 401"):
        reset(at.url, Secret("another-token"))
    assert reset(at.url, Secret("t0ken-of-the-platform")) == at.agent.url
    assert at.agent.generation == 2
