"""What the rules read out of answers: the result, not what is only mentioned on the way."""

from __future__ import annotations

import time

import pytest
from examples import examples, sampled
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_a2a_bench.benchmarks.crmarena.score.bant import find_unmet
from pytest_a2a_bench.benchmarks.crmarena.score.claims import read_claims
from pytest_a2a_bench.benchmarks.crmarena.score.extract import LIMIT, extract
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, MONTHS, Category

A, B, C = "005Aa000001xyzAIAQ", "005Bb000002abcDIAU", "005Cc000003defGIAY"
K1, K2 = "ka0Aa000001xyzAIAQ", "ka0Bb000002abcDIAU"
T1, T2, T3 = "00TAa000001xyzAIAQ", "00TBb000002abcDIAU", "00TCc000003defGIAY"
CASE, QUOTE = "500Aa000001xyzAIAQ", "0Q0Aa000001xyzAIAQ"
NONE = ("None",)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (A, (A,)),
        (f'"{A}"', (A,)),
        (f"The quickest of them all is {A}.", (A,)),
        (f"It is {A}, not {B}.", (A,)),
        (f"It is not {B} but {A}.", (A,)),
        (f"{A} rather than {B}", (A,)),
        (f"Instead of agent {B}, pick {A}.", (A,)),
        (f"{A} had 2 transfers, fewer than {B} (5).", (A,)),
        (f"{A}, followed by {B}", (A,)),
        (f"{B} is not the answer; {A} is.", (A,)),
        (f"{B} was excluded because of too few cases. The lowest is {A}.", (A,)),
        (f"{B} does not qualify, so it is {A}", (A,)),
        (f"It is neither B nor that; not {B} or {C}. It is {A}.", (A,)),
        (f"{A} had 3 cases and {B} had 5. Therefore, the answer is {B}.", (B,)),
        (f"{A}\n\nReasoning: {B} took 5 days and {A} took 3.", (A,)),
        (f"{B} took 5 days and {A} took 3.\n\n{A}", (A,)),
        (f"The agent is **{A}** ({B} came close)", (A,)),
        (f"~~{B}~~ {A}", (A,)),
        (f"Agent {A} handled case {CASE} fastest", (A,)),
        (f"{A}, {B}", (A, B)),
        (f"{A} and {B} tie", (A, B)),
        (f"I have looked at case {CASE}.", (CASE,)),
        (f"Final Answer: {A}", (A,)),
        (f"005{A[3:14]}", (f"005{A[3:14]}",)),
        ("None", NONE),
        ("'None'", NONE),
        ("**None**", NONE),
        ("N/A", NONE),
        ("No agent looked after more than three cases in this period.", NONE),
        ("I couldn't find any records matching your criteria.", NONE),
        (f"None\n\n{A} was considered but handled one case only.", NONE),
        (f"No matching agents were found for case {CASE}.", NONE),
        ("None of the other agents come close to " + A, (A,)),
        ("John Smith", ()),
        ("I am still thinking about it.", ()),
        ("", ()),
    ],
)
def test_one_id(said: str, read: tuple[str, ...]) -> None:
    assert extract(CATEGORIES["handle_time"], said) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (f"The quote violates {K1}.", (K1,)),
        (f"The agent did not follow {K1}.", (K1,)),
        (f"The quote does not comply with knowledge article {K1}.", (K1,)),
        (f"It fails to comply with {K1}", (K1,)),
        (f"According to {K2} this is fine, but it breaches {K1}.", (K1,)),
        (f"No violation: the quote {QUOTE} complies with {K1} and {K2}.", NONE),
        (f"No violation was found. I checked {K1}.", NONE),
        (f"{K1} is not violated; there is no violation.", NONE),
        (f"The case {CASE} does not violate any policy.", NONE),
        ("The quote complies with company policy.", NONE),
        (f"The agent breached the policy in this case: {K1}", (K1,)),
        (f"{K2} is satisfied. {K1} is violated.", (K1,)),
    ],
)
def test_an_article_or_none(said: str, read: tuple[str, ...]) -> None:
    assert extract(CATEGORIES["quote_approval"], said) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (f"{T1}, {T2}, {T3}", (T1, T2, T3)),
        (f"- {T1}\n- {T2}\n- {T3}", (T1, T2, T3)),
        (f"{T1} and {T2} do not match its stage, unlike {T3}", (T1, T2)),
        (f"Answer: {T2}, {T1}", (T2, T1)),
        (f"**{T1}** (a call), {T2} (a mail)", (T1, T2)),
        (f"{T1}\n{T2}\n{T1}", (T1, T2)),
        ("All tasks match the stage; there are no mismatched tasks.", NONE),
        ("None", NONE),
    ],
)
def test_several_ids(said: str, read: tuple[str, ...]) -> None:
    assert extract(CATEGORIES["activity_priority"], said) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        *((month, (month,)) for month in MONTHS),
        ("may", ("May",)),
        ("march.", ("March",)),
        ("SEPTEMBER", ("September",)),
        ("It is Sept. 2021", ("September",)),
        ("In Oct", ("October",)),
        ("May I answer? It is June.", ("June",)),
        ("Today is April 3, 2031; most cases were in November.", ("November",)),
        ("Between May 2030 and March 2031, November has the most.", ("November",)),
        ("From June 2030 to March 2031 it was May with 8 cases.", ("May",)),
        ("November had 8 cases, compared to October with 2.", ("November",)),
        ("March, not May", ("March",)),
        ("**March** stands out; April and May had less.", ("March",)),
        ("March and April", ("March", "April")),
        ("2021-11", ("November",)),
        ("No month stands out: none.", NONE),
        ("They march on", ()),
    ],
)
def test_months(said: str, read: tuple[str, ...]) -> None:
    assert extract(CATEGORIES["monthly_trend_analysis"], said) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("TX", ("TX",)),
        ("tx", ("TX",)),
        ("Texas", ("TX",)),
        ("West Virginia", ("WV",)),
        ("Virginia, not West Virginia", ("VA",)),
        ("Arkansas", ("AR",)),
        ("New York City, New York (NY)", ("NY",)),
        ("OK, it is TX.", ("TX",)),
        ("OK", ("OK",)),
        ("The state is OK.", ("OK",)),
        ("The state ID: CA", ("CA",)),
        ("Cases in CA close faster than in TX", ("CA",)),
        ("Washington, D.C.", ("DC",)),
        ("TX and FL", ("TX", "FL")),
        ("**CA** (then TX, FL)", ("CA",)),
        ("No state has closed cases in that time.", NONE),
        ("in or me", ()),
    ],
)
def test_states(said: str, read: tuple[str, ...]) -> None:
    assert extract(CATEGORIES["best_region_identification"], said) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("Authority", ("Authority",)),
        ("need", ("Need",)),
        ("Budget and Authority.", ("Budget", "Authority")),
        ("Authority, Need", ("Authority", "Need")),
        ("budget, need", ("Budget", "Need")),
        ("The lead meets Budget, Need, and Timeline but fails Authority.", ("Authority",)),
        ("The lead fails Authority and meets Need.", ("Authority",)),
        ("The lead may not be qualified given he lacks final approval authority for the purchase.", ("Authority",)),
        ("Budget: met\nAuthority: not met\nNeed: met\nTimeline: not met", ("Authority", "Timeline")),
        ("Budget: Yes, Authority: No, Need: Yes, Timeline: Yes", ("Authority",)),
        ("Budget \u2713\nTimeline \u2717", ("Timeline",)),
        ("There is a clear Need and a Budget, however the Timeline is unclear.", ("Timeline",)),
        ("We need to look at the budget: it is insufficient.", ("Budget",)),
        ("The time frame does not fit.", ("Timeline",)),
        ("The lead is qualified.", NONE),
        ("All four factors (Budget, Authority, Need, Timeline) are met.", NONE),
        ("None", NONE),
        ("The lead meets all BANT criteria.", NONE),
        ("Hello", ()),
    ],
)
def test_bant_factors(said: str, read: tuple[str, ...]) -> None:
    assert extract(CATEGORIES["lead_qualification"], said) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("Discovery", ("Discovery",)),
        ("closed", ("Closed",)),
        ("Closed Won", ("Closed",)),
        ("The stage should be Negotiation.", ("Negotiation",)),
        ("The stage is Qualification, but it should be 'Discovery'.", ("Discovery",)),
        ("It should be changed from Quote to Negotiation.", ("Negotiation",)),
        ("The current stage is Quote; its tasks belong to Closed.", ("Closed",)),
        ("The correct stage is Quote, not Discovery.", ("Quote",)),
        ("Great, we'll align the Opportunity stage to 'Discovery' to reflect the tasks.", ("Discovery",)),
        ("The current stage Quote is accurate.", NONE),
        ("The stage name is correct, no change needed.", NONE),
        ("None", NONE),
        ("I asked for a quote and closed the tab.", ()),
    ],
)
def test_stages(said: str, read: tuple[str, ...]) -> None:
    assert extract(CATEGORIES["wrong_stage_rectification"], said) == read


@pytest.mark.parametrize(
    "form",
    [
        "{a}\n{b}",
        "- {a}\n- {b}\n",
        "1. {a}\n2. {b}",
        "**{a}**\n\n**{b}**",
        "{a}, {b}",
        "{a} or {b}",
        "{a}/{b}",
        "{a}\nAlternatively {b}",
        "Final answer: {a}\nOr: {b}",
        "The answer is {a} or {b}.",
        "It is {a}. Or it is {b}.",
    ],
)
@pytest.mark.parametrize(
    ("category", "one", "other"),
    [
        ("handle_time", A, B),
        ("handle_time", A, "None"),
        ("quote_approval", K1, "None"),
        ("monthly_trend_analysis", "May", "June"),
        ("monthly_trend_analysis", "May", "None"),
        ("best_region_identification", "CA", "TX"),
        ("best_region_identification", "PA", "None"),
        ("wrong_stage_rectification", "Quote", "Closed"),
        ("wrong_stage_rectification", "Quote", "None"),
        ("lead_qualification", "Budget", "None"),
        ("activity_priority", T1, "None"),
    ],
)
def test_who_gives_two_answers_has_given_none_of_them(category: str, one: str, other: str, form: str) -> None:
    for first, second in ((one, other), (other, one)):
        for reads in (extract, read_claims):
            assert set(reads(CATEGORIES[category], form.format(a=first, b=second))) == {one, other}


@pytest.mark.parametrize("said", ["PA\nOR", "OR\nPA", "PA, OR", "OR, PA", "PA or OR", "1. PA\n2. OR"])
def test_oregon_in_a_list_of_states_is_a_state(said: str) -> None:
    assert set(extract(CATEGORIES["best_region_identification"], said)) == {"PA", "OR"}


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (f"{B}\nAnswer: {A}", (A,)),
        (f"{A}\n{B}\nFinal answer: None", NONE),
        (f"None\n\nFinal answer: {A}", (A,)),
        (f"{A}\n{A}", (A,)),
        (f"{A}\n\nNone of the others come close.", (A,)),
    ],
)
def test_a_last_line_that_calls_itself_the_answer_has_the_last_word(said: str, read: tuple[str, ...]) -> None:
    assert extract(CATEGORIES["handle_time"], said) == read


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("I could not find the data, because the query tool returned an error.", ()),
        ("No records: the connection timed out.", ()),
        ("I could not find any cases since all my queries failed.", ()),
        ("No agents were found due to an internal error.", ()),
        ("No agent fits: my query failed to find one.", NONE),
        ("There is no agent who got it wrong.", NONE),
    ],
)
def test_who_could_not_look_has_not_said_that_there_is_none(said: str, read: tuple[str, ...]) -> None:
    assert extract(CATEGORIES["handle_time"], said) == read


PIECES = st.sampled_from(
    [A, K1, T1, " not ", " is ", ", ", "\n", "None", " Budget", " need ", "Quote", " from ", "TX", " OK ", "May ", "**",
     "~~", "answer: ", "2021-11", "(", ")", " and ", "`", "\u2713", "should be ", "between ", ": "]
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(said=st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join), name=st.sampled_from(list(CATEGORIES)))
def test_no_answer_raises(said: str, name: str) -> None:
    read = extract(CATEGORIES[name], said)
    assert all(isinstance(value, str) for value in read)
    if CATEGORIES[name].answer not in ("text", "refusal"):
        assert all(
            value == "None" or value.casefold()[:3] in said.casefold() or len(value) == 2 or said for value in read
        )
        assert len(set(read)) == len(read)


@pytest.mark.parametrize(
    "piece", sampled(["not ", "the ", "( ", "A" * 18 + " ", "should be changed ", "no one ", "005" + "a1" * 8, "**"], 3)
)
def test_long_answers_take_no_time(piece: str) -> None:
    """What is read of an answer has an end, and up to it time grows with the length and not with its square."""
    said = (piece * 200_000)[:1_000_000]
    for category in {category.answer: category for category in CATEGORIES.values()}.values():
        found, whole = _extract_timed(category, said)
        start, again = _extract_timed(category, said[:LIMIT])
        _, quarter = _extract_timed(category, said[: LIMIT // 4])
        assert found == start or category.answer in ("text", "refusal")
        # Four times the length; sixteen times the time would be its square. Less than 5 ms is too little to tell.
        assert min(whole, again) < 12 * max(quarter, 0.005), category.name


def _extract_timed(category: Category, said: str) -> tuple[tuple[str, ...], float]:
    """Return what is read, and the seconds of CPU that it took."""
    started = time.process_time()
    found = extract(category, said)
    return found, time.process_time() - started


@pytest.mark.parametrize("between", [" ", "\n", " \n", ", "])
def test_factors_are_read_across_any_number_of_blanks(between: str) -> None:
    # Reading these took time by the square of their number.
    assert find_unmet("Budget" + between * 20_000 + "fails; Authority is met") == ("Budget",)
    assert find_unmet("Budget, Need " * 2_000) == ("Budget", "Need")
