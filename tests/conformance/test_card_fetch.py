"""Cards over HTTP: from good servers, careless ones and hostile ones."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import builtin_server
import pytest
from cards import minimal_0_3, minimal_1_0
from full_agent import Features, full_agent
from one_test import in_one_test
from threaded_http import Handler, HttpServer

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.cli import main
from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.card.fetch import fetch_card, load_jwks
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.finding import FOUND, VERSIONS, CheckResult
from pytest_a2a_bench.conformance.subject import Subject, check_online, look_at
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError, TransportError

PATH = "/.well-known/agent-card.json"
LEGACY = "/.well-known/agent.json"
GOOD = {"Content-Type": "application/json", "Cache-Control": "max-age=60", "ETag": '"a"'}

Answer = tuple[int, dict[str, str], bytes]
Site = Callable[[str, Any], "Answer | None"]


class _Handler(Handler):
    server: Any

    def do_GET(self) -> None:
        answer = self.server.site(self.path, self)
        if answer is None:
            return
        status, headers, body = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


@contextmanager
def serve(site: Site) -> Iterator[str]:
    with HttpServer(_Handler) as server:
        server.site = site  # type: ignore[attr-defined]
        yield server.url


def good(path: str, handler: Any) -> Answer:
    if path != PATH:
        return 404, {}, b""
    if handler.headers.get("If-None-Match") == '"a"':
        return 304, {"ETag": '"a"'}, b""
    return 200, GOOD, json.dumps(minimal_1_0()).encode()


def always(status: int, headers: dict[str, str], body: bytes) -> Site:
    return lambda path, handler: (status, headers, body)


def card_with(headers: dict[str, str], card: Any = None) -> Site:
    body = json.dumps(minimal_1_0() if card is None else card).encode()
    return lambda path, handler: (200, headers, body) if path == PATH else (404, {}, b"")


def without(*names: str, **more: str) -> dict[str, str]:
    return {k: v for k, v in {**GOOD, **more}.items() if k not in names}


def found(site: Site, **options: Any) -> list[str]:
    with serve(site) as url:
        timeout = options.pop("timeout", 10.0)
        _, _, findings = fetch_card(url, config=ClientConfig(url, **options), timeout=timeout)
    return [f.rule for f in findings]


def test_a_good_server_is_silent() -> None:
    with serve(good) as url:
        raw, http, findings = fetch_card(url)
        assert findings == []
        assert raw == minimal_1_0()
        assert (http.status, http.conditional_status, http.url) == (200, 304, url + PATH)
        assert check_card(raw, http=http) == []
        assert fetch_card(url + PATH)[0] == raw
        assert fetch_card(url + "/rpc")[0] == raw


def behind_a_gateway(path: str, handler: Any) -> Answer:
    sent = handler.headers.get("Authorization", "")
    if sent != "Bearer the-right-token":
        return 401, {}, f"who is {sent}?".encode()
    return good(path, handler)


def test_a_card_behind_authentication_is_judged() -> None:
    assert found(behind_a_gateway, auth=Credentials("the-right-token")) == []
    assert found(behind_a_gateway) == ["CARD-001"]
    with serve(behind_a_gateway) as url:
        assert look_at(ClientConfig(url, auth=Credentials("the-right-token"))).findings == ()
        _, _, findings = fetch_card(url)
        assert "put a token in A2A_AUTH_TOKEN" in findings[0].found
        wrong = look_at(ClientConfig(url, auth=Credentials("a-wrong-token"))).findings
    assert [f.rule for f in wrong] == ["CARD-001"]
    assert "who is" in wrong[0].exchanges[0].response
    assert "a-wrong-token" not in repr(wrong)


def test_a_token_is_not_shown_to_a_server_that_does_not_ask() -> None:
    seen = []

    def site(path: str, handler: Any) -> Answer:
        seen.append(handler.headers.get("Authorization"))
        return good(path, handler)

    assert found(site, auth=Credentials("the-right-token")) == []
    assert set(seen) == {None}


@pytest.mark.parametrize(("token", "code"), [("the-right-token", 0), ("a-wrong-token", 1)])
def test_the_command_sends_the_token_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], token: str, code: int
) -> None:
    monkeypatch.setenv("MY_TOKEN", token)
    with serve(behind_a_gateway) as url:
        assert main.main(["check", "--card", url, "--set", "auth-env=MY_TOKEN", "--format", "json"]) == code
    assert token not in capsys.readouterr().out


def test_a_server_on_a2a_sdk_only_lacks_cache_control(noop_url: str) -> None:
    raw, http, findings = fetch_card(noop_url)
    assert [f.rule for f in findings] == ["CARD-013"]
    assert [f.rule for f in check_card(raw, http=http)] == ["CARD-013"]


@in_one_test(
    ("site", "rules"),
    [
        (card_with(without("Cache-Control")), ["CARD-013", "CARD-015"]),
        (card_with(without("ETag")), ["CARD-014"]),
        (card_with({**GOOD, "ETag": "unquoted"}), ["CARD-014"]),
        (card_with(GOOD), ["CARD-015"]),
        (card_with({**without("ETag"), "Last-Modified": "yesterday"}), ["CARD-014", "CARD-016"]),
        (card_with(without("ETag", **{"Content-Type": "text/plain"})), ["CARD-002", "CARD-014"]),
        (card_with(without("ETag", "Content-Type")), ["CARD-002", "CARD-014"]),
        (card_with({**without("ETag"), "Content-Type": "application/vnd.a2a+json"}), ["CARD-014"]),
        (always(404, {}, b""), ["CARD-001"]),
        (always(500, {}, b"boom"), ["CARD-001"]),
        (always(401, {}, b""), ["CARD-001"]),
        (always(200, {"Content-Type": "text/html"}, b"<html>"), ["CARD-002"]),
        (always(200, GOOD, b'{"name": "\xff"}'), ["CARD-002"]),
        (always(200, GOOD, b"[" * 100_000), ["CARD-002"]),
        (always(200, GOOD, b'{"a": NaN}'), ["CARD-002"]),
        (always(200, GOOD, b""), ["CARD-002"]),
        (always(302, {"Location": "http://203.0.113.9/card"}, b""), ["CARD-001"]),
        (always(302, {"Location": PATH}, b""), ["CARD-001"]),
        (always(200, GOOD, b" " * 3_000_000), ["CARD-002"]),
    ],
    ids=lambda v: None,
)  # fmt: skip
def test_careless_servers(site: Site, rules: list[str]) -> None:
    assert found(site) == rules


def test_a_body_that_ends_before_its_length_is_no_card() -> None:
    def site(path: str, handler: Any) -> Answer:
        handler.close_connection = True
        return 200, {**GOOD, "Content-Length": "999", "Connection": "close"}, b"{}"

    assert found(site) == ["CARD-002"]


def test_a_card_that_does_not_come_in_time_is_no_fault_of_the_agent() -> None:
    with pytest.raises(TransportError, match=r"no complete answer within 0\.5 s.*--a2a-timeout"):
        found(always(200, {**GOOD, "Content-Length": "999"}, b"{}"), timeout=0.5)


def test_0_3_asks_for_no_caching() -> None:
    assert found(card_with({"Content-Type": "application/json"}, minimal_0_3())) == []
    assert found(card_with({"Content-Type": "text/html"}, minimal_0_3())) == ["V03-CARD-021"]


@pytest.mark.parametrize(("card", "rule"), [(minimal_1_0(), "CARD-001"), (minimal_0_3(), "V03-CARD-001")])
def test_the_legacy_path_alone_is_not_enough(card: Any, rule: str) -> None:
    body = json.dumps(card).encode()

    def site(path: str, handler: Any) -> Answer:
        return (200, without("ETag"), body) if path == LEGACY else (404, {}, b"")

    with serve(site) as url:
        raw, http, findings = fetch_card(url)
        assert raw == card
        assert http.is_legacy
        assert rule in [f.rule for f in findings]
        assert rule in [f.rule for f in check_card(raw, http=http)]


def test_duplicate_members_over_http_are_reported() -> None:
    body = json.dumps(minimal_1_0()).replace('{"name"', '{"name": "Other", "name"', 1).encode()
    with serve(always(200, without("ETag"), body)) as url:
        raw, http, _ = fetch_card(url)
    assert [f.rule for f in check_card(raw, http=http)] == ["CARD-014", "CARD-030"]


def test_redirects_within_the_origin_are_followed() -> None:
    def site(path: str, handler: Any) -> Answer:
        if path == PATH:
            return 307, {"Location": "/elsewhere.json"}, b""
        return 200, without("ETag"), json.dumps(minimal_1_0()).encode()

    assert found(site) == ["CARD-014"]


def test_slow_bytes_end_in_time() -> None:
    sent: list[int] = []

    def site(path: str, handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            for number in range(2000):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                sent.append(number)
                time.sleep(0.05)
        except OSError:
            pass
        handler.close_connection = True

    with pytest.raises(TransportError, match=r"no complete answer within 0\.4 s"):
        found(site, timeout=0.4)
    assert 0 < len(sent) < 2000, "the reader goes before the site has said all"


def test_an_endless_body_is_cut() -> None:
    def site(path: str, handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        try:
            for _ in range(10_000):
                handler.wfile.write(b"x" * 65_536)
        except OSError:
            pass
        handler.close_connection = True

    assert found(site, timeout=8.0) == ["CARD-002"]


def test_nothing_there_is_no_finding() -> None:
    with serve(good) as url:
        pass
    with pytest.raises(EndpointUnreachableError, match="nothing answers at"):
        fetch_card(url)
    for wrong in ("ftp://a.example", "http://", "http://a:b/", "127.0.0.1"):
        with pytest.raises(ConfigurationError, match="not the URL of a card"):
            fetch_card(wrong)


def test_evidence_is_kept_and_bounded() -> None:
    with serve(always(200, {"Content-Type": "text/html", "Set-Cookie": "a=secret"}, b"<html>" + b"x" * 9000)) as url:
        _, _, (finding,) = fetch_card(url)
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
    with serve(always(200, {}, json.dumps(keys).encode())) as url:
        assert load_jwks(url + "/jwks.json") == keys
    with pytest.raises(ConfigurationError, match="give a file or a URL"):
        load_jwks(str(tmp_path / "none.json"))
    for text, complaint in (("[]", "found no keys"), ("{", "malformed JSON")):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=complaint):
            load_jwks(str(path))
    with serve(always(404, {}, b"")) as url, pytest.raises(ConfigurationError, match="status 404"):
        load_jwks(url)
    with pytest.raises(ConfigurationError, match="nothing answers"):
        load_jwks(url)


# What a card promises and its agent does not keep; the servers are a2a-sdk's own, with the card changed.


TOKEN_ENV = "A2A_TEST_ONLINE_TOKEN"


@pytest.fixture(scope="module")
def served(noop_url: str) -> tuple[str, dict[str, Any]]:
    raw, _, _ = fetch_card(noop_url)
    assert isinstance(raw, dict)
    return noop_url, raw


@pytest.fixture(scope="module")
def secured() -> Iterator[tuple[str, dict[str, Any]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN_ENV, "open-sesame")
        with builtin_server.served(f"noop?auth_env={TOKEN_ENV}") as agent:
            raw, _, _ = fetch_card(agent.url)
            assert isinstance(raw, dict)
            yield agent.url, raw


def asked(served: tuple[str, Any], token: str = "", endpoint: str = "") -> list[CheckResult]:
    """Return the checks that found something, or that could not be made."""
    url, raw = served
    config = ClientConfig(endpoint or url, auth=Credentials(token)) if token else ClientConfig(endpoint or url)
    results = check_online(Subject(endpoint or url, raw), config, 5.0, [])
    return [result for result in results if result.outcome in FOUND]


def message(served: tuple[str, dict[str, Any]], token: str = "") -> set[str]:
    return {result.requirement.id for result in asked(served, token)}


def changed(served: tuple[str, dict[str, Any]], **members: Any) -> tuple[str, dict[str, Any]]:
    url, raw = served
    return url, {**copy.deepcopy(raw), **members}


def test_a_true_card_is_silent(served: tuple[str, dict[str, Any]]) -> None:
    assert message(served) == set()


def test_a_url_that_speaks_something_else(served: tuple[str, dict[str, Any]]) -> None:
    url, raw = served
    wrong = [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]
    assert message((url, {**raw, "supportedInterfaces": wrong})) >= {"CARD-007"}


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
def test_a_url_where_nothing_answers(served: tuple[str, dict[str, Any]], binding: str) -> None:
    dead = [{"url": "http://127.0.0.1:9", "protocolBinding": binding, "protocolVersion": "1.0"}]
    card = {k: v for k, v in served[1].items() if k not in ("url", "additionalInterfaces")}
    (result,) = asked((served[0], {**card, "supportedInterfaces": dead}))
    (finding,) = result.findings
    assert (result.requirement.id, result.binding) == ("CARD-007", binding)
    assert (finding.severity, finding.pointer) == ("error", "/supportedInterfaces")
    assert finding.exchanges


def test_declared_and_not_there(served: tuple[str, dict[str, Any]]) -> None:
    promised = {**served[1]["capabilities"], "extendedAgentCard": True}
    assert message(changed(served, capabilities=promised)) == {"XCARD-003"}


def test_push_notifications_that_are_not_there() -> None:
    with full_agent(Features(push=False)) as url:
        raw, _, _ = fetch_card(url)
        assert isinstance(raw, dict)
        assert message((url, {**raw, "capabilities": {**raw["capabilities"], "pushNotifications": True}})) == {
            "PUSH-001"
        }


def test_there_and_not_declared(served: tuple[str, dict[str, Any]]) -> None:
    assert {"STREAM-012", "V03-STREAM-004"} <= message(changed(served, capabilities={"streaming": False}))


def test_streaming_that_does_not_stream() -> None:
    with builtin_server.served("noop?streaming=false") as agent:
        raw, _, _ = fetch_card(agent.url)
        assert isinstance(raw, dict)
        # a2a-sdk 1.3.0 breaks an HTTP+JSON stream of 0.3 off instead of refusing it.
        assert [result.name for result in asked((agent.url, raw))] == ["0.3/V03-STREAM-004[HTTP+JSON]"]
        assert "STREAM-001" in message((agent.url, {**raw, "capabilities": {"streaming": True}}))


def test_security_that_is_enforced(secured: tuple[str, dict[str, Any]]) -> None:
    # gRPC is served at a port of its own, where the token is not sent.
    refused = {"1.0/CARD-007[GRPC]", "0.3/V03-CARD-022[GRPC]"}
    found = asked(secured, token="open-sesame")
    assert {(result.name, result.outcome) for result in found} == {(name, "error") for name in refused}


def test_security_that_is_not_enforced(served: tuple[str, dict[str, Any]]) -> None:
    card = changed(
        served,
        securitySchemes={"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}, "type": "http", "scheme": "bearer"}},
        securityRequirements=[{"schemes": {"b": {}}}],
        security=[{"b": []}],
    )
    assert message(card) == {"AUTH-001", "V03-AUTH-001"}


def test_security_that_is_not_declared(secured: tuple[str, dict[str, Any]]) -> None:
    url, raw = secured
    bare = {k: v for k, v in raw.items() if k not in ("securityRequirements", "securitySchemes", "security")}
    found = asked((url, bare))
    assert {(r.requirement.id, r.outcome) for r in found} == {("CARD-007", "error"), ("V03-CARD-022", "error")}
    assert "no credentials are configured; put a token in A2A_AUTH_TOKEN" in found[0].reason


def test_a_wrong_token_is_reported_and_never_shown(secured: tuple[str, dict[str, Any]]) -> None:
    url, raw = secured
    found = asked((url, raw), "hunter2-hunter2")
    assert {r.requirement.id for r in found if r.outcome == "error"} == {"CARD-007", "V03-CARD-022"}
    assert "the configured credentials was sent and refused; check its value" in found[0].reason
    assert "hunter2" not in repr(found)


def test_credentials_go_to_the_endpoints_origin_only(secured: tuple[str, dict[str, Any]]) -> None:
    _, raw = secured
    found = asked(("", raw), "open-sesame", "https://elsewhere.example.com/")
    assert {result.outcome for result in found} == {"error"}
    assert all("withheld" in result.reason for result in found)


@pytest.mark.parametrize("raw", [None, [], {}, {"supportedInterfaces": [{"url": 7}]}, {"url": 7, "protocolVersion": 1}])
def test_a_card_without_an_interface_is_not_asked(raw: Any) -> None:
    assert asked(("http://127.0.0.1:9", raw)) == []


def test_the_guide_names_what_is_asked() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "cards.md").read_text(encoding="utf-8")
    online = [r for version in VERSIONS for r in load_requirements(version) if "online" in r.tags]
    assert len(online) == 14
    assert all(r.check for r in online)
    assert {r.id for r in online if f"`{r.id}`" not in guide} == set()
