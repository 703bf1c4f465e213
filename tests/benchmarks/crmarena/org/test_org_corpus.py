"""Every query of the corpus is treated as Salesforce's reference says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from corpus import CorpusEntry, differences, read_corpus
from mini_org.org import build

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, QueryResult
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg


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


def test_what_is_too_large_to_read_was_accepted() -> None:
    def run(_: str) -> QueryResult:
        raise OrgError("OPERATION_TOO_LARGE", "more than 10 records")

    assert list(differences([CorpusEntry("a", "ok", "SELECT Id FROM Account")], run)) == []
