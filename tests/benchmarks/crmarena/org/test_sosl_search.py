"""What a FIND finds, and what is refused."""

from typing import Any

import pytest
from one_test import in_one_test
from small_org import ARTICLES, LEADS, plain

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg

_KNOWLEDGE = "RETURNING Knowledge__kav(Id)"


#: What stands between the braces, and the numbers of the articles that it finds.
TERMS: list[tuple[str, list[int]]] = [
    ("warranty", [1]),
    ("re*ned", [0]),
    ("*turn*", [0, 1]),
    ("p?mp", [2]),
    ("pump\\|s", []),
    ("pumps years", [1]),
    ("returns AND NOT warranty", [0]),
    ("returns NOT warranty", [0]),
    ("(discount OR warranty) AND pieces", [3]),
    ("discount OR warranty AND nothing", [3]),
    ('"two years"', [1]),
    ('"years two"', []),
    ('"volume discounts" OR "clean the filter"', [2, 3]),
    ("volume-discounts", [3]),
    ("guide \\(v1.2\\)", [2]),
    ("AT\\&T\\'s", [2]),
]


@in_one_test(("term", "numbers"), TERMS)
def test_terms(org: LocalOrg, term: str, numbers: list[int]) -> None:
    result = org.run(f"FIND {{{term}}} IN ALL FIELDS {_KNOWLEDGE}")
    assert [ARTICLES.index(record["Id"]) for record in result.records] == numbers
    assert result.language == "sosl"


#: Whole searches, and their records.
SEARCHES: dict[str, list[dict[str, Any]]] = {
    "find {warranty} returning Knowledge__kav(Title, UrlName)": [{"Title": "Warranty", "UrlName": "article-1"}],
    "FIND {warranty} RETURNING Knowledge__kav": [{"Id": ARTICLES[1]}],
    "FIND {northwind} IN NAME FIELDS RETURNING Account(Name), Contact(Email)": [{"Name": "Northwind Pumps"}],
    "FIND {northwind} IN EMAIL FIELDS RETURNING Account(Name), Contact(FirstName)": [
        {"FirstName": "Mia"},
        {"FirstName": "Ned"},
    ],
    "FIND {0199} IN PHONE FIELDS RETURNING Lead(FirstName), Contact(Id)": [{"FirstName": "Quin"}],
    "FIND {pump} IN NAME FIELDS RETURNING Product2(Name WHERE IsActive = true ORDER BY Name DESC LIMIT 1)": [
        {"Name": "Pump Two"}
    ],
    "FIND {pump} RETURNING Product2(Name ORDER BY Name LIMIT 1 OFFSET 1)": [{"Name": "Pump Two"}],
    "FIND {quill} RETURNING Lead(Id ORDER BY FirstName), Case(Id) LIMIT 2": [{"Id": LEADS[0]}, {"Id": LEADS[1]}],
    "FIND {pump} RETURNING Case(Subject, Account.Name WHERE Status = 'New')": [
        {"Subject": "Case 3 about the pump", "Account": {"Name": "Zeta 100% Foods"}}
    ],
    "FIND {leak} RETURNING Issue__c(Name, toLabel(Name) label)": [{"Name": "Leak", "label": "Leak"}],
    "FIND {inkworks} LIMIT 1": [{"Id": LEADS[0]}],
}


@in_one_test(("query", "records"), SEARCHES.items(), ids=lambda each: str(each)[:70])
def test_search(org: LocalOrg, query: str, records: list[dict[str, Any]]) -> None:
    assert [plain(record) for record in org.run(query).records] == records


#: Search, error code, last line.
REFUSED: list[tuple[str, str, str]] = [
    ("FIND 'x' RETURNING Case(Id)", "MALFORMED_SEARCH", "unexpected token: '''"),
    ("FIND", "MALFORMED_SEARCH", "unexpected token: '<EOF>'"),
    ("FIND {warranty", "MALFORMED_SEARCH", "line 1:14 mismatched character '<EOF>' expecting '}'"),
    ("FIND {a} RETURNING Case(Id)", "MALFORMED_SEARCH", "search term must be longer than one character: a"),
    ("FIND {*} RETURNING Case(Id)", "MALFORMED_SEARCH", "search term must be longer than one character: *"),
    ("FIND {ab} IN SOME FIELDS", "MALFORMED_SEARCH", "unexpected token: 'SOME'"),
    ("FIND {ab} IN ALL FIELDS RETURNING Case(Id", "MALFORMED_SEARCH", "unexpected token: '<EOF>'"),
    ("FIND {ab} RETURNING Case(Id) WHERE x = 1", "MALFORMED_SEARCH", "unexpected token: 'WHERE'"),
    ("FIND {ab} RETURNING Case WITH FOO BAR BAZ", "MALFORMED_SEARCH", "unexpected token: 'FOO'"),
    ('FIND {"ab} RETURNING Case(Id)', "MALFORMED_SEARCH", 'unbalanced quotation mark in search expression: "ab'),
    ("FIND {(ab} RETURNING Case(Id)", "MALFORMED_SEARCH", "missing bracket in search expression: (ab"),
    ("FIND {AND ab} RETURNING Case(Id)", "MALFORMED_SEARCH", "unexpected token: 'AND' in search expression: AND ab"),
    ("FIND {ab | cd} RETURNING Case(Id)", "MALFORMED_SEARCH", "unexpected token: '|' in search expression: ab | cd"),
    ("FIND {NOT ab} RETURNING Case(Id)", "MALFORMED_SEARCH", "search expression needs a term: NOT ab"),
    ("FIND {ab OR OR cd}", "MALFORMED_SEARCH", "unexpected token: 'OR' in search expression: ab OR OR cd"),
]


@in_one_test(("query", "code", "text"), REFUSED, ids=lambda each: str(each)[:60])
def test_refusal(org: LocalOrg, query: str, code: str, text: str) -> None:
    with pytest.raises(OrgError) as caught:
        org.run(query)
    assert (caught.value.code, caught.value.message.split("\n")[-1]) == (code, text)


@in_one_test("item", ["COUNT(Id)", "MAX(CreatedDate) m", "Id, COUNT(Id)", "(SELECT Id FROM Cases)"])
def test_a_document_that_no_search_returns_is_the_searchs_fault(org: LocalOrg, item: str) -> None:
    with pytest.raises(OrgError) as caught:
        org.run(f"FIND {{ab}} RETURNING Account({item})")
    assert caught.value.code == "MALFORMED_SEARCH"


@in_one_test(
    "clause",
    [
        "WITH HIGHLIGHT",
        "WITH SNIPPET (target_length=120)",
        "WITH DIVISION = 'Global'",
        "WITH DATA CATEGORY Location__c AT America__c",
        "WITH NETWORK IN ('0DBMn0000000byq')",
        "WITH METADATA = 'LABELS'",
        "WITH SPELL_CORRECTION = false",
    ],
)
def test_filters_that_filter_nothing_here_are_taken(org: LocalOrg, clause: str) -> None:
    plain_search = "FIND {warranty} RETURNING Knowledge__kav(Id)"
    assert org.run(f"{plain_search} {clause}").records == org.run(plain_search).records != ()


def test_refused_characters_are_framed(org: LocalOrg) -> None:
    with pytest.raises(OrgError) as caught:
        org.run("FIND {ab} RETURNING Case | Lead")
    assert (caught.value.code, caught.value.message) == (
        "MALFORMED_SEARCH",
        "\nFIND {ab} RETURNING Case | Lead\n                        ^\nERROR at Row:1:Column:25\n"
        "line 1:25 no viable alternative at character '|'",
    )


def test_names_are_refused_as_in_soql(org: LocalOrg) -> None:
    with pytest.raises(OrgError, match=r"Row:1:Column:26\nNo such column 'Foo' on entity 'Case'") as caught:
        org.run("FIND {ab} RETURNING Case(Foo)")
    assert caught.value.code == "INVALID_FIELD"
    with pytest.raises(OrgError, match="sObject type 'Foo' is not supported") as caught:
        org.run("FIND {ab} RETURNING Foo(Id)")
    assert caught.value.code == "INVALID_TYPE"
