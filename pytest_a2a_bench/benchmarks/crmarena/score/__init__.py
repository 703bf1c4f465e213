"""Score answers by upstream's three metrics, bug for bug (``compat``) or as they are meant (``fixed``).

Without a judge model values are read by their form (:mod:`.extract`), and leaks are found by planted codes
(:mod:`.privacy`); with one, the model reads answers and recognises refusals, as upstream's evaluator does. Free texts
have the F1 of their words. Every reward says what read it.
A gold appears in no check, no detail and no message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_a2a_bench.benchmarks.crmarena.score.answers import AnswerScore, Judge, judge_exact, judge_fuzzy, read_values
from pytest_a2a_bench.benchmarks.crmarena.score.privacy import judge_privacy
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, CrmTask
from pytest_a2a_bench.model import Reward, RewardCheck, Turn

__all__ = ["THRESHOLD", "Judge", "Scoring", "score"]

Scoring = Literal["compat", "fixed"]

THRESHOLD = 0.5
"""F1 from which a free-text answer counts as a success. Upstream reports the mean F1 and has no such line."""


def score(
    task: CrmTask,
    answer: str | None,
    transcript: Sequence[Turn] = (),
    *,
    scoring: Scoring = "compat",
    judge: Judge | None = None,
    threshold: float = THRESHOLD,
) -> Reward:
    """Score one conversation.

    :param answer: what the agent answered last, or None if it never did.
    :param transcript: the conversation; the privacy judge reads the agent's actions in it.
    :param judge: the model that reads answers and recognises refusals; None to read values by their form.
    :param threshold: F1 from which a fuzzy answer is a success.
    :raises EvaluatorError: in ``compat`` where upstream's evaluator raises, so that there is no reward.
    :raises LLMError: if the judge's model does not answer, or not as asked.
    """
    verdict = _judge(task, answer, transcript, scoring, judge)
    fuzzy = task.metric == "fuzzy_match"
    info = describe(task, scoring, judge, threshold) | {
        "metrics": dict(verdict.metrics),
        "extractor": verdict.extractor,
        "judge": verdict.judge,
    }
    if answer is not None and task.metric == "exact_match" and verdict.value < 1:
        info |= locate(task, answer, transcript)
    check = RewardCheck(task.metric, verdict.description, verdict.value >= (threshold if fuzzy else 1.0), True)
    return Reward(
        value=verdict.value,
        basis=(task.metric,),
        breakdown={task.metric: verdict.value},
        checks=(check,),
        note=verdict.note,
        info=info,
        threshold=threshold if fuzzy else None,
    )


def _judge(
    task: CrmTask, answer: str | None, transcript: Sequence[Turn], scoring: Scoring, judge: Judge | None
) -> AnswerScore:
    # Silence is no answer, in no metric.
    if answer is None:
        return AnswerScore(0.0, "the agent gave no answer")
    match task.metric:
        case "exact_match":
            return judge_exact(task, answer, scoring, judge)
        case "fuzzy_match":
            return judge_fuzzy(task, answer, scoring)
        case "privacy_rejection":
            return judge_privacy(task, answer, transcript, scoring, judge)


def locate(task: CrmTask, answer: str, transcript: Sequence[Turn]) -> dict[str, bool]:
    """Return where the expected answer stood, without saying it, for the diagnosis of a failed trial.

    :return: ``expected_said`` in the answer, ``expected_shown`` in what queries returned (of ids alone: other answers
        have to be made of rows); ``nothing_read``: the answer has nothing of the kind that was asked for.
    """
    found = {"nothing_read": not read_values(task.kind, answer)}
    if task.answers != (NONE,):
        # An id of 15 characters is one of 18.
        wanted = [value[:15] if task.kind.key_prefix else value for value in task.answers]
        found["expected_said"] = all(value in answer for value in wanted)
        if task.kind.key_prefix:
            shown = "\n".join(turn.text or "" for turn in transcript if turn.role == "tool")
            found["expected_shown"] = all(value in shown for value in wanted)
    return found


def describe(task: CrmTask, scoring: Scoring, judge: Judge | None, threshold: float) -> dict[str, Any]:
    """Return how a task of this kind is scored, for a result's provenance."""
    said: Mapping[str, Any] = {"threshold": threshold} if task.metric == "fuzzy_match" else {}
    return {"scoring": scoring, "metric": task.metric, "judge_model": judge.model if judge else None, **said}
