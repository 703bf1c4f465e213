"""What judges answer, and what is read of it: a verdict for each expected outcome, or what is wrong with the answer."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.models import UnusableAnswerError, read_object, read_results

OUTCOMES = ("The agent tells the price.", 'It\'s said that "no" is final.', "2 bags are booked")


def results(*met: Any, outcomes: Sequence[str] = OUTCOMES) -> list[dict[str, Any]]:
    return [{"expectedOutcome": o, "reasoning": "r", "metExpectation": m} for o, m in zip(outcomes, met, strict=False)]


LIST = results(True, False, True)
PLAIN = json.dumps({"results": LIST})
TRAILING = PLAIN.replace("}]", ",},]")
SNAKE = PLAIN.replace("expectedOutcome", "expected_outcome").replace("metExpectation", "met_expectation")


@in_one_test(
    "text",
    [
        pytest.param(PLAIN, id="plain"),
        pytest.param(f"Here is my judgement of [3] outcomes: {PLAIN}", id="words before"),
        pytest.param(f"{PLAIN}\n\nThe agent [here] said {{name}}.", id="words after"),
        pytest.param(f"**Result:**\n```JSON\r\n{PLAIN}\r\n```\nThat is all.", id="fence between words"),
        pytest.param(f"~~~json\n{PLAIN}\n~~~", id="tildes"),
        pytest.param(json.dumps(LIST), id="a list"),
        pytest.param(f"Sure: {json.dumps(LIST)}.", id="a list between words"),
        pytest.param(PLAIN.replace("true", '"true"').replace("false", '"False"'), id="texts"),
        pytest.param(PLAIN.replace("true", "1").replace("false", "0"), id="numbers"),
        pytest.param(SNAKE, id="snake case"),
        pytest.param(TRAILING, id="trailing commas"),
        pytest.param(PLAIN.replace("{", "{ // an object\n /* here */", 1), id="comments"),
        pytest.param(repr({"results": LIST}), id="a Python dict"),
        pytest.param(json.dumps({"evaluation": {"results": LIST}, "metExpectation": False}), id="inside another"),
        pytest.param(json.dumps([LIST[2], LIST[0], LIST[1]]), id="another order"),
        pytest.param(PLAIN.replace("The agent tells", "1. the  AGENT tells"), id="case and number"),
        pytest.param(
            f"<think>{json.dumps({'results': results(True, True, True)})}? No.</think> {PLAIN}", id="after a draft"
        ),
        pytest.param(json.dumps([{"index": i, "metExpectation": i != 1} for i in range(3)]), id="counted from 0"),
        pytest.param(
            json.dumps([{"number": i, "expectedOutcome": "?", "metExpectation": i != 2} for i in (3, 1, 2)]),
            id="numbers in place of texts",
        ),
    ],
)
def test_answers_of_judges_are_read(text: str) -> None:
    assert [result.met for result in read_results(text, OUTCOMES)] == [True, False, True]


@in_one_test(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("They are all met.", "it is not JSON"),
        ("[" * 20_000, "it is not JSON"),
        ('{"results": []}', "it has 0 results for 3"),
        ("[]", "it has 0 results for 3"),
        (json.dumps(LIST[:1]), "it has 1 results for 3"),
        (json.dumps(LIST[:2]), "it has 2 results for 3"),
        (json.dumps([*LIST, LIST[0]]), "it has 4 results for 3"),
        (json.dumps([LIST[0], LIST[0], LIST[2]]), "no result has the expectedOutcome \"It's said"),
        (json.dumps(results(True, True, True, outcomes=["polite", "quick", "kind"])), "The agent tells the price"),
        ('{"results": [{"metExpectation": true}, {"metExpectation": true}, {"metExpectation": true}]}', "The agent"),
        (json.dumps(results(True, "yes", True)), "neither true nor false"),
        (json.dumps(results(True, None, True)), "neither true nor false"),
        (PLAIN[:-12], "it has 2 results for 3"),
        (json.dumps({"results": dict.fromkeys(OUTCOMES, True)}), "it has 0 results"),
    ],
)
def test_an_answer_without_a_verdict_for_each_outcome_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnusableAnswerError) as caught:
        read_results(text, OUTCOMES)
    assert problem in str(caught.value)


def test_one_result_must_be_about_its_outcome_and_outcomes_of_one_text_have_one_each() -> None:
    with pytest.raises(UnusableAnswerError, match="no result has the expectedOutcome"):
        read_results(json.dumps(results(True, outcomes=["1 bag was booked"])), ["The agent was right."])
    twice = ["It is so.", "It is so."]
    assert [result.met for result in read_results(json.dumps(results(True, False, outcomes=twice)), twice)] == [
        True,
        False,
    ]


def test_the_last_object_with_a_member_counts() -> None:
    assert read_object('{"refused": false}? No. {"why": "x", "Refused": true}', "refused")["refused"] is True
    with pytest.raises(UnusableAnswerError, match="it has no 'refused'"):
        read_object('{"answer": true}', "refused")
