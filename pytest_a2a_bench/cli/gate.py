"""``a2a-bench gate [DIR]``: judge finished trials by the gates of a run, such as those of joined shards.

``--write-baseline FILE`` keeps the results for later gates to compare with; ``--rescore`` evaluates the stored
conversations again and shows which rewards change (exit code 1 if some do, 2 if some cannot be evaluated).
Settings come from the command line, the environment or the project's pyproject.toml, as in pytest. What tests assert
beside success is not known here: trials that no gate counts must all succeed. It writes verdict.json. Exit code 0 if
the run passes, 1 if it does not, 2 for wrong settings.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks import models, registry
from pytest_a2a_bench.benchmarks.base import evaluated_by, rescorer
from pytest_a2a_bench.benchmarks.registry import get_benchmark
from pytest_a2a_bench.cli import _settings
from pytest_a2a_bench.cli._settings import configured_results, load_settings, moved_places, results_directory
from pytest_a2a_bench.config.settings import NOISY, Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.redact import dump_json
from pytest_a2a_bench.reports import summary, trial_text
from pytest_a2a_bench.reports.summary import judge_spread
from pytest_a2a_bench.results import lock, manifest, merge
from pytest_a2a_bench.results.baseline import BY_TASK, load
from pytest_a2a_bench.results.gates import files
from pytest_a2a_bench.results.gates.early import Finished, early_verdict
from pytest_a2a_bench.results.gates.judge import judge_run
from pytest_a2a_bench.results.gates.terms import (
    BLAMELESS,
    DECIDED_ERROR,
    Decision,
    Trials,
    Verdict,
    describe_quarantine,
    find_missed,
    groups_of_result,
    is_counted,
    quarantine_of,
    thresholds_of,
    was_run,
)
from pytest_a2a_bench.results.inference import LEVEL
from pytest_a2a_bench.results.manifest import CHOSEN, SelectedResults
from pytest_a2a_bench.results.stats import count, task_name
from pytest_a2a_bench.results.store import StoreError
from pytest_a2a_bench.text import refusing

if TYPE_CHECKING:
    from pytest_a2a_bench.model import Reward, TrialResult
    from pytest_a2a_bench.results.baseline import Baseline


NAMES = (
    *("min_pass", "min_pass_k", "baseline", "max_drop", "inconclusive"),
    *("max_cost", "max_latency", "max_metric", "max_infra_errors", "max_user_faults", "max_noise_loss"),
    "quarantine",
)
"""The settings that gates read."""


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", type=results_directory, help="results directory (the configured one)"
    )
    baseline = parser.add_argument_group("baseline")
    baseline.add_argument("--write-baseline", metavar="FILE", help="write a baseline")
    baseline.add_argument("--force", action="store_true", help="replace a baseline that has tasks which DIR has not")
    baseline.add_argument("--agent", metavar="NAME", help="the agent whose results are kept, of several")
    baseline.add_argument("--allow-incomplete", action="store_true", help="accept a run with missing or named trials")
    again = parser.add_argument_group("rescoring")
    again.add_argument("--rescore", action="store_true", help="evaluate stored conversations again")
    where = again.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=results_directory, metavar="DIR", help="new directory for the results")
    where.add_argument("--in-place", action="store_true", help="replace the results in DIR")
    _settings.add_arguments(parser, (*NAMES, "judge_llm"))


def run(namespace: Namespace) -> int:
    """Judge the trials, write a baseline, or evaluate conversations again."""
    directory: Path = namespace.directory or configured_results(namespace)
    if (other := "--write-baseline" * (namespace.write_baseline is not None) or "--rescore" * namespace.rescore) and (
        gates := [f"--{name.replace('_', '-')}" for name in NAMES if getattr(namespace, name) is not None]
    ):
        raise ConfigurationError(f"{other} judges nothing; leave out {', '.join(gates)}, or run the gate after it")
    if namespace.write_baseline is not None:
        if namespace.rescore or namespace.output or namespace.in_place or namespace.judge_llm:
            raise ConfigurationError(
                "--write-baseline evaluates nothing; rescore first, and leave out what belongs to it"
            )
        return _write_baseline(namespace, directory)
    for name in ("force", "agent", "allow_incomplete"):
        if getattr(namespace, name):
            raise ConfigurationError(f"--{name.replace('_', '-')} belongs to --write-baseline FILE")
    if namespace.rescore:
        return _rescore(namespace, directory)
    if namespace.output or namespace.in_place or namespace.judge_llm:
        raise ConfigurationError("-o, --in-place and --judge-llm belong to --rescore")
    return _judge(namespace, directory)


def _judge(namespace: Namespace, directory: Path) -> int:
    try:
        manifest.load(directory)  # a name that is wrong makes no directory
        # Of a run that goes on there is no verdict yet, and its own is not written over.
        with lock.locked(directory, "a2a-bench gate"):
            return _judge_results(namespace, directory, manifest.load_selected(directory))
    except StoreError as error:
        raise ConfigurationError(str(error)) from error


def _judge_results(namespace: Namespace, directory: Path, found: SelectedResults) -> int:
    settings = _read(namespace, found)
    read = files.read(settings, Path(), directory, has_run=True)
    results = list(found.every)
    problems = [*read.problems, *_unknown(settings, results)]
    if problems:
        raise ConfigurationError(*problems)
    trials = _trials(found, [r for r in results if was_run(r)], settings, read)
    verdict_found = judge_run(trials, thresholds_of(settings), settings, read.baseline)
    news = describe_quarantine(read.quarantine, trials.results, registry.group_names())
    verdict_found = dataclasses.replace(verdict_found, notes=(*verdict_found.notes, *news))
    _print(verdict_found, trials, directory)
    # Files that were copied here from another machine are of another run.
    others = manifest.about_others(found.others) if trials.not_run else ()
    for line in (*found.unreadable, *others):
        print(line, file=sys.stderr)
    _write(directory, verdict_found, trials, found)
    return int(verdict_found.failed or bool(verdict_found.errors))


def _read(namespace: Namespace, found: SelectedResults) -> Settings:
    """Return the gates' settings, with the settings of the run itself.

    :raises ConfigurationError: with every value that is wrong.
    """
    given = _settings.checked(_settings.load_settings(namespace, names=NAMES))
    own = [option for suite in registry.known() for option in suite.options]
    ran = found.manifest.settings
    # run.json says who they are by the keys alone; the first that was collected is whom the others are compared with.
    names = dict.fromkeys(TrialKey.parse(key).agent for key in found.manifest.whole)
    settings = Settings(
        **{name: getattr(given, name) for name in NAMES},
        agents={name: "" for name in names if name},
        split=ran.get("split", "base"),
        benchmark_options={o.name: ran.get(o.name, o.default) for o in own},
    )
    if settings.max_drop is not None and not settings.baseline and len(settings.under_test) < 2:
        raise ConfigurationError(
            "--max-drop is measured from a baseline: add --baseline FILE (written by --write-baseline)"
        )
    if settings.max_noise_loss is not None and NOISY not in names:
        raise ConfigurationError("--max-noise-loss judges a run with --a2a-noise, and this one has no trial with noise")
    return settings


def _unknown(settings: Settings, results: list[TrialResult]) -> Iterator[str]:
    """List the floors whose name nothing has."""
    here = {group for result in results for group in groups_of_result(result)} | registry.group_names()
    for group in thresholds_of(settings).min_pass:
        if group and group.removesuffix(BLAMELESS) not in ("", *here):
            yield f"--min-pass {group}: no suite, domain or category has that name"


def _trials(found: SelectedResults, results: list[TrialResult], settings: Settings, read: files.GateFiles) -> Trials:
    keys = [result.key for result in results]
    decided, is_open, level = _decided(found, settings, read)
    not_run = len(found.every) - len(results)
    again = "merge the parts" if found.manifest.merged else "run the same command with --a2a-resume"
    return Trials(
        results=results,
        selected=len(found.every),
        cut_short=is_open,
        not_run=not_run,
        absent=f"no result is stored; {again}" if not_run else "",
        named=found.manifest.named,
        decided=decided,
        level=level,
        quarantined=frozenset(task_name(k) for k in keys if quarantine_of(k, read.quarantine) is not None),
    )


def _decided(
    found: SelectedResults, settings: Settings, read: files.GateFiles
) -> tuple[Mapping[str, Decision], bool, float]:
    """Look at the trials once more as the run did, one after the other; joined shards have no order in common.

    :return: early decisions, whether an undecided gate lacks trials, and how often a comparison of all trials
        may be wrong after that.
    """
    run, baseline = found.manifest, read.baseline
    missing = {result.key for result in found.results if result.error_type == DECIDED_ERROR}
    if not run.order or run.merged:
        return {}, bool(missing), LEVEL
    if settings.agents:
        baseline = files.baselines_of(settings, baseline).get(settings.under_test[0] or "")
    early = early_verdict(run, thresholds_of(settings), baseline, read.quarantine)
    for result in found.results:
        if result.key not in missing:
            early.take(Finished(result.key, result.status, result.success))
    decided, is_open = early.standing(missing)
    # Each trial that no gate counts must succeed, and what was decided was another question.
    lacking = any(r.key in missing and not is_counted(r, settings) for r in found.results)
    return decided, is_open or lacking, early.level


def _print(found: Verdict, trials: Trials, directory: Path) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 160
    for line in summary.gate_lines(found, width):
        print(line)
    if found.comparison is not None:
        for line in summary.comparison_lines(found.comparison, width):
            print(line)
    for one in found.agents:
        for line in summary.agent_lines(one, width):
            print(line)
    if found.errors:
        print(summary.errors_line(found.errors, trials.not_run))
    command = f"a2a-bench show --results {shlex.quote(str(directory))}"
    for line in trial_text.summary_lines(trial_text.clusters(trials.results), command):
        print(line)
    print(f"verdict: {found.outcome}")


def _write(directory: Path, found: Verdict, trials: Trials, run: SelectedResults) -> None:
    nodeids = {key: nodeid for nodeid, key in run.manifest.nodeids.items()}
    runs = {result.run_id for result in run.results}
    # Of joined shards each trial keeps its own run's id.
    run_id = run.manifest.run_id if run.manifest.run_id in runs else max(runs)
    verdict_found = dataclasses.replace(
        files.StoredVerdict.of(found, run_id, trials, find_missed(trials.results, ()), nodeids),
        agent=files.JudgedAgent(run.manifest.endpoint, *run.manifest.card),
        reasons=trial_text.stored_reasons(trial_text.clusters(trials.results)),
    )
    with refusing(f"{directory}: the verdict cannot be written"):
        files.write_verdict(directory, verdict_found)


def _write_baseline(namespace: Namespace, source: Path) -> int:
    """Write the baseline, and print its contents."""
    target = Path(namespace.write_baseline)
    if not source.is_dir():
        raise ConfigurationError(f"{source} is not a results directory (--a2a-results)")
    found = load(source, "")
    if namespace.agent is not None:
        if namespace.agent not in found.agents:
            there = f"its agents are {', '.join(found.agents)}" if found.agents else "its agent has no name"
            raise ConfigurationError(f"--agent {namespace.agent}: {found.source}: {there}")
        found = found.only(namespace.agent)
    if not found.trials:
        raise ConfigurationError(f"{found.source}: no trial of {namespace.agent} was evaluated")
    if found.absent and not namespace.allow_incomplete:
        raise ConfigurationError(
            f"{found.source} is not of a whole run: {found.notes[0]}; run them with --a2a-resume, or leave "
            "them out with --allow-incomplete"
        )
    if found.chosen and not namespace.allow_incomplete:
        raise ConfigurationError(
            f"{found.source} is not of a whole run: its {CHOSEN}; run all again, or keep these with --allow-incomplete"
        )
    if target.exists() and not namespace.force:
        _check_replaced(target, found)
    with refusing(f"--write-baseline {target}: cannot be written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(dump_json(found.to_json()) + "\n", encoding="utf-8")
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


_CHANGED = 1
_NOT_EVALUATED = 2


def _rescore(namespace: Namespace, directory: Path) -> int:
    """Rescore, and show the differences."""
    found = manifest.load_selected(directory)
    # Who judges is said anew, because it costs.
    loaded = load_settings(namespace)
    options = moved_places(loaded, found.manifest.settings)
    settings = Settings(
        judge_llm=namespace.judge_llm,
        judge_times=loaded.settings.judge_times,
        user_llm_args=loaded.settings.user_llm_args,
        benchmark_options=options,
    )
    for _, problem in models.model_problems(settings):
        raise ConfigurationError(f"--judge-llm: {problem}")
    trials = merge.rescore(found, lambda r: evaluate(r, settings), datetime.now(UTC).isoformat(timespec="seconds"))
    for trial in trials:
        for line in trial.differences():
            print(line)
    for key, why in found.absent.items():
        print(f"{key}: {why}")
    output = directory if namespace.in_place else namespace.output
    if output is not None:
        run_id = f"rescored-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(3).hex()}"
        merge.write_rescored(found, trials, output, run_id)
    changed = sum(trial.changed for trial in trials)
    failed = sum(trial.problem is not None for trial in trials) + len(found.absent)
    print(
        f"{len(trials) + len(found.absent)} trials: {changed} rewards changed, "
        f"{len(trials) - sum(t.problem is not None for t in trials) - changed} are the same, {failed} not evaluated"
        + (f"; written to {output}" if output is not None else "; nothing was written (-o DIR, --in-place)")
    )
    told = [trial.result.provenance for trial in trials if trial.changed]
    for before, now in dict.fromkeys((p["rescored_from"]["benchmark"], p["benchmark"]) for p in told):
        if before != now:
            print(f"the conversations are of {before}, evaluated by {now}: tasks and solutions may be others")
    for line in judge_spread(trial.result for trial in trials):
        print(line)
    if failed:
        return _NOT_EVALUATED
    return _CHANGED if changed else 0


def evaluate(result: TrialResult, settings: Settings) -> tuple[Reward, Mapping[str, Any]]:
    """Let a trial's benchmark evaluate it again; raises A2ABenchError if the benchmark cannot."""
    benchmark = get_benchmark(result.key.suite)
    reward = rescorer(benchmark)(result, settings)
    return reward, evaluated_by(benchmark, result.key, settings)
