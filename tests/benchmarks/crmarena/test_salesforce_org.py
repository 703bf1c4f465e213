"""The live backend against a server that speaks Salesforce's REST API over the mini org."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import pytest
from crm import opened
from mini_org.org import build
from one_test import in_one_test
from salesforce_server import PASSWORD, TOKEN, SalesforceServer, redirected, serve

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce import (
    Credentials,
    SalesforceOrg,
    open_salesforce,
    read_credentials,
)
from pytest_a2a_bench.errors import AuthenticationError, ConfigurationError, QuotaError, TransportError
from pytest_a2a_bench.redact import KNOWN
from pytest_a2a_bench.trials.stopping import Breaker, cause_of

# Not imported while modules are collected, which each process of a run does.
pytestmark = pytest.mark.skipif(
    find_spec("simple_salesforce") is None, reason="the extra [salesforce] is not installed"
)


@pytest.fixture(scope="module")
def local() -> Iterator[LocalOrg]:
    with opened(build()) as org:
        yield org


@pytest.fixture
def server(local: LocalOrg) -> Iterator[SalesforceServer]:
    with serve(local, page_size=7) as running:
        yield running


@pytest.fixture
def org(server: SalesforceServer) -> Iterator[SalesforceOrg]:
    found = open_salesforce(server.environ)
    yield found
    found.close()


QUERIES = [
    "SELECT Id, Subject, Owner.LastName FROM Case ORDER BY Id LIMIT 30",
    "SELECT COUNT() FROM Lead",
    "SELECT OwnerId, COUNT(Id) n FROM Case GROUP BY OwnerId ORDER BY OwnerId",
    "SELECT Id, (SELECT Id FROM Contacts ORDER BY Id) FROM Account ORDER BY Id LIMIT 20",
    "SELECT Id FROM Account WHERE Name = 'nobody at all'",
    "FIND {policy} IN ALL FIELDS RETURNING Knowledge__kav(Id, Title LIMIT 5)",
]


@in_one_test("query", QUERIES)
def test_a_live_org_answers_as_the_local_one_it_is_made_of(org: SalesforceOrg, local: LocalOrg, query: str) -> None:
    live, there = org.run(query), local.run(query)
    assert live.records == there.records
    assert live.total_size == there.total_size
    assert live.language == there.language


def test_pages_are_fetched_until_there_are_no_more(org: SalesforceOrg, server: SalesforceServer) -> None:
    found = org.run("SELECT Id FROM Case ORDER BY Id LIMIT 30")
    assert len({record["Id"] for record in found.records}) == 30
    assert len(server.requests) == 5
    assert found.rows_read == 30
    assert org.day == (5, 15000)


def test_children_are_completed_and_counted(server: SalesforceServer, local: LocalOrg) -> None:
    query = "SELECT Id, (SELECT Id FROM Contacts ORDER BY Id) FROM Account ORDER BY Id LIMIT 5"
    server.page_size = 1
    org = open_salesforce(server.environ)
    found = org.run(query)
    assert found.records == local.run(query).records
    children = sum(len((record["Contacts"] or {"records": ()})["records"]) for record in found.records)
    assert children > 0
    assert found.rows_read == 5 + children


@in_one_test(
    "query", ["SELECT Bad FROM Case", "SELECT Id FROM Nothing", "SELECT Id FROM Case WHERE", "FIND {x RETURNING Case"]
)
def test_refusals_come_as_salesforce_words_them(org: SalesforceOrg, local: LocalOrg, query: str) -> None:
    with pytest.raises(OrgError) as live:
        org.run(query)
    with pytest.raises(OrgError) as there:
        local.run(query)
    assert (live.value.code, live.value.message) == (there.value.code, there.value.message)


@in_one_test(
    "query",
    [
        "",
        "DELETE FROM Case",
        "UPDATE Case SET Subject = 'x'",
        "INSERT INTO Case VALUES (1)",
        "SELECTED",
        "; SELECT Id FROM Case",
        "SELECT Id FROM Case FOR VIEW",
        "SELECT Id FROM Case WHERE Subject = 'a' for\n reference",
        "SELECT Title FROM Knowledge__kav UPDATE VIEWSTAT",
        "FIND {x} RETURNING Case(Id) UPDATE TRACKING",
    ],
)
def test_only_reading_queries_are_sent(org: SalesforceOrg, server: SalesforceServer, query: str) -> None:
    with pytest.raises(OrgError, match="MALFORMED_QUERY"):
        org.run(query)
    assert server.requests == []


def test_words_inside_literals_are_no_clauses(org: SalesforceOrg, server: SalesforceServer) -> None:
    org.run(r"SELECT Id FROM Case WHERE Subject = 'it\'s FOR VIEW'")
    org.run("FIND {for view} RETURNING Case(Id)")
    assert len(server.requests) == 2
    assert {line.partition(" ")[0] for line in server.requests} == {"GET"}


def test_too_many_records_are_refused_before_they_are_all_read(server: SalesforceServer) -> None:
    org = SalesforceOrg(read_credentials(server.environ), row_limit=20)
    with pytest.raises(OrgError, match="OPERATION_TOO_LARGE"):
        org.run("SELECT Id FROM Task")
    assert len(server.requests) == 3


def test_an_org_whose_requests_are_used_up_is_not_asked_again(org: SalesforceOrg, server: SalesforceServer) -> None:
    org.run("SELECT COUNT() FROM Case")
    server.fault = "REQUEST_LIMIT_EXCEEDED"
    asked = len(server.requests) + 1
    for _ in range(5):
        with pytest.raises(QuotaError, match="gives no more answers: REQUEST_LIMIT_EXCEEDED") as error:
            org.run("SELECT Id FROM Case")
    assert len(server.requests) == asked
    assert Breaker(5).note(error.value) == "stop"
    assert cause_of(error.value) == "quota"


BUSY = "ConcurrentRequests (Concurrent API Requests) Limit exceeded."


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"fault": "REQUEST_LIMIT_EXCEEDED", "fault_words": BUSY}, "ConcurrentRequests"),
        ({"fault": "SERVER_UNAVAILABLE"}, "SERVER_UNAVAILABLE"),
        ({"raw": (200, "<html>maintenance</html>")}, "not JSON"),
        ({"raw": (200, '["something else"]')}, "no query's answer"),
        ({"raw": (502, "<html>bad gateway</html>")}, "HTTP 502: <html>bad gateway"),
    ],
)
def test_trouble_of_the_server_or_the_network_is_no_refusal(
    org: SalesforceOrg, server: SalesforceServer, state: dict[str, Any], problem: str
) -> None:
    for name, value in state.items():
        setattr(server, name, value)
    with pytest.raises(TransportError, match=problem):
        org.run("SELECT Id FROM Case")
    server.fault = server.raw = None
    assert org.run("SELECT COUNT() FROM Case").total_size


def test_a_server_that_is_not_there(local: LocalOrg) -> None:
    with serve(local) as server:
        environ = server.environ
    with pytest.raises(TransportError, match="cannot be reached"):
        open_salesforce(environ).run("SELECT Id FROM Case")


def test_an_expired_token_says_what_to_do(org: SalesforceOrg, server: SalesforceServer) -> None:
    server.sessions.clear()
    with pytest.raises(AuthenticationError, match="SALESFORCE_ACCESS_TOKEN") as error:
        org.run("SELECT Id FROM Case")
    assert "session-0" not in str(error.value)


def with_password(password: str, server: SalesforceServer) -> SalesforceOrg:
    environ = {"SALESFORCE_USERNAME": "ann", "SALESFORCE_PASSWORD": password, "SALESFORCE_SECURITY_TOKEN": TOKEN}
    return SalesforceOrg(read_credentials(environ), session=lambda: redirected(server))


def test_a_password_logs_in_once_for_all_threads(server: SalesforceServer) -> None:
    org = with_password(PASSWORD, server)
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(org.run, ["SELECT Id FROM Case ORDER BY Id LIMIT 3"] * 24))
    assert all(each.records == found[0].records for each in found)
    assert server.logins == 1
    assert not any(PASSWORD in line for line in server.requests)


def test_an_expired_session_is_renewed(server: SalesforceServer) -> None:
    org = with_password(PASSWORD, server)
    org.run("SELECT Id FROM Case LIMIT 1")
    server.sessions.clear()
    assert len(org.run("SELECT Id FROM Case LIMIT 1").records) == 1
    assert server.logins == 2


def test_a_refused_password_is_not_sent_again(server: SalesforceServer) -> None:
    """Salesforce locks a user out after some ten wrong ones."""
    org = with_password("guess-5512", server)

    def refusal(_: int) -> str:
        with pytest.raises(AuthenticationError) as error:
            org.run("SELECT Id FROM Case")
        return str(error.value)

    with ThreadPoolExecutor(6) as threads:
        expected = set(threads.map(refusal, range(24)))
    assert server.attempts == 1
    (message,) = expected
    assert message == (
        "Salesforce refused the credentials: Authentication failed (code: INVALID_LOGIN): Invalid username, password, "
        "security token; or user locked out; check the SALESFORCE_* variables"
    )


@in_one_test(
    ("environ", "problem"),
    [
        ({}, "SALESFORCE_INSTANCE_URL and SALESFORCE_ACCESS_TOKEN; or .* none of them is set"),
        ({"SALESFORCE_USERNAME": "ann"}, "only SALESFORCE_USERNAME set"),
        ({"SALESFORCE_INSTANCE_URL": "http://example.com", "SALESFORCE_ACCESS_TOKEN": "t"}, "expected https://"),
        ({"SALESFORCE_INSTANCE_URL": "my.salesforce.com", "SALESFORCE_ACCESS_TOKEN": "t"}, "expected https://"),
    ],
)
def test_credentials_that_do_not_do(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read_credentials(environ)


def test_credentials_are_never_shown(server: SalesforceServer) -> None:
    found = read_credentials({"SALESFORCE_INSTANCE_URL": "https://x.example", "SALESFORCE_ACCESS_TOKEN": "s3cret"})
    assert "s3cret" not in repr(found)
    assert found == Credentials({"instance_url": "https://x.example", "session_id": "s3cret"})
    org = open_salesforce(server.environ)
    org.run("SELECT Id FROM Case LIMIT 1")
    assert "session-0" not in f"{org} {vars(org)}"
    assert "session-0" not in KNOWN.hide("it is session-0 now")
    org.close()
