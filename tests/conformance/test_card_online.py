"""What a card promises and its agent does not keep; the servers are a2a-sdk's own, with the card changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from full_agent import Features, full_agent

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.conformance.card import fetch_card
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.finding import FOUND, VERSIONS, CheckResult
from pytest_a2a_bench.conformance.subject import Subject, check_online

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
        with start_builtin(f"noop?auth_env={TOKEN_ENV}") as agent:
            raw, _, _ = fetch_card(agent.url)
            assert isinstance(raw, dict)
            yield agent.url, raw


def asked(served: tuple[str, Any], token: str = "", endpoint: str = "") -> list[CheckResult]:
    """Return the checks that found something, or that could not be made."""
    url, raw = served
    config = ClientConfig(endpoint or url, auth=Credentials(token)) if token else ClientConfig(endpoint or url)
    results = check_online(Subject(endpoint or url, raw), config, 5.0, [])
    return [result for result in results if result.outcome in FOUND]


def told(served: tuple[str, dict[str, Any]], token: str = "") -> set[str]:
    return {result.requirement.id for result in asked(served, token)}


def changed(served: tuple[str, dict[str, Any]], **members: Any) -> tuple[str, dict[str, Any]]:
    url, raw = served
    return url, {**copy.deepcopy(raw), **members}


def test_a_true_card_is_silent(served: tuple[str, dict[str, Any]]) -> None:
    assert told(served) == set()


def test_a_url_that_speaks_something_else(served: tuple[str, dict[str, Any]]) -> None:
    url, raw = served
    wrong = [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]
    assert told((url, {**raw, "supportedInterfaces": wrong})) >= {"CARD-007"}


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
    assert told(changed(served, capabilities=promised)) == {"XCARD-003"}


def test_push_notifications_that_are_not_there() -> None:
    with full_agent(Features(push=False)) as url:
        raw, _, _ = fetch_card(url)
        assert isinstance(raw, dict)
        assert told((url, {**raw, "capabilities": {**raw["capabilities"], "pushNotifications": True}})) == {"PUSH-001"}


def test_there_and_not_declared(served: tuple[str, dict[str, Any]]) -> None:
    assert {"STREAM-012", "V03-STREAM-004"} <= told(changed(served, capabilities={"streaming": False}))


def test_streaming_that_does_not_stream() -> None:
    with start_builtin("noop?streaming=false") as agent:
        raw, _, _ = fetch_card(agent.url)
        assert isinstance(raw, dict)
        # a2a-sdk 1.3.0 breaks an HTTP+JSON stream of 0.3 off instead of refusing it.
        assert [result.name for result in asked((agent.url, raw))] == ["0.3/V03-STREAM-004[HTTP+JSON]"]
        assert "STREAM-001" in told((agent.url, {**raw, "capabilities": {"streaming": True}}))


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
    assert told(card) == {"AUTH-001", "V03-AUTH-001"}


def test_security_that_is_not_declared(secured: tuple[str, dict[str, Any]]) -> None:
    url, raw = secured
    bare = {k: v for k, v in raw.items() if k not in ("securityRequirements", "securitySchemes", "security")}
    found = asked((url, bare))
    assert {(r.requirement.id, r.outcome) for r in found} == {("CARD-007", "error"), ("V03-CARD-022", "error")}
    assert "no credentials are configured; put a token in A2A_AUTH_TOKEN" in found[0].reason


def test_a_wrong_token_is_told_and_never_shown(secured: tuple[str, dict[str, Any]]) -> None:
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
def test_what_names_no_interface_is_not_asked(raw: Any) -> None:
    assert asked(("http://127.0.0.1:9", raw)) == []


def test_the_guide_names_what_is_asked() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "cards.md").read_text(encoding="utf-8")
    online = [r for version in VERSIONS for r in load_requirements(version) if "online" in r.tags]
    assert len(online) == 14
    assert all(r.check for r in online)
    assert {r.id for r in online if f"`{r.id}`" not in guide} == set()
