"""Upstream's evaluation of one simulation, and the explanation of its result, by one more turn too.

The reward is ``evaluate_simulation``'s, with the official evaluation type; nothing here changes a number.
Where a database is not as it should be, :func:`differences` says what differs.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from pytest_a2a_bench.a2a.session import AgentSession
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.tau2 import llm, shortcuts
from pytest_a2a_bench.benchmarks.tau2.index import find_edition
from pytest_a2a_bench.benchmarks.tau2.llm import TOKENS
from pytest_a2a_bench.benchmarks.tau2.upstream import (
    Tau2,
    accepted,
    begin,
    build_environment,
    load,
    paused_collector,
    read_task,
)
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import A2ABenchError, EvaluatorError
from pytest_a2a_bench.model import ExtraTurn, Reward, RewardCheck, TrialResult, Turn, Usage, UserFault
from pytest_a2a_bench.text import one_line

# Of a database; more differences say no more.
_MAX_DIFF = 25
_BASIS_OF_KIND = {
    "db": "DB",
    "env_assertion": "ENV_ASSERTION",
    "action": "ACTION",
    "communicate": "COMMUNICATE",
    "nl_assertion": "NL_ASSERTION",
}


def _has_nl_basis(tau2: Tau2, task: Any) -> bool:
    """Return whether natural-language assertions are part of the task's reward basis."""
    criteria = task.evaluation_criteria
    return criteria is not None and tau2.reward_type.NL_ASSERTION in criteria.reward_basis


def needs_judge(tau2: Tau2, task: Any) -> bool:
    """Return whether evaluating the task calls the judge: with no assertion to judge, upstream does not."""
    return _has_nl_basis(tau2, task) and bool(task.evaluation_criteria.nl_assertions)


def evaluation_type(tau2: Tau2, task: Any) -> Any:
    """Return the official type: everything in the task's reward basis, with the judge exactly where it is in it."""
    kinds = tau2.evaluation_type
    return kinds.ALL_WITH_NL_ASSERTIONS if _has_nl_basis(tau2, task) else kinds.ALL


def evaluate(tau2: Tau2, domain: str, task: Any, simulation: Any, live: Any, env_kwargs: Mapping[str, Any]) -> Reward:
    """Evaluate a finished simulation.

    :param live: the environment that the simulation ran in, which shows differences from the gold.
    :raises LLMError: if the judge's model does not answer.
    :raises EvaluatorError: if upstream's evaluator raises (as it does for a few mock tasks whose assertion looks up
        what the agent never created).
    """
    function = tau2.evaluate_simulation
    stock = functools.partial(
        function,
        simulation=simulation,
        task=task,
        evaluation_type=evaluation_type(tau2, task),
        solo_mode=False,
        domain=domain,
        **accepted(function, env_kwargs=dict(env_kwargs)),
    )
    try:
        with shortcuts.comparing_states():
            info = stock()
    # Ours say already whose trouble they are.
    except A2ABenchError:
        raise
    except Exception as exc:
        raise EvaluatorError(
            f"{tau2.distribution}'s own evaluator raised {type(exc).__name__}: {exc}; there is no reward for task "
            f"{task.id!r} of {domain} after this conversation (it ended by {simulation.termination_reason.value})"
            + "; in this tutorial domain it raises where an agent creates no task"
            * (domain == "mock")
        ) from exc
    reward = to_reward(info.model_dump(mode="json"))
    # Only where they differ: it takes another environment.
    if info.db_check is not None and not info.db_check.db_match and not reward.success:
        return _with_diff(reward, tuple(gold_diff(tau2, domain, task, live, env_kwargs)))
    return reward


def _with_diff(reward: Reward, diff: tuple[str, ...]) -> Reward:
    shown = diff[:_MAX_DIFF]
    if len(diff) > _MAX_DIFF:
        shown = (*shown, f"... and {len(diff) - _MAX_DIFF} more")
    return dataclasses.replace(reward, db_diff=shown)


def to_reward(info: Mapping[str, Any]) -> Reward:
    """Translate upstream's ``RewardInfo`` (as JSON) into our vocabulary."""
    basis = tuple(str(b) for b in info.get("reward_basis") or ())
    details = info.get("info") or {}
    return Reward(
        value=float(info["reward"]),
        basis=basis,
        breakdown={str(k): float(v) for k, v in (info.get("reward_breakdown") or {}).items()},
        checks=tuple(_checks(info, basis)),
        note=str(details.get("note") or ""),
        info=info,
    )


def _checks(info: Mapping[str, Any], basis: tuple[str, ...]) -> Iterator[RewardCheck]:
    def check(kind: str, description: str, met: bool, detail: str = "") -> RewardCheck:
        return RewardCheck(kind, description, met, _BASIS_OF_KIND[kind] in basis, detail)

    if info.get("db_check"):
        yield check("db", "the database is what the gold actions make it", bool(info["db_check"]["db_match"]))
    for item in info.get("env_assertions") or ():
        call = item["env_assertion"]
        yield check("env_assertion", f"{call['func_name']}({_arguments(call['arguments'])})", bool(item["met"]))
    for item in info.get("action_checks") or ():
        action = item["action"]
        name = f"{action.get('requestor', 'assistant')}: {action['name']}({_arguments(action['arguments'])})"
        yield check("action", name, bool(item["action_match"]))
    for item in info.get("communicate_checks") or ():
        yield check("communicate", str(item["info"]), bool(item["met"]), str(item.get("justification") or ""))
    for item in info.get("nl_assertions") or ():
        yield check("nl_assertion", str(item["nl_assertion"]), bool(item["met"]), str(item.get("justification") or ""))


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={json.dumps(v, default=str)}" for k, v in arguments.items())


def gold_diff(tau2: Tau2, domain: str, task: Any, live: Any, env_kwargs: Mapping[str, Any]) -> Iterator[str]:
    """Report where the live databases differ from the databases after the gold actions."""
    gold = gold_environment(tau2, domain, task, env_kwargs)
    for name, expected, found in (("", gold.tools, live.tools), ("user ", gold.user_tools, live.user_tools)):
        if expected is not None and found is not None:
            yield from diff(*shortcuts.dump_differing(expected.db, found.db), f"{name}db")


def gold_environment(tau2: Tau2, domain: str, task: Any, env_kwargs: Mapping[str, Any]) -> Any:
    """Return an environment in which the gold was replayed.

    It is made as upstream's evaluator makes it: initial state, then the gold actions, errors ignored.
    """
    # Made anew: tools change their database in place.
    gold = tau2.registry.get_env_constructor(domain)(**env_kwargs)
    begin(gold, task)
    for action in task.evaluation_criteria.actions or []:
        try:
            gold.make_tool_call(tool_name=action.name, requestor=action.requestor, **action.arguments)
        except Exception:  # a gold action that fails is part of some gold runs, and upstream goes on too
            continue
    return gold


def diff(expected: Any, found: Any, path: str) -> Iterator[str]:
    """Compare two JSON values, one line per difference."""
    for place, left, right in differences(expected, found, path):
        if right is ABSENT:
            yield f"{place}: expected {short(left)}, it is not there"
        elif left is ABSENT:
            yield f"{place}: {short(right)} should not be there"
        else:
            yield f"{place}: expected {short(left)}, found {short(right)}"


def rescore(result: TrialResult, settings: Settings) -> Reward:
    """Evaluate a stored conversation; see :class:`~pytest_a2a_bench.benchmarks.tau2.benchmark.Tau2Benchmark`."""
    edition = find_edition(settings)
    tau2 = load(with_llm=settings.judge_llm is not None, data=edition.data)
    task = read_task(tau2, result.key.domain, result.key.task_id, edition.data)
    simulation = _simulation(tau2, result)
    judged = needs_judge(tau2, task)
    if judged:
        llm.require_judge(result.key, settings)
    # With the documents that the agent had, whatever is chosen now.
    environment, kwargs = build_environment(tau2, result.key.domain, task, result.provenance.get("retrieval"))
    simulation.messages = list(_without_foreign_tools(environment, simulation.messages))
    # As in a trial: it builds a database; a judge waits for its model, and the collector must not be off so long.
    with paused_collector():
        _replay(environment, task, simulation.messages)
    with llm.judging(tau2, result.key, settings) if judged else paused_collector():
        return evaluate(tau2, result.key.domain, task, simulation, environment, kwargs)


def _simulation(tau2: Tau2, result: TrialResult) -> Any:
    if result.simulation is None:
        raise EvaluatorError(f"the file of {result.key} has no conversation in tau2's form (simulation)")
    try:
        return tau2.simulation_class.model_validate(result.simulation)
    except ValidationError as exc:
        raise EvaluatorError(
            f"{tau2.distribution} cannot read the conversation of {result.key}: {exc.error_count()} fields are wrong, "
            f"the first is {'.'.join(map(str, exc.errors()[0]['loc']))}"
        ) from exc


def _without_foreign_tools(environment: Any, messages: Sequence[Any]) -> Iterator[Any]:
    """Yield the messages without calls of tools that are not installed, such as a fork's or an agent's invention.

    Whether these made a difference shows in what the tools that are installed answer after them.
    """
    own = {"assistant": environment.tools, "user": environment.user_tools}
    foreign: set[str] = set()
    for message in messages:
        calls = getattr(message, "tool_calls", None)
        if not calls:
            if message.role != "tool" or message.id not in foreign:
                yield message
            continue
        kit = own[message.role]
        foreign |= {c.id for c in calls if kit is None or not kit.has_tool(c.name)}
        if kept := [call for call in calls if call.id not in foreign]:
            yield message.model_copy(update={"tool_calls": kept})


def _replay(environment: Any, task: Any, messages: list[Any]) -> None:
    """Bring an environment to where the conversation left it; it is read for the difference from the gold only."""
    try:
        begin(environment, task, messages)
    except Exception as exc:  # upstream raises ValueError where a tool answers otherwise than it is recorded
        found = one_line(str(exc), 300)
        raise EvaluatorError(f"the recorded tool calls lead elsewhere with the data installed now: {found}") from exc


ABSENT: Final = object()
"""In place of a member that is only on the other side."""


def differences(left: Any, right: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the place of each difference, and the value on either side."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys(), key=str):
            yield from differences(left.get(key, ABSENT), right.get(key, ABSENT), f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for position, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(one, other, f"{path}[{position}]")
    # 1 and True, 5 and 5.0 hash differently.
    elif left != right or type(left) is not type(right):
        yield path, left, right


def short(value: Any, limit: int = 160) -> str:
    """Return a value as JSON, cut where it is long."""
    text = "nothing" if value is ABSENT else json.dumps(value, default=str, sort_keys=True)
    return text if len(text) <= limit else text[: limit - 3] + "..."


FAREWELLS = 3
"""How many texts in a row a user may say after everything was done before the missing stop is its fault."""

Evaluate = Callable[[Any], Reward]
"""Evaluates a simulation of tau2's; raises ``A2ABenchError``."""


def take_extra_turn(
    orchestrator: Any,
    simulation: Any,
    conversation: Conversation,
    session: AgentSession,
    evaluate: Evaluate,
    translate: Callable[[Sequence[Any]], Sequence[Turn]],
    judge: list[Usage],
) -> ExtraTurn:
    """Let the agent answer the user's last words, with tool calls until its next message to the user.

    :param orchestrator: of the conversation that the user ended; a copy of it goes on, within the same bounds.
    :param simulation: its return value.
    :param translate: returns the turns of some messages.
    :param judge: its cost grows by the evaluation's.
    """
    last = orchestrator.trajectory[-1]
    words = TOKENS.sub(" ", last.content or "").strip()
    if not words:
        return ExtraTurn(note="the user said nothing beside the token that ended the conversation")
    on = copy.copy(orchestrator)
    on.message = last.model_copy(update={"content": words})
    on.trajectory = [*orchestrator.trajectory[:-1], on.message]
    # The agent under test answers itself, whatever it would have been transferred to.
    on.agent_state, on.done, on.termination_reason = conversation, False, None
    lost = "the agent had ended its task, and the next message opened another one" if session.has_ended_task else ""
    with session.aside(), conversation.aside():
        note = _step(on)
        if session.has_moved:
            lost = "the agent opened a new context"
        requests, usage = session.request_count, conversation.usage
    reward = None
    if not note:
        try:
            reward = evaluate(simulation.model_copy(update={"messages": on.get_trajectory()})).value
        except A2ABenchError as error:
            note = one_line(str(error), 300)
    followed = tuple(translate(on.trajectory)[len(orchestrator.trajectory) :])
    return ExtraTurn(reward, note or lost, followed, requests, usage, sum(judge, Usage()))


def _step(orchestrator: Any) -> str:
    """Go on until the agent speaks to the user; return what prevented that."""
    try:
        while not orchestrator.done and _name(orchestrator.to_role) != "user":
            waits = _name(orchestrator.to_role) == "env"
            if not waits and orchestrator.step_count >= orchestrator.max_steps:
                return "the conversation had reached max-steps"
            if not waits and orchestrator.num_errors >= orchestrator.max_errors:
                return "the conversation had reached max-errors"
            orchestrator.step()
    # The trial has its reward: nothing that happens now may cost it.
    except Exception as error:
        return one_line(f"{type(error).__name__}: {error}", 300)
    return ""


def _name(role: Any) -> str:
    return str(getattr(role, "value", role))


def fault_of(extra: ExtraTurn, transcript: Sequence[Turn]) -> UserFault | None:
    """Return the user's fault that an extra turn proves."""
    if extra.verdict != "proven":
        return None
    calls = list(dict.fromkeys(call.name for turn in extra.transcript for call in turn.calls))
    said = one_line(transcript[-1].text or "", 160)
    did = f"called {', '.join(calls)}" if calls else "gave the answer that was missing"
    return UserFault(
        "ended_before_the_write", f"reward 1.0 with one more turn: after {said!r} the agent {did}", len(transcript) - 1
    )


def never_stopped(simulation: Any, stop: Any, transcript: Sequence[Turn], evaluate: Evaluate) -> UserFault | None:
    """Return the fault of a user that went on until ``max_steps`` after everything was done.

    :param stop: tau2's reason of an end by the user.
    """
    texts = 0
    for turn in reversed(transcript):
        if turn.calls or turn.role == "tool":
            break
        texts += turn.role == "user"
    if texts < FAREWELLS:
        return None
    with contextlib.suppress(A2ABenchError):
        if evaluate(simulation.model_copy(update={"termination_reason": stop})).success:
            message = f"reward 1.0 had the user stopped: nobody called a tool in its last {texts} messages"
            return UserFault("never_stopped", message, len(transcript) - 1)
    return None
