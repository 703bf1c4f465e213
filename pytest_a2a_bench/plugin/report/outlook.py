"""What a run will be able to tell and what it costs, said once its trials are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.results import inference, planning
from pytest_a2a_bench.results.baseline import task_name
from pytest_a2a_bench.results.gates.quarantine import quarantine_of
from pytest_a2a_bench.results.gates.terms import groups_of, thresholds_of
from pytest_a2a_bench.results.stats import count


def outlook_lines(run: BenchRun, keys: Sequence[TrialKey], workers: int = 1) -> Iterator[str]:
    """Yield what gates can tell of these trials."""
    # Trials that somebody named are judged one by one.
    if run.plan.named or not keys:
        return
    counted = [key for key in keys if quarantine_of(key, run.plan.quarantine) is None]
    thresholds = thresholds_of(run.settings)
    for group, rate in thresholds.min_pass.items():
        found = [k for k in counted if not group or group in groups_of(k.suite, k.domain)]
        if found and not inference.can_prove(rate, len(found)):
            shown = f"{group}={rate:g}" if group else f"{rate:g}"
            could = f" ({inference.trials_to_prove(rate)} could)" if rate < 1 else ""
            few = f"{count(len(found), 'trial')} could not prove it, even if all succeed{could}"
            yield f"a2a: the floor {shown} is judged as measured; {few}"
    baseline = run.services.baseline
    names = sorted({task_name(key) for key in counted})
    if baseline is not None and names:
        each = max(1, len(counted) // len(names))
        at_once = max(run.settings.concurrency, workers)
        for line in planning.outlook(baseline, names, each, thresholds.max_drop, at_once):
            yield f"a2a: {line}"
    if run.plan.order:
        yield "a2a: trials run in a drawn order, as long as a gate that counts them is not decided; these are the most"
