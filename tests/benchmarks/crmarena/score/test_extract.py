"""What is read out of answers by its form: every value that is there, and no sentence."""

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.crmarena.score.answers import LIMIT, US_STATES, read_structured, read_values
from pytest_a2a_bench.benchmarks.crmarena.tasks import CATEGORIES, MONTHS

A, B = "005Aa000001xyzAIAQ", "005Bb000002abcDIAU"
T1, T2, T3 = "00TAa000001xyzAIAQ", "00TBb000002abcDIAU", "00TCc000003defGIAY"
K1 = "ka0Aa000001xyzAIAQ"
CASE = "500Aa000001xyzAIAQ"
NONE = ("None",)

READ: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "handle_time": [
        (A, (A,)),
        (f'"{A}"', (A,)),
        (f"The quickest of them all is {A}.", (A,)),
        (f"**{A}**\n\nIt handled case {CASE} fastest.", (A,)),
        (f"{B} took 5 days and {A} took 3.\n\nFinal answer: `{A}`", (A,)),
        (f"{B}\nAnswer: {A}", (A,)),
        (f"{A}\n{B}\nFinal answer: None", NONE),
        (f"None\n\nFinal answer: {A}", (A,)),
        (f"{A} is the answer.", (A,)),
        (f"None of the other agents come close to {A}", (A,)),
        (f"{A} alone, as None else comes close", (A,)),
        (f"{A}, {B}", (A, B)),
        (f"It is {A}, not {B}.", (A, B)),
        (f"005{A[3:14]}", (f"005{A[3:14]}",)),
        (f"I have looked at case {CASE}.", ()),
        ("None", NONE),
        ("'None'", NONE),
        ("**None**\n\nI found no agent.", NONE),
        ("N/A", NONE),
        ("null", NONE),
        ("The answer is None.", NONE),
        ("There is no such agent.", ()),
        ("John Smith", ()),
        ("", ()),
    ],
    "activity_priority": [
        (f"{T1}, {T2}, {T3}", (T1, T2, T3)),
        (f"- {T1}\n- {T2}\n- {T3}", (T1, T2, T3)),
        (f"Answer: {T2}, {T1}", (T2, T1)),
        (f"{T1}\n{T2}\n{T1}", (T1, T2)),
    ],
    "monthly_trend_analysis": [
        *((month, (month,)) for month in MONTHS),
        ("may", ("May",)),
        ("march.", ("March",)),
        ("SEPTEMBER", ("September",)),
        ("November had 8 cases.", ("November",)),
        ("March and April", ("March", "April")),
        ("From April to June.\n\nAnswer: May", ("May",)),
        ("They march on", ()),
    ],
    "best_region_identification": [
        *((code, (code,)) for code in US_STATES),
        *((name, (code,)) for code, name in US_STATES.items()),
        ("tx", ("TX",)),
        ("**Texas** (TX)", ("TX",)),
        ("OK, it is TX.", ("TX",)),
        ("The state ID: CA", ("CA",)),
        ("The state is OK.", ("OK",)),
        ("TX and FL", ("TX", "FL")),
        ("it is in or near the city", ()),
    ],
    "lead_qualification": [
        ("Authority", ("Authority",)),
        ("budget, need", ("Budget", "Need")),
        ("The lead fails Authority and Timeline.", ("Authority", "Timeline")),
        ("We need to look at the budget.", ()),
    ],
    "wrong_stage_rectification": [
        ("Discovery", ("Discovery",)),
        ("closed", ("Closed",)),
        ("The stage should be Negotiation.", ("Negotiation",)),
        ("It was Quote.\nAnswer: Negotiation", ("Negotiation",)),
        ("I asked for a quote and closed the tab.", ()),
    ],
    "knowledge_qa": [("any words, A or B", ("any words, A or B",))],
}


@in_one_test("category", READ)
def test_values_are_read_by_their_form(category: str) -> None:
    found = [(said, wanted, read_values(CATEGORIES[category], said)) for said, wanted in READ[category]]
    assert [(said, read) for said, wanted, read in found if read != wanted] == []


@in_one_test(
    "form",
    [
        "{a}\n{b}",
        "- {a}\n- {b}\n",
        "**{a}**\n\n**{b}**",
        "{a}, {b}",
        "{a} or {b}",
        "{a}/{b}",
        "Final answer: {a}\nOr: {b}",
        "The answer is {a} or {b}.",
        '{{"answer": ["{a}", "{b}"]}}',
    ],
)
@in_one_test(
    ("category", "one", "other"),
    [
        ("handle_time", A, B),
        ("handle_time", A, "None"),
        ("quote_approval", K1, "None"),
        ("monthly_trend_analysis", "May", "June"),
        ("monthly_trend_analysis", "May", "None"),
        ("best_region_identification", "CA", "TX"),
        ("best_region_identification", "PA", "OR"),
        ("best_region_identification", "PA", "None"),
        ("wrong_stage_rectification", "Quote", "Closed"),
        ("wrong_stage_rectification", "Quote", "None"),
        ("lead_qualification", "Budget", "None"),
        ("activity_priority", T1, "None"),
    ],
)
def test_two_answers_are_both_kept(category: str, one: str, other: str, form: str) -> None:
    if other == "OR" and form.startswith("The answer is"):
        return  # in a sentence OR is a word
    for first, second in ((one, other), (other, one)):
        assert set(read_values(CATEGORIES[category], form.format(a=first, b=second))) == {one, other}


@in_one_test(
    ("said", "read"),
    [
        (f'{{"answer": ["{A}"]}}', (A,)),
        (f'{{"answer": "{A}"}}', (A,)),
        (f'{B} was close.\n```json\n{{"answer": ["{A}"]}}\n```', (A,)),
        (f'{{"answer": ["{B}"]}} No: {{"answer": ["{A}"]}}', (A,)),
        (f'{{"answer": ["The agent is {A}."]}}', (A,)),
        ('{"answer": []}', NONE),
        ('{"answer": null}', NONE),
        ('{"answer": [null]}', NONE),
        ('{"answer": ["None"]}', NONE),
        ('{"answer": ["nobody"]}', ("nobody",)),
        (f'{{"answer": ["{A}", null]}}', (A, "None")),
    ],
)
def test_json_is_what_an_answer_says(said: str, read: tuple[str, ...]) -> None:
    assert read_values(CATEGORIES["handle_time"], said) == read


def test_an_object_without_an_answer_is_none_and_the_size_of_one_is_bounded() -> None:
    assert read_structured('{"answers": ["x"]}') is None
    assert read_structured("answer: x") is None
    assert read_values(CATEGORIES["handle_time"], "x " * LIMIT + A) == ()


PIECES = st.sampled_from(
    [A, K1, T1, " not ", " is ", ", ", "\n", "None", " Budget", " need ", "Quote", "TX", " OK ", "May ", "**",
     "answer: ", "(", ")", " and ", "`", '{"answer": [', "]}"]
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(said=st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join), name=st.sampled_from(list(CATEGORIES)))
def test_no_answer_raises(said: str, name: str) -> None:
    read = read_values(CATEGORIES[name], said)
    assert all(isinstance(value, str) for value in read)
    assert len(set(read)) == len(read)
