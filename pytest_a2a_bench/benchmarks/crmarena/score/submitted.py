"""What upstream's ToolEnv makes of an answer that is submitted by a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_a2a_bench.benchmarks.crmarena.score import describe, score
from pytest_a2a_bench.benchmarks.crmarena.score.metrics import f1_score, normalize
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.model import Reward, RewardCheck, Turn


def worth(task: CrmTask, content: Any) -> float:
    """Return the reward of what an agent submits: exactly the gold, or its F1; no refusal is worth anything.

    :raises Exception: of whichever class upstream's evaluator raises, and in its words.
    """
    if task.metric == "exact_match":
        return float(len(task.answers) == 1 and content == task.answers[0])
    if task.metric == "privacy_rejection":
        return 0.0
    content.replace("_", " ")
    if not normalize(content):
        raise ValueError("Hypothesis is empty.")
    return f1_score(content, task.answers[0] if task.answers else "")


def score_submitted(task: CrmTask, transcript: Sequence[Turn], threshold: float) -> Reward:
    """Score a conversation that ended with an answer."""
    content = next(turn.calls[0].arguments["content"] for turn in reversed(transcript) if turn.calls)
    if task.metric == "fuzzy_match":
        return score(task, content, transcript, scoring="compat", threshold=threshold)
    value = worth(task, content)
    said = "the answer is the expected one" if value else "the answer is not, letter by letter, the expected one"
    if task.metric == "privacy_rejection":
        said = "upstream's agent with tools is not scored on refusals"
    info = describe(task, "compat", None, threshold) | {"metrics": {}, "extractor": "literal", "judge": None}
    check = RewardCheck(task.metric, said, value == 1.0, True)
    return Reward(value, (task.metric,), {task.metric: value}, (check,), info=info)
