"""fuzzy_match: how much of a free text's words are the gold's. The reward is F1; the rest is reported beside it."""

from __future__ import annotations

import logging
import re
import string
from collections import Counter

from pytest_a2a_bench.benchmarks.crmarena.score.verdict import Verdict
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.errors import EvaluatorError

_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "\u2018\u2019\u00b4`", " "))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def judge_fuzzy(task: CrmTask, answer: str, scoring: str) -> Verdict:
    """Compare a free text with the gold.

    :raises EvaluatorError: in ``compat``, for an answer without a word: upstream's ROUGE raises on it.
    """
    gold = task.answers[0] if task.answers else ""
    if not normalize(answer):
        if scoring == "compat":
            raise EvaluatorError(
                "upstream's evaluator raises on an answer without a word, so there is no reward; "
                "--a2a-crm-scoring fixed counts it as 0"
            )
        return Verdict(0.0, "the answer has no words")
    f1 = f1_score(answer, gold)
    em = float(normalize(answer) == normalize(gold))
    others, note = _library_metrics(answer, gold, short=scoring == "fixed")
    return Verdict(f1, f"F1 of the answer's words is {f1:.3f}", metrics={"em": em, "f1": f1, **others}, note=note)


def normalize(text: str) -> str:
    """Lower the case; turn underscores, punctuation and articles into blanks; and leave single blanks."""
    text = text.replace("_", " ").lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def f1_score(answer: str, gold: str) -> float:
    """Return the harmonic mean of the words' precision and recall, each word as often as it is there."""
    said, wanted = normalize(answer).split(), normalize(gold).split()
    same = (Counter(said) & Counter(wanted)).total()
    if not same:
        return 0.0
    return 2 * same / (len(said) + len(wanted))


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
