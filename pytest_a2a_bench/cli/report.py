"""``a2a-bench report DIR -o FILE``: make one page of a results directory.

The page needs no network: verdict, charts, every trial and its transcript are in the one file.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.errors import ConfigurationError

if TYPE_CHECKING:
    from pytest_a2a_bench.model import TrialResult
    from pytest_a2a_bench.reports.html import Contents

NAME = "report"
HELP = "make one HTML page of a results directory"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("directory", metavar="DIR", type=Path, help="Results directory of a run")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, default=Path("report.html"), help="(report.html)")
    parser.add_argument("--baseline", metavar="FILE|DIR", type=Path, help="Earlier run to compare with")
    parser.add_argument(
        "--conformance", metavar="FILE", type=Path, help="Report of: a2a-bench conformance URL --format json"
    )


def run(namespace: Namespace) -> int:
    """Write the page and say where it is."""
    from pytest_a2a_bench.reports.html import render, write
    from pytest_a2a_bench.results.stats import count

    contents = gather(namespace.directory, namespace.baseline, namespace.conformance)
    try:
        write(namespace.output, render(contents))
    except OSError as error:
        raise ConfigurationError(f"-o {namespace.output}: cannot be written: {error.strerror or error}") from error
    print(f"{namespace.output}: {count(len(contents.trials), 'trial')}")
    return 0


def gather(directory: Path, baseline: Path | None, conformance: Path | None) -> Contents:
    """Read everything that a page shows.

    :raises ConfigurationError: if there are no trials, or a file is not what it should be.
    """
    from pytest_a2a_bench.reports.html import Contents, Verdict, now, own_version
    from pytest_a2a_bench.results.store import Store

    if not directory.is_dir():
        raise ConfigurationError(f"{directory}: no such directory; give a run's --a2a-results")
    trials = list(Store(directory).read_all())
    if not trials:
        raise ConfigurationError(f"{directory}: there are no trial files (trials/*.json) in it")
    data, notes = _verdict(directory / "verdict.json", trials)
    agent = data.get("agent") if isinstance(data.get("agent"), Mapping) else {}
    from pytest_a2a_bench.reports.html.checks import read_checks

    checks, explanations = read_checks(_load(conformance, "--conformance")) if conformance else ((), {})
    comparison, about_baseline = _comparison(baseline, trials) if baseline else (None, [])
    try:
        verdict = Verdict.from_json(data) if data else None
    except ValueError as error:
        raise ConfigurationError(f"{directory / 'verdict.json'}: {error}") from error
    return Contents(
        trials=trials,
        endpoint=str((agent or {}).get("endpoint", "")),
        agent=str((agent or {}).get("name", "")),
        interface=str((agent or {}).get("interface", "")),
        checks=checks,
        explanations=explanations,
        verdict=verdict,
        comparison=comparison,
        baseline_name=str(baseline or ""),
        notes=[*notes, *about_baseline],
        made_at=now(),
        version=own_version(),
    )


def _verdict(path: Path, trials: list[TrialResult]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the verdict's file, where it is about these trials, and what to say where it is not."""
    if not path.is_file():
        return {}, []
    data = _load(path, "the verdict")
    runs = {r.run_id for r in trials}
    if data.get("run_id") not in runs:
        return {}, [f"The verdict in {path.name} is of another run than these trials, and is not shown."]
    if len(runs) > 1:
        return data, [f"The verdict is of run {data.get('run_id')} alone; the trials below are of {len(runs)} runs."]
    return data, []


def _comparison(path: Path, trials: list[TrialResult]) -> tuple[Any, list[str]]:
    """Return the comparison, and what is to be said about the baseline."""
    from pytest_a2a_bench.results.baseline import Baseline, load
    from pytest_a2a_bench.results.compare import compare

    found = load(path)
    return compare(found, Baseline.of(trials)), [f"The baseline {path}: {note}." for note in found.notes]


def _load(path: Path, what: str) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{what} {path}: cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise ConfigurationError(f"{what} {path}: it is not a JSON object")
    return data
