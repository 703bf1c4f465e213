"""The org as a thing of its own: sources, limits, threads, what it never does."""

import json
import sqlite3
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from importlib import resources
from pathlib import Path
from typing import get_args

import pytest
from mini_org.org import schema_rows
from one_test import in_one_test
from small_org import CASES, ROWS, open_small_org

from pytest_a2a_bench.benchmarks.crmarena.org import (
    FieldType,
    Org,
    OrgError,
    checksum,
    is_record_id,
    outside_object,
    read_published,
    spellings,
    standard_schema,
)
from pytest_a2a_bench.benchmarks.crmarena.org.local import Connection, LocalOrg
from pytest_a2a_bench.errors import ConfigurationError, HarnessError


def _database(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_it_is_an_org(org: LocalOrg) -> None:
    checked: Org = org
    assert checked.name == "small"
    assert checked.schema is standard_schema()


def test_a_dump_with_numbers_as_text_and_other_cases(tmp_path: Path) -> None:
    path = _database(
        tmp_path / "dump.db",
        "CREATE TABLE orderitem (id TEXT, PRICEBOOKENTRYID TEXT, quantity TEXT, UnitPrice TEXT)",
        "INSERT INTO orderitem VALUES ('802000000000001AAA', '', '10.0', 'n/a'), ('802000000000002AAA', NULL, '9', '')",
        'CREATE TABLE "Case" (Id TEXT, CreatedDate TEXT, ClosedDate TEXT)',
        "INSERT INTO \"Case\" VALUES ('500000000000001AAA', '2023-03-01 10:00:00', '2023-03-01T10:00:00+02:00'),"
        "('500000000000002AAA', '2023-03-02', 'soon')",
        "CREATE TABLE Product2 (Id TEXT, IsActive TEXT)",
        "INSERT INTO Product2 VALUES ('a', 'True'), ('b', '0'), ('c', NULL), ('d', 1)",
        "CREATE TABLE Opportunity (Id TEXT, CloseDate TEXT)",
        "INSERT INTO Opportunity VALUES ('006000000000001AAA', '2023-03-01T00:00:00.000+0000')",
        "CREATE TABLE secret (word TEXT)",
    )
    with closing(LocalOrg(path, standard_schema(), name="dump", today=date(2023, 3, 2))) as org:
        items = org.run("SELECT Quantity, UnitPrice, PriceBookEntryId FROM OrderItem ORDER BY Quantity").records
        assert [(r["Quantity"], r["UnitPrice"], r["PriceBookEntryId"]) for r in items] == [
            (9, None, None),
            (10, None, None),
        ]
        cases = org.run("SELECT CreatedDate, ClosedDate FROM Case WHERE CreatedDate <= TODAY").records
        assert [tuple(record.values())[1:] for record in cases] == [
            ("2023-03-01T10:00:00.000+0000", "2023-03-01T08:00:00.000+0000"),
            ("2023-03-02T00:00:00.000+0000", None),
        ]
        active = org.run("SELECT IsActive FROM Product2 ORDER BY Id").records
        assert [record["IsActive"] for record in active] == [True, False, False, True]
        assert org.run("SELECT CloseDate FROM Opportunity").records[0]["CloseDate"] == "2023-03-01"
        assert org.run("SELECT Id FROM Lead").records == ()
        with closing(sqlite3.connect(org.path)) as copy:
            assert not copy.execute("SELECT name FROM sqlite_master WHERE name = 'secret'").fetchall()


def test_the_source_is_copied_and_a_bad_one_is_named(tmp_path: Path) -> None:
    path = _database(
        tmp_path / "dump.db", "CREATE TABLE Lead (Id TEXT)", "INSERT INTO Lead VALUES ('00Q000000000001AAA')"
    )
    org = LocalOrg(path, standard_schema(), name="dump")
    path.unlink()
    assert org.run("SELECT COUNT() FROM Lead").total_size == 1
    folder = org.path.parent
    org.close()
    assert not folder.exists()
    with pytest.raises(ValueError, match="closed"):
        org.run("SELECT COUNT() FROM Lead")
    with pytest.raises(ConfigurationError, match=r"none\.db: no such file"):
        LocalOrg(tmp_path / "none.db", standard_schema(), name="x")
    text = tmp_path / "text.db"
    text.write_text("this is no database, however long one makes it")
    with pytest.raises(ConfigurationError, match=r"text\.db: cannot be read as an SQLite file"):
        LocalOrg(text, standard_schema(), name="x")
    other = _database(tmp_path / "other.db", "CREATE TABLE songs (title TEXT)")
    with pytest.raises(ConfigurationError, match="has no table of the schema's objects"):
        LocalOrg(other, standard_schema(), name="x")


@in_one_test(
    ("query", "found"),
    [
        (r"SELECT Id FROM Account WHERE Name = '\uD83D\uDE00 Pumps'", 1),
        (r"SELECT Id FROM Account WHERE Name LIKE '\uD83D\uDE00%'", 1),
        (r"SELECT Id FROM Account WHERE Name LIKE '\u0041_me'", 1),
        (r"SELECT Id FROM Account WHERE Name = '\uD83D'", 0),
        (r"SELECT Id FROM Account WHERE Name LIKE '%\uDE00%'", 0),
        (r"SELECT Id FROM Account WHERE Name IN ('\uDE00\uD83D', '\u0000')", 0),
        ("SELECT Id FROM Account WHERE Name = '\ud83d'", 0),
        ("FIND {zzz\ud83d} RETURNING Account", 0),
        (r"FIND {pumps} RETURNING Account(Id WHERE Name = '\uD83D')", 0),
    ],
)
def test_half_characters_are_no_text_and_no_trouble(query: str, found: int) -> None:
    schema = read_published([{"object": "Account", "fields": {"Id": "", "Name": ""}}])
    rows = [{"Id": "001Mn0000000byqIAA", "Name": "\U0001f600 Pumps"}, {"Id": "001Mn0000000byrIAA", "Name": "Acme"}]
    with closing(LocalOrg.from_rows({"Account": rows}, schema, name="small")) as org:
        assert len(org.run(query).records) == found
        for refused in ("SELECT \ud83d FROM Account", "FIND '\udfff'", "\ud83d"):
            with pytest.raises(OrgError) as caught:
                org.run(refused)
            assert str(caught.value).encode()


def test_rows_time_and_today() -> None:
    with closing(open_small_org(row_limit=8)) as org:
        assert org.run("SELECT Id FROM Case").total_size == 7
        with pytest.raises(OrgError, match="reads more than 8 rows") as caught:
            org.run("SELECT Id, (SELECT Id FROM CaseHistories__r) FROM Case")
        assert caught.value.code == "OPERATION_TOO_LARGE"
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"
    with closing(open_small_org()) as org, closing(Connection(org.path, time_limit=0.2)) as connection:
        connection.start_query()
        with pytest.raises(OrgError, match="QUERY_TIMEOUT: Your query request was running for too long"):
            connection.fetch(endless, (), 1)
        connection.start_query()
        assert connection.fetch('SELECT COUNT(*) FROM "Case"', (), 1) == [(7,)]
    with closing(open_small_org(today=None)) as org:
        assert org.run("SELECT COUNT() FROM Case WHERE CreatedDate < TODAY").total_size == len(ROWS["Case"])


@in_one_test(
    "statement",
    [
        "DELETE FROM Account",
        "UPDATE Account SET Name = 'x'",
        "INSERT INTO Account (Id) VALUES ('x')",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "DROP TABLE Account",
        "PRAGMA query_only = 0",
        "SELECT * FROM pragma_database_list",
        "ATTACH DATABASE ':memory:' AS y",
        "VACUUM INTO '/tmp/never.db'",
        "SELECT load_extension('x')",
        "SELECT zeroblob(1000000000)",
        "SELECT 1; SELECT 2",
        "BEGIN",
        "nonsense",
    ],
)
def test_a_connection_only_reads(org: LocalOrg, statement: str) -> None:
    """No query of ours compiles to these; should one ever, the connection still refuses it."""
    before = org.path.read_bytes()
    with closing(Connection(org.path, time_limit=60.0)) as connection:
        connection.start_query()
        # Several statements in one are a Warning before Python 3.12.
        with pytest.raises(
            (OrgError, HarnessError, sqlite3.Warning), match=r"(?i)refuses|too complicated|one statement"
        ):
            connection.fetch(statement, (), 10)
        assert connection.fetch('SELECT COUNT(*) FROM "Case"', (), 1) == [(7,)]
    assert org.path.read_bytes() == before


def test_many_threads_at_once(org: LocalOrg) -> None:
    def ask(number: int) -> None:
        for turn in range(30):
            found = org.run(f"SELECT Id, Account.Name FROM Case WHERE Id = '{CASES[(number + turn) % 7]}'").records
            assert [record["Id"] for record in found] == [CASES[(number + turn) % 7]]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(8))) == [None] * 8


def test_ids() -> None:
    assert checksum("001Mn00000QxYZC") == "IA3"
    assert spellings("001Mn00000QxYZC") == ("001Mn00000QxYZCIA3", "001Mn00000QxYZC")
    assert spellings("001Mn00000QxYZCIA3") == ("001Mn00000QxYZCIA3", "001Mn00000QxYZC")
    assert spellings("001Mn00000QxYZCAAA") == ("001Mn00000QxYZCAAA",)
    assert not is_record_id("001Mn00000QxYZ")
    assert not is_record_id("001Mn00000QxYZCIA3 ")


def test_the_published_schema_gets_types_and_relationships() -> None:
    published = [
        {"object": "Case", "fields": {"OwnerId": "who", "IssueId__c": "what"}},
        {"object": "Issue__c", "fields": {"IssueDescription__c": "text"}},
        {"object": "Gadget__c", "fields": {"Id": "id", "Size__c": "size"}},
    ]
    schema = read_published(published)
    case = schema.objects[0]
    assert (case.key_prefix, [field.name for field in case.fields]) == ("500", ["OwnerId", "IssueId__c"])
    assert case.parent("owner") == case.field("ownerid")
    assert case.field("CREATEDDATE").type == "datetime"  # type: ignore[union-attr]
    assert case.field("IssueId__c").relationship == "IssueId__r"  # type: ignore[union-attr]
    assert schema.objects[1].fields[0].name == "Description__c"
    assert [field.type for field in schema.objects[2].fields] == ["id", "text"]
    assert schema_rows(schema)[0] == published[0]
    assert read_published(schema_rows(schema)) == schema


def test_every_object_is_described_in_our_words_by_tables_of_the_package() -> None:
    assert len(standard_schema().objects) == 27
    assert all(field.description for sobject in standard_schema().objects for field in sobject.fields)
    assert len({sobject.key_prefix for sobject in standard_schema().objects}) == 27
    # Data files beside the modules, which a wheel has only where the build takes them along.
    data = resources.files("pytest_a2a_bench.benchmarks.crmarena.org") / "data"
    built = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]
    assert built == {"targets": {"wheel": {"packages": ["pytest_a2a_bench"]}}}, "the whole package, nothing left out"
    tables = {name: json.loads((data / f"{name}_fields.json").read_text("utf-8")) for name in ("standard", "hidden")}
    assert set(tables["hidden"]) == {"*", *tables["standard"]}
    assert sum(len(each.all_fields) for each in standard_schema().objects) == 691
    types = {field.type for each in standard_schema().objects for field in each.all_fields}
    assert types <= set(get_args(FieldType))
    named = {name for each in standard_schema().objects for field in each.all_fields for name in field.refers_to}
    assert {name for name in named if not standard_schema().object(name) and not outside_object(name)} == set()
