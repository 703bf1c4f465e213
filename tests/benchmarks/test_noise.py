"""Noise: what an agent reads in place of what is there, and that nothing it does makes a task impossible."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from examples import sampled
from one_test import in_one_test
from trials import RunTrials

from pytest_a2a_bench.benchmarks.noise import CHANGES, FAILURES, STYLES, Noise, Written, cut, without_newest
from pytest_a2a_bench.config.settings import NOISY, Settings
from pytest_a2a_bench.model import AgentSaid, Event, ToolCall, ToolReturned, TrialKey, UserSaid
from pytest_a2a_bench.results.gates.noise import events_of

ORDERS = json.dumps([{"id": f"o{n}", "status": "open" if n % 2 else "sent"} for n in range(6)])


class Agent:
    """Answers with prepared words and keeps what it was told."""

    def __init__(self, *says: AgentSaid) -> None:
        self._says = list(says)
        self.message: list[Sequence[Event]] = []

    def __call__(self, new: Sequence[Event]) -> AgentSaid:
        self.message.append(list(new))
        return self._says.pop(0)


def noise(only: Any = None, **rates: Any) -> Noise:
    made = Noise({name.replace("_", "-"): value for name, value in rates.items()}, "300/tau2/airline/1/0", only)
    made.reads = {"read"}
    return made


def read(identifier: str = "c1", **arguments: Any) -> AgentSaid:
    return AgentSaid(calls=(ToolCall("read", arguments, identifier),))


@in_one_test("kind", ["tool-error", "tool-timeout"])
def test_a_call_that_fails_is_not_carried_out_and_works_again(kind: str) -> None:
    agent, made = Agent(read(), read("c2")), noise(**{kind: 1.0})
    said = made.around([UserSaid("hello")], agent)
    assert said == read("c2")
    ((answer,),) = agent.message[1:]
    assert isinstance(answer, ToolReturned)
    assert (answer.call_id, answer.error) == ("c1", True)
    (event,) = made.events
    assert (event.kind, event.turn, event.tool, event.got, event.true) == (kind, 2, "read", answer.content, "")


def test_of_several_calls_those_that_fail_are_answered_in_their_place() -> None:
    calls = tuple(ToolCall("write", {"n": n}, f"c{n}") for n in range(8))
    agent, made = Agent(AgentSaid(calls=calls), AgentSaid("done")), noise(tool_error=0.5)
    carried_out = made.around([], agent).calls
    assert 0 < len(carried_out) < 8
    made.around([ToolReturned(call.id, call.name, "ok") for call in carried_out], agent)
    message = [event for event in agent.message[1] if isinstance(event, ToolReturned)]
    assert [event.call_id for event in message] == [call.id for call in calls]
    assert [event.call_id for event in message if not event.error] == [call.id for call in carried_out]


@in_one_test("kind", ["partial", "wrong"])
def test_an_answer_is_changed_once(kind: str) -> None:
    agent, made = Agent(read(), read("c2"), AgentSaid("bye")), noise(**{kind: 1.0})
    made.around([], agent)
    made.around([ToolReturned("c1", "read", ORDERS)], agent)
    made.around([ToolReturned("c2", "read", ORDERS)], agent)
    ((first,), (second,)) = agent.message[1:]
    assert isinstance(first, ToolReturned)
    assert isinstance(second, ToolReturned)
    assert first.content != ORDERS
    assert second.content == ORDERS
    (event,) = made.events
    assert (event.got, event.true) == (first.content, ORDERS)


def test_a_wrong_value_is_another_valid_one() -> None:
    agent, made = Agent(read(), AgentSaid("bye")), noise(wrong=1.0)
    made.around([], agent)
    made.around([ToolReturned("c1", "read", ORDERS)], agent)
    rows, true = json.loads(agent.message[1][0].content), json.loads(ORDERS)  # type: ignore[union-attr]
    differing = [(a[key], b[key], key) for a, b in zip(rows, true, strict=True) for key in a if a[key] != b[key]]
    ((got, was, key),) = differing
    assert got != was
    assert got in {row[key] for row in true}


def test_noise_leaves_writes_and_failed_reads_unchanged_and_a_stale_answer_is_of_before() -> None:
    agent, made = Agent(AgentSaid(calls=(ToolCall("write", {}, "c1"),)), read(), AgentSaid("bye")), noise(wrong=1.0)
    made.around([], agent)
    made.around([ToolReturned("c1", "write", ORDERS)], agent)
    made.around([ToolReturned("c1", "read", ORDERS, error=True)], agent)
    assert not made.events
    agent, made = Agent(read(), AgentSaid("bye")), noise(stale=1.0)
    made.stale = lambda call: "[1]" if call.name == "read" else None
    made.around([], agent)
    made.around([ToolReturned("c1", "read", "[2]")], agent)
    assert [event.content for event in agent.message[1] if isinstance(event, ToolReturned)] == ["[1]"]


def test_the_same_calls_meet_the_same_noise_in_any_order() -> None:
    def events(order: Sequence[int]) -> dict[str, str]:
        made = noise(tool_error=0.2, partial=0.4, wrong=0.4)
        for n in order:
            # A call that fails is made again.
            agent = Agent(read(n=n), read(n=n), AgentSaid("bye"))
            made.around([], agent)
            made.around([ToolReturned("c1", "read", ORDERS)], agent)
        return {event.id: event.got for event in made.events}

    found = events(range(40))
    assert found == events(range(39, -1, -1))
    assert {name.partition(":")[0] for name in found} == {"tool-error", "partial", "wrong"}


def test_only_chosen_events_happen() -> None:
    whole, chosen = noise(tool_error=1.0), noise([], tool_error=1.0)
    for made in (whole, chosen):
        made.around([], Agent(read(), read()))
    (event,) = whole.events
    assert not chosen.events
    again = noise([event.id], tool_error=1.0, wrong=1.0)
    again.around([], Agent(read(), read()))
    assert [found.id for found in again.events] == [event.id]


@in_one_test("style", sorted(STYLES))
def test_a_user_s_words_are_not_lost(style: str) -> None:
    agent, made = Agent(*[AgentSaid("Yes?")] * 4), noise(user=style)
    words = ["My name is Mei Patel (id mei_patel_7272). Please cancel order #W123. Thank you for everything.", "Yes."]
    for text in (*words, "Bye.", "Bye."):
        made.around([UserSaid(text)], agent)
    heard = " ".join(event.text for new in agent.message for event in new if isinstance(event, UserSaid))
    for fact in ("Mei Patel", "mei_patel_7272", "#W123", "Yes."):
        assert fact in heard
    assert made.events[0].true == words[0]


def test_a_model_s_words_are_its_own() -> None:
    agent, made = Agent(AgentSaid("Yes?")), noise(user="chatty")
    made.styled = True
    made.around([UserSaid("Hello.")], agent)
    assert agent.message == [[UserSaid("Hello.")]]
    assert STYLES["chatty"] in made.instruction


@in_one_test(
    ("text", "left"),
    [
        ("[1, 2, 3]", "[1, 2]\n(partial result: 2 of 3 items; call again for all)"),
        ('{"id": 1, "items": ["a", "b"]}', '{"id": 1, "items": ["a"]}\n(partial result: 1 of 2 items'),
        ("Salesforce instance output: [{'Id': 1}, {'Id': 2}]", "Salesforce instance output: [{'Id': 1}]\n(partial"),
        ("[1]", None),
        ('{"id": 1}', None),
        ("done", None),
        ("see [1", None),
    ],
)
def test_cut(text: str, left: str | None) -> None:
    found = Written.read(text)
    shorter = cut(found) if found is not None else None
    assert shorter is None if left is None else str(shorter).startswith(left)


@in_one_test(
    ("text", "left"),
    [
        ("[{'d': '2024-01-02'}, {'d': '2024-01-01'}]", "[{'d': '2024-01-01'}]"),
        ('[{"d": "2024-01-02T10:00"}, {"d": "2024-01-02T11:00"}]', '[{"d": "2024-01-02T10:00"}]'),
        ("[{'d': '2024-01-02'}, {'d': '2024-01-02'}]", None),
        ("[{'n': 1}, {'n': 2}]", None),
        ("{'d': '2024-01-02'}", None),
    ],
)
def test_without_newest(text: str, left: str | None) -> None:
    found = Written.read(text)
    assert found is not None
    assert without_newest(found) == left


# What noise costs the built-in agents in each domain: the careful one nothing, the other one tasks of every kind.


TASKS = {
    "tau2/mock": ["create_task_1", "update_task_with_message_history"],
    "tau2/airline": ["14"],
    "tau2/retail": ["103"],
    "tau2/telecom": [
        "[service_issue]overdue_bill_suspension|unseat_sim_card[PERSONA:Easy]",
        "[mms_issue]airplane_mode_on|bad_network_preference|data_usage_exceeded[PERSONA:None]",
    ],
    "crmarena/mini": ["handle_time-07"],
}


@pytest.mark.parametrize(("domain", "kind"), sampled(itertools.product(TASKS, (*FAILURES, *CHANGES)), 9))
def test_the_careful_agent_loses_nothing_and_the_other_one_does(run_trials: RunTrials, domain: str, kind: str) -> None:
    keys = [TrialKey.parse(f"{domain}/{task}#0:{NOISY}") for task in TASKS[domain]]
    settings = Settings(noise={kind: 1.0}, tag_trials=True)
    careful, oracle = (run_trials(agent, settings, keys) for agent in ("careful", "oracle"))
    assert [result.reward for result in careful] == [1.0] * len(keys)
    assert min(result.reward for result in oracle) < 1.0
    assert {event["kind"] for result in careful for event in events_of(result)} == {kind}
