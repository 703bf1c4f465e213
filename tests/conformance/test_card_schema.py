from importlib.resources import files
from typing import Any

import pytest
from card_fields import fields_v1_0, render
from cards import full_0_3, full_1_0, hybrid, minimal_0_3, minimal_1_0
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.conformance.card import check_card
from pytest_a2a_bench.conformance.card.document import Ledger, read_document, show, to_pointer
from pytest_a2a_bench.conformance.card.schema import FILES, check_shape, load_table, members_of
from pytest_a2a_bench.errors import ProtocolError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def members(version: str) -> list[str]:
    return sorted({n.rstrip("!|") for fields in load_table(version).values() for n in fields if not set("*=") & set(n)})


NAMES = st.sampled_from(sorted({*members("1.0"), *members("0.3"), "supported_interfaces", "type", "x-unknown"}))


def test_the_table_of_1_0_is_what_the_protobuf_says() -> None:
    shipped = files("pytest_a2a_bench.conformance") / "data" / FILES["1.0"]
    assert render(fields_v1_0()) == shipped.read_text(encoding="utf-8"), "run python tools/card_fields.py"


def test_the_table_says_what_an_object_has() -> None:
    card = members_of("AgentCard", {}, "1.0")
    assert card.required == (
        *("capabilities", "defaultInputModes", "defaultOutputModes", "description"),
        *("name", "skills", "supportedInterfaces", "version"),
    )
    assert card.types["iconUrl"] == "string?"
    assert len(members_of("SecurityScheme", {}, "1.0").choices) == 5
    assert members_of("{string}", {}, "1.0").rest == members_of("SecurityRequirement", {}, "0.3").rest[1:-1] == "string"
    old = members_of("SecurityScheme", {"type": "http"}, "0.3")
    assert (old.types["scheme"], old.required) == ("text", ("scheme", "type", "type"))
    assert old.types["type"].split("|") == ["apiKey", "http", "oauth2", "openIdConnect", "mutualTLS"]


@in_one_test(
    ("scheme", "fix"),
    [
        ({"mtlsSecurityScheme": {}, "httpAuthSecurityScheme": {"scheme": "Bearer"}}, "keep one"),
        ({}, "add one"),
        ({"type": "http", "scheme": "bearer"}, '1.0 writes {"httpAuthSecurityScheme": {...}}'),
    ],
)
def test_the_way_to_one_kind_of_scheme_is_said(scheme: dict[str, Any], fix: str) -> None:
    (found,) = check_card({**minimal_1_0(), "securitySchemes": {"s": scheme}})
    assert fix in found.fix


@given(st.sampled_from([minimal_1_0, full_1_0, minimal_0_3, full_0_3, hybrid]), NAMES, JSON)
@settings(max_examples=examples(80), deadline=None)
def test_one_member_replaced_by_anything_ends_in_findings(make: Any, name: str, value: Any) -> None:
    for finding in check_card({**make(), name: value}):
        assert finding.rule
        assert len(finding.found) < 1000
        assert finding.found.isprintable()


@given(st.text(alphabet="xyz-", min_size=1).map("x".__add__), JSON)
@settings(max_examples=examples(60), deadline=None)
def test_unknown_members_are_allowed(name: str, value: Any) -> None:
    for make in (minimal_1_0, minimal_0_3):
        card = make()
        card[name] = card["capabilities"][name] = value
        assert [f for f in check_card(card) if f.rule not in ("CARD-017", "V03-CARD-017")] == []


def test_depth_is_bounded() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert [f.rule for f in check_card({**minimal_1_0(), "x": deep})] == ["CARD-029"]


def test_duplicate_members_are_noticed() -> None:
    document = read_document(b'{"name": "a", "skills": [{"id": 1, "id": 2}], "name": "b"}')
    assert document.raw["name"] == "b"
    assert sorted(document.duplicates) == ["id", "name"]
    assert read_document("{}").duplicates == ()
    many = ",".join(f'"{i}": 1' for i in [*range(50_000), 7])
    assert read_document(f"{{{many}}}").duplicates == ("7",)
    with pytest.raises(ProtocolError, match="too deeply"):
        read_document("[" * 200_000)


def test_names_and_nulls_are_put_right_where_the_protocol_knows_them_only() -> None:
    raw = {
        "default_input_modes": ["a"],
        "icon_url": "x",
        "iconUrl": "y",
        "provider": None,
        "capabilities": {"extensions": [{"uri": "u", "params": {"snake_case": None}}]},
        "some_thing": None,
    }
    ledger = Ledger("1.0")
    assert check_shape(raw, "1.0", ledger) == {
        "defaultInputModes": ["a"],
        "icon_url": "x",
        "iconUrl": "y",
        "capabilities": {"extensions": [{"uri": "u", "params": {"snake_case": None}}]},
        "some_thing": None,
    }
    found = [(f.found, f.pointer) for f in ledger.findings()]
    assert ('the member "default_input_modes"', "/default_input_modes") in found
    assert [where for what, where in found if what.endswith("is null")] == ["/provider"]


def test_pointers_and_values_are_escaped_and_bounded() -> None:
    assert to_pointer(("a/b", 0, "c~d", "\x1b[31m")) == "/a~1b/0/c~0d/\\u001b[31m"
    assert show("https://user:secret@host/") == '"https://***@host/"'
    assert show("https://host/?a=1&api_key=secret&b=2") == '"https://host/?a=1&api_key=***&b=2"'
    assert show("\x1b[2J") == '"\\u001b[2J"'
    assert len(show("x" * 10_000)) < 100
    assert show(list(range(30))) == "an array of 30 members"
