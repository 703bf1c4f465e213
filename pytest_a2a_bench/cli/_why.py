"""Say why the trials of a run failed, grouped by cause; no model is asked."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.reports import diagnosis
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.stats import count


def run(namespace: Namespace, directory: Path, found: manifest.SelectedResults, results: list[TrialResult]) -> int:
    """Print the reasons.

    :param results: the trials to explain, of all that were found.
    """
    reasons = diagnosis.clusters(results)
    items = {key: nodeid for nodeid, key in found.manifest.nodeids.items()}
    if namespace.ids is not None:
        return _print_ids(reasons, namespace.ids, items)
    if namespace.format == "json":
        print(json.dumps([*map(asdict, diagnosis.stored_reasons(reasons))], indent=1, ensure_ascii=False))
        return 0
    missed = sum(len(c.trials) for c in reasons)
    counted = [r for r in results if r.status not in ("skipped", "not_run")]
    print(
        f"{missed} of {count(len(counted), 'trial')} did not pass"
        + (f", for {count(len(reasons), 'reason')}" if missed else "")
    )
    command = f"a2a-bench show --results {shlex.quote(str(directory))}"
    for line in diagnosis.lines(reasons, items, command):
        print(line)
    return 0


def _print_ids(reasons: list[diagnosis.Cluster], number: int, nodeids: dict[str, str]) -> int:
    if not 1 <= number <= len(reasons):
        raise ConfigurationError(f"--ids: there is no reason {number}; there are {count(len(reasons), 'reason')}")
    ids = [nodeids[str(r.key)] for r, _ in reasons[number - 1].trials if str(r.key) in nodeids]
    print("\n".join(ids))
    return 0
