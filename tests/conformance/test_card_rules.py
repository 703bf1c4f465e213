"""Every rule has a card that breaks it and nothing else; good cards break none."""

# ruff: noqa: E501  one bad card a line reads better than one a paragraph
from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest
from cards import (
    GOOD_HEADER,
    Break,
    Card,
    also,
    drop,
    encode,
    full_0_3,
    full_1_0,
    hybrid,
    minimal_0_3,
    minimal_1_0,
    put,
    rename,
    signed_with,
)
from one_test import in_one_test

from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.finding import Finding

SCHEME = ("securitySchemes", "key", "apiKeySecurityScheme")
INTERFACE = ("supportedInterfaces", 0)
AWS = "AKIA" + "ABCDEFGHIJKLMNOP"  # in two pieces, so that no scanner takes it for a real one


def scheme(value: Any) -> Break:
    return put("securitySchemes", value={"s": value})


def oauth(flows: Any) -> Break:
    return scheme({"oauth2SecurityScheme": {"flows": flows}})


def extension(value: Any) -> Break:
    return put("capabilities", value={"extensions": value if isinstance(value, list) else [value]})


FLOW = {"tokenUrl": "https://id.example.com/token", "scopes": {"a": "A"}}
TAKEN = {"id": "route", "name": "Other", "description": "Other", "tags": ["x"]}
WEAK = {**GOOD_HEADER, "alg": "HS256"}

BAD_1_0: list[tuple[str, str, str, Break]] = [
    ("no name", "CARD-003", "/name", drop("name")),
    ("empty name", "CARD-003", "/name", put("name", value="")),
    ("null name", "CARD-003", "/name", put("name", value=None)),
    ("no description", "CARD-003", "/description", drop("description")),
    ("no version", "CARD-003", "/version", drop("version")),
    ("no interfaces", "CARD-003", "/supportedInterfaces", put("supportedInterfaces", value=None)),
    ("no capabilities", "CARD-003", "/capabilities", drop("capabilities")),
    ("no input modes", "CARD-003", "/defaultInputModes", drop("defaultInputModes")),
    ("no output modes", "CARD-003", "/defaultOutputModes", drop("defaultOutputModes")),
    ("no skills", "CARD-003", "/skills", drop("skills")),
    ("empty interfaces", "CARD-004", "/supportedInterfaces", put("supportedInterfaces", value=[])),
    ("empty skills", "CARD-004", "/skills", put("skills", value=[])),
    ("empty input modes", "CARD-004", "/defaultInputModes", put("defaultInputModes", value=[])),
    ("empty tags", "CARD-004", "/skills/0/tags", put("skills", 0, "tags", value=[])),
    ("skill without id", "CARD-005", "/skills/0/id", drop("skills", 0, "id")),
    ("skill without tags", "CARD-005", "/skills/0/tags", drop("skills", 0, "tags")),
    ("skill with an empty name", "CARD-005", "/skills/0/name", put("skills", 0, "name", value="")),
    ("interface without url", "CARD-006", "/supportedInterfaces/0/url", drop(*INTERFACE, "url")),
    ("interface without binding", "CARD-006", "/supportedInterfaces/0/protocolBinding", drop(*INTERFACE, "protocolBinding")),
    ("interface without version", "CARD-006", "/supportedInterfaces/0/protocolVersion", drop(*INTERFACE, "protocolVersion")),
    ("relative url", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="/rpc")),
    ("url of another scheme", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="ftp://a.example/")),
    ("url without host", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https:///rpc")),
    ("url with a space", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://a.example/ b")),
    ("url with a bad port", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://a.example:x/")),
    ("http in public", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="http://a.example.com/")),
    ("http in private", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="http://10.0.0.7/")),
    ("listening address", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="http://0.0.0.0:80/")),
    ("url with a placeholder", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://{host}/rpc")),
    ("url with another placeholder", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://<your-host>/")),
    ("url with two schemes", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://https://a.example.com/")),
    ("url with port 0", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://a.example.com:0/")),
    ("url with an empty label", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://a..example.com/")),
    ("grpc with a port beyond", "CARD-009", "/supportedInterfaces/0/url", also(put(*INTERFACE, "protocolBinding", value="GRPC"), put(*INTERFACE, "url", value="a.example.com:99999"))),
    ("blank name", "CARD-003", "/name", put("name", value=" \t")),
    ("blank description", "CARD-003", "/description", put("description", value=" ")),
    ("blank skill id", "CARD-005", "/skills/0/id", put("skills", 0, "id", value=" ")),
    ("empty tag", "CARD-005", "/skills/0/tags/0", put("skills", 0, "tags", value=[""])),
    ("api key with a header that is none", "CARD-018", "/securitySchemes/s/apiKeySecurityScheme/name", scheme({"apiKeySecurityScheme": {"location": "header", "name": "X Y:"}})),
    ("scope of no flow", "CARD-019", "/securityRequirements/0/schemes/s/list/0", also(oauth({"clientCredentials": {**FLOW, "scopes": {"read": "Read"}}}), put("securityRequirements", value=[{"schemes": {"s": {"list": ["wirte"]}}}]))),
    ("key in url", "CARD-017", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://a.example.com/?key=0123456789abcdef")),
    ("patch version", "CARD-010", "/supportedInterfaces/0/protocolVersion", put(*INTERFACE, "protocolVersion", value="1.0.1")),
    ("v1", "CARD-010", "/supportedInterfaces/0/protocolVersion", put(*INTERFACE, "protocolVersion", value="v1")),
    ("misspelt binding", "CARD-011", "/supportedInterfaces/0/protocolBinding", put(*INTERFACE, "protocolBinding", value="REST")),
    ("lower-case binding", "CARD-011", "/supportedInterfaces/0/protocolBinding", put(*INTERFACE, "protocolBinding", value="jsonrpc")),
    ("nameless binding", "CARD-011", "/supportedInterfaces/0/protocolBinding", put(*INTERFACE, "protocolBinding", value="WS")),
    ("snake case", "CARD-012", "/default_input_modes", rename("defaultInputModes", "default_input_modes")),
    ("no TLS beside TLS", "CARD-009", "/supportedInterfaces/1/url", put("supportedInterfaces", value=[{"url": f"{url}.example.com/", "protocolBinding": b, "protocolVersion": "1.0"} for url, b in (("https://a", "JSONRPC"), ("http://b", "HTTP+JSON"))])),
    ("path of a method", "CARD-009", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://a.example.com/a/v1/message:stream")),
    ("user in url", "CARD-017", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://u:p@a.example.com/")),
    ("token in url", "CARD-017", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://a.example.com/?api_key=1")),
    ("private address", "CARD-017", "/supportedInterfaces/0/url", put(*INTERFACE, "url", value="https://192.168.1.4/")),
    ("key in a text", "CARD-017", "/description", put("description", value=f"Use {AWS} to log in.")),
    ("key in an unknown member", "CARD-017", "/x/0", put("x", value=["-----BEGIN RSA PRIVATE KEY-----"])),
    ("secret by its member", "CARD-017", "/x/clientSecret", put("x", value={"clientSecret": "hunter2hunter2"})),
    ("password of a skill", "CARD-017", "/skills/0/password", put("skills", 0, "password", value="hunter2hunter2")),
    ("scheme of no kind", "CARD-018", "/securitySchemes/s", scheme({"type": "http", "scheme": "bearer"})),
    ("scheme of two kinds", "CARD-018", "/securitySchemes/s", scheme({"mtlsSecurityScheme": {}, "httpAuthSecurityScheme": {"scheme": "x"}})),
    ("api key without name", "CARD-018", "/securitySchemes/s/apiKeySecurityScheme/name", scheme({"apiKeySecurityScheme": {"location": "query"}})),
    ("api key in the body", "CARD-018", "/securitySchemes/s/apiKeySecurityScheme/location", scheme({"apiKeySecurityScheme": {"location": "body", "name": "k"}})),
    ("two flows", "CARD-018", "/securitySchemes/s/oauth2SecurityScheme/flows", oauth({"clientCredentials": FLOW, "deviceCode": {**FLOW, "deviceAuthorizationUrl": "https://a.example.com/"}})),
    ("flow without token url", "CARD-018", "/securitySchemes/s/oauth2SecurityScheme/flows/clientCredentials/tokenUrl", oauth({"clientCredentials": {"scopes": {}}})),
    ("flow without scopes", "CARD-018", "/securitySchemes/s/oauth2SecurityScheme/flows/clientCredentials/scopes", oauth({"clientCredentials": {"tokenUrl": "https://a.example.com/"}})),
    ("relative token url", "CARD-018", "/securitySchemes/s/oauth2SecurityScheme/flows/clientCredentials/tokenUrl", oauth({"clientCredentials": {**FLOW, "tokenUrl": "/token"}})),
    ("token url without tls", "CARD-018", "/securitySchemes/s/openIdConnectSecurityScheme/openIdConnectUrl", scheme({"openIdConnectSecurityScheme": {"openIdConnectUrl": "http://id.example.com/"}})),
    ("dangling requirement", "CARD-019", "/securityRequirements/0/schemes/nobody", put("securityRequirements", value=[{"schemes": {"nobody": {"list": []}}}])),
    ("dangling requirement of a skill", "CARD-019", "/skills/0/securityRequirements/0/schemes/nobody", put("skills", 0, "securityRequirements", value=[{"schemes": {"nobody": {}}}])),
    ("requirement in 0.3's form", "CARD-019", "/securityRequirements/0", also(scheme({"mtlsSecurityScheme": {}}), put("securityRequirements", value=[{"s": []}]))),
    ("same skill id twice", "CARD-020", "/skills/1/id", lambda c: c["skills"].append(TAKEN)),
    ("text is no media type", "CARD-021", "/defaultInputModes/0", put("defaultInputModes", 0, value="text")),
    ("empty media type of a skill", "CARD-021", "/skills/0/outputModes/0", put("skills", 0, "outputModes", value=[""])),
    ("provider without url", "CARD-022", "/provider/url", put("provider", value={"organization": "X"})),
    ("provider without organization", "CARD-022", "/provider/organization", put("provider", value={"organization": "", "url": "https://a.example.com"})),
    ("extension without uri", "CARD-023", "/capabilities/extensions/0/uri", extension({"description": "x"})),
    ("extension with a name for uri", "CARD-023", "/capabilities/extensions/0/uri", extension({"uri": "traffic v1"})),
    ("extension twice", "CARD-023", "/capabilities/extensions/1/uri", extension([{"uri": "urn:x:v1"}] * 2)),
    ("extension without version", "CARD-024", "/capabilities/extensions/0/uri", extension({"uri": "https://example.com/traffic"})),
    ("implicit flow", "CARD-025", "/securitySchemes/s/oauth2SecurityScheme/flows/implicit", oauth({"implicit": {"authorizationUrl": "https://a.example.com/", "scopes": {}}})),
    ("password flow", "CARD-025", "/securitySchemes/s/oauth2SecurityScheme/flows/password", oauth({"password": FLOW})),
    ("leftover url", "CARD-026", "/url", put("url", value="https://a.example.com/")),
    ("leftover transport", "CARD-026", "/preferredTransport", put("preferredTransport", value="JSONRPC")),
    ("leftover security", "CARD-026", "/security", put("security", value=[])),
    ("leftover history", "CARD-026", "/capabilities/stateTransitionHistory", put("capabilities", "stateTransitionHistory", value=True)),
    ("leftover security of a skill", "CARD-026", "/skills/0/security", put("skills", 0, "security", value=[])),
    ("extended card without security", "CARD-027", "/capabilities/extendedAgentCard", put("capabilities", "extendedAgentCard", value=True)),
    ("null icon", "CARD-028", "/iconUrl", put("iconUrl", value=None)),
    ("null tenant", "CARD-028", "/supportedInterfaces/0/tenant", put(*INTERFACE, "tenant", value=None)),
    ("number for a name", "CARD-029", "/name", put("name", value=7)),
    ("text for a boolean", "CARD-029", "/capabilities/streaming", put("capabilities", "streaming", value="true")),
    ("object for skills", "CARD-029", "/skills", put("skills", value={"id": "x"})),
    ("null among the skills", "CARD-029", "/skills/1", lambda c: c["skills"].append(None)),
    ("list for a string list", "CARD-029", "/securityRequirements/0/schemes/s", also(scheme({"mtlsSecurityScheme": {}}), put("securityRequirements", value=[{"schemes": {"s": []}}]))),
    ("relative documentation", "CARD-031", "/documentationUrl", put("documentationUrl", value="docs/index.html")),
    ("script for an icon", "CARD-031", "/iconUrl", put("iconUrl", value="javascript:alert(1)")),
    ("provider without scheme", "CARD-031", "/provider/url", put("provider", value={"organization": "X", "url": "www.x.example"})),
    ("version of tomorrow", "CARD-032", "/supportedInterfaces/0/protocolVersion", put(*INTERFACE, "protocolVersion", value="9.9")),
    ("interface twice", "CARD-033", "/supportedInterfaces/1", lambda c: c["supportedInterfaces"].append(dict(c["supportedInterfaces"][0]))),
    ("signature without protected", "SIGN-001", "/signatures/0/protected", put("signatures", value=[{"signature": "YQ"}])),
    ("signature not base64url", "SIGN-001", "/signatures/0/signature", put("signatures", value=[{"protected": encode(GOOD_HEADER), "signature": "a+b/="}])),
    ("protected is no json", "SIGN-001", "/signatures/0/protected", signed_with("YWJj")),
    ("header without kid", "SIGN-002", "/signatures/0/protected", signed_with({"alg": "ES256", "typ": "JOSE"})),
    ("header without alg", "SIGN-002", "/signatures/0/protected", signed_with({"kid": "k", "typ": "JOSE"})),
    ("header without typ", "SIGN-003", "/signatures/0/protected", signed_with({"alg": "ES256", "kid": "k"})),
    ("header of typ JWT", "SIGN-003", "/signatures/0/protected", signed_with({**GOOD_HEADER, "typ": "JWT"})),
    ("jku without tls", "SIGN-007", "/signatures/0/protected", signed_with({**GOOD_HEADER, "jku": "http://a.example.com/k"})),
    ("alg none", "SIGN-008", "/signatures/0/protected", signed_with({**GOOD_HEADER, "alg": "none"})),
    ("alg HS256", "SIGN-008", "/signatures/0/protected", signed_with(WEAK)),
]  # fmt: skip

BAD_0_3: list[tuple[str, str, str, Break]] = [
    ("no name", "V03-CARD-002", "/name", drop("name")),
    ("no protocolVersion", "V03-CARD-002", "/protocolVersion", drop("protocolVersion")),
    ("no url", "V03-CARD-002", "/url", drop("url")),
    ("no skills", "V03-CARD-002", "/skills", drop("skills")),
    ("skill without tags", "V03-CARD-002", "/skills/0/tags", put("skills", value=[{"id": "a", "name": "a", "description": "a"}])),
    ("provider without url", "V03-CARD-002", "/provider/url", put("provider", value={"organization": "X"})),
    ("no transport", "V03-CARD-003", "/preferredTransport", drop("preferredTransport")),
    ("one url for two transports", "V03-CARD-004", "/additionalInterfaces/1/url", put("additionalInterfaces", value=[{"url": "https://router.example.com/rpc", "transport": t} for t in ("JSONRPC", "HTTP+JSON")])),
    ("main url missing", "V03-CARD-005", "/additionalInterfaces", put("additionalInterfaces", value=[{"url": "https://a.example.com/", "transport": "HTTP+JSON"}])),
    ("scheme without type", "V03-CARD-006", "/securitySchemes/s/type", scheme({"scheme": "bearer"})),
    ("scheme in 1.0's form", "V03-CARD-006", "/securitySchemes/s/type", scheme({"httpAuthSecurityScheme": {"scheme": "bearer"}})),
    ("scheme of unknown type", "V03-CARD-006", "/securitySchemes/s/type", scheme({"type": "magic"})),
    ("api key without in", "V03-CARD-006", "/securitySchemes/s/in", scheme({"type": "apiKey", "name": "x"})),
    ("api key in the body", "V03-CARD-006", "/securitySchemes/s/in", scheme({"type": "apiKey", "name": "x", "in": "body"})),
    ("relative token url", "V03-CARD-006", "/securitySchemes/s/flows/password/tokenUrl", scheme({"type": "oauth2", "flows": {"password": {"tokenUrl": "/t", "scopes": {}}}})),
    ("dangling security", "V03-CARD-007", "/security/0/nobody", put("security", value=[{"nobody": []}])),
    ("security in 1.0's form", "V03-CARD-007", "/security/0/schemes", put("security", value=[{"schemes": ["s"]}])),
    ("dangling security of a skill", "V03-CARD-007", "/skills/0/security/0/nobody", put("skills", value=[{"id": "a", "name": "a", "description": "a", "tags": [], "security": [{"nobody": []}]}])),
    ("text for the extended card", "V03-CARD-008", "/supportsAuthenticatedExtendedCard", put("supportsAuthenticatedExtendedCard", value="yes")),
    ("extended card without security", "V03-CARD-008", "/supportsAuthenticatedExtendedCard", put("supportsAuthenticatedExtendedCard", value=True)),
    ("null provider", "V03-CARD-009", "/provider", put("provider", value=None)),
    ("number for a version", "V03-CARD-010", "/version", put("version", value=1.0)),
    ("text for capabilities", "V03-CARD-010", "/capabilities", put("capabilities", value="all")),
    ("1.0 as the version", "V03-CARD-011", "/protocolVersion", put("protocolVersion", value="1.0")),
    ("1.0's security", "V03-CARD-012", "/securityRequirements", put("securityRequirements", value=[])),
    ("1.0's extended card", "V03-CARD-012", "/capabilities/extendedAgentCard", put("capabilities", "extendedAgentCard", value=True)),
    ("relative url", "V03-CARD-013", "/url", put("url", value="rpc")),
    ("http in public", "V03-CARD-013", "/url", put("url", value="http://a.example.com/")),
    ("same skill id twice", "V03-CARD-014", "/skills/1/id", put("skills", value=[{**TAKEN}, {**TAKEN}])),
    ("text is no media type", "V03-CARD-015", "/defaultOutputModes/0", put("defaultOutputModes", 0, value="text")),
    ("extension without uri", "V03-CARD-016", "/capabilities/extensions/0/uri", extension({"required": True})),
    ("extension twice", "V03-CARD-016", "/capabilities/extensions/1/uri", extension([{"uri": "urn:x"}] * 2)),
    ("user in url", "V03-CARD-017", "/url", put("url", value="https://u:p@a.example.com/")),
    ("relative icon", "V03-CARD-018", "/iconUrl", put("iconUrl", value="icon.png")),
    ("misspelt transport", "V03-CARD-019", "/preferredTransport", put("preferredTransport", value="JSON-RPC")),
    ("blank name", "V03-CARD-002", "/name", put("name", value="  ")),
    ("placeholder in the url", "V03-CARD-013", "/url", put("url", value="https://{host}/")),
    ("api key with a header that is none", "V03-CARD-006", "/securitySchemes/s/name", scheme({"type": "apiKey", "name": "X Y:", "in": "header"})),
    ("scope of no flow", "V03-CARD-007", "/security/0/s/0", also(scheme({"type": "oauth2", "flows": {"clientCredentials": {**FLOW, "scopes": {"read": "Read"}}}}), put("security", value=[{"s": ["wirte"]}]))),
    ("snake case", "V03-CARD-023", "/default_input_modes", rename("defaultInputModes", "default_input_modes")),
    ("signature not base64url", "V03-SIGN-001", "/signatures/0/protected", signed_with("!!")),
    ("signature without alg", "V03-SIGN-002", "/signatures/0/protected", signed_with({"kid": "k"})),
    ("alg none", "V03-SIGN-002", "/signatures/0/protected", signed_with({"alg": "none"})),
]  # fmt: skip

BAD_HYBRID: list[tuple[str, str, str, Break]] = [
    ("0.3 version of 1.0", "V03-CARD-003", "/preferredTransport", drop("preferredTransport")),
    ("scheme that 0.3 cannot read", "V03-CARD-006", "/securitySchemes/key/type", drop("securitySchemes", "key", "type")),
    ("scheme that 1.0 cannot read", "CARD-018", "/securitySchemes/key", drop("securitySchemes", "key", "apiKeySecurityScheme")),
    ("name missing for both", "CARD-003", "/name", drop("name")),
    ("security of 0.3 dangling", "V03-CARD-007", "/security/0/nobody", put("security", value=[{"nobody": []}])),
]  # fmt: skip

# Found where a card is served, asked or verified: test_card_fetch, test_card_online and test_card_signatures.
ELSEWHERE = {
    *("CARD-001", "CARD-002", "CARD-013", "CARD-014", "CARD-015", "CARD-016", "CARD-030"),
    *("V03-CARD-001", "V03-CARD-020", "V03-CARD-021"),
    *("CARD-007", "V03-CARD-022"),
    *("SIGN-004", "SIGN-005", "SIGN-006", "V03-SIGN-003"),
}
# Whether a binding that the card does not name is served after all is the protocol suite's check.
NOT_OURS = {"CARD-008"}


def broken(make: Callable[[], Card], change: Break) -> list[Finding]:
    card = copy.deepcopy(make())
    change(card)
    return check_card(card)


@pytest.mark.parametrize("make", [minimal_1_0, full_1_0, minimal_0_3, full_0_3, hybrid])
def test_good_cards_are_silent(make: Callable[[], Card]) -> None:
    assert check_card(make()) == []


@in_one_test(("rule", "pointer", "change"), [b[1:] for b in BAD_1_0], ids=[b[0] for b in BAD_1_0])
def test_bad_1_0_cards(rule: str, pointer: str, change: Break) -> None:
    assert [(f.rule, f.pointer) for f in broken(minimal_1_0, change)] == [(rule, pointer)]


@in_one_test(("rule", "pointer", "change"), [b[1:] for b in BAD_0_3], ids=[b[0] for b in BAD_0_3])
def test_bad_0_3_cards(rule: str, pointer: str, change: Break) -> None:
    assert [(f.rule, f.pointer) for f in broken(minimal_0_3, change)] == [(rule, pointer)]


@pytest.mark.parametrize(("rule", "pointer", "change"), [b[1:] for b in BAD_HYBRID], ids=[b[0] for b in BAD_HYBRID])
def test_bad_cards_for_both_versions(rule: str, pointer: str, change: Break) -> None:
    assert [(f.rule, f.pointer) for f in broken(hybrid, change)] == [(rule, pointer)]


def test_every_rule_of_cards_has_a_bad_card() -> None:
    rules = {r.id for v in ("1.0", "0.3") for r in load_requirements(v) if r.group in ("card", "signatures")}
    told = {b[1] for b in (*BAD_1_0, *BAD_0_3, *BAD_HYBRID)}
    assert rules - told == ELSEWHERE | NOT_OURS


def test_every_finding_about_a_card_belongs_to_a_requirement_about_cards() -> None:
    """Reports have one item for each of these; a finding under another id would be in none of them."""
    about_cards = {r.id for v in ("1.0", "0.3") for r in load_requirements(v) if r.bindings == ("card",)}
    assert {b[1] for b in (*BAD_1_0, *BAD_0_3, *BAD_HYBRID)} <= about_cards


@pytest.mark.parametrize(("make", "bad"), [(minimal_1_0, BAD_1_0), (minimal_0_3, BAD_0_3)])
def test_severity_follows_the_level(make: Callable[[], Card], bad: list[tuple[str, str, str, Break]]) -> None:
    levels = {r.id: r.level for v in ("1.0", "0.3") for r in load_requirements(v)}
    for name, rule, _, change in bad:
        (finding,) = broken(make, change)
        if levels[rule] == "SHOULD" and name not in (
            "v1",
            "misspelt binding",
            "lower-case binding",
            "misspelt transport",
            # Whoever reads the card has these, or is misled about credentials.
            *(n for n, r, *_ in bad if r in ("CARD-017", "V03-CARD-017") and "private" not in n),
            "leftover security",
            "leftover security of a skill",
        ):
            assert finding.severity == "warning", name
        assert finding.found, name
        assert finding.expected, name
        assert finding.fix, name
        assert finding.spec, name


@pytest.mark.parametrize(
    ("raw", "rule"),
    [([], "CARD-002"), ("card", "CARD-002"), (None, "CARD-002"), (7, "CARD-002"), ({}, "CARD-003")],
)
def test_what_is_no_card_is_a_finding(raw: Any, rule: str) -> None:
    assert {f.rule for f in check_card(raw)} == {rule}


def test_a_version_can_be_demanded() -> None:
    as_new = {f.rule for f in check_card(minimal_0_3(), version="1.0")}
    assert as_new == {"CARD-003", "CARD-004", "CARD-026"}
    assert "V03-CARD-002" in {f.rule for f in check_card(minimal_1_0(), version="0.3")}


def test_http_is_accepted_where_it_is_allowed() -> None:
    card = minimal_1_0()
    card["supportedInterfaces"][0]["url"] = "http://a.example.com/"
    assert check_card(card, allow_http=True) == []


def test_http_is_accepted_on_the_private_host_that_served_the_card() -> None:
    card = minimal_1_0()
    card["supportedInterfaces"][0]["url"] = "http://agent:9999/rpc"
    assert [f.rule for f in check_card(card)] == ["CARD-009"]
    assert check_card(card, url="http://agent:9999/") == []
    assert [f.rule for f in check_card(card, url="http://other:9999/")] == ["CARD-009"]
    assert [f.rule for f in check_card(card, url="https://agent:9999/")] == ["CARD-009"]


def test_a_card_gives_nothing_away_by_naming_the_private_host_that_served_it() -> None:
    card = minimal_1_0()
    card["supportedInterfaces"][0]["url"] = "https://agent:9999/rpc"
    assert [f.rule for f in check_card(card)] == ["CARD-017"]
    assert check_card(card, url="https://agent:9999/") == []
    assert [f.rule for f in check_card(card, url="https://other:9999/")] == ["CARD-017"]


@pytest.mark.parametrize(
    "url", ["https://xn--bcher-kva.example/", "https://bücher.example./a", "https://a_b.example.com"]
)
def test_host_names_of_every_kind_will_do(url: str) -> None:
    card = minimal_1_0()
    card["supportedInterfaces"][0]["url"] = url
    assert check_card(card) == []


def test_a_card_of_0_3_without_a_preferred_transport_is_correct_by_its_schema() -> None:
    card = minimal_0_3()
    del card["preferredTransport"]
    assert [(f.rule, f.severity) for f in check_card(card)] == [("V03-CARD-003", "note")]


@pytest.mark.parametrize(
    "said", ["required", "<your client secret>", "", {"type": "string", "minLength": 12}, 12345678]
)
def test_what_is_named_for_a_secret_need_not_be_one(said: Any) -> None:
    card = full_1_0()
    card["skills"][0]["examples"] = ["Forget my password"]
    assert (
        check_card({**card, "x": {"password": said, "client_secret": said, "passwordUrl": "https://a.b/4567890"}}) == []
    )


def test_secrets_are_never_shown() -> None:
    card = minimal_1_0()
    card["supportedInterfaces"][0]["url"] = "https://user:hunter2@a.example.com/?token=hunter3"
    card["description"] = f"Use {AWS} to log in."
    text = repr(check_card(card))
    assert "hunter" not in text
    assert AWS not in text
    card["supportedInterfaces"][0]["url"] = f"https://{'u' * 300}:hunter2@a.example.com/"
    assert "uuu" not in repr(check_card(card))


@pytest.mark.parametrize(
    "flood",
    [
        {"skills": [{}] * 200_000},
        {"skills": [{"id": "a", "name": "a", "description": "a", "tags": ["a"]}] * 20_000},
        {"x": "eyJ-" * 400_000},
        {"x": ["eyJ-" * 5_000] * 80},
        {"x": "password=" * 200_000},
        {"defaultInputModes": ["a/" + "b;" * 500_000]},
        {"capabilities": {"extensions": [{"uri": "urn:" + "1." * 500_000}]}},
        {"iconUrl": "https://" + "a@" * 500_000},
    ],
    ids=lambda v: None,
)
@pytest.mark.slow
def test_a_flood_is_judged_in_seconds(flood: Card) -> None:
    begin = time.process_time()
    findings = check_card({**minimal_1_0(), **flood})
    assert time.process_time() - begin < 10
    assert len(findings) < 100


def test_a_hundred_faults_of_a_kind_are_ten_findings_and_a_note() -> None:
    card = minimal_1_0()
    card["defaultInputModes"] = ["text"] * 100
    findings = check_card(card)
    assert [f.severity for f in findings] == ["error"] * 10 + ["note"]
    assert findings[-1].found == "and 90 more of this kind"


def test_duplicates_are_told() -> None:
    (finding,) = check_card(minimal_1_0(), duplicates=("name", "name"))
    assert (finding.rule, finding.severity) == ("CARD-030", "warning")
    (finding,) = check_card(minimal_0_3(), duplicates=("url",))
    assert finding.rule == "V03-CARD-020"
