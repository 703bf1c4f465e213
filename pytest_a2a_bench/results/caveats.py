"""What must be known before numbers are compared with any others. Pure.

Every place that shows numbers says the same: the terminal, the page, the files for merge requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.results.stats import variant_of


def of_data(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield what is not as the benchmark's authors published it."""
    sources = [r.provenance["source"] for r in results if r.provenance.get("source")]
    if any(source["source"] == "mini" for source in sources):
        yield "the mini org is our own: its numbers are not comparable with CRMArena's"
    if any(source["source"] != "mini" and not source["official"] for source in sources):
        yield "not every data file is, byte for byte, one that CRMArena published"
    if any(r.provenance.get("aided") for r in results):
        yield "the agent was shown the general domain details too (--a2a-crm-aided)"
    variants = Counter(variant for r in results if (variant := variant_of(r)))
    if variants:
        named = ", ".join(f"{name} ({count})" if len(variants) > 1 else name for name, count in variants.most_common())
        yield f"the org was changed: {named}; these are not results of the plain benchmark"


def of_run(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield how these conversations were not held with an agent that knew nothing, just now."""
    replayed = sum(bool(r.provenance.get("replayed")) for r in results)
    if replayed:
        yield f"replayed from cassettes, the agent was not asked (--a2a-replay): {replayed} of {len(results)} trials"
    reused = Counter(r.reused_from for r in results if r.reused_from)
    if reused:
        runs = ", ".join(f"{count} of run {run_id}" for run_id, count in reused.most_common())
        yield f"reused, not held again (--a2a-resume): {reused.total()} of {len(results)} trials ({runs})"
    replaced = [str(r.provenance["replaced"]) for r in results if r.provenance.get("replaced")]
    if replaced:
        first = replaced[0].rpartition("; ")[0]
        yield f"held again, because what was stored cannot be read: {len(replaced)} of {len(results)} trials ({first})"
    if any(r.provenance.get("tagged") for r in results):
        yield "the agent was told the name of each task (--a2a-tag-trials)"
