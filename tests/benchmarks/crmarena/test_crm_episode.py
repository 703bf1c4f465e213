"""The rules of one conversation with an org, without a wire."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.crmarena import episode as rules
from pytest_a2a_bench.benchmarks.crmarena.episode import RULE, Episode, Observation
from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolReturned, UserSaid


def execute(query: Any = "SELECT Id FROM Case", call_id: str = "c") -> ToolCall:
    return ToolCall("execute", {"query": query}, call_id)


def respond(answer: Any = "42", call_id: str = "r") -> ToolCall:
    return ToolCall("respond", {"answer": answer}, call_id)


def calls(*made: ToolCall) -> AgentSaid:
    return AgentSaid(calls=made)


class Desk:
    """An org that finds two rows in everything but BAD, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, query: str) -> Observation:
        self.asked.append(query)
        if query == "BAD":
            return Observation("Salesforce instance output: MALFORMED_QUERY: no", error=True, seconds=0.25)
        return Observation("Salesforce instance output: [1, 2]", rows=2, seconds=0.25)


class Caller:
    """A user who says the given lines, then is done."""

    kind = "scripted"

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.heard: list[str] = []

    def open(self) -> str:
        return "hello"

    def hear(self, text: str) -> str | None:
        self.heard.append(text)
        return self.lines.pop(0) if self.lines else None


def make(desk: Desk | None = None, **more: Any) -> Episode:
    return Episode("How many?", desk or Desk(), **more)


def test_queries_are_answered_reported_and_counted() -> None:
    desk = Desk()
    episode = make(desk)
    found, refused = (f"Salesforce instance output: {text}" for text in ("[1, 2]", "MALFORMED_QUERY: no"))
    assert episode.step(calls(execute())) == (ToolReturned("c", "execute", found),)
    assert (desk.asked, episode.ended) == (["SELECT Id FROM Case"], None)
    assert [turn.role for turn in episode.transcript] == ["agent", "tool"]
    assert episode.step(calls(execute("BAD"))) == (ToolReturned("c", "execute", refused, True),)
    episode.step(AgentSaid("hm"))
    assert episode.counts.to_json() == {
        "turns": 3,
        "queries": 2,
        "query_errors": 1,
        "rows_read": 2,
        "bad_format": 1,
        "user_turns": 0,
        "query_seconds": 0.5,
    }


@in_one_test(
    ("said", "found"),
    [
        (AgentSaid("The answer is 42."), "neither a query nor an answer"),
        (AgentSaid(""), "neither a query nor an answer"),
        (AgentSaid(None), "neither a query nor an answer"),
        (calls(ToolCall("search", {"q": "x"}, "s")), "no action"),
        (calls(ToolCall("execute", {}, "s")), "without a query"),
        (calls(ToolCall("execute", {"query": "  "}, "s")), "without a query"),
        (calls(ToolCall("respond", {}, "s")), "without an answer"),
    ],
)
def test_a_reply_without_an_action_costs_a_turn_and_is_answered_with_the_rule(said: AgentSaid, found: str) -> None:
    desk = Desk()
    episode = make(desk)
    (expected,) = episode.step(said)
    assert RULE in (expected.text if isinstance(expected, UserSaid) else expected.content)  # type: ignore[union-attr]
    assert isinstance(expected, ToolReturned) == bool(said.calls), "a call has to get a result, words have not"
    assert (episode.counts.turns, episode.counts.bad_format, episode.counts.queries) == (1, 1, 0)
    assert (episode.ended, episode.answer, desk.asked) == (None, None, [])
    assert found in episode.findings[0].message


AGAIN = Caller(*["again"] * 50)


@in_one_test(
    ("options", "said", "asked", "ended", "answer", "turns", "user_turns"),
    [
        ({}, [calls(respond("42"))], 0, "agent_stop", "42", 1, 0),
        ({"max_turns": 1}, [calls(respond("42"))], 0, "agent_stop", "42", 1, 0),
        ({"max_turns": 3}, [AgentSaid("42")] * 3, 0, "max_turns", None, 3, 0),
        ({"max_turns": 2}, [calls(execute()), calls(execute())], 2, "max_turns", None, 2, 0),
        # Each of several calls is a turn, and nothing is done after the last one or after an answer.
        (
            {"max_turns": 3},
            [calls(execute("A"), execute("B")), calls(execute("C"), execute("D"))],
            3,
            "max_turns",
            None,
            3,
            0,
        ),
        ({}, [calls(execute("A"), respond("first"), execute("B"), respond("second"))], 1, "agent_stop", "first", 2, 0),
        # A user who is never done is cut off, and so is an agent that goes on answering.
        ({"user": AGAIN, "max_user_turns": 3}, [calls(respond("42"))] * 3, 0, "max_user_turns", "42", 3, 3),
        ({"user": AGAIN, "max_turns": 2, "max_user_turns": 50}, [calls(respond("42"))] * 2, 0, "max_turns", "42", 2, 2),
    ],
)
def test_when_a_conversation_ends(
    options: dict[str, Any],
    said: list[AgentSaid],
    asked: int,
    ended: str,
    answer: str | None,
    turns: int,
    user_turns: int,
) -> None:
    desk = Desk()
    episode = make(desk, **options)
    opened = episode.open()
    assert opened == (UserSaid("hello" if "user" in options else "How many?"),)
    for number, reply in enumerate(said, start=1):
        assert bool(episode.step(reply)) == (number < len(said))
    assert (len(desk.asked), episode.ended, episode.answer) == (asked, ended, answer)
    assert (episode.counts.turns, episode.counts.user_turns) == (turns, user_turns)


def test_an_interactive_conversation_goes_on_until_the_user_is_done() -> None:
    user = Caller("more", "and more")
    episode = make(user=user)

    assert episode.open() == (UserSaid("hello"),)
    assert episode.step(AgentSaid("thinking aloud")) == (UserSaid(RULE),)
    assert [finding.rule for finding in episode.findings] == ["not-an-action"]
    assert episode.step(calls(respond("one"))) == (UserSaid("more"),)
    assert episode.findings == []
    assert episode.step(calls(execute())) == (ToolReturned("c", "execute", "Salesforce instance output: [1, 2]"),)
    assert episode.step(calls(respond("two"))) == (UserSaid("and more"),)
    assert episode.step(calls(respond("three"))) == ()
    assert (episode.ended, episode.answer, user.heard) == ("user_stop", "three", ["one", "two", "three"])
    assert episode.counts.user_turns == 3
    assert [t.text for t in episode.transcript if t.role == "user"] == ["hello", RULE, "more", "and more"]
    assert [t.text for t in episode.transcript if t.role == "agent"] == ["thinking aloud", None, None, None, None]


SAID = st.one_of(
    st.text(max_size=8).map(AgentSaid),
    st.lists(
        st.builds(
            ToolCall,
            st.sampled_from(["execute", "respond", "other"]),
            st.dictionaries(
                st.sampled_from(["query", "answer", "x"]), st.none() | st.text(max_size=5) | st.lists(st.integers())
            ),
        ),
        min_size=1,
        max_size=4,
    ).map(lambda made: AgentSaid(calls=tuple(made))),
)


@pytest.mark.slow
@given(st.lists(SAID, max_size=12), st.integers(1, 6), st.booleans())
def test_every_conversation_ends_within_its_turns(said: list[AgentSaid], most: int, interactive: bool) -> None:
    episode = make(user=Caller("a", "b") if interactive else None, max_turns=most, max_user_turns=3)
    episode.open()

    for reply in said:
        if episode.ended:
            break
        expected = episode.step(reply)
        assert bool(expected) == (episode.ended is None), "the agent is told something exactly while it goes on"

    assert episode.counts.turns <= most
    assert episode.counts.bad_format + episode.counts.queries + episode.answers == episode.counts.turns
    assert episode.ended in (None, rules.AGENT_STOP, rules.USER_STOP, rules.MAX_TURNS, rules.MAX_USER_TURNS)
    assert episode.ended is not None or episode.counts.turns < most


def test_plain_text_is_the_answer_of_an_agent_that_was_told_so() -> None:
    episode = make(prose_answers=True)
    episode.open()
    assert episode.step(AgentSaid(text=" None ")) == ()
    assert (episode.ended, episode.answer) == (rules.AGENT_STOP, "None")
    assert [finding.rule for finding in episode.findings] == ["prose-as-answer"]
    empty = make(prose_answers=True)
    empty.open()
    assert empty.step(AgentSaid(text=" ")) == (UserSaid(RULE),)
