import asyncio
import base64
import concurrent.futures
import dataclasses
import json
import pickle
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any

import pytest
from faulty_server import start_faulty
from judged import collect
from one_test import in_one_test
from raw_agent import Request, raw_agent, response, scripted

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.conformance import engine
from pytest_a2a_bench.conformance.engine import Judge, check_all
from pytest_a2a_bench.conformance.finding import CheckResult, Planned
from pytest_a2a_bench.conformance.grouping import fold
from pytest_a2a_bench.conformance.raw import RawWire
from pytest_a2a_bench.conformance.report import Report, judge
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.subject import OFFLINE_CARD, Subject, look_at
from pytest_a2a_bench.conformance.target import Target, targets_of
from pytest_a2a_bench.errors import ConfigurationError, EndpointUnreachableError, HarnessError
from pytest_a2a_bench.reports.findings import render


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """URL of an agent that breaks no requirement."""
    with start_faulty() as agent:
        yield agent.url


@pytest.fixture(scope="module")
def subject(url: str) -> Subject:
    return look_at(ClientConfig(url))


@pytest.fixture
def targets(subject: Subject) -> tuple[Target, ...]:
    return subject.targets(ClientConfig(subject.endpoint), Scenarios(), 10.0)


def group(subject: Subject, *names: str) -> list[Planned]:
    return [p for p in subject.plan() if p.requirement.group in names]


def test_a_subject_survives_the_way_to_a_worker() -> None:
    with start_faulty("card-missing") as agent:
        found = look_at(ClientConfig(agent.url))
    assert found.findings[0].exchanges
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_subject_reads_its_card(subject: Subject) -> None:
    assert subject.findings == ()
    assert subject.interfaces == ("1.0 JSONRPC", "1.0 HTTP+JSON", "1.0 GRPC")
    assert subject.problem == ""
    assert {r.outcome for r in subject.card_results() if r.requirement.group == "card"} == {"passed"}
    assert {r.outcome for r in subject.card_results() if r.requirement.group == "signatures"} == {"skipped"}


@in_one_test("card", [None, [], "x", {}, {"supportedInterfaces": []}, {"url": 3}])
def test_a_card_that_names_nothing_to_speak_to(card: object) -> None:
    subject = Subject("http://127.0.0.1:1", card)
    assert subject.problem
    assert [p.requirement.id for p in subject.plan()] == ["DECLARED"]
    assert subject.targets(ClientConfig(subject.endpoint), Scenarios(), 1.0) == ()
    assert list(subject.card_results())
    # Without a card there is every binding.
    planned = Subject("", OFFLINE_CARD).plan()
    assert {p.binding for p in planned} == {"JSONRPC", "HTTP+JSON", "GRPC"}
    assert {p.requirement.version for p in planned} == {"1.0"}


def test_nothing_there_is_an_error() -> None:
    with pytest.raises(EndpointUnreachableError, match="nothing answers"):
        look_at(ClientConfig("http://127.0.0.1:1"))


def test_results_come_in_the_order_of_the_plan(subject: Subject, targets: tuple[Target, ...]) -> None:
    planned = group(subject, "get-task", "cancel")
    results = check_all(targets, planned)
    assert list(results) == [p.name for p in planned]
    assert {r.outcome for r in results.values()} <= {"passed", "skipped"}


def test_a_check_not_begun_is_begun_when_it_is_asked_for(subject: Subject, targets: tuple[Target, ...]) -> None:
    judge = Judge(targets)
    planned = group(subject, "get-task")
    # What is wanted twice is run once.
    judge.start([*planned[:1], *planned[:1]])
    assert judge.result(planned[1]).name == planned[1].name
    assert judge.result(planned[0]) is judge.result(planned[0])
    assert {judge.result(p).name for p in planned} == {p.name for p in planned}
    judge.close()


def test_a_run_that_broke_is_reported_anew_to_each_check(
    subject: Subject, targets: tuple[Target, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> AsyncGenerator[CheckResult, None]:
        results: list[CheckResult] = []
        for result in results:
            yield result
        raise KeyError("oops")

    monkeypatch.setattr(engine, "run_checks", broken)
    judge = Judge(targets)
    seen = []
    for planned in group(subject, "get-task") * 2:
        with pytest.raises(HarnessError, match="the run of the checks broke: KeyError") as caught:
            judge.result(planned)
        seen.append(caught.value)
    judge.close()
    assert len({id(error) for error in seen}) == len(seen)


@pytest.mark.parametrize(("comes_back", "outcome"), [(True, "error"), (False, "explained")])
def test_a_cause_from_another_process_must_hold_here_too(comes_back: bool, outcome: str) -> None:
    nowhere = response("no such page", "404 Not Found", "text/html")

    def there(request: Request) -> bytes:
        error = {"code": -32001, "message": "Task not found"}
        return response({"jsonrpc": "2.0", "id": request.json["id"], "error": error})

    # Nothing is there when it is looked at first, by two operations; whoever makes CARD-007 may find that it has come.
    gone = [lambda _: nowhere] * 2
    with raw_agent(scripted(*gone, there if comes_back else gone[0])) as agent:
        subject = look_at(ClientConfig(agent.url))
        targets = subject.targets(ClientConfig(agent.url), Scenarios(), 60.0)
        every = {p.name: p for p in subject.plan()}
        (planned,) = (p for p in every.values() if p.requirement.id == "GET-002" and p.binding == "JSONRPC")
        judge = Judge(targets, fold=fold, elsewhere=every)
        judge.start([planned])
        result = judge.result(planned)
        judge.close()
    assert result.outcome == outcome
    assert result.reason.startswith("the interface is not there: HTTP 404 from a server that has nothing there")
    assert result.reason.endswith("; but CARD-007 passed, so that this was not judged") is comes_back


def test_stopping_early_is_quick_and_says_so(subject: Subject, targets: tuple[Target, ...]) -> None:
    judge = Judge(targets, concurrency=1)
    planned = subject.plan()
    judge.start(planned)
    judge.close()
    # The plan is made in its order, one check at a time: closing has not waited for those that had not begun.
    for each in planned[len(planned) // 2 :]:
        with pytest.raises(HarnessError, match="was stopped before it ended"):
            judge.result(each)


def test_a_check_canceled_before_it_began_is_reported_to_its_waiters(
    subject: Subject, targets: tuple[Target, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CLEANUP_SECONDS", 0.1)
    monkeypatch.setattr(engine, "_CLOSING_SECONDS", 0.1)
    # A task that is cancelled before its first step never runs, not even what it does in the end.
    monkeypatch.setattr(loop, "submit", _never_begun)
    judge = Judge(targets)
    planned = subject.plan()[:3]
    judge.start(planned)
    judge.close()
    for one in planned:
        with pytest.raises(HarnessError, match="was stopped before it ended"):
            judge.result(one)


def _never_begun(coroutine: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None]:
    coroutine.close()
    return concurrent.futures.Future()


def test_raw_exchanges_are_unread(targets: tuple[Target, ...]) -> None:
    wire = RawWire(targets)
    try:
        for binding, version in wire.interfaces:
            reply = wire.call("GetTask", {"id": "no-such-task"}, binding=binding, version=version)
            assert reply.error is not None
            assert reply.error.name == "TaskNotFoundError"
        broken = wire.call("GetTask", body=b"{", binding="JSONRPC")
        assert broken.exchange.request == "{"
        assert broken.error is not None
        assert broken.error.code == -32700
        with pytest.raises(ConfigurationError, match=r"no interface 0\.3; it declares: 1\.0 JSONRPC"):
            wire.send("hello", version="0.3")
    finally:
        wire.close()


# -- tokens are shown nowhere, whatever the agent says about them --


BEARER = {"httpAuthSecurityScheme": {"scheme": "bearer"}}
BASIC = {"httpAuthSecurityScheme": {"scheme": "basic"}}
QUERY = {"apiKeySecurityScheme": {"location": "query", "name": "key"}}

PEOPLE = [
    (BEARER, "wonderland-token", "token-of-bob"),
    (BASIC, "alice:looking-glass", "bob:builders-password"),
    (QUERY, "api-key-of-alice", "api-key-of-bob"),
]


def results(kind: str, scheme: dict[str, Any], token: str) -> tuple[tuple[CheckResult, ...], set[str]]:
    """Judge an agent that refuses everything, and repeats what it was sent; return what was sent as authorization, too.

    :param kind: ``error`` (a JSON-RPC error) or ``page`` (what is no JSON).
    """
    sent: set[str] = set()

    def echo(request: Request) -> bytes:
        sent.add(authorization := request.headers.get("authorization", ""))
        basic = authorization.removeprefix("Basic ") if authorization.startswith("Basic ") else ""
        said = f"refused: {authorization} {request.path} {base64.b64decode(basic).decode('utf-8', 'replace')}"
        if kind == "page":
            return response(json.dumps(f"<p>{said}"))
        error = {"code": -32602, "message": said, "data": [{"@type": "x", "said": said}]}
        body = request.body.decode("utf-8", "replace")
        return response({"jsonrpc": "2.0", "id": 1, "error": error, "body": body})

    with raw_agent(echo) as agent:
        card = {
            "name": "echo",
            "supportedInterfaces": [{"url": agent.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "capabilities": {"streaming": True, "pushNotifications": True},
            "securitySchemes": {"one": scheme},
            "securityRequirements": [{"schemes": {"one": {}}}],
        }
        scenarios = Scenarios({"other_token_env": "BOBS_TOKEN", "slow": "slow", "chunks": "chunks"})
        config = ClientConfig(endpoint=agent.url, auth=Credentials(token))
        targets = targets_of(card, agent.url, config=config, scenarios=scenarios, timeout=2.0)
        return asyncio.run(collect(targets)), sent - {""}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["error", "page"])
@pytest.mark.parametrize(("scheme", "mine", "theirs"), PEOPLE, ids=["bearer", "basic", "key"])
def test_an_agent_that_repeats_credentials_does_not_bring_them_into_reports(
    monkeypatch: pytest.MonkeyPatch, kind: str, scheme: dict[str, Any], mine: str, theirs: str
) -> None:
    monkeypatch.setenv("BOBS_TOKEN", f"{theirs}\n")
    found, _ = results(kind, scheme, mine)
    report = Report("http://127.0.0.1", tuple(judge(found)))
    shown = [render(report, format) for format in ("text", "json", "sarif", "markdown")]
    shown.append(json.dumps([dataclasses.asdict(r) for r in found]))
    assert "refused: " in (" ".join(r.reason for r in found) if kind == "error" else shown[0])
    secrets = [*mine.split(":")[-1:], *theirs.split(":")[-1:], mine, theirs]
    secrets += [base64.b64encode(s.encode()).decode() for s in (mine, theirs)]
    assert not [(secret, n) for n, text in enumerate(shown) for secret in secrets if secret in text]


def test_other_basic_credentials_are_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOBS_TOKEN", "bob:builders-password")
    _, sent = results("error", BASIC, "alice:looking-glass")
    # The credentials are also sent under a wrong scheme.
    basic = [a.removeprefix("Basic ") for a in sent if a.startswith("Basic ")]
    people = {base64.b64decode(text, validate=True).decode() for text in basic}
    assert people >= {"alice:looking-glass", "nobody:not-a-credential-of-anybody"}
