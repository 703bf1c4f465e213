"""Measure what each conformance check costs an agent in messages, and write the table that plans are made from.

    python perf/conformance_cost.py [--check]

Runs every check against the built-in correct agents, again and again with one thing changed (a capability, a prompt, a
binding), and notes who sends what: a check itself, the same check in further cells (as in the profile ``full``), or
something that several checks share. For each the fewest facts are kept from which its messages follow. What a check
kills are the faults of ``builtin:faulty`` that name its requirement; that it does kill them is what
``tests/conformance/test_mutation.py`` proves, fault by fault.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import contextvars
import itertools
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "agents"))

from judged import SCRIPTED
from scripted import scripted_agent

from pytest_a2a_bench.a2a.config import ClientConfig, Credentials
from pytest_a2a_bench.agents.faulty.catalogue import FAULTS, SINGLE
from pytest_a2a_bench.agents.launcher import start_builtin
from pytest_a2a_bench.conformance import engine
from pytest_a2a_bench.conformance.card import fetch_card_async
from pytest_a2a_bench.conformance.check import CHECKS
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.cost.facts import Facts, facts_of
from pytest_a2a_bench.conformance.cost.table import SELF, crossed
from pytest_a2a_bench.conformance.crossing import FILLING
from pytest_a2a_bench.conformance.finding import CheckResult, Requirement
from pytest_a2a_bench.conformance.requirements import load_requirements
from pytest_a2a_bench.conformance.scenarios import SCENARIOS, Scenarios
from pytest_a2a_bench.conformance.session.session import Session, SharedObjects
from pytest_a2a_bench.conformance.session.target import targets_of
from pytest_a2a_bench.conformance.wire.base import WireRequest
from pytest_a2a_bench.conformance.wire.reply import WireReply

OLD = "an agent of 0.3"
OUTPUT = Path(__file__).parents[1] / "pytest_a2a_bench" / "conformance" / "data" / "cost.json"
TOKENS = ("cost-token", "other-cost-token")
OTHER_ENV = "A2A_BENCH_COST_OTHER"
PROMPTS = {key: f"{key} please" for key in SCENARIOS if key not in ("default", "task", "other_token_env")}
# These are refused for what they are about, and not for how they are written.
MEANT = (
    "TaskNotFoundError",
    "TaskNotCancelableError",
    "UnsupportedOperationError",
    "PushNotificationNotSupportedError",
)
ROUGH = {"validation", "errors", "versioning"}

Node = tuple[str, str, str]  # version, binding, name
Change = Callable[[dict[str, Any]], Any]
NODE: contextvars.ContextVar[Node | None] = contextvars.ContextVar("node", default=None)


@dataclass
class Seen:
    """What one run showed of one node."""

    messages: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    needs: set[tuple[str, str]] = field(default_factory=set)
    unsafe: set[str] = field(default_factory=set)

    def case(self, aspect: str | tuple[str, str]) -> dict[str, Any]:
        """As in the table: what it sends, or whether it needs another node."""
        if isinstance(aspect, tuple):
            return {"needs": [list(aspect)]} if aspect in self.needs else {}
        sent = {"messages": dict(sorted(self.messages.items())), "refused": dict(sorted(self.refused.items()))}
        return {name: counts for name, counts in sent.items() if counts}


class Watch:
    """Notes what nodes do while checks run: wraps the three places that messages and shared objects pass."""

    def __init__(self) -> None:
        self.seen: defaultdict[Node, Seen] = defaultdict(Seen)
        self._owners: dict[int, Session] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Wrap them."""
        call, once, run_check, cross = Session.call, SharedObjects.once, engine.run_check, engine.cross

        async def watched_call(session: Session, request: WireRequest) -> WireReply:
            reply = await call(session, request)
            self._note(session, request, reply)
            return reply

        async def watched_once(shared: SharedObjects, key: Any, make: Callable[[], Awaitable[Any]]) -> Any:
            session = next(s for s in self._sessions if s.shared is shared)
            by, node = NODE.get(), (session.target.version, session.target.binding, f"made {_name(key, session)}")
            if by is not None and by != node:
                self.seen[by].needs.add((SELF if by[1] == node[1] else node[1], node[2]))
                # Also where it comes to nothing, so that the table knows when that is.
                self.seen[node]

            async def noted() -> Any:
                NODE.set(node)
                return await make()

            return await once(shared, key, noted)

        async def watched_check(requirement: Requirement, session: Session) -> CheckResult:
            self._sessions.add(session)
            self._sessions.update(session._siblings.values())
            NODE.set((requirement.version, session.target.binding, requirement.id))
            return await run_check(requirement, session)

        async def watched_cross(ctx: Context) -> None:
            NODE.set((ctx.version, ctx.target.binding, crossed(ctx.requirement.id)))
            await cross(ctx)

        self._sessions: set[Session] = set()
        Session.call, SharedObjects.once = watched_call, watched_once  # type: ignore[method-assign]
        engine.run_check, engine.cross = watched_check, watched_cross
        try:
            yield
        finally:
            Session.call, SharedObjects.once = call, once  # type: ignore[method-assign]
            engine.run_check, engine.cross = run_check, cross

    def _note(self, session: Session, request: WireRequest, reply: WireReply) -> None:
        node = NODE.get()
        if node is None:
            return
        here = SELF if node[1] == session.target.binding else session.target.binding
        seen = self.seen[node]
        accepted = reply.ok or bool(reply.events)
        if request.operation in ("SendMessage", "SendStreamingMessage"):
            (seen.messages if accepted else seen.refused)[here] += 1
            if "taskPushNotificationConfig" in str(request.params) or "pushNotificationConfig" in str(request.params):
                seen.unsafe.add("leaves a webhook if it is stopped")
        if request.operation == "CreateTaskPushNotificationConfig":
            seen.unsafe.add("leaves a webhook if it is stopped")
        if not accepted and not (reply.error is not None and any(reply.error.may_be(name) for name in MEANT)):
            seen.unsafe.add("sends what is malformed or not allowed")


def _name(key: Any, session: Session) -> str:
    """Name a shared object; prompts are named by their scenario."""
    if isinstance(key, tuple) and key[0] == "said":
        texts = {session.target.scenarios.get(k): k for k in reversed(SCENARIOS)}
        return f"said {texts.get(key[1], key[1])}"
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


@dataclass
class Run:
    """One way to ask one agent."""

    spec: str = "faulty"
    prompts: tuple[str, ...] = ()
    card: Change = lambda card: None
    bindings: tuple[str, ...] = ()


def runs() -> Iterator[Run]:
    """Return all ways: two starting points, and one thing changed at a time."""
    every = tuple(PROMPTS)
    for prompts in ((), every):
        yield Run(prompts=prompts)
        for spec in ("guarded", "bare", "strict", "tenant"):
            yield Run(f"faulty?variant={spec}&auth_env=FAULTY_TOKENS", prompts)
        for name in ("streaming", "pushNotifications"):
            yield Run(prompts=prompts, card=lambda card, name=name: card["capabilities"].update({name: False}))
        yield Run(prompts=prompts, card=lambda card: card["capabilities"].pop("extensions"))
        for count in (0, 1, 2):
            modes = ["text/plain", "application/json"][:count]
            yield Run(prompts=prompts, card=lambda card, modes=modes: card.update(defaultOutputModes=modes))
        yield Run(prompts=prompts, card=lambda card: card.update(defaultInputModes=["*/*"]))
        for bindings in (("JSONRPC",), ("HTTP+JSON",), ("GRPC",), ("HTTP+JSON", "GRPC")):
            yield Run(prompts=prompts, bindings=bindings)
    for key in every:
        yield Run(prompts=(key,))
        yield Run(prompts=tuple(k for k in every if k != key))
    yield Run(prompts=("input", "input_answer"))
    for prompts in ((), every):
        yield Run(prompts=(*prompts, "task"))
    yield Run(prompts=("slow", "chunks"))
    # 0.3, on an agent of the SDK's that does as it is told.
    told = tuple(key for key in SCRIPTED if key not in ("default", "task"))
    for prompts in ((), told, *((key,) for key in told), *(tuple(k for k in told if k != key) for key in told)):
        yield Run(OLD, prompts)
    for prompts in ((), told):
        for name in ("streaming", "pushNotifications"):
            yield Run(OLD, prompts, card=lambda card, name=name: card["capabilities"].update({name: False}))
    # And on our own, which has every scenario.
    for prompts in ((), every, *((key,) for key in every), *(tuple(k for k in every if k != key) for key in every)):
        yield Run("faulty?protocol=0.3", prompts)


async def watch(run: Run, url: str) -> dict[Node, tuple[Facts, Seen]]:
    """Make all checks once."""
    card, _, _ = await fetch_card_async(url)
    assert isinstance(card, dict)
    run.card(card)
    if run.bindings:
        card["supportedInterfaces"] = [i for i in card["supportedInterfaces"] if i["protocolBinding"] in run.bindings]
    old = run.spec == OLD
    texts = SCRIPTED if old else {**PROMPTS, "task": "task please"}
    prompts = {key: texts[key] for key in (*(("default", "task") if old else ()), *run.prompts)}
    if card.get("securitySchemes"):
        prompts["other_token_env"] = OTHER_ENV
    config = ClientConfig(endpoint=url)
    if card.get("securitySchemes"):
        grpc = tuple({i["url"] for i in card["supportedInterfaces"] if i["protocolBinding"] == "GRPC"})
        config = ClientConfig(endpoint=url, auth=Credentials(TOKENS[0]), allowed_origins=grpc)
    targets = targets_of(card, url, config=config, scenarios=Scenarios(prompts), timeout=20.0, breadth="full")
    interfaces = [(t.binding, t.version) for t in targets]
    targets = tuple(t for t in targets if not old or t.version == "0.3")
    facts = {(t.version, t.binding): facts_of(t, interfaces) for t in targets}
    watch = Watch()
    with watch.watching():
        results = await engine.collect(targets)
    asked = {(r.requirement.version, r.binding, r.requirement.id) for r in results} | set(watch.seen)
    asked |= {(version, binding, crossed(name)) for version, binding, name in asked if (name, version) in CHECKS}
    return {node: (facts[node[:2]], watch.seen[node]) for node in asked if node[:2] in facts}


def decide(observed: list[tuple[Facts, str]], *, retries: bool) -> tuple[tuple[str, ...], dict[tuple[Any, ...], str]]:
    """Return the fewest facts that tell what was observed, and what follows from their values.

    :param retries: whether more messages than the fewest may only mean that something was tried again.
    """
    names = list(observed[0][0])
    # What never differs can tell nothing.
    names = [n for n in names if len({str(facts[n]) for facts, _ in observed}) > 1]
    for count in range(5):
        for chosen in itertools.combinations(names, count):
            cases: dict[tuple[Any, ...], str] = {}
            for facts, case in observed:
                values = tuple(facts[n] for n in chosen)
                cases[values] = min(cases.get(values, case), case, key=_size)
            if all(_agrees(case, cases[tuple(f[n] for n in chosen)], retries) for f, case in observed):
                return chosen, cases
    raise SystemExit(f"no four facts tell {sorted({case for _, case in observed})}")


def _agrees(case: str, least: str, retries: bool) -> bool:
    if case == least or not retries:
        return case == least
    one, other = json.loads(case), json.loads(least)
    same = all(one.get(name) == other.get(name) for name in ("refused", "needs"))
    return same and set(one.get("messages", {})) == set(other.get("messages", {}))


def _may_retry(node: Node) -> bool:
    """Tell whether what a node asks depends on time: those checks try again before they blame an agent."""
    found = next((r for r in load_requirements(node[0]) if r.id == node[2]), None)
    return found is None or engine.mostly_waits(found)


def main() -> int:
    """Measure, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the table is another one")
    options = parser.parse_args()
    os.environ["FAULTY_TOKENS"], os.environ[OTHER_ENV] = ",".join(TOKENS), TOKENS[1]
    observed: defaultdict[Node, list[tuple[Facts, Seen]]] = defaultdict(list)
    every = list(runs())
    for number, run in enumerate(every, 1):
        print(f"{number}/{len(every)} {run.spec} {' '.join(run.prompts)[:60]}", file=sys.stderr)
        with scripted_agent() if run.spec == OLD else start_builtin(run.spec) as agent:
            for node, found in asyncio.run(watch(run, agent.url)).items():
                observed[node].append(found)
    text = (
        json.dumps(table(observed), indent=None, sort_keys=True, ensure_ascii=False).replace(
            '{"bindings"', '\n{"bindings"'
        )
        + "\n"
    )
    if options.check:
        return int(OUTPUT.read_text(encoding="utf-8") != text)
    OUTPUT.write_text(text, encoding="utf-8")
    print(f"written to {OUTPUT}")
    return 0


def table(observed: Mapping[Node, list[tuple[Facts, Seen]]]) -> dict[str, Any]:
    """Return the table's JSON form."""
    rows: dict[str, dict[str, Any]] = {}
    for node, found in sorted(observed.items()):
        version, binding, name = node
        # Each by itself, because each depends on facts of its own.
        wanted: list[str | tuple[str, str]] = ["sends", *sorted(set().union(*(seen.needs for _, seen in found)))]
        # How many tasks there are when it looks is nobody's fact: a plan says how many it may make.
        if name in map(crossed, FILLING):
            wanted.remove("sends")
        for aspect in wanted:
            told = [(facts, json.dumps(seen.case(aspect), sort_keys=True)) for facts, seen in found]
            if all(case == "{}" for _, case in told):
                continue
            chosen, cases = decide(told, retries=_may_retry(node))
            listed = [{"values": list(values), **json.loads(case)} for values, case in sorted(cases.items(), key=str)]
            row = {"version": version, "node": name, "facts": list(chosen), "cases": listed}
            rows.setdefault(json.dumps(row, sort_keys=True), {"bindings": [], **row})["bindings"].append(binding)
    return {"nodes": list(rows.values()), "kills": kills(), "unsafe": unsafe(observed)}


def _size(case: str) -> int:
    read = json.loads(case)
    return sum(read.get("messages", {}).values()) + sum(read.get("refused", {}).values())


def kills() -> dict[str, dict[str, list[str]]]:
    """Return which faults each check finds: those that name its requirement, and are not in one place only."""
    found: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for fault in FAULTS.values():
        # An agent of 0.3 has faults of 1.0, too, everywhere.
        if fault.name.removesuffix("@0.3") in SINGLE:
            for id in fault.breaks:
                found[fault.version][id].add(fault.name)
    return {version: {id: sorted(names) for id, names in sorted(ids.items())} for version, ids in found.items()}


def unsafe(observed: Mapping[Node, list[tuple[Facts, Seen]]]) -> dict[str, dict[str, str]]:
    """Return the checks that are not for an agent in production, each with its reason."""
    engine.load_checks()
    why: dict[Node, set[str]] = {node: set().union(*(s.unsafe for _, s in found)) for node, found in observed.items()}
    # What is made for a check is the check's own doing; objects are made of objects, so until nothing changes.
    changed = True
    while changed:
        changed = False
        for node, found in observed.items():
            for binding, name in set().union(*(s.needs for _, s in found)):
                more = why.get((node[0], node[1] if binding == SELF else binding, name), set()) - why[node]
                changed = changed or bool(more)
                why[node] |= more
    result: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for (version, _, name), reasons in sorted(why.items()):
        if reasons and (name, version) in CHECKS:
            result[version][name] = "; ".join(sorted(reasons))
    return dict(result)


if __name__ == "__main__":
    sys.exit(main())
