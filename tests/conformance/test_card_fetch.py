"""Cards over HTTP: from good servers, careless ones and hostile ones."""

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builtin_server
import pytest
from cards import minimal_0_3, minimal_1_0
from one_test import in_one_test
from raw_agent import Handler, Request, nowhere, raw_agent, response, stream_head
from scripted import Features, full_agent

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.card.fetch import fetch_card, load_jwks
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.finding import BINDINGS, FOUND, VERSIONS, CheckResult
from pytest_a2a_bench.conformance.subject import Subject, check_online, look_at
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError, TransportError

PATH = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
TAG = {"ETag": '"a"'}
KEPT = {"Cache_Control": "max-age=60"}
GOOD = {**KEPT, **TAG}
NOTHING = response("", "404 Not Found")
MOVED = response("", "307 Moved", Location="/elsewhere.json")


def good(request: Request) -> bytes:
    if request.path != PATH:
        return NOTHING
    if request.headers.get("if-none-match") == '"a"':
        return response("", "304 Not Modified", **TAG)
    return response(minimal_1_0(), **GOOD)


def always(*answer: Any, **headers: str) -> Handler:
    return lambda _: response(*answer, **headers)


def card_with(card: Any = None, kind: str = "application/json", **headers: str) -> Handler:
    served = response(minimal_1_0() if card is None else card, kind=kind, **headers)
    return lambda request: served if request.path == PATH else NOTHING


def found(site: Handler, timeout: float = 10.0, **options: Any) -> list[str]:
    with raw_agent(site, {}) as agent:
        _, _, findings = fetch_card(agent.url, config=ClientConfig(agent.url, **options), timeout=timeout)
    return [f.rule for f in findings]


def test_a_good_server_is_silent() -> None:
    with raw_agent(good, {}) as agent:
        raw, http, findings = fetch_card(agent.url)
        assert findings == []
        assert raw == minimal_1_0()
        assert (http.status, http.conditional_status, http.url) == (200, 304, agent.url + PATH)
        assert check_card(raw, http=http) == []
        assert fetch_card(agent.url + PATH)[0] == raw
        assert fetch_card(agent.url + "/rpc")[0] == raw
        # A token is not shown to a server that does not ask.
        assert fetch_card(agent.url, config=ClientConfig(agent.url, auth=Credentials("the-right-token")))[2] == []
        assert {request.headers.get("authorization") for request in agent.requests} == {None}


def behind_a_gateway(request: Request) -> bytes:
    sent = request.headers.get("authorization", "")
    return good(request) if sent == "Bearer the-right-token" else response(f"who is {sent}?", "401 Unauthorized")


def test_a_card_behind_authentication_is_judged() -> None:
    assert found(behind_a_gateway, auth=Credentials("the-right-token")) == []
    assert found(behind_a_gateway) == ["CARD-001"]
    with raw_agent(behind_a_gateway, {}) as agent:
        assert look_at(ClientConfig(agent.url, auth=Credentials("the-right-token"))).findings == ()
        _, _, findings = fetch_card(agent.url)
        assert "put a token in A2A_AUTH_TOKEN" in findings[0].found
        wrong = look_at(ClientConfig(agent.url, auth=Credentials("a-wrong-token"))).findings
    assert [f.rule for f in wrong] == ["CARD-001"]
    assert "who is" in wrong[0].exchanges[0].response
    assert "a-wrong-token" not in repr(wrong)


@in_one_test(
    ("site", "rules"),
    [
        (card_with(**TAG), ["CARD-013", "CARD-015"]),
        (card_with(**KEPT), ["CARD-014"]),
        (card_with(**KEPT, ETag="unquoted"), ["CARD-014"]),
        (card_with(**GOOD), ["CARD-015"]),
        (card_with(**KEPT, Last_Modified="yesterday"), ["CARD-014", "CARD-016"]),
        (card_with(kind="text/plain", **KEPT), ["CARD-002", "CARD-014"]),
        (card_with(kind="application/vnd.a2a+json", **KEPT), ["CARD-014"]),
        (always("boom", "500 Oh"), ["CARD-001"]),
        (always("", "401 Unauthorized"), ["CARD-001"]),
        (always("<html>", "200 OK", "text/html"), ["CARD-002"]),
        (always(b'{"name": "\xff"}', **GOOD), ["CARD-002"]),
        (always(b"[" * 100_000, **GOOD), ["CARD-002"]),
        (always(b'{"a": NaN}', **GOOD), ["CARD-002"]),
        (always(b"", **GOOD), ["CARD-002"]),
        (always("", "302 Found", Location="http://203.0.113.9/card"), ["CARD-001"]),
        (always("", "302 Found", Location=PATH), ["CARD-001"]),
        (always(b" " * 3_000_000, **GOOD), ["CARD-002"]),
        # A body that ends before its length.
        (
            lambda _: iter([b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{}"]),
            ["CARD-002"],
        ),
        # One without an end.
        (lambda _: [stream_head("application/json"), *[b"x" * 65_536] * 10_000], ["CARD-002"]),
        # 0.3 asks for no caching.
        (card_with(minimal_0_3()), []),
        (card_with(minimal_0_3(), "text/html"), ["V03-CARD-021"]),
        (lambda request: MOVED if request.path == PATH else response(minimal_1_0(), **KEPT), ["CARD-014"]),
    ],
    ids=lambda v: None,
)
def test_careless_servers(site: Handler, rules: list[str]) -> None:
    assert found(site) == rules


def test_a_card_that_does_not_come_in_time_is_no_fault_of_the_agent() -> None:
    with pytest.raises(TransportError, match=r"no complete answer within 0\.5 s.*--a2a-timeout"):
        found(always(b"{}", **GOOD, Content_Length="999"), timeout=0.5)


@pytest.mark.parametrize(("card", "rule"), [(minimal_1_0(), "CARD-001"), (minimal_0_3(), "V03-CARD-001")])
def test_the_legacy_path_alone_is_not_enough(card: Any, rule: str) -> None:
    with raw_agent(lambda r: response(card, **KEPT) if r.path == LEGACY else NOTHING, {}) as agent:
        raw, http, findings = fetch_card(agent.url)
        assert raw == card
        assert http.is_legacy
        assert rule in [f.rule for f in findings]
        assert rule in [f.rule for f in check_card(raw, http=http)]


def test_duplicate_members_over_http_are_reported() -> None:
    body = json.dumps(minimal_1_0()).replace('{"name"', '{"name": "Other", "name"', 1)
    with raw_agent(always(body, **KEPT), {}) as agent:
        raw, http, _ = fetch_card(agent.url)
    assert [f.rule for f in check_card(raw, http=http)] == ["CARD-014", "CARD-030"]


def test_slow_bytes_end_in_time() -> None:
    sent: list[int] = []

    def site(_: Request) -> Iterator[bytes]:
        yield stream_head("application/json")
        for number in range(2000):
            yield b" "
            sent.append(number)
            time.sleep(0.05)

    with pytest.raises(TransportError, match=r"no complete answer within 1 s"):
        found(site, timeout=1.0)
    assert 0 < len(sent) < 2000, "the reader goes before the site has said all"


def test_nothing_there_is_no_finding() -> None:
    with pytest.raises(EndpointUnreachableError, match="nothing answers at"):
        fetch_card(f"http://{nowhere()}")
    for wrong in ("ftp://a.example", "http://", "http://a:b/", "127.0.0.1"):
        with pytest.raises(ConfigurationError, match="not the URL of a card"):
            fetch_card(wrong)


def test_evidence_is_kept_and_bounded() -> None:
    with raw_agent(always("<html>" + "x" * 9000, "200 OK", "text/html", Set_Cookie="a=secret"), {}) as agent:
        _, _, (finding,) = fetch_card(agent.url)
    (exchange,) = finding.exchanges
    assert exchange.status == 200
    assert exchange.response.startswith("<html>")
    assert len(exchange.response) <= 4096
    assert "secret" not in repr(exchange)


def test_keys_come_from_a_file_or_a_url(tmp_path: Any) -> None:
    keys = {"keys": [{"kty": "EC", "kid": "a"}]}
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(keys))
    assert load_jwks(str(path)) == keys
    with raw_agent(always(keys), {}) as agent:
        assert load_jwks(agent.url + "/jwks.json") == keys
    with pytest.raises(ConfigurationError, match="give a file or a URL"):
        load_jwks(str(tmp_path / "none.json"))
    for text, complaint in (("[]", "found no keys"), ("{", "malformed JSON")):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=complaint):
            load_jwks(str(path))
    with raw_agent(lambda _: NOTHING, {}) as agent, pytest.raises(ConfigurationError, match="status 404"):
        load_jwks(agent.url)
    with pytest.raises(ConfigurationError, match="nothing answers"):
        load_jwks(f"http://{nowhere()}")


# What a card promises and its agent does not keep; the servers are a2a-sdk's own, with the card changed.


Asked = tuple[str, dict[str, Any]]


def card_of(url: str) -> Asked:
    raw, _, _ = fetch_card(url)
    assert isinstance(raw, dict)
    return url, raw


@pytest.fixture(scope="module")
def served(noop_url: str) -> Asked:
    return card_of(noop_url)


def asked(served: Asked, token: str = "") -> list[CheckResult]:
    """Return the checks that found something, or that could not be made."""
    config = ClientConfig(served[0], auth=Credentials(token) if token else None)
    return [result for result in check_online(Subject(*served), config, 5.0, []) if result.outcome in FOUND]


def message(served: Asked) -> set[str]:
    return {result.requirement.id for result in asked(served)}


def changed(served: Asked, **members: Any) -> Asked:
    url, raw = served
    return url, {**copy.deepcopy(raw), **members}


def test_what_a_card_says_of_its_agent_is_tried(served: Asked) -> None:
    assert message(served) == set()

    promised = {**served[1]["capabilities"], "extendedAgentCard": True}
    assert message(changed(served, capabilities=promised)) == {"XCARD-003"}
    assert {"STREAM-012", "V03-STREAM-004"} <= message(changed(served, capabilities={"streaming": False}))

    guarded = changed(
        served,
        securitySchemes={"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}, "type": "http", "scheme": "bearer"}},
        securityRequirements=[{"schemes": {"b": {}}}],
        security=[{"b": []}],
    )
    assert message(guarded) == {"AUTH-001", "V03-AUTH-001"}


def test_a_url_that_speaks_something_else_or_where_nothing_answers(served: Asked) -> None:
    url, raw = served[0], {k: v for k, v in served[1].items() if k not in ("url", "additionalInterfaces")}
    wrong = [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]
    assert message((url, {**raw, "supportedInterfaces": wrong})) >= {"CARD-007"}
    for binding in BINDINGS:
        dead = [{"url": f"http://{nowhere()}", "protocolBinding": binding, "protocolVersion": "1.0"}]
        (result,) = asked((url, {**raw, "supportedInterfaces": dead}))
        begin, _, why = result.findings[0].found.partition(": ")
        assert (result.requirement.id, begin) == ("CARD-007", "no server answers")
        assert why[:30] not in why[30:]


def test_push_notifications_that_are_not_there() -> None:
    with full_agent(Features(push=False)) as url:
        served = card_of(url)
        promised = {**served[1]["capabilities"], "pushNotifications": True}
        assert message(changed(served, capabilities=promised)) == {"PUSH-001"}


def test_streaming_that_does_not_stream() -> None:
    with builtin_server.served("noop?streaming=false") as agent:
        served = card_of(agent.url)
        # a2a-sdk 1.3.0 breaks an HTTP+JSON stream of 0.3 off instead of refusing it.
        assert [result.name for result in asked(served)] == ["0.3/V03-STREAM-004[HTTP+JSON]"]
        assert "STREAM-001" in message(changed(served, capabilities={"streaming": True}))


def test_security_that_is_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "open-sesame")
    with builtin_server.served("noop?auth_env=A_TOKEN") as agent:
        found = asked(card_of(agent.url), token="open-sesame")
    # gRPC is served at a port of its own, where the token is not sent.
    refused = {"1.0/CARD-007[GRPC]", "0.3/V03-CARD-022[GRPC]"}
    assert {(result.name, result.outcome) for result in found} == {(name, "error") for name in refused}


def test_the_guide_names_what_is_asked() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "cards.md").read_text(encoding="utf-8")
    online = [r for version in VERSIONS for r in load_requirements(version) if "online" in r.tags]
    assert len(online) == 14
    assert all(r.check for r in online)
    assert {r.id for r in online if f"`{r.id}`" not in guide} == set()
