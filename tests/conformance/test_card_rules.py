"""Every rule has a card that breaks it and nothing else; good cards break none."""

import time
from collections import Counter
from typing import Any

import pytest
from cards import Card, full_1_0, minimal_0_3, minimal_1_0
from one_test import in_one_test

from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.catalogue import load_requirements
from pytest_a2a_bench.conformance.vectors import Vector, load

AWS = "AKIA" + "ABCDEFGHIJKLMNOP"  # in two pieces, so that no scanner takes it for a real one
# Found where a card is served, asked or verified: test_card_fetch and test_card_signatures.
ELSEWHERE = {
    *("CARD-001", "CARD-002", "CARD-013", "CARD-014", "CARD-015", "CARD-016", "CARD-030"),
    *("V03-CARD-001", "V03-CARD-020", "V03-CARD-021"),
    *("CARD-007", "V03-CARD-022"),
    *("SIGN-004", "SIGN-005", "SIGN-006", "V03-SIGN-003"),
}
# Whether a binding that the card does not name is served after all is the protocol suite's check.
NOT_OURS = {"CARD-008"}


CARDS = load("cards")
BAD = [vector for vector in CARDS if vector.findings]


@in_one_test(("name", "vector"), [(v.name, v) for v in CARDS], ids=[v.name for v in CARDS])
def test_each_card_has_the_findings_that_are_expected_of_it(name: str, vector: Vector) -> None:
    assert vector.found == list(vector.findings), name


def test_every_rule_of_cards_has_a_bad_card_and_every_finding_a_rule_of_cards() -> None:
    entries = [r for v in ("1.0", "0.3") for r in load_requirements(v)]
    found = {rule for vector in BAD for rule, _ in vector.findings}
    assert {r.id for r in entries if r.group in ("card", "signatures")} - found == ELSEWHERE | NOT_OURS
    # Reports have one item for each of these; a finding under another id would be in none of them.
    assert found <= {r.id for r in entries if r.bindings == ("card",)}


# How many vectors have a finding of another severity than its level's. Graver is what misleads every client or gives a
# secret away, milder what clients can live with.
OTHER_SEVERITY = {
    ("CARD-010", "error"): 1,
    ("CARD-011", "error"): 2,
    ("CARD-017", "error"): 7,
    ("CARD-026", "error"): 2,
    ("V03-CARD-017", "error"): 1,
    ("V03-CARD-019", "error"): 1,
    ("CARD-009", "warning"): 2,
    ("CARD-018", "warning"): 2,
    ("CARD-019", "warning"): 1,
    ("V03-CARD-002", "warning"): 1,
    ("V03-CARD-003", "note"): 2,
    ("V03-CARD-007", "warning"): 1,
    ("V03-CARD-008", "warning"): 1,
}


def test_severity_follows_the_level_but_for_some() -> None:
    usual = {"MUST": "error", "SHOULD": "warning"}
    levels = {r.id: usual[r.level] for v in ("1.0", "0.3") for r in load_requirements(v) if r.level in usual}
    found = [f for vector in BAD for f in check_card(vector.content)]
    assert Counter((f.rule, f.severity) for f in found if f.severity != levels[f.rule]) == OTHER_SEVERITY
    assert [f for f in found if not (f.found and f.expected and f.fix and f.spec)] == []


@in_one_test(
    ("raw", "rule"), [([], "CARD-002"), ("card", "CARD-002"), (None, "CARD-002"), (7, "CARD-002"), ({}, "CARD-003")]
)
def test_an_invalid_card_is_a_finding(raw: Any, rule: str) -> None:
    assert {f.rule for f in check_card(raw)} == {rule}


def test_a_version_can_be_demanded() -> None:
    as_new = {f.rule for f in check_card(minimal_0_3(), version="1.0")}
    assert as_new == {"CARD-003", "CARD-004", "CARD-026"}
    assert "V03-CARD-002" in {f.rule for f in check_card(minimal_1_0(), version="0.3")}


@in_one_test(
    ("interface", "served_at", "broken"),
    [
        # Without TLS an address is accepted that the card was served at, if it is a private one.
        ("http://agent:9999/rpc", "", ["CARD-009"]),
        ("http://agent:9999/rpc", "http://agent:9999/", []),
        ("http://agent:9999/rpc", "http://other:9999/", ["CARD-009"]),
        ("http://agent:9999/rpc", "https://agent:9999/", ["CARD-009"]),
        # Naming a private host gives nothing away to whoever has the card from there.
        ("https://agent:9999/rpc", "", ["CARD-017"]),
        ("https://agent:9999/rpc", "https://agent:9999/", []),
        ("https://agent:9999/rpc", "https://other:9999/", ["CARD-017"]),
        # Host names of every kind.
        ("https://xn--bcher-kva.example/", "", []),
        ("https://bücher.example./a", "", []),
        ("https://a_b.example.com", "", []),
    ],
)
def test_addresses_of_interfaces(interface: str, served_at: str, broken: list[str]) -> None:
    card = minimal_1_0()
    card["supportedInterfaces"][0]["url"] = interface
    assert [f.rule for f in check_card(card, url=served_at)] == broken


def test_http_is_accepted_where_it_is_allowed() -> None:
    card = minimal_1_0()
    card["supportedInterfaces"][0]["url"] = "http://a.example.com/"
    assert check_card(card, allow_http=True) == []


def test_a_card_of_0_3_without_a_preferred_transport_is_correct_by_its_schema() -> None:
    card = minimal_0_3()
    del card["preferredTransport"]
    assert [(f.rule, f.severity) for f in check_card(card)] == [("V03-CARD-003", "note")]


@in_one_test("said", ["required", "<your client secret>", "", {"type": "string", "minLength": 12}, 12345678])
def test_a_member_with_a_secrets_name_need_not_be_a_secret(said: Any) -> None:
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


def test_duplicates_are_reported() -> None:
    (finding,) = check_card(minimal_1_0(), duplicates=("name", "name"))
    assert (finding.rule, finding.severity) == ("CARD-030", "warning")
    (finding,) = check_card(minimal_0_3(), duplicates=("url",))
    assert finding.rule == "V03-CARD-020"
