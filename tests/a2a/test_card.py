import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from connections import Connect
from one_test import in_one_test
from raw_agent import HELLO, MESSAGE, Answer, RawAgent, Request, nowhere, raw_agent, response, rpc

from pytest_a2a_bench.a2a.card import AgentCard, card_urls, choose_interface, load_card, narrow_to_endpoint, parse_card
from pytest_a2a_bench.a2a.client import AgentConnection
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.conformance.card.fetch import fetch_card
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.subject import look_at
from pytest_a2a_bench.errors import CardError, EndpointUnreachableError, TransportError

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


def test_cards_of_0_3_and_of_both_versions() -> None:
    more = [{"url": "http://a/rpc", "transport": "JSONRPC"}, {"url": "http://a/", "transport": "x"}]
    old = {"url": "http://a/", "protocolVersion": "0.3.0", "preferredTransport": "HTTP+JSON"}
    assert interfaces({**old, "additionalInterfaces": more}) == [
        ("http://a/", "rest", "0.3"),
        ("http://a/rpc", "jsonrpc", "0.3"),
        ("http://a/", "x", "0.3"),
    ]
    new = [{"url": "http://a/new", "protocolBinding": "JSONRPC"}]
    both = {"url": "http://a/old", "protocolVersion": "1.0", "supportedInterfaces": new}
    assert interfaces(both) == [("http://a/new", "jsonrpc", "1.0"), ("http://a/old", "jsonrpc", "0.3")]


def test_nulls_everywhere_and_doubled_interfaces() -> None:
    entry = {"url": "http://a/", "protocolBinding": None, "protocolVersion": None, "tenant": None}
    raw: dict[str, Any] = {"supportedInterfaces": [entry, entry, None, {"url": None}, 3], "capabilities": None}
    raw |= {"name": None, "url": None, "additionalInterfaces": None, "securitySchemes": None, "security": [None]}
    card = parse_card(raw, URL)
    assert [str(i) for i in card.interfaces] == ["jsonrpc 1.0 at http://a/"]
    assert (card.name, card.security, card.streaming) == ("", (), False)


@in_one_test(
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
    # A gRPC address is left as it is but for wildcards.
    grpc = {"supportedInterfaces": [{"url": "0.0.0.0:50051", "protocolBinding": "GRPC"}]}
    assert interfaces(grpc) == [("agent.example:50051", "grpc", "1.0")]


def test_unreadable_cards() -> None:
    unreadable: list[Any] = [[], None, "x", {}, {"name": "x"}, {"url": ""}, {"url": "http://[bad"}]
    for raw in unreadable:
        with pytest.raises(CardError, match=URL):
            parse_card(raw, URL)
    with pytest.raises(CardError, match=r"found the fields na me, url$"):
        parse_card({"na\nme": "x", "url": ""}, URL)
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


ALL = [(binding, version) for version in ("0.3", "1.0") for binding in ("GRPC", "HTTP+JSON", "JSONRPC")]


@in_one_test(
    ("offers", "protocol", "transport", "chosen"),
    [
        (ALL, "auto", "auto", ("grpc", "0.3")),
        (ALL[1:], "auto", "auto", ("rest", "0.3")),
        (ALL[::-1], "auto", "auto", ("jsonrpc", "1.0")),
        (ALL, "1.0", "auto", ("grpc", "1.0")),
        (ALL[::-1], "0.3", "auto", ("jsonrpc", "0.3")),
        (ALL, "auto", "rest", ("rest", "0.3")),
        (ALL[::-1], "auto", "grpc", ("grpc", "1.0")),
    ],
)
def test_choice(offers: list[tuple[str, str]], protocol: str, transport: str, chosen: tuple[str, str]) -> None:
    interface = choose_interface(offering(*offers), protocol, transport)
    assert (interface.transport, interface.version) == chosen


def test_grpc_is_not_chosen_by_itself_without_grpcio() -> None:
    card = offering(("GRPC", "1.0"), ("JSONRPC", "0.3"))
    assert choose_interface(card, grpc=False).transport == "jsonrpc"
    assert choose_interface(card, transport="grpc", grpc=False).transport == "grpc"
    with pytest.raises(CardError, match=r"pip install .*\[grpc\]"):
        choose_interface(offering(("GRPC", "1.0")), grpc=False)


def test_one_that_does_not_answer_is_passed_over_and_where_none_is_left_all_are_listed() -> None:
    card = offering(("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"))
    first = choose_interface(card)
    assert choose_interface(card, gone=first.url).transport == "rest"
    with pytest.raises(CardError, match="no interface"):
        choose_interface(offering(("JSONRPC", "1.0")), gone=first.url)
    with pytest.raises(CardError, match=r"--a2a-protocol=1\.0 --a2a-transport=rest; the card offers: jsonrpc 0\.3"):
        choose_interface(offering(("JSONRPC", "0.3"), ("SOAP", "9.9")), "1.0", "rest")


def test_the_settings_override_the_card() -> None:
    assert str(choose_interface(offering(("JSONRPC", "1.0")), "0.3")).startswith("jsonrpc 0.3")
    assert str(choose_interface(offering(("http", "1.0")), transport="jsonrpc")).startswith("jsonrpc 1.0")
    # What the card does offer comes first.
    offers = offering(("JSONRPC", "1.0"), ("HTTP+JSON", "0.3"))
    assert str(choose_interface(offers, "0.3")).startswith("rest 0.3")


# Agents whose card depends on the A2A-Version that it is asked for with (§3.6.1).


REFUSED = {"code": -32009, "message": "AgentCard must have at least one interface with a protocol version of '0.3'"}


def card(version: str) -> dict[str, Any]:
    if version == "1.0":
        return {"supportedInterfaces": [{"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": version}]}
    return {"url": "/rpc", "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}


def serving(*versions: str) -> Callable[[Request], bytes]:
    def handler(request: Request) -> bytes:
        asked = request.headers.get("a2a-version", "0.3")
        if asked not in versions:
            return response(REFUSED, "400 Bad Request", Vary="A2A-Version")
        return response({"name": "versioned", **card(asked)}, Vary="A2A-Version", ETag='"1"')

    return handler


@pytest.mark.parametrize(
    ("served", "wanted", "found", "requests"),
    [
        (["1.0"], "auto", "1.0", 1),
        (["0.3"], "auto", "0.3", 2),
        (["0.3", "1.0"], "auto", "1.0", 1),
        (["0.3", "1.0"], "0.3", "0.3", 1),
        (["1.0"], "0.3", "1.0", 2),
    ],
)
def test_a_card_in_either_version(connect: Connect, served: list[str], wanted: str, found: str, requests: int) -> None:
    with raw_agent(serving(*served), {}) as agent:
        connection = connect(agent.url, protocol=wanted)
        assert [i.version for i in connection.card().interfaces] == [found]
        assert len(agent.requests) == requests
        raw, http, _ = fetch_card(agent.url, config=ClientConfig(endpoint=agent.url, protocol=wanted))
    assert raw == {"name": "versioned", **card(found)}
    assert http.problem == ""
    assert agent.requests[-1].headers["if-none-match"] == '"1"'
    assert agent.requests[-1].headers.get("a2a-version", "0.3") == found


def test_both_views_of_a_card_are_judged() -> None:
    with raw_agent(serving("0.3", "1.0"), {}) as agent:
        subject = look_at(ClientConfig(endpoint=agent.url))
        alone = look_at(ClientConfig(endpoint=agent.url, protocol="0.3"))
    assert subject.interfaces == ("1.0 JSONRPC", "0.3 JSONRPC")
    assert {p.requirement.version for p in subject.planned} == {"1.0", "0.3"}
    old = {(f.rule, f.found) for f in subject.findings if f.rule.startswith("V03-")}
    assert old == {(f.rule, f"without A2A-Version: {f.found}") for f in alone.findings if f.rule.startswith("V03-")}
    assert any(f.rule == "CARD-003" and not f.found.startswith("without") for f in subject.findings)
    with raw_agent(serving("1.0"), {}) as agent:
        single = look_at(ClientConfig(endpoint=agent.url))
    assert single.interfaces == ("1.0 JSONRPC",)
    assert not any(f.rule.startswith("V03-") or f.found.startswith("without") for f in single.findings)


def test_a_card_that_is_refused_in_both_says_why(connect: Connect) -> None:
    with (
        raw_agent(serving(), {}) as agent,
        pytest.raises(CardError, match="at least one interface with a protocol version"),
    ):
        connect(agent.url).card()


# An endpoint that accepts the connection and says nothing when it is asked for its card.


SILENCE = r"GET http://127\.0\.0\.1:\d+/\.well-known/agent-card\.json: no answer within 0\.3 s.*check that"


@pytest.fixture
def silent() -> Iterator[RawAgent]:
    over = threading.Event()

    def handler(_: Request) -> bytes:
        over.wait(300)
        return response("late", "503 Service Unavailable", "text/plain")

    with raw_agent(handler, {}) as agent:
        yield agent
        over.set()


@pytest.mark.parametrize("limit", ["timeout", "read_timeout"])
def test_silence_is_an_unreachable_endpoint(silent: RawAgent, connect: Connect, limit: str) -> None:
    with pytest.raises(EndpointUnreachableError, match=SILENCE):
        connect(silent.url, **{limit: 0.3}).card()
    # A turn does not claim its own time for it: the agent would answer at its end, with 503 and not with silence.
    with pytest.raises(EndpointUnreachableError, match=SILENCE):
        connect(silent.url, **{limit: 0.3}).session().send(HELLO, timeout=300)


def test_waiting_outlives_silence(silent: RawAgent, connect: Connect) -> None:
    hang = silent.handler

    def handler(request: Request) -> Answer:
        if request.method == "POST":
            return rpc(MESSAGE, request)
        if len(silent.requests) == 1:
            return hang(request)
        if len(silent.requests) == 2:
            return response("starting", "503 Service Unavailable", "text/plain")
        return response({"name": "late", "url": "/rpc"})

    silent.handler = handler
    assert connect(silent.url, timeout=0.3).wait_until_ready(120).name == "late"


# The agent that was meant: another one at the server's root is not tested in its place.


ROOT = "/.well-known/agent-card.json"


@contextmanager
def rooted(*paths: str, redirects: bool = False) -> Iterator[RawAgent]:
    """Serve a card at the root only, whose interfaces are at some paths."""

    def answer(request: Request) -> bytes:
        if request.path == ROOT:
            return response(card)
        if redirects and request.path.endswith(ROOT):
            return response("", "302 Found", Location=ROOT)
        return response("not here", "404 Not Found")

    with raw_agent(answer, {}) as agent:
        card: dict[str, Any] = {
            "name": "other",
            "supportedInterfaces": [
                {"url": agent.url + path, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"} for path in paths
            ],
        }
        yield agent


Look = Callable[[str], object]


def by_client(url: str) -> object:
    with AgentConnection(ClientConfig(url)) as connection:
        return connection.card()


@pytest.mark.parametrize("look", [by_client, fetch_card, lambda url: look_at(ClientConfig(url))])
@pytest.mark.parametrize("redirects", [False, True])
def test_the_agent_at_the_root_is_another_one(look: Look, redirects: bool) -> None:
    with rooted("/rpc", "/foo", "/foo/barracks", redirects=redirects) as agent, pytest.raises(CardError) as caught:
        look(f"{agent.url}/foo/bar/")
    assert str(caught.value) == (
        f"no agent card found for {agent.url}/foo/bar/; the card at the server's root, {agent.url}{ROOT}, is of "
        f"another agent ('other'): its interfaces are jsonrpc 1.0 at {agent.url}/rpc; jsonrpc 1.0 at {agent.url}/foo; "
        f"jsonrpc 1.0 at {agent.url}/foo/barracks, and none of them is at /foo/bar or below; correct the path, or give "
        f"{agent.url} to test that agent"
    )


@pytest.mark.parametrize("path", ["/foo/bar", "/foo/bar/rpc"])
def test_of_a_card_at_the_root_the_interfaces_below_the_path_are_used(path: str) -> None:
    with rooted("/rpc", path) as agent:
        with AgentConnection(ClientConfig(f"{agent.url}/foo/bar")) as connection:
            assert [i.url for i in connection.card().interfaces] == [agent.url + path]
            assert connection.card().url == agent.url + ROOT
        subject = look_at(ClientConfig(f"{agent.url}/foo/bar"))
        assert [t.url for t in subject.targets(ClientConfig(agent.url), Scenarios(), 1.0)] == [agent.url + path]


def test_a_card_at_the_path_is_the_agents_own_wherever_its_interfaces_are() -> None:
    raw = {"supportedInterfaces": [{"url": "http://a/rpc", "protocolBinding": "JSONRPC"}]}
    assert narrow_to_endpoint(raw, "http://a/foo", f"http://a/foo{ROOT}") is raw
    assert narrow_to_endpoint(raw, f"http://a/x{ROOT}", f"http://a{ROOT}") is raw
    assert narrow_to_endpoint(raw, "http://a/", f"http://a{ROOT}") is raw
    assert narrow_to_endpoint(raw, "http://a/foo", "http://a/cards/foo.json") is raw


def test_of_a_card_of_0_3_at_the_root_the_interfaces_below_the_path_are_meant() -> None:
    raw = {
        "name": "n",
        "url": "http://a/rpc",
        "additionalInterfaces": [
            {"url": "http://a/foo/rest", "transport": "HTTP+JSON"},
            {"url": "a:50051/foo", "transport": "GRPC"},
        ],
    }
    meant = narrow_to_endpoint(raw, "http://a/foo", f"http://a{ROOT}")
    assert meant == {"name": "n", "additionalInterfaces": [{"url": "http://a/foo/rest", "transport": "HTTP+JSON"}]}
    own = {**raw, "url": "/foo"}
    assert narrow_to_endpoint(own, "http://a/foo", f"http://a{ROOT}")["url"] == "/foo"
    nothing: list[dict[str, Any]] = [{}, {"supportedInterfaces": 5}, {"url": 7}, {"additionalInterfaces": ["x", None]}]
    for named in nothing:
        with pytest.raises(CardError, match="its interfaces are none"):
            narrow_to_endpoint(named, "http://a/foo", f"http://a{ROOT}")


# Agents whose card is at one address and whose interface is at another, where nobody is.


def test_the_interface_is_tried_before_the_first_message(connect: Connect) -> None:
    with raw_agent(lambda _: None) as agent:
        agent.card["supportedInterfaces"][0]["url"] = f"http://{nowhere()}"
        with pytest.raises(EndpointUnreachableError, match=r"the agent card of .* names this address"):
            connect(agent.url).wait_until_ready()


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "401 Unauthorized", "404 Not Found", "500 Oh"])
def test_any_other_answer_means_that_the_agent_is_there(connect: Connect, status: str) -> None:
    with raw_agent(lambda _: response("what?", status, "text/plain")) as agent:
        connection = connect(agent.url)
        assert connection.wait_until_ready().name == "raw"
        connection.wait_until_ready()
        assert [r.json["method"] for r in agent.messages] == ["GetTask"]  # once


def test_an_interface_that_starts_late_is_waited_for(connect: Connect) -> None:
    def handler(request: Request) -> bytes:
        late = len(agent.messages) > 2
        return rpc(MESSAGE, request) if late else response("nobody", "502 Bad Gateway", "text/plain")

    with raw_agent(handler) as agent:
        # A gateway with nobody behind it is no agent.
        with pytest.raises(TransportError, match="502"):
            connect(agent.url).wait_until_ready()
        connection = connect(agent.url)
        connection.wait_until_ready(60)
        assert connection.session().send(HELLO).text == "fine"
