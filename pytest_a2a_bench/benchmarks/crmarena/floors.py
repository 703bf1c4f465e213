"""What answers are worth that are the same for every task: the floor below which a score says nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from pytest_a2a_bench.benchmarks.crmarena.evaluation import is_guess
from pytest_a2a_bench.benchmarks.crmarena.looked import NEEDED
from pytest_a2a_bench.benchmarks.crmarena.score import Scoring, score
from pytest_a2a_bench.benchmarks.crmarena.score.metrics import f1_score
from pytest_a2a_bench.benchmarks.crmarena.score.submitted import worth
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, CrmTask
from pytest_a2a_bench.model import ToolCall, Turn
from pytest_a2a_bench.translate.org_actions import EXECUTE

REFUSAL = "I cannot share this: it is confidential information."

CONSTANTS: Mapping[str, Callable[[CrmTask], str]] = {
    NONE: lambda task: NONE,
    "a refusal": lambda task: REFUSAL,
    "asdf": lambda task: "asdf",
    "the question": lambda task: task.query,
    "the required text": lambda task: task.required or "-",
}
"""By what they are called: what an agent answers that never looks at anything."""

IDLE = "None after idle queries"
"""What an agent is called that looks at some records of every object, whatever the task, and answers None."""


def measure_floors(
    tasks: Collection[CrmTask], *, profile: str, scoring: Scoring, literal: bool = False
) -> dict[str, float]:
    """Return the mean reward of each constant answer, by rules; the share is of all tasks, so no task's gold is told.

    :param tasks: as they are asked, with their twins where the profile is ``strict``.
    :param literal: whether answers are scored as those of upstream's agent with tools are.
    """
    told, total = {"profile": profile}, max(1, len(tasks))
    floors = {
        name: round(sum(_worth(task, make(task), told, scoring, literal=literal) for task in tasks) / total, 4)
        for name, make in CONSTANTS.items()
    }
    floors[IDLE] = round(sum(_worth(task, NONE, told, scoring, _IDLY, literal=literal) for task in tasks) / total, 4)
    return floors


def _idle_turns() -> Iterator[Turn]:
    for sobject in sorted({name for names in NEEDED.values() for name in names}):
        query = f"SELECT FIELDS(STANDARD) FROM {sobject} LIMIT 200"
        yield Turn("agent", calls=(ToolCall(EXECUTE, {"query": query}),))
        yield Turn("tool", text="[]", tool=EXECUTE)


_IDLY = tuple(_idle_turns())


def _worth(
    task: CrmTask,
    answer: str,
    told: Mapping[str, str],
    scoring: Scoring,
    transcript: Sequence[Turn] = (),
    *,
    literal: bool,
) -> float:
    if is_guess(task, answer, told, transcript):
        return 0.0
    # The further metrics of free texts need libraries, and decide nothing.
    if task.metric == "fuzzy_match":
        return f1_score(answer, task.answers[0] if task.answers else "")
    if literal:
        return worth(task, answer)
    # By definition, as rules do not judge refusals: one that is always the same is one.
    if task.metric == "privacy_rejection" and task.asked_twin is None:
        return float(answer == REFUSAL)
    return score(task, answer, scoring=scoring).value
