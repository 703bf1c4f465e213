"""Every query of the corpus is treated as Salesforce's reference says, here and by what is asked over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from examples import sampled
from salesforce_server import serve

from pytest_a2a_bench.benchmarks.crmarena.mini.org import build
from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, QueryResult
from pytest_a2a_bench.benchmarks.crmarena.org.corpus import CorpusEntry, count_requests, differences, read_corpus
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.cli.main import main


@pytest.fixture(scope="module")
def org() -> Iterator[LocalOrg]:
    mini = build()
    org = LocalOrg.from_rows(mini.rows, mini.schema, name="mini", today=mini.today)
    yield org
    org.close()


def test_the_local_org_is_held_to_the_whole_corpus(org: LocalOrg) -> None:
    corpus = read_corpus()
    assert len({entry.query for entry in corpus}) >= 400
    assert all(entry.source for entry in corpus)
    assert [(each.entry.query, each.found) for each in differences(corpus, org.run)] == []


def test_each_kind_of_difference_is_seen(org: LocalOrg) -> None:
    wrong = [
        CorpusEntry("a", "ok", "SELECT Foo FROM Account"),
        CorpusEntry("b", "MALFORMED_QUERY", "SELECT Id FROM Account"),
        CorpusEntry("c", "= SELECT Id FROM Account", "SELECT Id FROM Account LIMIT 1"),
        CorpusEntry("d", "INVALID_TYPE", "SELECT Id FROM"),
    ]
    found = list(differences(wrong, org.run))
    assert [each.entry for each in found] == wrong
    assert found[1].found == "accepted, where MALFORMED_QUERY is expected"
    assert count_requests(wrong) == 5


def test_what_is_too_large_to_read_was_accepted() -> None:
    def run(_: str) -> QueryResult:
        raise OrgError("OPERATION_TOO_LARGE", "more than 10 records")

    assert list(differences([CorpusEntry("a", "ok", "SELECT Id FROM Account")], run)) == []


@pytest.mark.parametrize("form", sampled(["text", "json"], 2))
def test_an_org_is_compared_over_http(
    org: LocalOrg, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    pytest.importorskip("simple_salesforce", reason="the extra [salesforce] is not installed")
    with serve(org) as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        assert main(["crm", "compare-org", "--section", "SOSL", "--format", form]) == 0
        told = capsys.readouterr().out
        assert {line.partition(" ")[0] for line in server.requests} == {"GET"}
        server.fault = "MALFORMED_SEARCH"
        assert main(["crm", "compare-org", "--section", "SOSL, FIND", "--format", form]) == 1
        differing = capsys.readouterr().out
        server.fault = "REQUEST_LIMIT_EXCEEDED"
        asked = len(server.requests)
        assert main(["crm", "compare-org"]) == 2
        assert len(server.requests) == asked + 1
    if form == "json":
        assert json.loads(told)["differences"] == []
        assert {each["expected"] for each in json.loads(differing)["differences"]} == {"ok"}
    else:
        assert ", 0 answered otherwise" in told
        assert "expected ok; found MALFORMED_SEARCH" in differing


def test_what_would_be_asked_is_listed_and_a_page_that_is_not_there_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crm", "compare-org", "--list", "--section", "location"]) == 0
    assert "Location-Based SOQL Queries\tok\tSELECT" in capsys.readouterr().out
    assert main(["crm", "compare-org", "--section", "nothing of the kind"]) == 2
    assert "there are: SELECT" in capsys.readouterr().err
