import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable

import httpx
import pytest
from judged import SCRIPTED, collect
from one_test import in_one_test
from scripted import full_agent

from pytest_a2a_bench.cli import main
from pytest_a2a_bench.conformance.checks.push import _unauthorized
from pytest_a2a_bench.conformance.finding import BINDINGS, CheckResult, Exchange
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.target import targets_of
from pytest_a2a_bench.conformance.wire.webhook import Delivery, WebhookReceiver
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.listener import BindAddress, read_bind_address
from pytest_a2a_bench.platforms.process import free_port
from pytest_a2a_bench.reports import findings
from pytest_a2a_bench.reports.findings import listener_line


def run(scenario: Callable[[WebhookReceiver], Awaitable[None]]) -> None:
    async def main() -> None:
        async with WebhookReceiver() as receiver:
            await scenario(receiver)

    asyncio.run(main())


async def raw(receiver: WebhookReceiver, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


def test_wait_ends_when_the_wanted_delivery_comes_and_gives_up_in_time() -> None:
    async def scenario(receiver: WebhookReceiver) -> None:
        hook = receiver.hook()

        async def deliver() -> None:
            async with httpx.AsyncClient() as client:
                for number in range(3):
                    await asyncio.sleep(0.02)
                    await client.post(hook.url, json=number)

        sending = asyncio.create_task(deliver())
        assert await hook.wait(lambda found: any(d.json == 2 for d in found))
        await sending
        # Measured on the same loop, whatever else the machine does.
        much_later = asyncio.create_task(asyncio.sleep(20))
        assert not await hook.wait(lambda found: len(found) > 3, timeout=0.05)
        assert not much_later.done()
        much_later.cancel()

    run(scenario)


def test_chunked_bodies_and_expectations() -> None:
    async def scenario(receiver: WebhookReceiver) -> None:
        hook = receiver.hook()
        path = httpx.URL(hook.url).path.encode()
        head = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        answer = await raw(receiver, head + b'4;x=y\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n')
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
        assert hook.deliveries[0].json == {"a": 1}
        assert await raw(receiver, b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{")
        assert hook.deliveries[1].json is None

    run(scenario)


@in_one_test(
    ("request_", "status"),
    [
        (b"POST /nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"404"),
        (b"POST /nobody HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n", b"413"),
        (b"POST /nobody HTTP/1.1\r\nHost: x\r\nContent-Length: minus\r\n\r\n", b"400"),
        (b"POST /nobody HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n400001\r\n" + b"x" * 0x400001, b"413"),
        (b"POST /nobody HTTP/1.1\r\n\r\n", b"400"),
        (b"what is this\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 80_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"431"),
    ],
)
def test_bad_requests_are_refused(request_: bytes, status: bytes) -> None:
    async def scenario(receiver: WebhookReceiver) -> None:
        assert (await raw(receiver, request_)).split(b" ")[1] == status

    run(scenario)


def test_closing_does_not_wait_for_slow_answers() -> None:
    async def main() -> None:
        receiver = WebhookReceiver()
        await receiver.start()
        hook = receiver.hook(delay=60)
        sending = asyncio.create_task(httpx.AsyncClient().post(hook.url, timeout=None))
        assert await hook.wait(timeout=30)
        await receiver.close()
        # With an answer, however late, this would not raise.
        with pytest.raises(httpx.HTTPError):
            await sending

    asyncio.run(main())


# Where push notifications are received, for agents that are elsewhere.


IDS = {"PUSH-011", "PUSH-016"}


@in_one_test(
    ("bind", "url", "place"),
    [
        (None, None, None),
        ("127.0.0.1:80", None, BindAddress("127.0.0.1", 80, "http://127.0.0.1:80")),
        ("[::1]:80", None, BindAddress("::1", 80, "http://[::1]:80")),
        ("0.0.0.0:80", "https://t.example/hooks/", BindAddress("0.0.0.0", 80, "https://t.example/hooks")),
        (None, "https://t.example", "nothing says where it listens"),
        ("8099", None, "give HOST:PORT"),
        ("host:0", None, "give HOST:PORT"),
        ("host:http", None, "give HOST:PORT"),
        ("0.0.0.0:80", None, "no address to call"),
        ("0.0.0.0:80", "t.example", r"give an http\(s\) URL"),
        ("0.0.0.0:80", "https://t.example?a=b", "without a query"),
    ],
)
def test_places(bind: str | None, url: str | None, place: BindAddress | str | None) -> None:
    if isinstance(place, str):
        with pytest.raises(ConfigurationError, match=place):
            read_bind_address(bind, url)
    else:
        assert read_bind_address(bind, url) == place


def test_a_proxy_may_change_the_path() -> None:
    async def scenario() -> None:
        port = free_port()
        async with WebhookReceiver(BindAddress("127.0.0.1", port, "https://t.example/hooks")) as receiver:
            hook = receiver.hook()
            assert hook.url.startswith("https://t.example/hooks/")
            name = hook.url.rpartition("/")[2]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                assert (await client.post(f"/{name}", content=b"1")).status_code == 200
                assert (await client.post(f"/other/prefix/{name}?x=1", content=b"2")).status_code == 200
                assert (await client.post("/other")).status_code == 404
            assert [d.body for d in hook.deliveries] == [b"1", b"2"]

    asyncio.run(scenario())


def judge(place: BindAddress) -> tuple[CheckResult, ...]:
    with full_agent() as url:
        card = httpx.get(f"{url}/.well-known/agent-card.json").json()
        targets = targets_of(card, url, scenarios=Scenarios(SCRIPTED), timeout=5, webhook=place)
        return asyncio.run(collect(targets, select=lambda p: p.requirement.id in IDS))


@pytest.mark.slow
def test_one_port_serves_the_checks_of_all_bindings() -> None:
    port = free_port()
    results = judge(BindAddress("127.0.0.1", port, f"http://localhost:{port}/under/here"))
    assert {(r.requirement.id, r.binding): r.outcome for r in results} == {
        (id, binding): "passed" for id in IDS for binding in BINDINGS
    }


def test_a_port_that_is_taken_is_no_fault_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_a2a_bench.conformance.session.session._PORT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        results = judge(BindAddress("127.0.0.1", port, f"http://127.0.0.1:{port}"))
    assert {r.outcome for r in results} == {"error"}
    assert all("the webhook cannot listen on 127.0.0.1" in r.reason for r in results), results


def test_names_of_authentication_schemes_have_no_case() -> None:
    right, wrong, none = (
        Delivery("POST", h, b"", 0.0) for h in ({"authorization": "bearer x"}, {"authorization": "bearer y"}, {})
    )
    assert _unauthorized([right, wrong, none], "Bearer", "x") == [wrong, none]


# -- check --listen, and the lines of a report that need it --


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


def test_a_line_that_needs_a_listener_says_so_and_no_other_does() -> None:
    lines = list(findings.wire_lines(asked("http://127.0.0.1:41234/abcdefgh_-345678")))
    assert lines[-2] == "listen: a2a-bench check --listen 127.0.0.1:41234"
    assert lines[-1].startswith("repeat: curl ")

    # Behind a tunnel it is the user's.
    line = listener_line(asked("https://tunnel.example/hooks/abcdefgh_-345678"))
    assert line == "a2a-bench check --listen HOST:PORT, where https://tunnel.example leads to"
    for url in ("https://webhook.example.org/never-called", "http://169.254.169.254/latest/meta-data/"):
        assert listener_line(asked(url)) == ""
        assert "listen" not in "".join(findings.wire_lines(asked(url)))
