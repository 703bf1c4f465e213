"""The engine: what is planned, that every requirement is accounted for, and that nothing is lost or left behind."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import pkgutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
from faulty_server import serve_app, serve_faulty
from judged import collect
from mutation import PROMPTS, targets
from starlette.requests import Request
from starlette.responses import JSONResponse

from pytest_a2a_bench.a2a.codec import TERMINAL
from pytest_a2a_bench.conformance import checks
from pytest_a2a_bench.conformance.card import fetch_card_async
from pytest_a2a_bench.conformance.catalogue import UNDECLARED, load_requirements, plan, requirement
from pytest_a2a_bench.conformance.checks import send
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.engine import run_check, run_checks
from pytest_a2a_bench.conformance.finding import BINDINGS, VERSIONS, CheckResult, Planned
from pytest_a2a_bench.conformance.protocol.payloads import state_of
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.session.session import Session
from pytest_a2a_bench.conformance.target import Target, declared, targets_of

URL = "http://127.0.0.1:9"


def make_card(*interfaces: tuple[str, str, str], **capabilities: bool) -> dict[str, Any]:
    named = [{"url": u, "protocolBinding": b, "protocolVersion": v} for u, b, v in interfaces]
    return {"name": "x", "supportedInterfaces": named, "capabilities": capabilities}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_requirement_has_a_check_or_a_reason(version: str) -> None:
    entries = load_requirements(version)
    wanted = {r.id for r in entries if r.bindings != ("card",)}
    checked, reasons = {r.id for r in entries if r.check}, {r.id for r in entries if r.uncheckable}
    assert checked | reasons == wanted
    assert not checked & reasons
    assert all(len(r.uncheckable) > 20 for r in entries if r.uncheckable)


def test_the_catalogue_names_every_check_and_no_other() -> None:
    entries = [r for version in VERSIONS for r in load_requirements(version)]
    named = {name for r in entries for name in f"{r.check} {r.stress}".split()}
    there = set()
    for module in pkgutil.iter_modules(checks.__path__):
        members = vars(importlib.import_module(f"{checks.__name__}.{module.name}")).items()
        own = {name: f for name, f in members if getattr(f, "__module__", "").endswith(f".{module.name}")}
        takes_context = {
            n
            for n, f in own.items()
            if inspect.iscoroutinefunction(f) and list(inspect.signature(f).parameters) == ["ctx"]
        }
        returns_nothing = {n for n in takes_context if own[n].__annotations__["return"] == "None"}
        there |= {f"{module.name}.{name}" for name in returns_nothing if not name.startswith("_")}
    helpers = {"auth.known_user"}
    assert there - helpers == named


def test_plan_follows_card() -> None:
    card = make_card((URL, "JSONRPC", "1.0"), (f"{URL}/rest", "HTTP+JSON", "1.0"))
    planned = plan(card, URL)
    names = [p.name for p in planned]
    assert len(set(names)) == len(names)
    assert "1.0/SEND-001[JSONRPC]" in names
    assert "1.0/SEND-001[HTTP+JSON]" in names
    assert "1.0/JR-001[HTTP+JSON]" not in names
    assert [p.name for p in planned if p.binding == "GRPC"] == [f"1.0/{UNDECLARED}[GRPC]"]
    order = [r.id for r in load_requirements("1.0")]
    seen = [order.index(p.requirement.id) for p in planned if p.requirement.id != UNDECLARED]
    assert seen == sorted(seen)


def test_plan_can_be_narrowed() -> None:
    card = make_card(*((URL, b, v) for b in BINDINGS for v in VERSIONS))
    assert {p.requirement.version for p in plan(card, URL)} == {"1.0", "0.3"}
    narrow = plan(card, URL, versions=["1.0"], bindings=["GRPC"])
    assert {(p.requirement.version, p.binding) for p in narrow} == {("1.0", "GRPC")}


def test_patch_versions_and_unknown_bindings() -> None:
    card = make_card((URL, "JSONRPC", "1.0"), (URL, "JSONRPC", "1.0"), (URL, "SOAP", "1.0"), (URL, "GRPC", "7.0"))
    assert declared(card, URL) == (("JSONRPC", "1.0"),)
    assert [str(t) for t in targets_of(card, URL)] == [f"JSONRPC 1.0 at {URL}"]


def run(target: Target | tuple[Target, ...], *ids: str) -> dict[str, CheckResult]:
    results = asyncio.run(collect(target, select=lambda p: p.requirement.id in ids))
    return {r.name: r for r in results}


def test_undeclared_binding_is_one_skip() -> None:
    card = make_card((URL, "JSONRPC", "1.0"))
    results = run(targets_of(card, URL), UNDECLARED)
    assert {r.binding: r.outcome for r in results.values()} == {"HTTP+JSON": "skipped", "GRPC": "skipped"}
    assert all("declares no" in r.reason for r in results.values())


def test_missing_scenario_says_how_to_give_it() -> None:
    results = run(targets_of(make_card((URL, "JSONRPC", "1.0")), URL), "SEND-004")
    result = results["1.0/SEND-004[JSONRPC]"]
    assert result.outcome == "skipped"
    assert "'slow'" in result.reason
    assert "--a2a-scenarios" in result.reason


def test_nobody_answers() -> None:
    results = run(targets_of(make_card((URL, "JSONRPC", "1.0")), URL), "SEND-001", "DM-001", "SEND-007")
    assert results["1.0/SEND-001[JSONRPC]"].outcome == "failed"
    assert results["1.0/SEND-001[JSONRPC]"].findings[0].exchanges[0].problem.startswith("ConnectError")
    assert {results[f"1.0/{id}[JSONRPC]"].outcome for id in ("DM-001", "SEND-007")} == {"error"}


@pytest.mark.parametrize(
    ("binding", "url", "outcome"),
    [
        ("JSONRPC", "http://[::1", "failed"),
        ("JSONRPC", "http://h:99999/", "failed"),
        ("GRPC", "ftp://127.0.0.1:1", "error"),
        ("GRPC", "http://127.0.0.1:99999", "error"),
        ("GRPC", "127.0.0.1:9", "failed"),
    ],
)
def test_address_that_is_none(binding: str, url: str, outcome: str) -> None:
    target = Target(URL, {"supportedInterfaces": [{"url": URL}]}, "1.0", binding, url, timeout=2.0)
    session = Session(target)

    async def ask() -> CheckResult:
        try:
            return await run_check(requirement("SEND-001"), session)
        finally:
            await session.close()

    result = asyncio.run(ask())
    assert result.outcome == outcome, result
    assert "bug" not in result.reason


@pytest.fixture
def broken_check(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(ctx: Context) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(send, "one_of_task_and_message", broken)


@pytest.mark.usefixtures("broken_check")
def test_bug_of_ours_costs_one_result_only() -> None:
    results = run(targets_of(make_card((URL, "JSONRPC", "1.0")), URL), "SEND-001", "SEND-002")
    assert results["1.0/SEND-001[JSONRPC]"].outcome == "error"
    assert "bug of pytest-a2a-bench: KeyError" in results["1.0/SEND-001[JSONRPC]"].reason
    assert "1.0/SEND-002[JSONRPC]" in results


async def judged(url: str) -> tuple[Target, ...]:
    """Return an agent's targets, from its card."""
    card, _, _ = await fetch_card_async(url)
    return targets(url, card)


async def left_behind(*wanted: str, step: float, binding: str = "JSONRPC") -> tuple[list[str], list[Any]]:
    """Run checks by id or group, and return the states of all tasks that the agent has, and their configurations."""
    async with serve_faulty(None, step=step) as running:
        every = await judged(running.url)
        found = [t for t in every if t.binding == binding]
        names = []
        async for result in run_checks(
            found, select=lambda p: bool({p.requirement.id, p.requirement.group} & set(wanted))
        ):
            names.append(result.name)
        async with context_on(found[0]) as ctx:
            listed = await ctx.call("ListTasks", {"pageSize": 100})
            tasks = listed.result["tasks"]
            assert len(tasks) < 100
            configs = [await ctx.call("ListTaskPushNotificationConfigs", {"taskId": t["id"]}) for t in tasks]
        return [state_of(t) for t in tasks], [c.result.get("configs") for c in configs if c.ok]


@contextlib.asynccontextmanager
async def context_on(target: Target) -> AsyncIterator[Context]:
    """Give a context of its own on an interface."""
    session = Session(target)
    try:
        yield Context(requirement("SEND-001"), session)
    finally:
        await session.close()


def test_nothing_is_left_behind() -> None:
    states, configs = asyncio.run(left_behind("SEND-004", "PUSH-001", step=5.0))
    assert states
    assert set(states) <= TERMINAL
    assert "canceled" in states
    assert not any(configs)


@pytest.mark.parametrize(
    "binding", [BINDINGS[0], *(pytest.param(binding, marks=pytest.mark.slow) for binding in BINDINGS[1:])]
)
def test_no_push_configuration_is_left_behind(binding: str) -> None:
    states, configs = asyncio.run(left_behind("push", step=0.05, binding=binding))
    assert set(states) <= TERMINAL
    assert len(configs) > 10
    assert not any(configs)


class OldAgent:
    """An agent of 0.3 that keeps the configurations that come with messages, under ids of its own."""

    def __init__(self) -> None:
        self.configs: dict[str, str] = {}

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        if method == "message/send":
            task = f"t-{len(self.configs)}"
            if "pushNotificationConfig" in params.get("configuration", {}):
                self.configs[f"given-to-{task}"] = task
            return {"kind": "task", "id": task, "contextId": "c", "status": {"state": "completed"}}
        if method == "tasks/pushNotificationConfig/delete":
            self.configs.pop(params["pushNotificationConfigId"])
            return None
        task = params["id"]
        if method == "tasks/get":
            return {"kind": "task", "id": task, "contextId": "c", "status": {"state": "completed"}}
        return [{"taskId": task, "pushNotificationConfig": {"id": i}} for i, t in self.configs.items() if t == task]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        asked = await Request(scope, receive).json()
        result = self.answer(asked["method"], asked.get("params", {}))
        await JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result})(scope, receive, send)


async def old_configs() -> tuple[int, int]:
    """Return how many configurations an agent of 0.3 had while it was judged, and how many afterwards."""
    agent = OldAgent()
    async with serve_app(agent) as url:
        card = {"url": url, "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}
        found = targets_of({**card, "capabilities": {"pushNotifications": True}}, url, timeout=2.0)
        async for _ in run_checks(found, select=lambda p: p.requirement.id == "V03-SEND-003"):
            held = len(agent.configs)
    return held, len(agent.configs)


@pytest.mark.slow
def test_no_push_configuration_is_left_behind_on_an_agent_of_0_3() -> None:
    # Two, as the agent notifies nobody, and what depends on time is found only if it comes again.
    assert asyncio.run(old_configs()) == (2, 0)


async def leave_early() -> int:
    async with serve_faulty(None) as running:
        found = await judged(running.url)
        running_checks = run_checks(found)
        async for _ in running_checks:
            break
        await running_checks.aclose()
        return len([t for t in asyncio.all_tasks() if "_run_one" in repr(t)])


def test_leaving_early_stops_the_rest() -> None:
    assert asyncio.run(leave_early()) == 0


async def planned_only() -> list[str]:
    async with serve_faulty(None) as running:
        found = await judged(running.url)
        chosen = [Planned(requirement("SEND-001"), "GRPC")]
        return [r.name + r.outcome async for r in run_checks(found, planned=chosen)]


def test_planned_checks_can_be_given() -> None:
    assert asyncio.run(planned_only()) == ["1.0/SEND-001[GRPC]passed"]


def test_default_prompts() -> None:
    assert Scenarios().get("task") == "Hello"
    assert Scenarios({"default": "Hi"}).get("task") == "Hi"
    assert Scenarios().get("slow") is None
    assert PROMPTS.get("slow") == "slow please"
