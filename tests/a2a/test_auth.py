from typing import Any

import pytest
from one_test import in_one_test

from pytest_a2a_bench.a2a.auth import explain_refusal, place
from pytest_a2a_bench.a2a.card import AgentCard, origin_of, parse_card, read_target
from pytest_a2a_bench.a2a.config import AuthParts, ClientConfig, Credentials, may_receive
from pytest_a2a_bench.errors import ProtocolError


@in_one_test(
    ("url", "allowed"),
    [
        ("https://agent.example/rpc", True),
        ("https://AGENT.example.:443/other?x=1", True),
        ("grpcs://agent.example:443", True),
        ("http://agent.example/rpc", False),
        ("https://agent.example:8443/rpc", False),
        ("https://agent.example.evil.com/", False),
        ("https://agent.example@evil.com/", False),
        ("https://evil.com/agent.example", False),
        ("agent.example:443", True),
        ("agent.example", True),
        ("dns:///agent.example:443", True),
        ("dns:agent.example:443", True),
        ("DNS:///agent.example.", True),
        ("dns://evil.com/agent.example:443", False),
        ("dns:///agent.example:8443", False),
        ("agent.example:80", False),
        ("evil.com:443/agent.example:443", False),
        ("evil.com\\@agent.example:443", False),
        ("agent.example:443,evil.com:443", False),
        ("ipv4:agent.example:443,evil.com:443", False),
        ("unix:agent.example", False),
        ("", False),
        (":443", False),
        ("https://[bad", False),
        ("https://friend.example/x", True),
    ],
)
def test_credentials_are_bound_to_the_origin(url: str, allowed: bool) -> None:
    config = ClientConfig("https://agent.example", allowed_origins=("https://friend.example",))
    assert may_receive(url, config) is allowed


def test_names_of_the_loopback_are_one_host() -> None:
    assert origin_of("http://localhost:9") == origin_of("http://127.0.0.1:9") == origin_of("http://[::1]:9/x")
    assert origin_of("http://localhost:9") != origin_of("http://localhost:8")
    assert origin_of("127.0.0.1:9") == origin_of("http://127.0.0.1:9")
    assert origin_of("ipv6:[::1]:9") == origin_of("ipv4:127.0.0.1:9") == origin_of("http://127.0.0.1:9")


def card(security: Any, **schemes: Any) -> AgentCard:
    return parse_card({"url": "http://a", "securitySchemes": schemes, "security": security}, "http://a")


KEY = {"type": "apiKey", "in": "header", "name": "X-Key"}
BASIC = {"type": "http", "scheme": "Basic"}
BEARER = {"type": "http", "scheme": "bearer"}
BEARER_HEADERS = {"Authorization": "Bearer tok"}


@in_one_test(
    ("agent", "headers"),
    [
        (None, BEARER_HEADERS),
        (card(None), BEARER_HEADERS),
        (card(None, k=KEY), {"X-Key": "tok"}),
        (card([{"b": []}], k=KEY, b=BEARER), BEARER_HEADERS),
        (card([{"k": []}, {"b": []}], k=KEY, b=BEARER), {"X-Key": "tok"}),
        (card([{"k": [], "b": []}, {"b": []}], k=KEY, b=BEARER), BEARER_HEADERS),
        (card([{"basic": []}, {"k": []}], basic=BASIC, k=KEY), {"X-Key": "tok"}),
        (card([{"basic": []}], basic=BASIC), BEARER_HEADERS),
        (card([{"m": []}], m={"type": "mutualTLS"}), BEARER_HEADERS),
        (card([{"dangling": []}], k=KEY), {"X-Key": "tok"}),
        (card([{"k": []}], k={**KEY, "name": "X-Key: a\r\nHost"}), BEARER_HEADERS),
        (card([{"k": []}], k={**KEY, "name": None}), BEARER_HEADERS),
    ],
)
def test_placement(agent: AgentCard | None, headers: dict[str, str]) -> None:
    assert place(Credentials("tok"), agent) == AuthParts(headers=headers)


def test_basic_wants_user_and_password() -> None:
    parts = place(Credentials("me:pw"), card([{"basic": []}], basic=BASIC))
    assert parts.headers == {"Authorization": "Basic bWU6cHc="}
    assert "bWU6cHc=" not in repr(parts)


@in_one_test(
    ("url", "endpoint", "origin"),
    [
        ("agent.example:8443", "https://agent.example", "https://agent.example:8443"),
        ("dns:///agent.example:8443", "https://agent.example", "https://agent.example:8443"),
        ("agent.example:50051", "http://agent.example", "http://agent.example:50051"),
        ("agent.example:443", "http://agent.example", "https://agent.example"),
        ("[::1]:50051", "http://[::1]:8000", "http://[::1]:50051"),
        ("grpcs://agent.example:1/x", "http://agent.example", "https://agent.example:1"),
        ("https://agent.example/rpc?x=1", "http://agent.example", "https://agent.example"),
    ],
)
def test_the_origin_that_is_advised_is_one_that_helps(url: str, endpoint: str, origin: str) -> None:
    auth = Credentials("tok")
    config = ClientConfig(endpoint, auth=auth)
    assert not may_receive(url, config)
    assert explain_refusal(url, config, sent=False).endswith(f" set A2A_ALLOWED_ORIGINS={origin}")
    assert may_receive(url, ClientConfig(endpoint, auth=auth, allowed_origins=(origin,)))


def test_an_address_with_its_own_name_server_cannot_be_allowed() -> None:
    config = ClientConfig("https://agent.example", auth=Credentials("tok"))
    advice = explain_refusal("dns://evil.com/agent.example:443", config, sent=False)
    assert "names a name server of its own" in advice
    assert "A2A_ALLOWED_ORIGINS" not in advice


@in_one_test(
    ("url", "endpoint", "address", "tls"),
    [
        ("127.0.0.1:50051", "http://127.0.0.1:1", "127.0.0.1:50051", False),
        ("agent:50051", "https://agent", "agent:50051", True),
        ("agent:443", "http://agent", "agent:443", True),
        ("https://agent", "http://agent", "agent:443", True),
        ("grpcs://agent:1/", "http://agent", "agent:1", True),
        ("http://agent:1", "https://agent", "agent:1", False),
        ("grpc://[::1]:5", "http://agent", "[::1]:5", False),
        ("dns:///agent:5", "http://agent", "dns:///agent:5", False),
    ],
)
def test_grpc_targets(url: str, endpoint: str, address: str, tls: bool) -> None:
    assert read_target(url, endpoint) == (address, tls)


def test_unknown_grpc_scheme() -> None:
    with pytest.raises(ProtocolError, match="unknown scheme"):
        read_target("ftp://agent", "http://agent")
