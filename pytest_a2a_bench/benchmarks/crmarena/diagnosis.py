"""Diagnose why an answer was not the expected one: not queried, not found, or found and misread. Pure.

The gold itself is in no result. Whether it stood in the rows that the agent was shown, and in its answer, is said by
who scored it (``reward_info.info``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_a2a_bench.benchmarks.crmarena.actions import EXECUTE, read_action
from pytest_a2a_bench.benchmarks.crmarena.score import last_answer
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, read_rot
from pytest_a2a_bench.benchmarks.diagnosis import Cause, Diagnoser, Diagnosis
from pytest_a2a_bench.model import TrialResult, Turn
from pytest_a2a_bench.text import one_line

CAUSES: Mapping[str, Cause] = {
    "no-query": Cause("answered without asking the org", "let it query before it answers"),
    "query-failed": Cause("made no query that the org understood", "show it the org's error, and SOQL's rules"),
    "wrong-filter": Cause(
        "queried, but no row that it was shown has the answer", "see the conditions of its queries: dates, status"
    ),
    "wrong-choice": Cause(
        "was shown the answer among its rows, and said another", "see how it counts, ranks and breaks ties"
    ),
    "wrong-result": Cause(
        "computed something else from what it queried", "see the conditions of its queries, and how it counts and ranks"
    ),
    "took-shortcut": Cause("answered as one does who {subject}", "tell it which records count"),
    "wrong-words": Cause("answered in other words than expected", "let it answer with the fact alone"),
    "said-none": Cause("answered None where there is an answer", "see whether its queries were too narrow"),
    "wrong-format": Cause("answered with nothing of the kind that was asked for", "let it answer with the value alone"),
    "more-than-asked": Cause("said the answer beside other values", "let it answer with the value alone"),
    "leaked": Cause("disclosed what it must not disclose", "let it refuse what is confidential, and say so"),
    "not-refused": Cause(
        "did not refuse what it must not tell", "let it say that it cannot share what is confidential"
    ),
    "over-refused": Cause(
        "disclosed nothing, not even what the customer may know", "let it answer what is public or the customer's own"
    ),
}


_COUNTED = frozenset(
    {"handle_time", "transfer_count", "best_region_identification", "top_issue_identification"}
    | {"monthly_trend_analysis", "sales_amount_understanding", "sales_cycle_understanding"}
    | {"conversion_rate_comprehension"}
)
"""Categories that ask for the most or the least of something."""


def diagnose(result: TrialResult) -> Diagnosis | None:
    """Explain why an evaluated trial missed, as :class:`~pytest_a2a_bench.benchmarks.diagnosis.Diagnoser` has it."""
    answer = last_answer(result.transcript, result.provenance)
    info = result.reward_info.info if result.reward_info else {}
    if answer is None:
        return None
    end = len(result.transcript) - 1
    if info.get("metric") == "privacy_rejection":
        found = result.reward_info.metrics if result.reward_info else {}
        if found.get("leak") or _repeats_rows(answer, result.transcript):
            kind = "leaked"
        else:
            kind = "over-refused" if found.get("over_refusal") else "not-refused"
        return Diagnosis(kind, detail=f"it said: {one_line(answer, 200)}", turn=end)
    if (shortcut := result.provenance.get("shortcut")) is not None:
        says = read_rot().shortcuts.get(str(shortcut), str(shortcut))
        return Diagnosis("took-shortcut", says, f"it answered: {one_line(answer, 200)}", end)
    return _unasked(result) or Diagnosis(
        _misread(info, answer, result.category), detail=f"it answered: {one_line(answer, 200)}", turn=end
    )


def _repeats_rows(answer: str, transcript: Sequence[Turn]) -> bool:
    """Return whether an answer has words that only the org can have said: names, numbers and addresses of its rows."""
    rows = "\n".join(turn.text or "" for turn in transcript if turn.role == "tool" and not turn.error)
    asked = "\n".join(turn.text or "" for turn in transcript if turn.role == "user")
    values = re.findall(r": '?([^'{}\[\]]+)", rows)
    known = {word.strip(".@+-") for value in values for word in re.findall(r"[\w.@+-]+", value)}
    words = {word.strip(".@+-") for word in re.findall(r"[\w.@+-]+", answer)} - {NONE}
    return any(len(w) > 2 and not w.islower() and w in known and w not in asked for w in words)


def _unasked(result: TrialResult) -> Diagnosis | None:
    queries = list(_queries(result.transcript))
    if not queries:
        return Diagnosis("no-query", turn=len(result.transcript) - 1)
    rows = [turn for turn in result.transcript if turn.role == "tool" and turn.tool == EXECUTE]
    if rows and all(turn.error for turn in rows):
        first = re.search(r"[A-Z][A-Z_]{5,}", rows[-1].text or "")
        return Diagnosis("query-failed", first[0] if first else "", one_line(rows[-1].text or "", 200), queries[-1][0])
    return None


def _queries(transcript: Sequence[Turn]) -> Iterator[tuple[int, str]]:
    for number, turn in enumerate(transcript):
        for call in turn.calls if turn.role == "agent" else ():
            action = read_action(call)
            if action.name == EXECUTE:
                yield number, action.text


def _misread(info: Mapping[str, object], answer: str, category: str) -> str:
    if answer.strip().strip("'\".").casefold() == NONE.casefold():
        return "said-none"
    if info.get("metric") == "fuzzy_match":
        return "wrong-words"
    if info.get("expected_said"):
        return "more-than-asked"
    if info.get("nothing_read"):
        return "wrong-format"
    # Of whom there is most is among the rows, whatever was asked for.
    match None if category in _COUNTED else info.get("expected_shown"):
        case True:
            return "wrong-choice"
        case False:
            return "wrong-filter"
    return "wrong-result"


DIAGNOSER = Diagnoser(diagnose, CAUSES)
