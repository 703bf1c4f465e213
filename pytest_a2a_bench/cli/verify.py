"""``a2a-bench verify DIR``: replay stored conversations through the benchmark's own implementation, and compare.

What comes of it is stored with the results, as ``--a2a-verify`` does; what is verified already is not replayed again.
Exits with 2 where somebody's trouble kept a trial from being verified, else with 1 where anything differs.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.base import Verifier
from pytest_a2a_bench.cli._places import add_places, benchmark_options
from pytest_a2a_bench.cli._results import results_directory
from pytest_a2a_bench.results import lock, manifest
from pytest_a2a_bench.results.store import Store
from pytest_a2a_bench.results.verified import Tally
from pytest_a2a_bench.settings import Settings
from pytest_a2a_bench.trials.verifying import needs_verifying, verify

DIFFERS = 1
NOT_VERIFIED = 2


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("directory", type=results_directory, metavar="DIR", help="results directory")
    parser.add_argument("--again", action="store_true", help="also what is verified already")
    add_places(parser)


def run(namespace: Namespace) -> int:
    """Verify, store what came of it, and show what differs."""
    manifest.load(namespace.directory)  # says so where it is no run's, before a lock is left there
    with lock.held(namespace.directory, "a2a-bench verify"):
        found = manifest.load_selected(namespace.directory)
        asked = found.manifest.settings
        settings = Settings(
            user_llm_args=asked.get("user_llm_args") or {},
            judge_llm=asked.get("judge_llm"),
            benchmark_options=benchmark_options(asked, namespace),
        )
        store, verifiers, results = Store(namespace.directory), _Verifiers(settings), []
        try:
            for result in found.results:
                if result.is_finished and (namespace.again or needs_verifying(result)):
                    result = store.write(verify(result, verifiers.open))
                results.append(result)
        finally:
            verifiers.close()
    tally = Tally.of(results)
    for line in tally.details():
        print(line)
    unfinished = sum(not r.is_finished for r in results) + len(found.absent)
    print(tally.sentence + (f"; {unfinished} without a finished conversation" if unfinished else ""))
    if tally.failed:
        return NOT_VERIFIED
    return DIFFERS if tally.differ else 0


class _Verifiers:
    """Those of the suites that there are results of, each started once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opened: dict[str, Verifier | None] = {}

    def open(self, suite: str) -> Verifier | None:
        if suite not in self._opened:
            self._opened[suite] = registry.open_verifier(suite, self._settings)
        return self._opened[suite]

    def close(self) -> None:
        for verifier in self._opened.values():
            if verifier is not None:
                verifier.close()
