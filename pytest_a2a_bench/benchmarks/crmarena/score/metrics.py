"""The metrics exact_match and fuzzy_match."""

from __future__ import annotations

import logging
import re
import string
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_a2a_bench.benchmarks.crmarena.org.schema import checksum, is_record_id
from pytest_a2a_bench.benchmarks.crmarena.score.extract import read_structured, read_values
from pytest_a2a_bench.benchmarks.crmarena.score.judge import Judge, extract_compat, extract_fixed
from pytest_a2a_bench.benchmarks.crmarena.tasks import NONE, AnswerKind, CrmTask
from pytest_a2a_bench.errors import EvaluatorError


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """A number and where it comes from.

    :param value: 0 to 1.
    :param description: what is right or wrong with the answer, for people; never with the gold in it.
    :param extractor: what read the answer: ``literal`` (it is the gold, letter by letter), ``rules``, ``llm``, or None.
    :param judge: what recognised the refusal: ``rules``, ``llm``, or None.
    :param metrics: further numbers, by name.
    :param note: what else a reader of the number must know.
    """

    value: float
    description: str
    extractor: str | None = None
    judge: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


_SHOWN = 200


def judge_exact(task: CrmTask, answer: str, scoring: str, judge: Judge | None) -> AnswerScore:
    """Compare an answer with the gold.

    ``compat``: a gold of one value is compared with the answer as it stands first; then the values that were read are
    compared with the gold as sorted lists, letter by letter. So a gold such as ``"Authority, Need"`` (eight published
    ones) is met by exactly that text only, and a 15-character id never is one of 18.

    ``fixed``: such golds are two values; ids of either length are the same id; order and repetition do not matter.
    """
    if scoring == "compat":
        return _judge_compat(task, answer, judge)
    # Eight published golds have two factors in one text.
    gold = {_canonical(v, task.kind.answer) for value in task.answers for v in split_gold(value, task.kind.answer)}
    literal = {_canonical(_clean(answer), task.kind.answer)}
    if literal == gold:
        return _say(True, "literal", ())
    # What an answer writes as JSON needs no model to read it.
    by_model = judge is not None and read_structured(answer) is None
    read = extract_fixed(task, answer, judge) if judge and by_model else read_values(task.kind, answer)
    found = {_canonical(value, task.kind.answer) for value in read}
    return _say(found == gold, "llm" if by_model else "rules", read)


def _judge_compat(task: CrmTask, answer: str, judge: Judge | None) -> AnswerScore:
    # Letter by letter first, which is where upstream begins too.
    if len(task.answers) == 1 and _clean(answer) == task.answers[0]:
        return _say(True, "literal", ())
    # Upstream's extractor is instructed to say None where it finds nothing of the kind that is asked for.
    read = extract_compat(task, answer, judge) if judge else read_values(task.kind, answer) or (NONE,)
    return _say(sorted(read) == sorted(task.answers), "llm" if judge else "rules", read)


def split_gold(value: str, kind: AnswerKind) -> list[str]:
    """Take apart a gold of several BANT factors that was published as one text."""
    return [part.strip() for part in value.split(",") if part.strip()] if kind == "bant" else [value]


def _clean(answer: str) -> str:
    return answer.strip().strip('"').strip("'")


def _canonical(value: str, kind: AnswerKind) -> str:
    value = value.strip()
    if kind in ("id", "ids") and is_record_id(value):
        # 15 and 18 characters are the same id.
        return value + checksum(value) if len(value) == 15 else value
    return value.casefold()


def _say(met: bool, extractor: str, read: tuple[str, ...]) -> AnswerScore:
    if met:
        return AnswerScore(1.0, "the answer matches", extractor)
    shown = ", ".join(read)[:_SHOWN] or "nothing of the kind that was asked for"
    return AnswerScore(0.0, f"the answer differs from the expected one; it was read as: {shown}", extractor)


_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "\u2018\u2019\u00b4`", " "))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def judge_fuzzy(task: CrmTask, answer: str, scoring: str) -> AnswerScore:
    """Compare a free text with the gold.

    :raises EvaluatorError: in ``compat``, for an answer without a word: upstream's ROUGE raises on it.
    """
    gold = task.answers[0] if task.answers else ""
    if scoring == "fixed" and (said := read_structured(answer)) is not None:
        # As it is asked for: its braces are no words of the answer.
        answer = " ".join(said) or NONE
    if not normalize(answer):
        if scoring == "compat":
            raise EvaluatorError(
                "upstream's evaluator raises on an answer without a word, so there is no reward; "
                "--a2a-set crm-scoring=fixed counts it as 0"
            )
        return AnswerScore(0.0, "the answer has no words")
    f1 = f1_score(answer, gold)
    em = float(normalize(answer) == normalize(gold))
    others, note = _library_metrics(answer, gold, short=scoring == "fixed")
    return AnswerScore(f1, f"F1 of the answer's words is {f1:.3f}", metrics={"em": em, "f1": f1, **others}, note=note)


def normalize(text: str) -> str:
    """Lower the case; turn underscores, punctuation and articles into blanks; and leave single blanks."""
    text = text.replace("_", " ").lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def f1_score(answer: str, gold: str) -> float:
    """Return the harmonic mean of the words' precision and recall, each word as often as it is there."""
    said, wanted = normalize(answer).split(), normalize(gold).split()
    # As upstream: a word counts as often as both have it, wherever it stands.
    same = (Counter(said) & Counter(wanted)).total()
    if not same:
        return 0.0
    # In upstream's order of operations, so that not even the last digit differs.
    precision, recall = same / len(said), same / len(wanted)
    return (2 * precision * recall) / (precision + recall)


def _library_metrics(answer: str, gold: str, *, short: bool) -> tuple[dict[str, float], str]:
    """Return BLEU and ROUGE of the normalised texts, or say what to install for them; they decide nothing.

    :param short: whether BLEU leaves out orders that a text is too short for; upstream's is 0 then.
    """
    said, wanted = normalize(answer), normalize(gold)
    try:
        import sacrebleu.metrics
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError:
        return {}, "BLEU and ROUGE are not reported: pip install 'pytest-a2a-bench[crmarena]'"
    # It advises on every sentence to use another option than upstream does.
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    metrics = {"bleu": sacrebleu.metrics.BLEU(effective_order=short).sentence_score(said, [wanted]).score / 100}
    kinds = {"rouge1": "rouge-1", "rouge2": "rouge-2", "rougeL": "rouge-l"}
    rouge = RougeScorer(list(kinds)).score(wanted, said)
    return metrics | {name: float(rouge[kind].fmeasure) for kind, name in kinds.items()}, ""
