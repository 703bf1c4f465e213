"""Write a baseline: the results of one or more runs, for gates to compare with."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.redact import dump_json
from pytest_a2a_bench.results.baseline import BY_TASK, load, pooled
from pytest_a2a_bench.results.stats import count

if TYPE_CHECKING:
    from pytest_a2a_bench.results.baseline import Baseline


def run(namespace: Namespace, sources: Sequence[Path]) -> int:
    """Write the baseline, and say what is in it."""
    target = Path(namespace.write_baseline)
    for source in sources:
        if not source.is_dir():
            raise ConfigurationError(f"{source} is not a results directory (--a2a-results)")
    found = pooled([load(source) for source in sources])
    if namespace.agent is not None:
        if namespace.agent not in found.agents:
            there = f"its agents are {', '.join(found.agents)}" if found.agents else "its agent has no name"
            raise ConfigurationError(f"--agent {namespace.agent}: {found.source}: {there}")
        found = found.only(namespace.agent)
    if not found.trials:
        raise ConfigurationError(f"{found.source}: no trial of {namespace.agent} was evaluated")
    if found.absent and not namespace.allow_incomplete:
        raise ConfigurationError(
            f"{found.source} is of a run that did not end: {found.notes[0]}; run them with --a2a-resume, or leave "
            "them out with --allow-incomplete"
        )
    if target.exists() and not namespace.force:
        _check_replaced(target, found)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(dump_json(found.to_json()) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--write-baseline {target}: cannot be written: {error}") from error
    ok = sum(sum(t.outcomes) for t in found.tasks.values())
    trials = f"{ok} of {count(found.trials, 'trial')} succeeded ({ok / found.trials:.3f})"
    print(f"{target}: {count(len(found.tasks), 'task')}, {trials}")
    errors = sum(t.errors for t in found.tasks.values()) - len(found.absent)
    if errors:
        are = "is" if errors == 1 else "are"
        print(f"{count(errors, 'trial')} could not be evaluated and {are} not part of it", file=sys.stderr)
    for note in found.notes:
        print(note, file=sys.stderr)
    if len(found.run_ids) > 1:
        print(f"the trials are of {len(found.run_ids)} runs: {', '.join(found.run_ids)}", file=sys.stderr)
    _warn_of_mixtures(found)
    return 0


def _check_replaced(target: Path, found: Baseline) -> None:
    gone = sorted(set(load(target).tasks) - set(found.tasks))
    if gone:
        raise ConfigurationError(
            f"{target} has {count(len(gone), 'task')} that the new results have not ({', '.join(gone[:3])}"
            f"{', ...' if len(gone) > 3 else ''}); run them too, write another file, or replace it with --force"
        )


def _warn_of_mixtures(found: Baseline) -> None:
    for domain, names in found.measured.items():
        for name, values in names.items():
            if len(values) > 1 and name not in BY_TASK:
                print(f"{domain} was measured with several: {name} {' + '.join(values)}", file=sys.stderr)
