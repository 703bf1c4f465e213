from __future__ import annotations

from typing import Any

import pytest

from pytest_a2a_bench.a2a.card import AgentCard, card_urls, choose_interface, load_card, parse_card
from pytest_a2a_bench.errors import CardError

URL = "http://agent.example:9000/.well-known/agent-card.json"


def interfaces(raw: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(i.url, i.transport, i.version) for i in parse_card(raw, URL).interfaces]


def test_card_of_1_0() -> None:
    card = parse_card(
        {
            "name": "n",
            "description": "d",
            "version": "3",
            "supportedInterfaces": [
                {"url": "https://a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0.1", "tenant": "t"},
                {"url": "https://a/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
                {"url": "a:443", "protocolBinding": "GRPC", "protocolVersion": "0.3"},
            ],
            "capabilities": {"streaming": True, "pushNotifications": None},
            "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "query", "name": "k"}}},
            "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        },
        URL,
    )
    assert (card.name, card.description, card.version, card.streaming, card.push) == ("n", "d", "3", True, False)
    assert [str(i) for i in card.interfaces] == [
        "jsonrpc 1.0 at https://a/rpc",
        "rest 1.0 at https://a/rest",
        "grpc 0.3 at a:443",
    ]
    assert card.interfaces[0].tenant == "t"
    assert card.security == (("key",),)
    assert (card.security_schemes["key"]["type"], card.security_schemes["key"]["in"]) == ("apiKey", "query")


def test_card_of_0_3() -> None:
    raw = {
        "url": "http://a/",
        "protocolVersion": "0.3.0",
        "preferredTransport": "HTTP+JSON",
        "additionalInterfaces": [
            {"url": "http://a/rpc", "transport": "JSONRPC"},
            {"url": "http://a/", "transport": "x"},
        ],
    }
    assert interfaces(raw) == [
        ("http://a/", "rest", "0.3"),
        ("http://a/rpc", "jsonrpc", "0.3"),
        ("http://a/", "x", "0.3"),
    ]


def test_mixed_card_offers_both_versions() -> None:
    raw = {
        "url": "http://a/old",
        "protocolVersion": "1.0",
        "supportedInterfaces": [{"url": "http://a/new", "protocolBinding": "JSONRPC"}],
    }
    assert interfaces(raw) == [("http://a/new", "jsonrpc", "1.0"), ("http://a/old", "jsonrpc", "0.3")]


def test_nulls_everywhere_and_doubled_interfaces() -> None:
    entry = {"url": "http://a/", "protocolBinding": None, "protocolVersion": None, "tenant": None}
    raw: dict[str, Any] = {"supportedInterfaces": [entry, entry, None, {"url": None}, 3], "capabilities": None}
    raw |= {"name": None, "url": None, "additionalInterfaces": None, "securitySchemes": None, "security": [None]}
    card = parse_card(raw, URL)
    assert [str(i) for i in card.interfaces] == ["jsonrpc 1.0 at http://a/"]
    assert (card.name, card.security, card.streaming) == ("", (), False)


@pytest.mark.parametrize(
    ("url", "read_as"),
    [
        ("/rpc", "http://agent.example:9000/rpc"),
        ("http://0.0.0.0:9009/", "http://agent.example:9009/"),
        ("http://[::]:9009/x", "http://agent.example:9009/x"),
    ],
)
def test_urls_that_cannot_be_called_are_put_right_and_noted(url: str, read_as: str) -> None:
    card = parse_card({"url": url}, URL)
    assert card.interfaces[0].url == read_as
    assert repr(url) in card.notes[0]


def test_grpc_address_is_left_as_it_is_but_for_wildcards() -> None:
    raw = {"supportedInterfaces": [{"url": "0.0.0.0:50051", "protocolBinding": "GRPC"}]}
    assert interfaces(raw) == [("agent.example:50051", "grpc", "1.0")]


@pytest.mark.parametrize("raw", [[], None, "x", {}, {"name": "x"}, {"url": ""}, {"url": "http://[bad"}])
def test_unreadable_cards(raw: Any) -> None:
    with pytest.raises(CardError, match=URL):
        parse_card(raw, URL)


def test_html_is_shown() -> None:
    with pytest.raises(CardError, match=r"begins with '<!DOCTYPE html>"):
        load_card(b"<!DOCTYPE html>" + b"x" * 9000, URL)


def test_card_urls() -> None:
    assert card_urls("http://a") == ("http://a/.well-known/agent-card.json", "http://a/.well-known/agent.json")
    assert card_urls(URL) == (URL,)
    assert card_urls("http://a/x/card.json?v=1") == ("http://a/x/card.json?v=1",)
    assert card_urls("http://a/x/")[0] == "http://a/x/.well-known/agent-card.json"
    assert card_urls("http://a/x/")[-1] == "http://a/.well-known/agent-card.json"


def offering(*offers: tuple[str, str]) -> AgentCard:
    listed = [{"url": f"http://a/{b}{v}", "protocolBinding": b, "protocolVersion": v} for b, v in offers]
    return parse_card({"supportedInterfaces": listed}, URL)


ALL = [
    ("GRPC", "0.3"),
    ("HTTP+JSON", "0.3"),
    ("JSONRPC", "0.3"),
    ("GRPC", "1.0"),
    ("HTTP+JSON", "1.0"),
    ("JSONRPC", "1.0"),
]


@pytest.mark.parametrize(
    ("offers", "protocol", "transport", "chosen"),
    [
        (ALL, "auto", "auto", ("jsonrpc", "1.0")),
        (ALL[:5], "auto", "auto", ("rest", "1.0")),
        (ALL[:4], "auto", "auto", ("grpc", "1.0")),
        (ALL[:3], "auto", "auto", ("jsonrpc", "0.3")),
        (ALL, "0.3", "auto", ("jsonrpc", "0.3")),
        (ALL, "auto", "grpc", ("grpc", "1.0")),
        (ALL[:3], "auto", "grpc", ("grpc", "0.3")),
    ],
)
def test_choice(offers: list[tuple[str, str]], protocol: str, transport: str, chosen: tuple[str, str]) -> None:
    interface = choose_interface(offering(*offers), protocol, transport)
    assert (interface.transport, interface.version) == chosen


def test_grpc_is_not_chosen_by_itself_without_grpcio() -> None:
    card = offering(("GRPC", "1.0"), ("JSONRPC", "0.3"))
    assert choose_interface(card, grpc=False).transport == "jsonrpc"
    assert choose_interface(card, transport="grpc", grpc=False).transport == "grpc"
    with pytest.raises(CardError, match=r"pytest-a2a-bench\[grpc\]"):
        choose_interface(offering(("GRPC", "1.0")), grpc=False)


def test_nothing_fits_lists_what_there_is() -> None:
    with pytest.raises(CardError, match=r"--a2a-protocol=1\.0 --a2a-transport=rest; the card offers: jsonrpc 0\.3"):
        choose_interface(offering(("JSONRPC", "0.3"), ("SOAP", "9.9")), "1.0", "rest")
