"""Which URLs a card shows behind a proxy."""

import json
from typing import Any

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.a2a.card import rewrite_card
from pytest_a2a_bench.platforms.controller import is_loopback

PUBLIC = "https://agents.example/to_agent/x"


def shown_card(body: bytes, public: str) -> bytes:
    return rewrite_card(body, public, is_loopback)


def shown(card: Any) -> Any:
    return json.loads(shown_card(json.dumps(card).encode(), f"{PUBLIC}/"))


@in_one_test(
    ("url", "expected"),
    [
        ("http://127.0.0.1:9000", PUBLIC),
        ("http://127.0.0.1:9000/", f"{PUBLIC}/"),
        ("http://localhost:9000/rest?a=1#b", f"{PUBLIC}/rest?a=1#b"),
        ("http://0.0.0.0:1/", f"{PUBLIC}/"),
        ("https://[::1]:9000/x", f"{PUBLIC}/x"),
        ("http://agent.localhost/", f"{PUBLIC}/"),
        ("http://127.0.0.1.nip.io/", None),
        ("https://elsewhere.example/", None),
        ("ftp://127.0.0.1/", None),
        ("127.0.0.1:9000", None),
        ("http://[::1", None),
        (f"{PUBLIC}/rest", None),
        (PUBLIC, None),
    ],
)
def test_loopback_is_shown_as_the_controllers(url: str, expected: str | None) -> None:
    card = {"name": "a", "url": url, "supportedInterfaces": [{"url": url}], "signatures": ["s"]}
    found = shown(card)
    if expected is None:
        assert found == card
    else:
        assert found == {"name": "a", "url": expected, "supportedInterfaces": [{"url": expected}]}


def test_a_controller_on_loopback_is_not_put_before_itself() -> None:
    public = "http://127.0.0.1:8010/to_agent/x"
    card = json.dumps({"url": f"{public}/", "additionalInterfaces": [{"url": f"{public}/rest", "transport": "REST"}]})
    assert shown_card(card.encode(), public) == card.encode()


def test_grpc_on_loopback_is_left_out_unless_there_is_nothing_else() -> None:
    http = {"url": "https://elsewhere.example/", "protocolBinding": "JSONRPC"}
    far = {"url": "grpc.example:443", "protocolBinding": "GRPC"}
    near = [{"url": url, "protocolBinding": "GRPC"} for url in ("127.0.0.1:1", "http://localhost:1", "grpc://[::1]:1")]
    assert shown({"supportedInterfaces": [http, *near, far]}) == {"supportedInterfaces": [http, far]}
    alone = {"supportedInterfaces": near}
    assert shown(alone) == alone
    old = {"url": "http://127.0.0.1:1", "preferredTransport": "GRPC", "additionalInterfaces": [{"url": 3}, "x"]}
    assert shown(old) == old


def test_a_card_in_a_json_rpc_answer_is_one() -> None:
    found = shown({"jsonrpc": "2.0", "id": 1, "result": {"url": "http://127.0.0.1:1/"}})
    assert found["result"] == {"url": f"{PUBLIC}/"}
    error = {"jsonrpc": "2.0", "id": 1, "error": {"url": "http://127.0.0.1:1/"}}
    assert shown(error) == error


def test_only_interfaces_that_are_proxied_are_shown_where_that_is_wanted() -> None:
    raw = {
        "name": "n",
        "url": "https://agent.example/a2a",
        "additionalInterfaces": [{"url": "agent.example:50051", "transport": "GRPC"}],
        "supportedInterfaces": [
            {"url": "/rel", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "https://agent.example/r?k=1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": "https://agent.example.org/r", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": "https://agent.example:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        ],
        "signatures": [{"signature": "s"}],
    }

    def behind_chaos(body: bytes) -> bytes:
        return rewrite_card(
            body, "http://127.0.0.1:1", lambda parts: parts.netloc == "agent.example", proxied_only=True
        )

    def rewritten(value: Any) -> Any:
        return json.loads(behind_chaos(json.dumps(value).encode()))

    written = rewritten(raw)
    assert written == {
        "name": "n",
        "url": "http://127.0.0.1:1/a2a",
        "additionalInterfaces": [],
        "supportedInterfaces": [
            {"url": "/rel", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "http://127.0.0.1:1/r?k=1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        ],
    }
    assert rewritten({"jsonrpc": "2.0", "result": raw})["result"] == written
    assert behind_chaos(b"<html>") == b"<html>"


@settings(max_examples=examples(50), deadline=None)
@given(st.binary(max_size=50))
def test_a_body_that_is_no_card_is_unchanged(body: bytes) -> None:
    assert shown_card(body, PUBLIC) == body
