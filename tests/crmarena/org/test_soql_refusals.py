"""What the org refuses, in Salesforce's codes and words, with the place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_org import open_small_org

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    org = open_small_org()
    yield org
    org.close()


_NO_COLUMN = (
    "No such column '{}' on entity '{}'. If you are attempting to use a custom field, be sure to append the '__c' "
    "after the custom field name. Please reference your WSDL or the describe call for the appropriate names."
)
_NO_RELATIONSHIP = (
    "Didn't understand relationship '{}' in field path. If you are attempting to use a custom relationship, be sure to "
    "append the '__r' after the custom relationship name. Please reference your WSDL or the describe call for the "
    "appropriate names."
)
_NO_CHILDREN = (
    "Didn't understand relationship '{}' in FROM part of query call. If you are attempting to use a custom "
    "relationship, be sure to append the '__r' after the custom relationship name. Please reference your WSDL or the "
    "describe call for the appropriate names."
)
_NO_OBJECT = (
    "sObject type '{}' is not supported. If you are attempting to use a custom object, be sure to append the '__c' "
    "after the entity name. Please reference your WSDL or the describe call for the appropriate names."
)
_MUST = "value of filter criterion for field '{}' must be of type {}"
_TEXT, _BARE = "string and should be enclosed in quotes", "{} and should not be enclosed in quotes"
_BIND = "Bind variables only allowed in Apex code"
_PLACE = "The inner and outer selects should not be on the same object type"

#: Query with a mark before the place that the frame points at, error code, last line of the message.
REFUSED: list[tuple[str, str, str]] = [
    ("SELECT Id, ^Foo FROM Case", "INVALID_FIELD", _NO_COLUMN.format("Foo", "Case")),
    ("SELECT Id FROM Case WHERE ^Nme = 'x'", "INVALID_FIELD", _NO_COLUMN.format("Nme", "Case")),
    ("SELECT Id FROM Case ORDER BY ^Nme", "INVALID_FIELD", _NO_COLUMN.format("Nme", "Case")),
    ("SELECT Account.^Foo FROM Case", "INVALID_FIELD", _NO_COLUMN.format("Foo", "Account")),
    ("SELECT COUNT(Id) n FROM Case GROUP BY Status ORDER BY ^n", "INVALID_FIELD", _NO_COLUMN.format("n", "Case")),
    ("SELECT Id,\n  ^Foo\nFROM Case", "INVALID_FIELD", _NO_COLUMN.format("Foo", "Case")),
    ("SELECT What.^Amount FROM Task", "INVALID_FIELD", _NO_COLUMN.format("Amount", "Name")),
    ("SELECT ^Foo.Name FROM Case", "INVALID_FIELD", _NO_RELATIONSHIP.format("Foo")),
    ("SELECT ^IssueId__c.Name FROM Case", "INVALID_FIELD", _NO_RELATIONSHIP.format("IssueId__c")),
    ("SELECT Account.^Boss.Name FROM Case", "INVALID_FIELD", _NO_RELATIONSHIP.format("Boss")),
    ("SELECT Id, (SELECT Id FROM ^Foos) FROM Case", "INVALID_TYPE", _NO_CHILDREN.format("Foos")),
    ("SELECT Id FROM ^Foo", "INVALID_TYPE", _NO_OBJECT.format("Foo")),
    ("SELECT Id FROM ^Issue", "INVALID_TYPE", _NO_OBJECT.format("Issue")),
    ("SELECT Id FROM ^sqlite_master", "INVALID_TYPE", _NO_OBJECT.format("sqlite_master")),
    ("SELECT Id FROM Case WHERE AccountId IN (SELECT Id FROM ^Foo)", "INVALID_TYPE", _NO_OBJECT.format("Foo")),
    # Types.
    ("SELECT Id FROM Case WHERE ^Status = 5", "INVALID_FIELD", _MUST.format("Status", _TEXT)),
    ("SELECT Id FROM Case WHERE ^Status IN ('a', 5)", "INVALID_FIELD", _MUST.format("Status", _TEXT)),
    ("SELECT Id FROM Case WHERE ^OwnerId = 5", "INVALID_FIELD", _MUST.format("OwnerId", _TEXT)),
    (
        "SELECT Id FROM Case WHERE ^CreatedDate > '2023-01-01T00:00:00Z'",
        "INVALID_FIELD",
        _MUST.format("CreatedDate", _BARE.format("dateTime")),
    ),
    (
        "SELECT Id FROM Case WHERE ^CreatedDate > 2023-01-01",
        "INVALID_FIELD",
        _MUST.format("CreatedDate", _BARE.format("dateTime")),
    ),
    (
        "SELECT Id FROM Opportunity WHERE ^CloseDate > '2023-01-01'",
        "INVALID_FIELD",
        _MUST.format("CloseDate", _BARE.format("date")),
    ),
    (
        "SELECT Id FROM Opportunity WHERE ^CloseDate > 2023-01-01T00:00:00Z",
        "INVALID_FIELD",
        _MUST.format("CloseDate", _BARE.format("date")),
    ),
    (
        "SELECT Id FROM Opportunity WHERE ^Amount > '5'",
        "INVALID_FIELD",
        _MUST.format("Amount", _BARE.format("double")),
    ),
    (
        "SELECT Id FROM Account WHERE ^NumberOfEmployees = '5'",
        "INVALID_FIELD",
        _MUST.format("NumberOfEmployees", _BARE.format("int")),
    ),
    (
        "SELECT Id FROM Product2 WHERE ^IsActive = 'true'",
        "INVALID_FIELD",
        _MUST.format("IsActive", _BARE.format("boolean")),
    ),
    ("SELECT Id FROM Case WHERE ^Id = 'abc'", "INVALID_QUERY_FILTER_OPERATOR", "invalid ID field: abc"),
    ("SELECT Id FROM Case WHERE ^Id LIKE '500%'", "INVALID_QUERY_FILTER_OPERATOR", "invalid operator on id field"),
    (
        "SELECT Id FROM Case WHERE ^Status INCLUDES ('a')",
        "INVALID_QUERY_FILTER_OPERATOR",
        "includes or excludes operator is only valid on multipicklist field",
    ),
    (
        "SELECT Id FROM Opportunity WHERE CloseDate = ^2023-13-01",
        "INVALID_QUERY_FILTER_OPERATOR",
        "Invalid date: 2023-13-01",
    ),
    # Long texts.
    (
        "SELECT Id FROM Case WHERE ^Description LIKE '%x%'",
        "INVALID_FIELD",
        "field 'Description' can not be filtered in a query call",
    ),
    (
        "SELECT Id FROM Case ORDER BY ^Description",
        "INVALID_FIELD",
        "field 'Description' can not be sorted in a query call",
    ),
    (
        "SELECT Description FROM Case GROUP BY ^Description",
        "INVALID_FIELD",
        "field 'Description' can not be grouped in a query call",
    ),
    (
        "SELECT CreatedDate FROM Case GROUP BY ^CreatedDate",
        "INVALID_FIELD",
        "field 'CreatedDate' can not be grouped in a query call",
    ),
    # Groups.
    ("SELECT ^Status, COUNT(Id) FROM Case", "MALFORMED_QUERY", "Field must be grouped or aggregated: Status"),
    (
        "SELECT Priority, ^Status FROM Case GROUP BY Priority",
        "MALFORMED_QUERY",
        "Field must be grouped or aggregated: Status",
    ),
    (
        "SELECT Status FROM Case GROUP BY Status ORDER BY ^Priority",
        "MALFORMED_QUERY",
        "Ordered field must be grouped or aggregated: Priority",
    ),
    (
        "SELECT Status FROM Case GROUP BY Status HAVING ^Priority = 'x'",
        "MALFORMED_QUERY",
        "Field must be grouped or aggregated: Priority",
    ),
    (
        "SELECT ^COUNT(Status) FROM Case GROUP BY Status",
        "MALFORMED_QUERY",
        "Grouped field should not be aggregated: Status",
    ),
    (
        "SELECT ^SUM(Subject) FROM Case",
        "MALFORMED_QUERY",
        "field Subject does not support aggregate operator SUM",
    ),
    (
        "SELECT MAX(CreatedDate) FROM Case ^LIMIT 1",
        "MALFORMED_QUERY",
        "Non-grouped query that uses overall aggregate functions cannot also use LIMIT",
    ),
    (
        "SELECT ^Subject s FROM Case",
        "MALFORMED_QUERY",
        "only aggregate expressions use field aliasing",
    ),
    ("SELECT Status s, ^Priority s FROM Case GROUP BY Status, Priority", "MALFORMED_QUERY", "duplicate alias: s"),
    ("SELECT Id, Subject, ^ID FROM Case", "INVALID_FIELD", "duplicate field selected: Id"),
    (
        "SELECT Id FROM Case WHERE ^COUNT(Id) > 1",
        "MALFORMED_QUERY",
        "Aggregate functions are only allowed in HAVING, ORDER BY and SELECT clauses",
    ),
    # Semi-joins.
    (
        "SELECT Id FROM Case WHERE ^Subject IN (SELECT Id FROM Account)",
        "MALFORMED_QUERY",
        "The selected field 'Id' in the subquery and the left operand field 'Subject' in the where expression in the "
        "outer query should point to the same object type",
    ),
    ("SELECT Id FROM Case WHERE Id IN (^SELECT Id FROM Case)", "MALFORMED_QUERY", _PLACE),
    (
        "SELECT Id FROM Account WHERE Id IN (SELECT AccountId FROM Case WHERE OwnerId IN (^SELECT Id FROM User))",
        "MALFORMED_QUERY",
        "Nesting of semi join sub-selects is not supported",
    ),
    (
        "SELECT Id FROM Account WHERE Name = 'a' OR Id IN (^SELECT AccountId FROM Case)",
        "MALFORMED_QUERY",
        "Semi join sub-selects are only allowed at the top level WHERE expressions and not in nested WHERE "
        "expressions.",
    ),
    # Words that cannot stand where they do.
    ("^", "MALFORMED_QUERY", "SOQL statements cannot be empty or null"),
    ("SELECT Id FROM^", "MALFORMED_QUERY", "unexpected token: '<EOF>'"),
    ("SELECT Id FROM Case WHERE^", "MALFORMED_QUERY", "unexpected token: '<EOF>'"),
    ("SELECT ^* FROM Case", "MALFORMED_QUERY", "unexpected token: '*'"),
    ("SELECT ^FROM Case", "MALFORMED_QUERY", "unexpected token: 'FROM'"),
    ("^DELETE FROM Case", "MALFORMED_QUERY", "unexpected token: 'DELETE'"),
    ("^UPDATE Case SET Status = 'x'", "MALFORMED_QUERY", "unexpected token: 'UPDATE'"),
    ("SELECT Id FROM Case^; DROP TABLE x", "MALFORMED_QUERY", "unexpected token: ';'"),
    ("SELECT Id FROM Case WHERE Status ^IS NULL", "MALFORMED_QUERY", "unexpected token: 'IS'"),
    ("SELECT Id FROM Case WHERE Status NOT ^LIKE 'a'", "MALFORMED_QUERY", "unexpected token: 'LIKE'"),
    ("SELECT Id FROM Case WHERE CreatedDate ^BETWEEN 1 AND 2", "MALFORMED_QUERY", "unexpected token: 'BETWEEN'"),
    ("SELECT Id FROM Case WHERE CreatedDate > ^ClosedDate", "MALFORMED_QUERY", "unexpected token: 'ClosedDate'"),
    ("SELECT Id FROM Case WHERE Status = ^New", "MALFORMED_QUERY", "unexpected token: 'New'"),
    ("SELECT Id FROM Case WHERE Status = = 'a'".replace("= =", "= ^="), "MALFORMED_QUERY", "unexpected token: '='"),
    ("SELECT Id FROM Case WHERE Status = ^:status", "MALFORMED_QUERY", _BIND),
    ("SELECT Id FROM Case WHERE Status IN ^:status", "MALFORMED_QUERY", _BIND),
    (
        "SELECT Id FROM Case WHERE Status = 'a' AND Priority = 'b' ^OR OwnerId = null",
        "MALFORMED_QUERY",
        "unexpected token: 'OR'",
    ),
    ("SELECT Id FROM Case ^INNER JOIN Account", "MALFORMED_QUERY", "unexpected token: 'JOIN'"),
    ("SELECT ^UPPER(Subject) FROM Case", "MALFORMED_QUERY", "unexpected token: '('"),
    ("SELECT ^DISTINCT Status FROM Case", "INVALID_FIELD", _NO_COLUMN.format("DISTINCT", "Case")),
    ("SELECT Id FROM Case LIMIT ^-1", "MALFORMED_QUERY", "unexpected token: '-1'"),
    ("SELECT Id FROM Case LIMIT ^five", "MALFORMED_QUERY", "unexpected token: 'five'"),
    ("SELECT Id FROM Case LIMIT 1 ^ORDER BY Id", "MALFORMED_QUERY", "unexpected token: 'ORDER'"),
    ("SELECT Id FROM Case ^HAVING COUNT(Id) > 1", "MALFORMED_QUERY", "unexpected token: 'HAVING'"),
    ("SELECT Id FROM Case ^/* all */ LIMIT 1", "MALFORMED_QUERY", "unexpected token: '/'"),
    ("SELECT Id FROM Case ^-- all", "MALFORMED_QUERY", "unexpected token: '-'"),
    ("SELECT Id FROM Case WHERE Id IN ^()".replace("^()", "(^)"), "MALFORMED_QUERY", "unexpected token: ')'"),
    ("SELECT Id FROM Case OFFSET ^2001", "NUMBER_OUTSIDE_VALID_RANGE", "Maximum SOQL offset allowed is 2000"),
    (
        "SELECT ^FIELDS(ALL) FROM Case",
        "MALFORMED_QUERY",
        "The SOQL FIELDS function must have a LIMIT of at most 200",
    ),
    (
        "SELECT Id, (^SELECT COUNT(Id) FROM Cases) FROM Account",
        "MALFORMED_QUERY",
        "Only root queries support aggregate expressions",
    ),
    (
        "SELECT Id FROM Case c, ^Account a",
        "MALFORMED_QUERY",
        "A driving SObject type has already been set, all other entity types in the FROM clause must be relationships "
        "to the initial object.  The driving object is Case",
    ),
    (
        "SELECT TYPEOF ^Account WHEN Account THEN Name END FROM Case",
        "MALFORMED_QUERY",
        "TYPEOF is only supported for polymorphic relationships: Account",
    ),
    # Signs that no word begins with, and texts without end.
    (
        'SELECT Id FROM Case WHERE Status = ^"New"',
        "MALFORMED_QUERY",
        "line 1:35 no viable alternative at character '\"'",
    ),
    (
        "SELECT Id FROM Case WHERE Status = 'New^",
        "MALFORMED_QUERY",
        "line 1:39 mismatched character '<EOF>' expecting '''",
    ),
    (
        "SELECT Id FROM Case WHERE Status = '^\\q'",
        "MALFORMED_QUERY",
        "line 1:36 Illegal character sequence '\\q' in string literal",
    ),
]


@pytest.mark.parametrize(("marked", "code", "text"), REFUSED, ids=lambda each: str(each)[:70])
def test_refusal(org: LocalOrg, marked: str, code: str, text: str) -> None:
    query = marked.replace("^", "")
    with pytest.raises(OrgError) as caught:
        org.run(query)
    message = caught.value.message.split("\n")
    assert (caught.value.code, message[-1]) == (code, text)
    if len(message) > 1:
        before = marked[: marked.index("^")]
        row, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        if text.endswith("'JOIN'"):
            column += len("INNER ")
        if text == "unexpected token: '('":
            column += len("UPPER")
        assert message[0] == ""
        assert message[-2] == f"ERROR at Row:{row}:Column:{column}"
        caret = message[2].index("^")
        assert query.split("\n")[row - 1][column - 1 :].startswith(message[1][caret : caret + 3])


def test_the_frame(org: LocalOrg) -> None:
    with pytest.raises(OrgError) as caught:
        org.run("SELECT Id, Foo FROM Case")
    expected = "INVALID_FIELD: \nSELECT Id, Foo FROM Case\n           ^\nERROR at Row:1:Column:12\nNo such column 'Foo'"
    assert str(caught.value).startswith(expected)


def test_the_frame_shows_a_window_of_a_long_line(org: LocalOrg) -> None:
    query = "SELECT Id, Subject, Status, Priority, OwnerId, AccountId, ContactId, Foo, CreatedDate, ClosedDate, "
    query += "IssueId__c, OrderItemId__c FROM Case"
    with pytest.raises(OrgError) as caught:
        org.run(query)
    _, excerpt, caret, place, _ = caught.value.message.split("\n")
    assert place == f"ERROR at Row:1:Column:{query.index('Foo') + 1}"
    assert excerpt[caret.index("^") :].startswith("Foo, CreatedDate")
    assert 40 < len(excerpt) < 90


def test_a_query_is_not_endless(org: LocalOrg) -> None:
    with pytest.raises(OrgError, match="cannot be longer than"):
        org.run("SELECT Id FROM Case WHERE Status = '" + "x" * 100_000 + "'")


def test_nesting_is_not_endless(org: LocalOrg) -> None:
    for deep in ("(" * 5_000, "NOT " * 5_000):
        with pytest.raises(OrgError, match="too deeply nested"):
            org.run(f"SELECT Id FROM Case WHERE {deep}Status = 'x'")
    calls = "convertCurrency(" * 5_000
    with pytest.raises(OrgError, match="too deeply nested"):
        org.run(f"SELECT {calls}Amount FROM Opportunity")


def test_long_lists_and_chains_are_no_trouble(org: LocalOrg) -> None:
    values = ", ".join(f"'{n}'" for n in range(5_000))
    assert org.run(f"SELECT COUNT() FROM Case WHERE Status NOT IN ({values})").total_size == 7
    chain = " OR ".join(f"Status = '{n}'" for n in range(3_000))
    assert org.run(f"SELECT COUNT() FROM Case WHERE {chain}").total_size == 0
