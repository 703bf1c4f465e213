"""Built-in agents that play a solution with what they read: carefully, or trusting the first answer."""

from one_test import in_one_test

from pytest_a2a_bench.agents.brain import Conversation
from pytest_a2a_bench.agents.brains import GIVEN_UP, next_call, walk
from pytest_a2a_bench.benchmarks.registry import Gold, Step
from pytest_a2a_bench.model import AgentSaid, ToolCall, ToolReturned

LOOK = Step(ToolCall("look", {"id": "C1"}), '{"lines": ["L1", "L2"]}', is_read=True)
WRITE = Step(ToolCall("enable", {"line": "L2"}), "done", is_gold=True)
AGAIN = Step(ToolCall("look", {"id": "C1"}), '{"on": true}', is_read=True, before='{"on": false}')
STEPS = (LOOK, WRITE, AGAIN)
GOLD = Gold((WRITE.call,))


def said(*answers: str) -> list[ToolReturned]:
    return [ToolReturned("1", "x", text, error=text.startswith("Error")) for text in answers]


@in_one_test(
    ("careful", "answers", "place"),
    [
        (False, [], 0),
        (False, [LOOK.answer], 1),
        (False, ["Error: 503"], 1),
        (True, [LOOK.answer], 0),
        (True, [LOOK.answer, LOOK.answer], 1),
        (True, ['{"lines": ["L1", "L9"]}', LOOK.answer], 0),
        (True, ['{"lines": ["L1", "L9"]}', LOOK.answer, LOOK.answer], 1),
        (True, ["Error: 503", LOOK.answer, LOOK.answer], 1),
        (True, [LOOK.answer, LOOK.answer, "Error: 503"], 1),
        (True, [LOOK.answer, LOOK.answer, "Error: 503", "done"], 2),
        (True, [LOOK.answer, LOOK.answer, "Error: no such line", "Error: no such line"], 2),
        # A read that does not show the write: one trusts it and writes again, the other reads again.
        (False, [LOOK.answer, "done", AGAIN.before], 1),
        (False, [LOOK.answer, "done", AGAIN.before, "done", AGAIN.answer], 3),
        (True, [LOOK.answer, LOOK.answer, "done", AGAIN.before, AGAIN.answer, AGAIN.answer], 3),
    ],
)
def test_how_far_a_conversation_is(careful: bool, answers: list[str], place: int) -> None:
    assert walk(STEPS, said(*answers), careful=careful).place == place


@in_one_test(
    ("answer", "call"),
    [
        (LOOK.answer, WRITE.call),
        ('{"lines": ["L1", "L9"]}', ToolCall("enable", {"line": "L9"})),
        ('{"lines": ["L1"]}\n(partial result: 1 of 2 items; call again for all)', None),
        ("Error: 503", None),
    ],
)
def test_a_call_has_the_values_that_were_read(answer: str, call: ToolCall | None) -> None:
    own = AgentSaid(calls=(LOOK.call,))
    conversation = Conversation(history=[own, *said(answer)], own=[own])
    found = next_call(GOLD, STEPS, conversation, careful=False)
    # Without a value that no answer had, it gives up.
    assert found == (AgentSaid(calls=(call,)) if call is not None else AgentSaid(GIVEN_UP))


@in_one_test(
    ("answers", "gives_up"),
    [
        (["done", AGAIN.before, "Error: it is on already"], True),
        (["done", AGAIN.before, "it is on already"], False),
        (["Error: 503", AGAIN.answer], False),
    ],
)
def test_a_write_that_was_not_seen_and_is_refused_again_has_failed(answers: list[str], gives_up: bool) -> None:
    own = [AgentSaid(calls=(LOOK.call,))] * (1 + len(answers))
    conversation = Conversation(history=[*own, *said(LOOK.answer, *answers)], own=own)
    found = next_call(Gold((WRITE.call,) * 2), (*STEPS, WRITE), conversation, careful=False)
    assert (found == AgentSaid(GIVEN_UP)) is gives_up


@in_one_test(
    ("answer", "answered"),
    [("[{'Id': 'A'}, {'Id': 'B'}]", "A, B"), ("[{'Id': 'A'}, {'Id': 'X'}]", "A, X"), ("[{'Id': 'A'}]", "A")],
)
def test_an_answer_has_them_too(answer: str, answered: str) -> None:
    steps = (Step(ToolCall("execute", {}), "[{'Id': 'A'}, {'Id': 'B'}]", is_read=True),)
    own = AgentSaid(calls=(steps[0].call,))
    conversation = Conversation(history=[own, *said(answer)], own=[own])
    found = next_call(Gold(answer=ToolCall("respond", {"answer": "A, B"})), steps, conversation, careful=False)
    assert found == AgentSaid(calls=(ToolCall("respond", {"answer": answered}),))
