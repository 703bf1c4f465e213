"""Trials that miss for a reason that is known: agents that play the reference solution with exactly one planted fault.

``python tests/support/planted_faults.py --out DIR`` holds them all and writes their result files and
``DIR/planted.json``: what was planted in each, and who is to blame. A kind of fault is the label of its trials' keys,
so that one task serves many kinds. Tasks at which the same play without a fault has no success are not used; what did
not keep a trial from its success is marked as harmless.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import planted_crm as crm
import planted_tau2 as tau2
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part as WirePart
from chaos_oracle import harried_agent
from in_thread import served_in_thread
from planted_tau2 import Fails, Planted
from trials import run_against

from pytest_a2a_bench.agents import server
from pytest_a2a_bench.agents.brain import BrainReply, Conversation, RefusalError, bench_task_key, number_calls
from pytest_a2a_bench.agents.executor import BrainExecutor
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.benchmarks.tau2 import benchmark, index, upstream
from pytest_a2a_bench.benchmarks.tau2.user import script as scripted
from pytest_a2a_bench.chaos.faults import Draws
from pytest_a2a_bench.chaos.proxy import Faults
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.model import TrialKey, TrialResult

DOMAINS = ("airline", "retail", "telecom", "mini", "mock")
BLAMES = ("agent", "user", "benchmark", "infrastructure")
CONTROL = "control"
TROUBLE = "I ran into an internal problem and cannot go on."

Patch = Callable[[], contextlib.AbstractContextManager[Any]]


# --- what is planted --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    :param of_tau2: plants it in a tau2 task, or says None where it cannot exist; ``of_crm`` likewise.
    :param domains: where it is tried.
    :param options: settings of its trials that differ.
    :param chaos: the fault that every message meets on its way to the agent.
    :param around: what else is broken while its trials are held.
    """

    name: str
    of_tau2: Callable[[tau2.Scene], Planted | None] | None = None
    of_crm: Callable[[crm.CrmScene], Planted | None] | None = None
    domains: tuple[str, ...] = ("airline", "retail", "telecom")
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    chaos: str | None = None
    around: Patch = contextlib.nullcontext

    def plant(self, domain: str, task_id: str) -> Planted | None:
        """Return the agent that has it in a task; None where that cannot be."""
        if domain == "mini":
            return self.of_crm(crm.scene_of(task_id, self.name)) if self.of_crm else None
        return self.of_tau2(tau2.scene_of(domain, task_id, self.name)) if self.of_tau2 else None


@contextlib.contextmanager
def _raising_evaluator() -> Iterator[None]:
    """Let tau2's evaluator break as it does where a look-up of its own fails."""
    from tau2.evaluator.evaluator_env import EnvironmentEvaluator

    with mock.patch.object(EnvironmentEvaluator, "calculate_reward", side_effect=KeyError("seat")):
        yield


def _leaving_user(at: str, words: str) -> Patch:
    """Let the simulated user leave with some words, where the agent's have something in them."""

    @contextlib.contextmanager
    def patched() -> Iterator[None]:
        make = scripted.make_scripted_user

        def leaving(parts: upstream.Tau2, task: Any, tools: Any = ()) -> Any:
            user = make(parts, task, tools)
            answer = user.generate_next_message

            def reply(message: Any, state: Any) -> tuple[Any, Any]:
                if message.role == "assistant" and at in (message.content or ""):
                    return parts.messages.UserMessage(role="user", content=words, cost=0.0), state
                said: tuple[Any, Any] = answer(message, state)
                return said

            user.generate_next_message = reply
            return user

        with mock.patch.object(benchmark, "make_scripted_user", leaving):
            yield

    return patched


_FEW_STEPS = {"max_steps": 60}
_ALL = ("airline", "retail", "telecom", "mini")
KINDS = (
    Kind("wrong-id", tau2.wrong_id),
    Kind("wrong-amount", tau2.wrong_amount),
    Kind("wrong-enum", tau2.wrong_enum),
    Kind("wrong-text", tau2.wrong_text),
    Kind("wrong-list", tau2.wrong_list),
    Kind("dropped-write", tau2.dropped_write),
    Kind("extra-write-unasked", tau2.extra_write_unasked),
    Kind("extra-write-asked", tau2.extra_write_asked),
    Kind("write-twice", tau2.write_twice),
    Kind("early-transfer", tau2.early_transfer),
    Kind("refuses", tau2.refuses),
    Kind("failed-write-gives-up", tau2.failed_write_gives_up),
    Kind("failed-lookup-gives-up", tau2.failed_lookup_gives_up),
    Kind("invented-tool", tau2.invented_tool),
    Kind("loops-on-call", tau2.loops_on_call, crm.loops_on_query, _ALL, _FEW_STEPS),
    Kind("repeats-sentence", tau2.repeats_sentence, None, options=_FEW_STEPS),
    Kind("silent", tau2.silent, crm.silent, _ALL, _FEW_STEPS),
    Kind("garbage", tau2.garbage, crm.garbage, _ALL, _FEW_STEPS),
    Kind("task-failed", tau2.task_failed, crm.task_failed, _ALL),
    Kind("task-rejected", tau2.task_rejected),
    Kind("tells-wrong-number", tau2.tells_wrong_number),
    Kind("tells-nothing", tau2.tells_nothing),
    Kind("skips-lookup", tau2.skips_lookup),
    Kind("instruction-dropped", tau2.instruction_dropped, domains=("telecom",)),
    Kind("instruction-wrong", tau2.instruction_wrong, domains=("telecom",)),
    Kind("user-hangs-up", tau2.user_hangs_up, around=_leaving_user(tau2.PROCEED, "Yes, please! ###STOP###")),
    Kind(
        "user-out-of-scope",
        tau2.user_out_of_scope,
        around=_leaving_user("Could you tell me your", "I do not know that. ###OUT-OF-SCOPE###"),
    ),
    Kind("evaluator-raises", tau2.evaluator_raises, around=_raising_evaluator),
    Kind("mock-evaluator-raises", tau2.mock_evaluator_raises, domains=("mock",)),
    Kind("connection-reset", tau2.infrastructure, crm.infrastructure, _ALL, chaos="reset"),
    Kind("answer-lost", tau2.infrastructure, crm.infrastructure, _ALL, chaos="after-delivery"),
    Kind("unavailable", tau2.infrastructure, crm.infrastructure, _ALL, chaos="503"),
    Kind("no-query", None, crm.no_query, ("mini",)),
    Kind("never-asks-object", None, crm.never_asks_object, ("mini",)),
    Kind("filter-dates", None, crm.filter_dates, ("mini",)),
    Kind("filter-status", None, crm.filter_status, ("mini",)),
    Kind("picks-another", None, crm.picks_another, ("mini",)),
    Kind("answers-none", None, crm.answers_none, ("mini",)),
    Kind("two-ids", None, crm.two_ids, ("mini",)),
    Kind("malformed-queries", None, crm.malformed_queries, ("mini",)),
    Kind("tells-secret", None, crm.tells_secret, ("mini",)),
    Kind("answers-secret", None, crm.answers_secret, ("mini",)),
)
PLAIN = Kind(CONTROL, tau2.plays_well, crm.plays_well, _ALL)


# --- who plays it -----------------------------------------------------------------------------------------------------


class _TaskFailed(Exception):
    """The agent's A2A task is to end as failed."""


class PlantedBrain:
    """Says the lines of the task that it is asked.

    :param plays: by task key.
    """

    description = "Does its work, but for one thing."

    def __init__(self, plays: Mapping[str, Planted]) -> None:
        self._plays = plays

    async def reply(self, conversation: Conversation) -> BrainReply:
        """Say the next line."""
        line = self._plays[bench_task_key(conversation.metadata) or ""].line(len(conversation.own))
        if not isinstance(line, Fails):
            return BrainReply(number_calls(line, conversation))
        raise _TaskFailed if line.state == "failed" else RefusalError(TROUBLE)


class PlantedExecutor(BrainExecutor):
    """Ends A2A tasks as failed, too."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        try:
            await super().execute(context, event_queue)
        except _TaskFailed:
            assert context.message is not None
            assert context.task_id is not None
            assert context.context_id is not None
            updater = TaskUpdater(event_queue, context.task_id, context.context_id)
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.failed(updater.new_agent_message([WirePart(text=TROUBLE)]))


@contextlib.contextmanager
def planted_agent(plays: Mapping[str, Planted], chaos: str | None = None) -> Iterator[str]:
    """Serve one in a thread of its own, and return its URL."""
    options = AgentOptions("noop", transport="jsonrpc")
    faults = Faults(Draws({chaos: 1.0} if chaos else {}, kinds=("send",)))
    with (
        mock.patch.object(server, "make_brain", return_value=PlantedBrain(plays)),
        mock.patch.object(server, "BrainExecutor", PlantedExecutor),
        served_in_thread(lambda: harried_agent(options, faults)) as url,
    ):
        yield url


# --- which are held ---------------------------------------------------------------------------------------------------


def task_ids(domain: str) -> list[str]:
    """Return the tasks that kinds of faults choose from."""
    if domain == "mini":
        return list(crm.tasks())
    if domain == "mock":
        return ["create_task_1_with_env_assertions"]
    return [task.task_id for task in index.load_tasks(domain, "base")]


def chosen(kind: Kind, domain: str, many: int) -> dict[str, Planted]:
    """Return tasks of a domain in which a kind of fault can be planted, with what is planted."""
    ids = task_ids(domain)
    random.Random(f"{kind.name} {domain}").shuffle(ids)
    found: dict[str, Planted] = {}
    for task_id in ids:
        if len(found) == many:
            break
        planted = kind.plant(domain, task_id)
        if planted is not None:
            found[task_id] = planted
    return found


def _key(domain: str, task_id: str, label: str) -> TrialKey:
    return TrialKey("crmarena" if domain == "mini" else "tau2", domain, task_id, 0, label)


def hold(kind: Kind, plays: Mapping[TrialKey, Planted], folder: Path, **options: Any) -> list[TrialResult]:
    """Hold the trials of one kind of fault; their files are in the folder."""
    settings = Settings(**{"tag_trials": True, "breaker": 0, "user": "scripted", **kind.options, **options})
    if not plays:
        return []
    with kind.around(), planted_agent({k.task_key: one for k, one in plays.items()}, kind.chaos) as url:
        return run_against(url, settings, list(plays), folder)


def _entry(kind: Kind, planted: Planted, result: TrialResult) -> dict[str, Any]:
    """Return what is written down of one trial. Of the trial itself it says only what the user answered a question."""
    assert planted.blame in BLAMES
    about = dict(planted.about)
    if "question" in about:
        about["user_said"] = _answered(result, about["question"])
    entry = {"key": str(result.key), "kind": kind.name, "blame": planted.blame, "about": about}
    return {**entry, "harmless": True} if result.success else entry


def _answered(result: TrialResult, question: str) -> str:
    texts = [(turn.role, turn.text or "") for turn in result.transcript]
    after = next((n for n, said in enumerate(texts) if said == ("agent", question)), len(texts))
    return next((text for role, text in texts[after:] if role == "user"), "")


def run_all(folder: Path, kinds: Sequence[Kind], many: int, concurrency: int) -> list[dict[str, Any]]:
    """Hold everything; return what was planted."""
    # Twice as many where there is one domain only.
    plans = {(k.name, d): chosen(k, d, many if len(k.domains) > 1 else 2 * many) for k in kinds for d in k.domains}
    print("Nowhere to plant:", [f"{kind} in {domain}" for (kind, domain), plays in plans.items() if not plays])
    good = _controlled(folder / CONTROL, plans, concurrency)
    entries: list[dict[str, Any]] = []
    for kind in kinds:
        plays = {
            _key(domain, task_id, kind.name): planted
            for domain in kind.domains
            for task_id, planted in plans[kind.name, domain].items()
            if domain == "mock" or (domain, task_id) in good
        }
        results = hold(kind, plays, folder, concurrency=concurrency)
        found = [_entry(kind, plays[result.key], result) for result in results]
        entries += found
        harmful = sum("harmless" not in one for one in found)
        ends = collections.Counter(f"{r.status}/{r.termination_reason}" for r in results)
        print(f"{kind.name:24} {harmful:3} of {len(found):3}   {dict(ends)}", flush=True)
    return entries


def _controlled(
    folder: Path, plans: Mapping[tuple[str, str], Mapping[str, Planted]], concurrency: int
) -> set[tuple[str, str]]:
    """Return the tasks (domain, id) at which a play without a fault has success."""
    wanted = dict.fromkeys((domain, task_id) for (_, domain), plays in plans.items() for task_id in plays)
    plays = {
        _key(domain, task_id, CONTROL): planted
        for domain, task_id in wanted
        if domain != "mock" and (planted := PLAIN.plant(domain, task_id))
    }
    results = hold(PLAIN, plays, folder, concurrency=concurrency)
    missed = [str(result.key) for result in results if not result.success]
    print(f"{CONTROL:24} {len(results)} tasks; not used: {missed}", flush=True)
    return {(result.key.domain, result.key.task_id) for result in results if result.success}


def main(arguments: Iterable[str] | None = None) -> int:
    """Hold the trials and write down what was planted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory of the results and of planted.json")
    parser.add_argument("--kind", action="append", help="only this kind of fault (may be repeated)")
    parser.add_argument("--many", type=int, default=3, help="tasks of each kind and domain")
    parser.add_argument("--concurrency", type=int, default=4)
    given = parser.parse_args(None if arguments is None else list(arguments))
    kinds = [kind for kind in KINDS if not given.kind or kind.name in given.kind]
    given.out.mkdir(parents=True, exist_ok=True)
    before = time.process_time()
    entries = run_all(given.out, kinds, given.many, given.concurrency)
    (given.out / "planted.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", "utf-8")
    harmful = [entry for entry in entries if "harmless" not in entry]
    print(f"{len(entries)} planted, {len(entries) - len(harmful)} of them harmless")
    print(dict(collections.Counter(entry["blame"] for entry in harmful)))
    print(f"{time.process_time() - before:.0f} CPU seconds")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
