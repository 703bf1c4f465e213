"""``a2a-bench check --listen``, and the lines of a report that need it."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import pytest

from pytest_a2a_bench.cli import main
from pytest_a2a_bench.conformance.finding import Exchange
from pytest_a2a_bench.reports import findings
from pytest_a2a_bench.reports.findings import listener_line


def post(url: str, **options: str) -> httpx.Response:
    """Notify a listener that is about to listen."""
    for _ in range(600):
        try:
            return httpx.post(url, json={"task": {"id": "t-1"}}, headers=options, trust_env=False)
        except httpx.ConnectError:
            time.sleep(0.05)
    raise AssertionError("nobody listens")


def test_it_prints_what_comes_to_any_path(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        place = f"127.0.0.1:{reserved.getsockname()[1]}"
    codes: list[int] = []
    listening = threading.Thread(
        target=lambda: codes.append(main.main(["check", "--listen", place, "--count", "2", "--status", "202"]))
    )
    listening.start()
    answers = [post(f"http://{place}{path}", authorization="Bearer \x1b[31mx") for path in ("/a/b", "/")]
    listening.join()
    said = capsys.readouterr().out
    assert codes == [0]
    assert [a.status_code for a in answers] == [202, 202]
    assert "--- 1: POST\n" in said
    assert "--- 2: POST\n" in said
    assert "authorization: Bearer " in said
    assert '"id": "t-1"' in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "give HOST:PORT"),
        (
            ["127.0.0.1:1", "--status", "99", "--count", "-1"],
            "--count is -1; give a whole number, 0 for no end\na2a-bench: --status is 99",
        ),
        (["192.0.2.1:8099"], "cannot listen on 192.0.2.1:8099"),
    ],
)
def test_impossible_arguments_are_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check", "--listen", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == said.count("\n") + 1


def asked(url: str) -> Exchange:
    request = f'{{"params": {{"taskId": "t", "url": "{url}"}}}}'
    return Exchange("JSONRPC", "CreateTaskPushNotificationConfig", "http://h/", "POST", request=request, status=200)


def test_a_line_that_needs_a_listener_says_so() -> None:
    lines = list(findings.wire_lines(asked("http://127.0.0.1:41234/abcdefgh_-345678")))
    assert lines[-2] == "listen: a2a-bench check --listen 127.0.0.1:41234"
    assert lines[-1].startswith("repeat: curl ")


def test_a_listener_behind_a_tunnel_is_the_users() -> None:
    line = listener_line(asked("https://tunnel.example/hooks/abcdefgh_-345678"))
    assert line == "a2a-bench check --listen HOST:PORT, where https://tunnel.example leads to"


@pytest.mark.parametrize(
    "url", ["https://webhook.example.org/never-called", "http://169.254.169.254/latest/meta-data/"]
)
def test_a_line_that_needs_none_says_nothing(url: str) -> None:
    assert listener_line(asked(url)) == ""
    assert "listen" not in "".join(findings.wire_lines(asked(url)))
