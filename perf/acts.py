"""What A2A's own ACTS tests say of a correct agent on a2a-sdk, beside what our checks of the same requirements say.

``python perf/acts.py A2A/tests/acts`` with a checkout of A2A's pull request 1882, of which this project has no copy,
serves the agent of our tests that does what ACTS' prefixes say, and one that is told by scenarios. It prints a table
for each: what the tests came to, and each test that does not pass, with its reason and with what our own checks found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "agents"), str(ROOT / "tests" / "support")]
from acts_agent import BEHAVIORS, acts_agent  # noqa: E402 (agents of the tests, which are no package)
from full_agent import Features, full_agent  # noqa: E402
from judged import SCRIPTED  # noqa: E402

from pytest_a2a_bench.a2a.config import ClientConfig  # noqa: E402
from pytest_a2a_bench.conformance.acts.public import load_public  # noqa: E402
from pytest_a2a_bench.conformance.acts.suite import ActsSuite, load_acts  # noqa: E402
from pytest_a2a_bench.conformance.finding import ACTS, CheckResult  # noqa: E402
from pytest_a2a_bench.conformance.judging import check_all  # noqa: E402
from pytest_a2a_bench.conformance.scenarios import Scenarios  # noqa: E402
from pytest_a2a_bench.conformance.subject import look_at  # noqa: E402
from pytest_a2a_bench.redact import one_line  # noqa: E402

_PROMPTS = {**SCRIPTED, "slow": "slow 1.5 done", "fail": "fail no"}
_WIDTH = 150


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="A directory of ACTS files")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder, "sut-behaviors.yaml")
        known.write_text(BEHAVIORS, encoding="utf-8")
        with acts_agent(Features()) as url:
            show("told by ACTS' prefixes", judge(url, load_acts(chosen.checkout, known), _PROMPTS))
    with full_agent(Features()) as url:
        show("told by scenarios", judge(url, load_acts(chosen.checkout), _PROMPTS))


def judge(url: str, suite: ActsSuite, prompts: dict[str, str]) -> list[CheckResult]:
    """Make all tests and all our own checks."""
    config = ClientConfig(endpoint=url)
    subject = look_at(config)
    targets = subject.targets(config, Scenarios(prompts), 10.0)
    results = check_all(targets, [*subject.plan(), *suite.plan(subject.card, url)])
    return [*subject.card_results(), *results.values()]


def show(title: str, results: Iterable[CheckResult]) -> None:
    """Print what came of one agent."""
    theirs: defaultdict[str, list[CheckResult]] = defaultdict(list)
    ours: defaultdict[str, set[str]] = defaultdict(set)
    for result in results:
        if result.requirement.group == ACTS:
            theirs[result.requirement.id].append(result)
        else:
            ours[result.requirement.id].add(result.outcome)
    counts = Counter(_worst(found) for found in theirs.values())
    print(f"\n{title}: {len(theirs)} tests: {', '.join(f'{n} {word}' for word, n in counts.most_common())}")
    for id, found in theirs.items():
        worst = _worst(found)
        if worst == "passed":
            continue
        one = next(r for r in found if r.outcome == worst)
        why = one.findings[0].found if one.findings else one.reason
        known = load_public().get(id)
        same = "; ".join(f"{name} {'/'.join(sorted(ours[name])) or 'none'}" for name in (known.ours if known else ()))
        print(f"| {id} | {worst} | {one_line(why, _WIDTH)} | {same} |")


def _worst(found: Iterable[CheckResult]) -> str:
    outcomes = {r.outcome for r in found}
    order = ("failed", "error", "inconclusive", "warned", "explained", "passed", "skipped")
    return next(word for word in order if word in outcomes)


if __name__ == "__main__":
    main()
