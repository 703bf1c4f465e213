"""What a card promises and its agent does not keep; the servers are a2a-sdk's own, with the card changed."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.conformance.card import check_online, fetch_card, online
from pytest_a2a_bench.conformance.card.online import declared_interfaces
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.finding import VERSIONS

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


def told(served: tuple[str, dict[str, Any]], token: str = "") -> set[str]:
    url, raw = served
    config = ClientConfig(url, auth=Credentials(token)) if token else None
    return {f.rule for f in check_online(raw, url, timeout=5.0, config=config)}


def changed(served: tuple[str, dict[str, Any]], **members: Any) -> tuple[str, dict[str, Any]]:
    url, raw = served
    return url, {**copy.deepcopy(raw), **members}


def test_a_true_card_is_silent(served: tuple[str, dict[str, Any]]) -> None:
    assert told(served) == set()


def test_every_interface_is_asked_once(served: tuple[str, dict[str, Any]]) -> None:
    assert [(p.binding, p.version) for p in declared_interfaces(served[1])] == [
        (binding, version) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
    ]


def test_a_url_that_speaks_something_else(served: tuple[str, dict[str, Any]]) -> None:
    url, raw = served
    wrong = [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]
    assert told((url, {**raw, "supportedInterfaces": wrong})) >= {"CARD-007"}


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
def test_a_url_where_nothing_answers(served: tuple[str, dict[str, Any]], binding: str) -> None:
    dead = [{"url": "http://127.0.0.1:9", "protocolBinding": binding, "protocolVersion": "1.0"}]
    card = {k: v for k, v in served[1].items() if k not in ("url", "additionalInterfaces")}
    (finding,) = check_online({**card, "supportedInterfaces": dead}, served[0], timeout=2.0)
    assert (finding.rule, finding.severity, finding.pointer) == ("CARD-007", "error", "/supportedInterfaces/0")
    assert finding.exchanges


def test_declared_and_not_there(served: tuple[str, dict[str, Any]]) -> None:
    promised = {**served[1]["capabilities"], "pushNotifications": True, "extendedAgentCard": True}
    assert {"PUSH-004", "XCARD-003"} <= told(changed(served, capabilities=promised))


def test_there_and_not_declared(served: tuple[str, dict[str, Any]]) -> None:
    assert {"STREAM-012", "V03-STREAM-004"} <= told(changed(served, capabilities={"streaming": False}))


def test_streaming_that_does_not_stream() -> None:
    with start_builtin("noop?streaming=false") as agent:
        raw, _, _ = fetch_card(agent.url)
        assert isinstance(raw, dict)
        # a2a-sdk 1.3.0 breaks an HTTP+JSON stream of 0.3 off instead of refusing it.
        findings = check_online(raw, agent.url, timeout=5.0)
        assert [(f.rule, "HTTP+JSON 0.3" in f.found) for f in findings] == [("V03-STREAM-004", True)]
        assert "STREAM-001" in told((agent.url, {**raw, "capabilities": {"streaming": True}}))


def test_security_that_is_enforced(secured: tuple[str, dict[str, Any]]) -> None:
    assert told(secured, token="open-sesame") == set()
    assert told(secured) == set()


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
    findings = check_online(bare, url, timeout=5.0)
    assert {f.rule for f in findings} == {"CARD-007", "V03-CARD-022"}
    assert "the card requires no credentials" in findings[0].found


def test_a_wrong_token_is_told_and_never_shown(secured: tuple[str, dict[str, Any]]) -> None:
    url, raw = secured
    findings = check_online(raw, url, config=ClientConfig(url, auth=Credentials("hunter2-hunter2")), timeout=5.0)
    assert {f.rule for f in findings} == {"CARD-007", "V03-CARD-022"}
    assert "hunter2" not in repr(findings)


def test_credentials_go_to_the_endpoints_origin_only(secured: tuple[str, dict[str, Any]]) -> None:
    _, raw = secured
    config = ClientConfig("https://elsewhere.example.com/", auth=Credentials("open-sesame"))
    findings = check_online(raw, config.endpoint, config=config, timeout=5.0)
    assert findings == []  # the interfaces refuse what comes without credentials, as the card says they do


@pytest.mark.parametrize(
    "raw", [None, [], {}, {"supportedInterfaces": [{"url": 7}]}, {"url": "x", "protocolVersion": 1}]
)
def test_what_names_no_interface_is_not_asked(raw: Any) -> None:
    assert isinstance(check_online(raw, "http://127.0.0.1:9", timeout=1.0), list)


def test_every_promise_is_in_the_protocol_suite_too_and_the_guide_says_where() -> None:
    code = Path(online.__file__).read_text(encoding="utf-8")
    rules = set(re.findall(r'"((?:V03-)?[A-Z]+-[0-9]{3})"', code))
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "cards.md").read_text(encoding="utf-8")

    assert len(rules) == 14
    assert rules <= {r.id for version in VERSIONS for r in load_requirements(version) if r.check}
    assert {rule for rule in rules if f"`{rule}`" not in guide} == set()
