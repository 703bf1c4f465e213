import asyncio
from typing import Any

import pytest
from one_test import in_one_test

from pytest_a2a_bench.agents import brains
from pytest_a2a_bench.agents.brain import Conversation, Memory, RefusalError, bench_task_key
from pytest_a2a_bench.agents.brains import FAREWELL, Oracle, make_brain, next_line
from pytest_a2a_bench.agents.options import AgentOptions
from pytest_a2a_bench.benchmarks.registry import Gold
from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.benchmarks.tau2.player import read_gold
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.dialects.reading import DecodedRequest
from pytest_a2a_bench.model import AgentSaid, Briefing, ToolCall, ToolReturned, ToolSpec, UserSaid

BRIEFING = Briefing("Be kind.", (ToolSpec("look"), ToolSpec("book")))
LOOK = ToolCall("look", {"id": 7}, "c1")
BOOK = ToolCall("book", {"id": 7}, "c2")


def load_gold(key: str) -> Gold:
    return brains.load_gold(key, Settings())


def tagged(task: str) -> dict[str, Any]:
    return {"a2a_bench": {"task": task, "trial": 0}}


class TestConversation:
    def test_a_briefing_starts_the_history_anew(self) -> None:
        conversation = Conversation()
        conversation.hear(DecodedRequest(BRIEFING, (UserSaid("one"),)), {})
        conversation.say(AgentSaid("two"))
        conversation.hear(DecodedRequest(BRIEFING, (UserSaid("one"), AgentSaid("two"), UserSaid("three"))), {})
        assert conversation.history == [UserSaid("one"), AgentSaid("two"), UserSaid("three")]
        assert conversation.own == [AgentSaid("two")]

    def test_bare_text_after_a_call_is_its_result(self) -> None:
        conversation = Conversation()
        conversation.say(AgentSaid(calls=(LOOK, BOOK)))
        conversation.hear(DecodedRequest(None, (UserSaid("found"), UserSaid("booked"), UserSaid("thanks"))), {})
        results = (ToolReturned("c1", "look", "found"), ToolReturned("c2", "book", "booked"))
        assert tuple(conversation.history[1:]) == (*results, UserSaid("thanks"))

    def test_results_answer_calls_by_id_then_name_then_order(self) -> None:
        def left(result: ToolReturned) -> list[ToolCall]:
            return Conversation(history=[AgentSaid(calls=(LOOK, BOOK)), result]).unanswered()

        assert left(ToolReturned("c2", "look", "by id")) == [LOOK]
        assert left(ToolReturned("", "book", "by name")) == [LOOK]
        assert left(ToolReturned("", "", "in order")) == [BOOK]


class TestMemory:
    def test_the_least_recently_used_is_forgotten(self) -> None:
        memory = Memory(2)
        first = memory.open("a", "data")
        memory.open("b", "data")
        assert memory.recall("a") is first
        memory.open("c", "data")
        assert (memory.recall("a"), memory.recall("b"), len(memory)) == (first, None, 2)


@in_one_test("metadata", [{}, {"a2a_bench": None}, {"a2a_bench": "x"}, {"a2a_bench": {"task": 3}}])
def test_odd_tags_are_no_tags(metadata: dict[str, Any]) -> None:
    assert bench_task_key(metadata) is None


class TestGold:
    def test_the_users_actions_become_instructions_in_words_where_its_tools_have_some(self) -> None:
        grant = {"app_name": "messaging", "permission": "sms"}
        actions = [
            {"name": "a", "arguments": {"x": 1}, "requestor": "assistant"},
            {"name": "b", "arguments": {}, "requestor": "user"},
            {"name": "grant_app_permission", "arguments": grant, "requestor": "user"},
            {"name": "c", "arguments": None},
        ]
        gold = read_gold({"evaluation_criteria": {"actions": actions, "communicate_info": None}})
        assert gold.calls == (ToolCall("a", {"x": 1}), ToolCall("c", {}))
        assert gold.instructions == ("Please use b.", "Please grant the messaging app the sms permission.")

    def test_a_task_that_only_asserts_is_fulfilled(self) -> None:
        gold = load_gold("tau2/mock/update_task_with_history_and_env_assertions")
        tools = Briefing("", (ToolSpec("create_task"), ToolSpec("update_task_status")))
        assert gold.plan(tools) == (ToolCall("update_task_status", {"task_id": "task_2", "status": "completed"}),)
        assert gold.plan(Briefing("", (ToolSpec("create_task"),))) == ()

    @in_one_test("key", ["tau2", "tau2/airline", "tau2/airline/", ""])
    def test_a_key_that_is_none_is_refused(self, key: str) -> None:
        with pytest.raises(LookupError, match="is not the key of a task"):
            load_gold(key)

    @in_one_test("domain", ["airline", "retail", "telecom", "mock"])
    def test_closings_pass_upstreams_substring_check_and_ask_nothing(self, domain: str) -> None:
        tasks = index.load_tasks(domain, "base")
        for task in tasks:
            gold = load_gold(task.key().task_key)
            heard = gold.closing.lower().replace(",", "")
            assert [text for text in gold.communicate if text.lower() not in heard] == []
            assert "?" not in gold.closing
        assert tasks


class TestOracle:
    GOLD = Gold((LOOK, BOOK), ("42", "7 June"))

    def drive(self, gold: Gold, turns: int) -> list[AgentSaid]:
        conversation = Conversation()
        conversation.hear(DecodedRequest(BRIEFING, (UserSaid("hello"),)), {})
        for _ in range(turns):
            said = next_line(gold, conversation)
            conversation.say(said)
            results = tuple(ToolReturned(c.id, c.name, "ok") for c in said.calls)
            conversation.hear(DecodedRequest(None, results or (UserSaid("and now"),)), {})
        return conversation.own

    def test_it_plays_one_call_a_turn_then_tells_then_bids_farewell(self) -> None:
        said = self.drive(self.GOLD, 5)
        assert [tuple(c.name for c in s.calls) for s in said] == [("look",), ("book",), (), (), ()]
        assert [s.text for s in said] == [None, None, self.GOLD.closing, FAREWELL, FAREWELL]
        assert len({c.id for s in said for c in s.calls}) == 2

    def test_calls_of_a_history_before_the_trial_do_not_count(self) -> None:
        conversation = Conversation()
        events = (AgentSaid(calls=(ToolCall("other", {}), BOOK)), ToolReturned("", "other", "ok"), UserSaid("go on"))
        conversation.hear(DecodedRequest(BRIEFING, events), {})
        assert [c.name for c in next_line(self.GOLD, conversation).calls] == ["look"]

    def test_history_sent_again_in_a_known_context_counts_once(self) -> None:
        conversation = Conversation()
        conversation.hear(DecodedRequest(BRIEFING, (UserSaid("hello"),)), {})
        conversation.say(next_line(self.GOLD, conversation))
        # The arguments came back changed by the wire: what the server itself remembers decides.
        mangled = AgentSaid(calls=(ToolCall("look", {"id": "7"}),))
        conversation.hear(DecodedRequest(BRIEFING, (UserSaid("hello"), mangled, ToolReturned("", "look", "ok"))), {})
        assert [c.name for c in next_line(self.GOLD, conversation).calls] == ["book"]

    def test_without_a_tag_it_refuses_and_says_what_to_do(self) -> None:
        with pytest.raises(RefusalError, match="--a2a-set tag-trials=on"):
            asyncio.run(Oracle().reply(Conversation()))

    @in_one_test("key", ["tau2/airline/999999", "tau2/nowhere/1", "crm/x/1"])
    def test_an_unknown_task_is_refused(self, key: str) -> None:
        with pytest.raises(RefusalError, match="no reference solution for"):
            asyncio.run(Oracle().reply(Conversation(metadata=tagged(key))))


def test_readonly_leaves_out_what_tau2_marks_as_writing() -> None:
    reference = [c.name for c in load_gold("tau2/airline/8").calls]
    brain, conversation = make_brain(AgentOptions("readonly")), Conversation(metadata=tagged("tau2/airline/8"))
    called = []
    for _ in reference:
        said = asyncio.run(brain.reply(conversation)).said
        assert "?" not in (said.text or "")
        conversation.say(said)
        called += [c.name for c in said.calls]

    assert "book_reservation" in reference
    assert called == [name for name in reference if name != "book_reservation"]
