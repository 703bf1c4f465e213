"""Gateways judged against the agent behind them: planted faults, a transparent proxy, an agent that varies."""

import contextlib
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import AgentCardSignature, Part
from gateway_faults import FAULTS, method, unless_card
from gateway_proxy import TRANSPARENT, Fault, Message, Rewriting, gateway_proxy, json_answer
from judged import SCRIPTED
from one_test import in_one_test
from scripted import Features, ScriptedExecutor, full_agent
from starlette.middleware import Middleware
from starlette.types import ASGIApp

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.cli import main
from pytest_a2a_bench.conformance.finding import CheckResult, Exchange
from pytest_a2a_bench.conformance.gateway.compare import Seen, Sides, changed, compare, differences
from pytest_a2a_bench.conformance.gateway.run import Pair, meet
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.wire.reply import WireReply

PROMPTS = {**SCRIPTED, "slow": "slow 1.2 done"}


class Vendor(Rewriting):
    """Adds a member of its own to results, echoes extensions, and limits one operation, as servers may."""

    def __init__(self, app: ASGIApp, limited: bool = False) -> None:
        super().__init__(app)
        self.limited = limited

    def rewritten(self, asked: dict[bytes, bytes], body: bytes) -> bytes:
        document = json.loads(body) if body.startswith(b"{") else {}
        if isinstance(document.get("result"), dict):
            document["result"]["vendor"] = {"trace": "7"}
        return json.dumps(document).encode() if document else body

    def added(self, asked: dict[bytes, bytes], body: bytes) -> list[tuple[bytes, bytes]]:
        echoed = [(name, value) for name, value in asked.items() if name == b"a2a-extensions"]
        return echoed + [(b"retry-after", b"7")] * (self.limited and b"-32001" in body)


SIGNATURE = AgentCardSignature(protected="eyJhbGciOiJFUzI1NiIsInR5cCI6IkpPU0UiLCJraWQiOiIxIn0", signature="MEUCIQDa")


@contextlib.contextmanager
def served(fault: Fault, executor: ScriptedExecutor | None = None) -> Iterator[tuple[str, str]]:
    """Serve an agent and a gateway with a fault; gives the URLs of the gateway and of the agent."""
    with gateway_proxy(fault) as proxy:
        features = Features(
            public="" if fault.agent == "own address" else proxy.url,
            grpc=False,
            auth=fault.agent == "auth",
            signatures=(SIGNATURE,) if fault.agent == "signed" else (),
            wraps=(Middleware(Vendor, limited=fault.agent == "limited"),),
        )
        with full_agent(features, executor) as url:
            proxy.target = url
            yield proxy.url, url


@contextlib.contextmanager
def pair_of(fault: Fault, executor: ScriptedExecutor | None = None, slow: str = PROMPTS["slow"]) -> Iterator[Pair]:
    """Serve an agent and a gateway with a fault, and look at both."""
    auth = Credentials("alice-token") if fault.agent == "auth" else None
    with served(fault, executor) as urls:
        configs = (ClientConfig(endpoint=url, auth=auth) for url in urls)
        yield meet(*configs, timeout=10, scenarios=Scenarios({**PROMPTS, "slow": slow}))


def found(results: list[CheckResult]) -> dict[str, list[str]]:
    """Return requirement -> what was found."""
    return {r.requirement.id: [f.found for f in r.findings] for r in results if r.findings}


def chosen(pair: Pair, rule: str) -> list[CheckResult]:
    """Judge one requirement, and for HTTP+JSON too where JSON-RPC cannot show it."""
    planned = [p for p in pair.plan() if p.requirement.id == rule]
    first = pair.compare(planned[:1])
    return first if found(first) else pair.compare(planned[1:])


# One for every third requirement by default; the others, and what shows only by waiting, at night.
FIRST = {fault.rule: fault.name for fault in reversed(FAULTS) if not fault.waits}
TRIED = list(FIRST.values())[::3]


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=[pytest.mark.slow] * (fault.name not in TRIED)) for fault in FAULTS],
    ids=lambda fault: fault.name.replace(" ", "-"),
)
def test_a_planted_fault_is_found_and_named(fault: Fault) -> None:
    with pair_of(fault) as pair:
        results = chosen(pair, fault.rule)
    assert [r for r in results if r.outcome in ("failed", "warned")], [(r.name, r.outcome, r.reason) for r in results]


def test_a_transparent_proxy_changes_nothing() -> None:
    with pair_of(TRANSPARENT, slow="slow 0.4 done") as pair:
        results = pair.compare(pair.plan())
        assert found(results) == {}
        assert pair.summary(results).startswith("the gateway changed nothing in ")

        # Of an open agent nothing shows whether credentials arrive.
        urls = (pair.gateway.endpoint, pair.direct.endpoint)
        configs = (ClientConfig(endpoint=url, auth=Credentials("alice-token")) for url in urls)
        pair = meet(*configs, timeout=10, scenarios=Scenarios(PROMPTS))
        planned = [p for p in pair.plan() if p.requirement.id in ("GW-022", "GW-023") and p.binding == "JSONRPC"]
        reason = "the agent refuses nobody, so that lost credentials do not show"
        assert {(r.outcome, r.reason) for r in pair.compare(planned)} == {("skipped", reason)}


@pytest.mark.slow
def test_a_subscription_that_arrives_when_the_task_has_ended_shows_nothing() -> None:
    def delay(message: Message) -> None:
        if method(message) == "SubscribeToTask":
            time.sleep(0.6)

    with pair_of(Fault("late", "", request=delay), slow="slow 0.3 done") as pair:
        assert found(chosen(pair, "GW-017")) == {}


def test_a_subscription_that_is_refused_says_nothing_of_the_task() -> None:
    def refuse(message: Message) -> Message | None:
        return json_answer({"detail": "Not Found"}, 404) if method(message) == "SubscribeToTask" else None

    with pair_of(Fault("no subscriptions", "", request=refuse), slow="slow 0.5 done") as pair:
        planned = [p for p in pair.plan() if p.requirement.id in ("GW-009", "GW-010") and p.binding == "JSONRPC"]
        assert found(pair.compare(planned)) == {}


@pytest.mark.slow
def test_a_result_that_cannot_be_read_did_reach_the_agent() -> None:
    def shorten(message: Message) -> None:
        message.body = message.body[:-1]

    with pair_of(Fault("cut answers", "", answer=unless_card(shorten)), slow="slow 0.4 done") as pair:
        planned = [p for p in pair.plan() if p.requirement.id in ("GW-005", "GW-009")]
        assert set(found(pair.compare(p for p in planned if p.binding == "JSONRPC"))) == {"GW-009"}


class Varying(ScriptedExecutor):
    """Says something else each time, in another number of events."""

    async def do_task(self, updater: Any, text: str, context: Any, queue: Any) -> None:
        for number in range(random.randint(1, 4)):
            parts = [Part(text=random.choice(("yes", "no", "perhaps")))] * random.randint(1, 3)
            metadata = {"usage": number} if random.random() < 0.5 else None
            await updater.add_artifact(parts, metadata=metadata)
        await updater.complete()


@pytest.mark.slow
def test_an_agent_that_varies_gives_no_finding() -> None:
    with pair_of(TRANSPARENT, Varying()) as pair:
        assert found(pair.compare(pair.plan())) == {}


@in_one_test(
    ("direct", "through", "expected"),
    [
        ([{"/a": 1}, {"/a": 1}], {"/a": 1}, []),
        ([{"/a": 1}, {"/a": 1}], {"/a": 2}, [("/a", 1, 2)]),
        ([{"/a": 1}, {"/a": 1}], {"/a": True}, [("/a", 1, True)]),
        ([{"/a": 1}, {"/a": 1}], {}, [("/a", 1, "missing")]),
        ([{"/a": "x"}, {"/a": "y"}], {"/a": "z"}, []),
        ([{"/a": "x"}, {"/a": "y"}], {"/a": 3}, [("/a", "x", 3)]),
        ([{"/a": 1}, {"/a": 1, "/b": 1}], {"/a": 1}, []),
        ([{"/a": 1}, {"/a": 1}], {"/a": 1, "/b": None}, [("/b", "missing", None)]),
        ([{"/l/#": 1, "/l/0": 1}, {"/l/#": 2, "/l/0": 1, "/l/1": 2}], {"/l/#": 3, "/l/0": 2}, []),
        ([{"/l/#": 1, "/l/0": 1}] * 2, {"/l/#": 0}, [("/l/#", 1, 0)]),
    ],
)
def test_only_what_is_stable_without_the_gateway_differs(
    direct: Sequence[dict[str, Any]], through: dict[str, Any], expected: list[tuple[str, Any, Any]]
) -> None:
    assert differences(direct, through) == expected


def test_a_member_that_is_renamed_is_lost() -> None:
    def seen(name: str) -> Seen:
        task = {"id": "t", name: {"n": 1}}
        return Seen(WireReply(Exchange("JSONRPC", "GetTask", ""), 200, document={"id": 1, "result": task}))

    (difference,) = compare("GetTask", [seen("metadata")] * 2, seen("metadatx"), Sides("http://a", "http://b"))
    assert (difference.rule, difference.severity, difference.pointer) == ("GW-009", "error", "/result/metadata/n")
    assert "/result/metadatx/n: 1 through the gateway, missing without it" in difference.found


@in_one_test(
    ("want", "got", "words"), [(1, "1", '"1" through the gateway, 1'), (None, "", '"" through the gateway, null')]
)
def test_values_of_another_type_look_different(want: Any, got: Any, words: str) -> None:
    assert changed("/id", want, got) == f"/id: {words} without it"


def run(*arguments: str | Path) -> int:
    return main.main(["check", *map(str, arguments)])


def fault_named(name: str) -> Fault:
    return next(fault for fault in FAULTS if fault.name == name)


def test_the_command_names_what_the_gateway_breaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(fault_named("port lost")) as (gateway, direct):
        arguments = (gateway, "--direct", direct, "--id", "GW-001")
        assert run(*arguments) == 1
        out = capsys.readouterr().out
        assert f"the gateway breaks GW-001 in 1 exchanges; without it: {direct}\n" in out
        assert "FAILED GW-001 [card] MUST" in out
        assert "port by default, where the gateway is reached at" in out
        for form, text in (
            ("json", '"gateway": "the gateway breaks'),
            ("sarif", '"ruleId": "GW-001"'),
            ("markdown", "GW-001"),
        ):
            assert run(*arguments, "--format", form) == 1
            assert text in capsys.readouterr().out
        waivers = tmp_path / "waivers.toml"
        waivers.write_text('[[waiver]]\nid = "GW-001"\nreason = "the balancer in front has the port"\n', "utf-8")
        assert run(*arguments, "--waivers", waivers) == 0
        assert run(gateway, "--direct", "http://127.0.0.1:9", "--id", "GW-001") == 2
        assert run(gateway, "--direct", "builtin:oracle") == 2
        assert run(gateway, "--direct", f"{gateway}/") == 2
        error = capsys.readouterr().err
        assert "no gateway stands before builtin:oracle" in error
        assert "is the gateway itself; give its agent's address" in error


def test_consequences_of_a_gateway_fault_are_listed_beneath_it(capsys: pytest.CaptureFixture[str]) -> None:
    ids = [word for id in ("GW-006", *(f"GET-00{n}" for n in range(1, 8))) for word in ("--id", id)]
    with served(fault_named("version lost")) as (gateway, direct):
        assert run(gateway, "--direct", direct, "--binding", "JSONRPC", *ids) == 1
    out = capsys.readouterr().out
    assert "FAILED GW-006 [JSONRPC] MUST" in out
    assert "    GET-002 [JSONRPC] GetTask of an unknown task: not the error: error VersionNotSupportedError" in out
    assert "failed: GET-" not in out
    assert "A2A 1.0: not conformant" in out


def test_a_route_that_is_missing_is_one_fault(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(message: Message) -> Message | None:
        return Message(status=404, body=b"no such route") if ":" in message.path else None

    ids = [word for id in ("GW-005", "GW-012", "GW-017") for word in ("--id", id)]
    with served(Fault("no colons", "", request=refuse)) as (gateway, direct):
        assert run(gateway, "--direct", direct, "--version", "1.0", "--binding", "HTTP+JSON", *ids) == 1
    out = capsys.readouterr().out
    assert "the gateway breaks GW-005 in " in out
    assert "    GW-017 [HTTP+JSON] SendStreamingMessage: the answer: a page with status 404" in out
    assert "FAILED GW-005 [HTTP+JSON]" in out
    assert out.count("FAILED") == 1


@pytest.mark.slow
def test_a_lost_query_is_one_fault_where_the_agent_has_many_tasks() -> None:
    with pair_of(fault_named("query lost"), slow="slow 0.4 done") as pair:
        url = next(
            direct.url for direct, _ in pair.targets if direct.binding == "HTTP+JSON" and direct.version == "1.0"
        )
        for number in range(51):
            message = {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": "task"}]}
            answer = httpx.post(f"{url}/message:send", json={"message": message}, headers={"A2A-Version": "1.0"})
            assert answer.status_code == 200
        wanted = [p for p in pair.plan() if p.requirement.id in ("GW-005", "GW-009") and p.binding == "HTTP+JSON"]
        (words,) = found(pair.compare(wanted))["GW-005"]
        assert set(found(pair.compare(wanted))) == {"GW-005"}
    assert "/nextPageToken: " in words
    assert 'through the gateway, "" without it' in words


@pytest.mark.slow
def test_a_fault_on_both_sides_is_the_agents(capsys: pytest.CaptureFixture[str]) -> None:
    with served(TRANSPARENT) as (gateway, direct):
        assert run(direct, "--group", "validation", "--group", "send") == 1
        broken = capsys.readouterr().out
        assert "failed: VAL-006 [JSONRPC]" in broken
        assert run(gateway, "--direct", direct, "--group", "validation", "--group", "send") == 0
        out = capsys.readouterr().out
    assert "wrong without the gateway, too: the agent's own" in out
    assert "FAILED" not in out
    assert "A2A 1.0: fully conformant in what the agent does right without the gateway" in out
