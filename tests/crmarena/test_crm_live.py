"""Live orgs of a run: recorded and replayed, one login and one comparison for all workers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from crm_settings import crm_settings
from jsonschema import Draft202012Validator
from salesforce_server import PASSWORD, REDIRECTING, TOKEN, SalesforceServer, serve

from pytest_a2a_bench import schemas
from pytest_a2a_bench.benchmarks.crmarena import live
from pytest_a2a_bench.benchmarks.crmarena.live import AskedLogins, LiveOrgs
from pytest_a2a_bench.benchmarks.crmarena.mini.org import MiniOrg, build
from pytest_a2a_bench.benchmarks.crmarena.options import check_options
from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg
from pytest_a2a_bench.benchmarks.crmarena.org.logins import OwnLogins
from pytest_a2a_bench.benchmarks.crmarena.org.recorded import RecordedOrg, RecordingOrg
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce import SalesforceOrg, open_salesforce
from pytest_a2a_bench.benchmarks.crmarena.org.salesforce_login import read_credentials
from pytest_a2a_bench.benchmarks.crmarena.org.schema import OrgSchema
from pytest_a2a_bench.benchmarks.crmarena.preconditions import find_problems
from pytest_a2a_bench.benchmarks.crmarena.sources.opening import open_source
from pytest_a2a_bench.errors import AuthenticationError, CassetteError, ConfigurationError, TransportError
from pytest_a2a_bench.secret import KNOWN
from pytest_a2a_bench.settings import Settings

pytest.importorskip("simple_salesforce", reason="the extra [salesforce] is not installed")

from requests.adapters import HTTPAdapter

QUERY = "SELECT Id, Owner.LastName FROM Case ORDER BY Id LIMIT 3"
SEARCH = "FIND {policy} IN ALL FIELDS RETURNING Knowledge__kav(Id, Title LIMIT 5)"


@pytest.fixture(scope="module")
def mini() -> MiniOrg:
    return build(seed=3, tasks_per_category=1)


@pytest.fixture(scope="module")
def local(mini: MiniOrg) -> Iterator[LocalOrg]:
    org = LocalOrg.from_rows(mini.rows, mini.schema, name="mini", today=mini.today)
    yield org
    org.close()


@pytest.fixture(scope="module")
def tables(mini: MiniOrg, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "org.db"
    mini.write_sqlite(path)
    return path


@pytest.fixture
def server(local: LocalOrg) -> Iterator[SalesforceServer]:
    with serve(local) as running:
        yield running


@pytest.fixture
def data(mini: MiniOrg, tables: Path, tmp_path: Path) -> Path:
    """A directory in the published shape, whose tasks are about the server's org."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [{**task.to_json(), "idx": number} for number, task in enumerate(mini.tasks[:2])]
    (folder / "b2b_tasks.json").write_text(json.dumps(rows))
    few = [each for each in mini.schema.to_json() if each["object"] in ("Case", "User", "Knowledge__kav")]
    (folder / "b2b_schema.json").write_text(json.dumps(few))
    (folder / "crmarenapro_b2b_data.db").hardlink_to(tables)
    return folder


@pytest.fixture
def asked(data: Path, server: SalesforceServer, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a run against the server, whose variables are set."""
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    return crm_settings(crm_org="salesforce", crm_data=str(data))


def test_a_recorded_org_answers_as_the_org_did(server: SalesforceServer, local: LocalOrg, tmp_path: Path) -> None:
    org = RecordingOrg(open_salesforce(server.environ, local.schema), tmp_path)
    found = [org.run(QUERY), org.run(SEARCH), org.run("SELECT COUNT() FROM Case")]
    with pytest.raises(OrgError) as refusal:
        org.run("SELECT Nothing FROM Case")
    server.fault = "SERVER_UNAVAILABLE"
    with pytest.raises(TransportError):
        org.run("SELECT COUNT() FROM Lead")
    org.close()
    for path in tmp_path.iterdir():
        Draft202012Validator(schemas.load("org")).validate(json.loads(path.read_text()))
    again = RecordedOrg(tmp_path, local.schema)
    assert [again.run(query).records for query in (QUERY, SEARCH)] == [each.records for each in found[:2]]
    counted = again.run(" SELECT COUNT() FROM Case\n")
    assert (counted.total_size, counted.language, counted.seconds) == (found[2].total_size, "soql", counted.seconds)
    with pytest.raises(OrgError) as repeated:
        again.run("SELECT Nothing FROM Case")
    assert (repeated.value.code, repeated.value.message) == (refusal.value.code, refusal.value.message)
    # What did not reach the org is not known, as what it was never asked.
    for query in ("SELECT COUNT() FROM Lead", "SELECT Id FROM Case"):
        with pytest.raises(CassetteError, match=r"has no answer to this query: SELECT .*record it again"):
            again.run(query)


def test_a_record_that_is_none_is_named(local: LocalOrg, tmp_path: Path) -> None:
    org = RecordingOrg(local, tmp_path)
    org.run(QUERY)
    (kept,) = tmp_path.iterdir()
    kept.write_text('{"schema_version": 1, "records": 5}')
    with pytest.raises(CassetteError, match="cannot be replayed"):
        RecordedOrg(tmp_path, local.schema).run(QUERY)


def test_a_run_that_is_recorded_is_replayed_without_an_org(
    asked: Settings, server: SalesforceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = dataclasses.replace(asked, record=str(tmp_path / "tape"))
    source = open_source("b2b", recording)
    org = live.open_live(source, recording)
    found = org.run(QUERY)
    org.close()
    for name in server.environ:
        monkeypatch.delenv(name)
    before = len(server.requests)
    named = crm_settings(crm_org=f"recorded:{tmp_path / 'tape'}", crm_data=asked.benchmark_options["crm_data"])
    for settings in (dataclasses.replace(asked, replay=str(tmp_path / "tape")), named):
        assert find_problems(["b2b"], settings, {}) == []
        assert list(check_options(settings, listing=False)) == []
        assert live.open_live(source, settings).run(QUERY).records == found.records
    assert len(server.requests) == before
    assert "no answers of b2c are recorded" in "".join(find_problems(["b2c"], named, {}))
    away = crm_settings(crm_org=f"recorded:{tmp_path / 'no'}", crm_data=asked.benchmark_options["crm_data"])
    assert "is not a directory" in next(iter(check_options(away, listing=False)))


def test_an_org_that_was_not_recorded_is_asked_by_nobody(asked: Settings, tmp_path: Path) -> None:
    data = asked.benchmark_options["crm_data"]
    empty = crm_settings(crm_org=f"recorded:{tmp_path}", crm_data=data)
    with pytest.raises(ConfigurationError, match="has no answers of b2b"):
        live.open_live(open_source("b2b", empty), empty)


class Workers:
    """As many as there are questions, each with a copy of what the controller says."""

    def __init__(self, settings: Settings) -> None:
        self.orgs = LiveOrgs(settings)

    def ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        told: Mapping[str, Any] = json.loads(json.dumps(self.orgs.answer(json.loads(json.dumps(question)))))
        return told

    def org(self, schema: OrgSchema) -> SalesforceOrg:
        return SalesforceOrg(AskedLogins(self.ask, "b2b"), schema)


def by_password(monkeypatch: pytest.MonkeyPatch, server: SalesforceServer, password: str) -> None:
    for name in server.environ:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SALESFORCE_USERNAME", "ann")
    monkeypatch.setenv("SALESFORCE_PASSWORD", password)
    monkeypatch.setenv("SALESFORCE_SECURITY_TOKEN", TOKEN)
    monkeypatch.setenv("SALESFORCE_TEST_SERVER", server.url)
    send = HTTPAdapter.send
    exec(REDIRECTING, {})
    redirecting = HTTPAdapter.send
    monkeypatch.setattr(HTTPAdapter, "send", send)
    monkeypatch.setattr(HTTPAdapter, "send", redirecting)


def test_one_login_and_one_comparison_for_all_workers(
    asked: Settings, server: SalesforceServer, local: LocalOrg, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_password(monkeypatch, server, PASSWORD)
    workers = Workers(asked)

    def work(_: int) -> int:
        org = workers.org(local.schema)
        with closing(org):
            return len(org.run(QUERY).records)

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(work, range(12))) == {3}
    assert server.logins == 1
    assert sum(line.endswith("SELECT COUNT() FROM Case") for line in server.requests) == 1
    # It expires: everybody hears of it, and one logs in.
    orgs = [workers.org(local.schema) for _ in range(4)]
    for org in orgs:
        org.run(QUERY)
    server.sessions.clear()
    with ThreadPoolExecutor(4) as threads:
        assert {len(found.records) for found in threads.map(lambda org: org.run(QUERY), orgs)} == {3}
    assert server.logins == 2
    assert "session-2" not in KNOWN.hide("it is session-2 now")
    for org in orgs:
        org.close()
    workers.orgs.close()
    assert KNOWN.hide("it is session-2 now") == "it is session-2 now"


def test_a_refused_login_is_tried_once_for_all_workers(
    asked: Settings, server: SalesforceServer, local: LocalOrg, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_password(monkeypatch, server, "guess-5512")
    workers = Workers(asked)
    for _ in range(3):
        with pytest.raises(AuthenticationError, match="INVALID_LOGIN") as error:
            workers.org(local.schema)
        assert "guess-5512" not in str(error.value)
    assert server.attempts == 1
    workers.orgs.close()


def test_a_comparison_that_did_not_come_about_is_repeated_without_a_login(
    asked: Settings, server: SalesforceServer, local: LocalOrg, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_password(monkeypatch, server, PASSWORD)
    workers = Workers(asked)
    server.fault = "SERVER_UNAVAILABLE"
    for _ in range(4):
        with pytest.raises(TransportError):
            workers.org(local.schema)
    server.fault = None
    with closing(workers.org(local.schema)) as org:
        assert len(org.run(QUERY).records) == 3
    assert server.logins == 1
    assert "session-1" not in KNOWN.hide("it is session-1 now")
    workers.orgs.close()
    assert KNOWN.hide("it is session-1 now") == "it is session-1 now"


def test_another_org_is_refused_once_for_all_workers(
    asked: Settings, data: Path, server: SalesforceServer, local: LocalOrg
) -> None:
    schema = json.loads((data / "b2b_schema.json").read_text())
    schema[0]["fields"]["Nothing__c"] = "a field that the org has not"
    (data / "b2b_schema.json").write_text(json.dumps(schema))
    workers = Workers(asked)
    for _ in range(3):
        with pytest.raises(ConfigurationError, match=r"is not the org that the tasks are about: .*Nothing__c"):
            workers.org(local.schema)
    assert sum("Nothing__c" in line for line in server.requests) == 1
    workers.orgs.close()


def test_a_token_that_has_expired_cannot_be_replaced(
    asked: Settings, server: SalesforceServer, local: LocalOrg
) -> None:
    workers = Workers(asked)
    org = workers.org(local.schema)
    server.sessions.clear()
    with pytest.raises(AuthenticationError, match="set a new SALESFORCE_ACCESS_TOKEN"):
        org.run(QUERY)
    org.close()
    workers.orgs.close()


def test_sessions_show_nothing(server: SalesforceServer) -> None:
    logins = OwnLogins(read_credentials(server.environ))
    login = logins.newer_than(0)
    assert login.session_id == "session-0"
    assert "session-0" not in f"{login} {login!r}"
    logins.close()
