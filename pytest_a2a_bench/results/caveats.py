"""What must be known before numbers are compared with any others. Pure.

Every place that shows numbers says the same: the terminal, the page, the files for merge requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_a2a_bench.model import TrialResult


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
