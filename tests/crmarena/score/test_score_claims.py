"""What an answer asserts in ``fixed``: a value counts if it stands asserted last and alone."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest
from crm_phrasings import ANSWERS, ARTICLES, LATER, LATER_ARTICLES, MISREAD
from examples import examples, sampled
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.benchmarks.crmarena.score import score
from pytest_a2a_bench.benchmarks.crmarena.score.claims import read_claims, read_structured
from pytest_a2a_bench.benchmarks.crmarena.score.extract import LIMIT, extract
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, Category, CrmTask

VALUES = {
    "handle_time": ("005Aa000001xyzAIAQ", "005Bb000002abcDIAU"),
    "quote_approval": ("ka0Aa000001xyzAIAQ", "ka0Bb000002abcDIAU"),
    "monthly_trend_analysis": ("August", "October"),
    "best_region_identification": ("TX", "NY"),
    "wrong_stage_rectification": ("Discovery", "Quote"),
}


def fill(text: str, one: str, other: str) -> str:
    return text.replace("{A}", one).replace("{B}", other)


@pytest.mark.parametrize(
    ("category", "phrasings"), [*((category, ANSWERS) for category in VALUES), ("quote_approval", ARTICLES)]
)
def test_phrasings_mean_what_people_take_from_them(category: str, phrasings: tuple[tuple[str, str], ...]) -> None:
    assert [(text, said) for text, verdict in phrasings if (said := told(category, text)) != verdict] == []


def told(category: str, text: str) -> str:
    """Return what is read of a phrasing, as its verdict would say it."""
    one, other = VALUES[category]
    read = read_claims(CATEGORIES[category], fill(text, one, other))
    meant = {one: "A", other: "B", "None": "None"}
    return meant.get(read[0], "-") if len(read) == 1 else "-"


def test_the_phrasings_that_are_misread_are_known_and_pass_for_no_answer() -> None:
    wrong = {
        text: told(category, text)
        for phrasings, categories in ((LATER, list(VALUES)), (LATER_ARTICLES, ["quote_approval"]))
        for category in categories
        for text, verdict in phrasings
        if told(category, text) != verdict
    }
    assert wrong == dict.fromkeys(MISREAD, "-")


def test_in_fixed_a_rejected_value_is_no_answer() -> None:
    one, other = VALUES["handle_time"]
    task = CrmTask("0001", "handle_time", "Who?", "exact_match", (one,))
    for text, verdict in ANSWERS:
        assert score(task, fill(text, one, other), scoring="fixed").success is (verdict == "A"), text


# A sentence by stance, of one value; the last asserted one is the answer, whatever else was said before.
ASSERTED = ("The answer is {}.", "It is {}.", "**{}** has the best numbers.", "So I say {}.", "I am sure: {}")
DENIED = tuple(
    text.replace("{A}", "{}").rstrip(".")
    for text, verdict in ANSWERS
    if verdict == "-"
    and text.count("{A}") == 1
    and "{B}" not in text
    and "one" not in text.lower()
    and "?" not in text
    and '"answer"' not in text
)


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data(), category=st.sampled_from(list(VALUES)))
def test_an_answer_passes_only_if_the_value_stands_asserted_last_and_alone(data: st.DataObject, category: str) -> None:
    gold, other = VALUES[category]
    before = data.draw(st.lists(st.tuples(st.sampled_from(DENIED), st.sampled_from([gold, other])), max_size=3))
    end = data.draw(st.sampled_from([None, *ASSERTED]))
    value = data.draw(st.sampled_from([gold, other]))
    said = [form.format(name) for form, name in before] + ([end.format(value)] if end else [])
    read = read_claims(CATEGORIES[category], ". ".join(said))
    assert (read == (gold,)) is (end is not None and value == gold), said


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"answer": ["A", "B"]}', ["A", "B"]),
        ('first {"answer": "A"} then {"answer": "B"}', ["B"]),
        ('{"answer": null}', []),
        ('{"answer": []}', []),
        ('{"answer": [null]}', ["None"]),
        ('{"answer": 7}', ["7"]),
        ('{"answer": ', None),
        ('the word "answer"', None),
        ("A", None),
    ],
)
def test_a_structured_answer(text: str, values: list[str] | None) -> None:
    assert read_structured(text) == values


def test_a_structured_answer_is_read_as_what_it_holds() -> None:
    assert read_claims(CATEGORIES["best_region_identification"], '{"answer": ["Texas"]}') == ("TX",)
    assert read_claims(CATEGORIES["lead_qualification"], '{"answer": ["Need", "Budget"]}') == ("Need", "Budget")
    assert read_claims(CATEGORIES["handle_time"], '{"answer": ["John Smith"]}') == ("John Smith",)


PIECES = st.sampled_from([*re.findall(r"\S+\s*", " ".join(text for text, _ in ANSWERS)), *VALUES["handle_time"]])


@settings(max_examples=examples(200), deadline=None)
@given(said=st.lists(PIECES | st.text(max_size=5), max_size=20).map(" ".join), name=st.sampled_from(list(CATEGORIES)))
def test_no_answer_raises(said: str, name: str) -> None:
    assert all(isinstance(value, str) for value in read_claims(CATEGORIES[name], said))


def seconds(reads: Callable[[Category, str], object], said: str, name: str) -> float:
    """Return the CPU time that one reading takes, the least of two."""
    taken = []
    for _ in range(2):
        started = time.process_time()
        reads(CATEGORIES[name], said)
        taken.append(time.process_time() - started)
    return min(taken)


def grows_with_its_square(reads: Callable[[Category, str], object], said: Callable[[int], str], name: str) -> bool:
    """Tell whether four times the length takes much more than four times the time; 5 ms are too little to tell.

    From short texts on, so that what is worse than a square is told before it hangs.
    """
    quarter = 0.0
    for size in (LIMIT // 64, LIMIT // 16, LIMIT // 4, LIMIT):
        whole = seconds(reads, said(size), name)
        if whole >= 12 * max(quarter, 0.005):
            return True
        quarter = whole
    return False


ID = VALUES["handle_time"][0]
ARTICLE = VALUES["quote_approval"][0]


@pytest.mark.parametrize(
    "piece",
    sampled(["\n", " ", " \n", "\t", "actually ", f"actually {ID} ", "! no", "no, wait ", ", ", "the ", f"{ID}\n",
     f"{ARTICLE}, ", "not ", "unless ", "neither ", "*", "? ", '{"answer": ', "would have been ",
     "none other than "], 3),
)  # fmt: skip
def test_hostile_answers_are_read_in_time_that_grows_with_their_length(piece: str) -> None:
    def said(size: int) -> str:
        return f"The agent is:{(piece * size)[: size - 60]}{ID} {ARTICLE}"

    for name in ("handle_time", "quote_approval"):
        assert not grows_with_its_square(read_claims, said, name), name


def test_spaces_behind_a_value_take_no_time() -> None:
    """Of rules that others use too (``compat``)."""
    assert not grows_with_its_square(extract, lambda size: ID + " " * size + "x", "handle_time")
    assert not grows_with_its_square(extract, lambda size: ID + "\n" * size + "x", "handle_time")


TOKENS = st.sampled_from(
    [
        *dict.fromkeys(re.findall(r"[\w']+|\s+|[^\w\s]", " ".join(text for text, _ in [*ANSWERS, *ARTICLES]))),
        "\n",
        "\t",
        ID,
    ]
)


@settings(max_examples=examples(15), deadline=None)
@given(tokens=st.lists(TOKENS, min_size=1, max_size=3), name=st.sampled_from(["handle_time", "quote_approval"]))
def test_no_repeated_words_are_read_in_the_square_of_their_length(tokens: list[str], name: str) -> None:
    piece = "".join(tokens)
    assert not grows_with_its_square(read_claims, lambda size: ID + (piece * size)[: size - 40] + ID, name), piece


@pytest.mark.parametrize("item", ["it is not {A}, I cannot tell", "anything but {A}", "I doubt that it is {A}"])
def test_a_sentence_in_a_structured_answer_is_read_as_one(item: str) -> None:
    for category, (one, other) in VALUES.items():
        read = read_claims(CATEGORIES[category], json.dumps({"answer": [fill(item, one, other)]}))
        assert one not in read
        assert read_claims(CATEGORIES[category], json.dumps({"answer": f"It is {one}."})) == (one,)


def test_with_none_expected_none_other_than_a_value_is_wrong() -> None:
    task = CrmTask("0001", "handle_time", "Who?", "exact_match", ("None",))
    assert not score(task, f"None other than {ID}.", scoring="fixed").success
    assert score(task, f"{ID} is no match. None", scoring="fixed").success
