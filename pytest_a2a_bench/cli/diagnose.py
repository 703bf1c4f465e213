"""``a2a-bench diagnose DIR``: why the trials of a run did not pass, those of one cause together.

No model is asked: conversations are compared with what their tasks needed. Exits with 0, whatever it finds.
"""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.reports import diagnosis
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.stats import count


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="results directory")
    parser.add_argument("--key", metavar="KEY", help="say it of one trial only, such as tau2/airline/12#0")
    parser.add_argument(
        "--ids", type=int, metavar="N", help="print the node ids of the Nth reason's trials, for pytest"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output (text)")


def run(namespace: Namespace) -> int:
    """Print the reasons."""
    found = manifest.load_selected(namespace.directory)
    results = list(found.results)
    if namespace.key is not None:
        try:
            wanted = TrialKey.parse(namespace.key)
        except ValueError as error:
            raise ConfigurationError(f"--key: {error}") from error
        results = [r for r in results if r.key == wanted]
        if not results:
            raise ConfigurationError(f"{namespace.directory} has no trial {namespace.key}; its files name theirs (key)")
    reasons = diagnosis.clusters(results)
    items = {key: nodeid for nodeid, key in found.manifest.nodeids.items()}
    if namespace.ids is not None:
        return _print_ids(reasons, namespace.ids, items)
    if namespace.format == "json":
        print(json.dumps([*map(asdict, diagnosis.stored_reasons(reasons))], indent=1, ensure_ascii=False))
        return 0
    missed = sum(len(c.trials) for c in reasons)
    held = [r for r in results if r.status not in ("skipped", "not_run")]
    print(
        f"{missed} of {count(len(held), 'trial')} did not pass"
        + (f", for {count(len(reasons), 'reason')}" if missed else "")
    )
    command = f"a2a-bench diagnose {shlex.quote(str(namespace.directory))}"
    for line in diagnosis.lines(reasons, items, command):
        print(line)
    return 0


def _print_ids(reasons: list[diagnosis.Cluster], number: int, nodeids: dict[str, str]) -> int:
    if not 1 <= number <= len(reasons):
        raise ConfigurationError(f"--ids: there is no reason {number}; there are {count(len(reasons), 'reason')}")
    ids = [nodeids[str(r.key)] for r, _ in reasons[number - 1].trials if str(r.key) in nodeids]
    print("\n".join(ids))
    return 0
