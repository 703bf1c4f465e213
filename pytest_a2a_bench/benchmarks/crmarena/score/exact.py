"""exact_match: read the values out of the answer and compare them with the gold."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.crmarena.categories import AnswerKind
from pytest_a2a_bench.benchmarks.crmarena.org.ids import checksum, is_record_id
from pytest_a2a_bench.benchmarks.crmarena.score.extract import extract
from pytest_a2a_bench.benchmarks.crmarena.score.extract_llm import extract_compat, extract_fixed
from pytest_a2a_bench.benchmarks.crmarena.score.judge import Judge
from pytest_a2a_bench.benchmarks.crmarena.score.verdict import Verdict
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, CrmTask

_SHOWN = 200


def judge_exact(task: CrmTask, answer: str, scoring: str, judge: Judge | None) -> Verdict:
    """Compare an answer with the gold.

    ``compat``: a gold of one value is compared with the answer as it stands first; then the values that were read are
    compared with the gold as sorted lists, letter by letter. So a gold such as ``"Authority, Need"`` (eight published
    ones) is met by exactly that text only, and a 15-character id never is one of 18.

    ``fixed``: such golds are two values; ids of either length are the same id; order and repetition do not matter.
    """
    if scoring == "compat":
        return _judge_compat(task, answer, judge)
    gold = {_canonical(v, task.kind.answer) for value in task.answers for v in split_gold(value, task.kind.answer)}
    literal = {_canonical(_clean(answer), task.kind.answer)}
    if literal == gold:
        return _say(True, "literal", ())
    read = extract_fixed(task, answer, judge) if judge else extract(task.kind, answer)
    found = {_canonical(value, task.kind.answer) for value in read}
    return _say(found == gold, "llm" if judge else "rules", read)


def _judge_compat(task: CrmTask, answer: str, judge: Judge | None) -> Verdict:
    if len(task.answers) == 1 and _clean(answer) == task.answers[0]:
        return _say(True, "literal", ())
    # Upstream's extractor is told to say None where it finds nothing of the kind that is asked for.
    read = extract_compat(task, answer, judge) if judge else extract(task.kind, answer) or (NONE,)
    return _say(sorted(read) == sorted(task.answers), "llm" if judge else "rules", read)


def split_gold(value: str, kind: AnswerKind) -> list[str]:
    """Take apart a gold of several BANT factors that was published as one text."""
    return [part.strip() for part in value.split(",") if part.strip()] if kind == "bant" else [value]


def _clean(answer: str) -> str:
    return answer.strip().strip('"').strip("'")


def _canonical(value: str, kind: AnswerKind) -> str:
    value = value.strip()
    if kind in ("id", "ids") and is_record_id(value):
        return value + checksum(value) if len(value) == 15 else value
    return value.casefold()


def _say(met: bool, extractor: str, read: tuple[str, ...]) -> Verdict:
    if met:
        return Verdict(1.0, "the answer matches", extractor)
    shown = ", ".join(read)[:_SHOWN] or "nothing of the kind that was asked for"
    return Verdict(0.0, f"the answer differs from the expected one; it was read as: {shown}", extractor)
