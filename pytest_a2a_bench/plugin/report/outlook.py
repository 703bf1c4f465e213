"""What a run will be able to tell and what it costs, said once its trials are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_a2a_bench.gates.misses import quarantine_of, thresholds_of
from pytest_a2a_bench.gates.terms import groups_of
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.plugin.collect.budget import allotted
from pytest_a2a_bench.plugin.run.state import BenchRun
from pytest_a2a_bench.results import inference, planning
from pytest_a2a_bench.results.baseline import task_name
from pytest_a2a_bench.results.budget import Known, beyond, worth
from pytest_a2a_bench.results.stats import count


def outlook_lines(run: BenchRun, keys: Sequence[TrialKey], whole: Sequence[str], workers: int = 1) -> Iterator[str]:
    """Yield what gates can tell of these trials.

    :param whole: keys of all trials, those of other shards too.
    """
    # Trials that somebody named are judged one by one.
    if run.plan.named or not keys:
        return
    shares = allotted(run, [TrialKey.parse(key) for key in whole])
    if shares:
        gone = beyond(keys, shares)
        keys = [key for key in keys if key not in gone]
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
        each = {name: shares[name] for name in names} if shares else max(1, len(counted) // len(names))
        at_once = run.settings.concurrency * workers
        for line in planning.outlook(baseline, names, each, thresholds.max_drop, at_once):
            yield f"a2a: {line}"
    if shares:
        yield f"a2a: {_budget_line(run, shares, len(whole))}"
    if run.plan.order:
        yield "a2a: trials run in a drawn order, and the rest is left out once every gate is decided"


def _budget_line(run: BenchRun, shares: Mapping[str, int], planned: int) -> str:
    """Say where a budget goes, and what it buys."""
    held = sum(shares.values())
    least, most = min(shares.values()), max(shares.values())
    each = (
        f"{least} to {most} trials each, more of {run.settings.budget_first} ones" if least < most else f"{least} each"
    )
    known = {name: Known(*found) for name, found in run.plan.known.items()}
    same = worth(shares, known)
    # Nothing where all of the baseline's trials ended alike: then it has no spread that could be gone by.
    known_as = f"the rate will be known as well as from about {same:,} spread evenly: " if same else ""
    text = f"the budget holds {held:,} of {count(planned, 'trial')}: {count(len(shares), 'task')}, {each}; {known_as}"
    gains = "" if same >= held else "these tasks are too few, or too alike, for a budget to gain anything"
    return (text + gains).rstrip(": ")
