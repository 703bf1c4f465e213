"""``a2a-bench merge DIR... -o DIR``: join the results of shards; fails where a trial is missing or there twice."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli._settings import imported
from pytest_a2a_bench.reports.summary import label_of
from pytest_a2a_bench.results import remote
from pytest_a2a_bench.results.merge import check_output, merge
from pytest_a2a_bench.results.stats import count, summarise


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    # Located below, in another order.
    parser.add_argument("directories", nargs="+", metavar="DIR", help="results directory of a shard")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="new results directory")


def run(namespace: Namespace) -> int:
    """Merge the results and print a summary."""
    output = remote.located(namespace.output)
    # Bringing parts takes long, and people of a directory need not make room for a merge that fails.
    if remote.is_url(namespace.output):
        check_output(output)
    parts = [imported(remote.located(name)) for name in namespace.directories]
    merged = merge(parts, output, {option.name: f"--a2a-{option.key}" for option in registry.places()})
    for part in summarise(merged.results, registry.variant_of):
        unjudged = part.trials - part.evaluated
        reward = "no reward" if part.mean_reward is None else f"reward {part.mean_reward:.3f}"
        print(
            f"{label_of(part)}: {part.successes} of {count(part.trials, 'trial')} passed, {reward}"
            + (f", {unjudged} not evaluated" if unjudged else "")
        )
    print(f"{count(len(merged.manifest.keys), 'trial')} of {len(parts)} directories in {namespace.output}")
    return 0
