"""``a2a-bench lint SUITE|DIR``: look for what is wrong with the tasks of a benchmark, or of a directory of your own.

Exit code 0: nothing that is at least as bad as ``--fail-on``. 1: findings. 2: wrong arguments, or data that cannot be
read.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.lint import SEVERITIES, DomainLint, Linter, LintReport, LintRequest, Rule
from pytest_a2a_bench.benchmarks.lint_known import LintCache
from pytest_a2a_bench.configuration.option import Option
from pytest_a2a_bench.errors import ConfigurationError, collect_errors
from pytest_a2a_bench.nearest import did_you_mean
from pytest_a2a_bench.reports import lint
from pytest_a2a_bench.results.store import write_atomically
from pytest_a2a_bench.settings import Settings

NEVER = "never"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    suites = ", ".join(name for name, _ in registry.linters())
    parser.add_argument(
        "source", metavar="SUITE|DIR", help=f"A benchmark ({suites}), or a directory with its kind of data"
    )
    parser.add_argument("--domain", action="append", default=[], metavar="NAME", help="Only this domain (repeatable)")
    parser.add_argument("--split", default="base", metavar="NAME", help="Which tasks (base)")
    parser.add_argument("--against", type=Path, metavar="DIR", help="Compare with another edition of the same data")
    parser.add_argument("--rule", action="append", default=[], metavar="ID", help="Only this rule (repeatable)")
    parser.add_argument("--ignore", action="append", default=[], metavar="ID", help="All rules but this (repeatable)")
    parser.add_argument(
        "--fail-on",
        choices=(*SEVERITIES, NEVER),
        default="error",
        help="Exit with 1 for these and worse (error)",
    )
    parser.add_argument("--format", choices=tuple(lint.FORMATS), default="text", help="Output (text)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="Write there instead of printing")
    parser.add_argument("-v", "--verbose", action="store_true", help="Name every task in text, however many")
    parser.add_argument("--no-cache", action="store_true", help="Replay golds again, although the data are known")
    parser.add_argument("--list-rules", action="store_true", help="Print the rules and do nothing else")
    for option in _options():
        parser.add_argument(f"--{option.cli_stem}", metavar=option.metavar, help=option.help)


def run(namespace: Namespace) -> int:
    """Look, and print what was found."""
    suite, linter, directory = _find(namespace.source)
    rules = _choose_rules(namespace, linter)
    if namespace.list_rules:
        print("\n".join(lint.rule_lines(rules)))
        return 0
    request = LintRequest(directory, namespace.split, namespace.against, _settings(namespace))
    domains = _choose_domains(namespace, linter, request)
    cache = LintCache(None if namespace.no_cache else LintCache.place(os.environ))
    found = tuple(_look(cache, linter, suite, request, domain) for domain in domains)
    report = LintReport(suite, namespace.source, rules, found)
    text = lint.render(report, namespace.format, verbose=namespace.verbose)
    if namespace.output is None:
        sys.stdout.write(text)
    else:
        _write(namespace.output, text)
    return int(namespace.fail_on != NEVER and report.fails(namespace.fail_on))


def _look(cache: LintCache, linter: Linter, suite: str, request: LintRequest, domain: str) -> DomainLint:
    # What another edition says is not the data's own, and directories of one's own are looked at each time.
    if request.against is not None or request.directory is not None:
        return linter.lint(request, domain)
    return cache.lint(linter, suite, request, domain)


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from error


def _find(source: str) -> tuple[str, Linter, Path | None]:
    """Return whose linter looks at a source: a suite's by its name, or the one that recognises a directory."""
    known = dict(registry.linters())
    if source in known:
        return source, known[source], None
    path = Path(source)
    if not path.is_dir():
        raise ConfigurationError(
            f"{source} is neither a benchmark that can be linted ({', '.join(known)}) nor a directory"
            f"{did_you_mean(source, known)}"
        )
    for name, linter in known.items():
        if linter.recognises(path):
            return name, linter, path
    raise ConfigurationError(
        f"{source} holds no data of a kind that can be linted ({', '.join(known)}); tau2's have NAME/tasks.json, "
        "CRMArena's NAME_tasks.json"
    )


def _choose_rules(namespace: Namespace, linter: Linter) -> tuple[Rule, ...]:
    names = {rule.id for rule in linter.rules}
    unknown = [name for name in (*namespace.rule, *namespace.ignore) if name not in names]
    if unknown:
        near = did_you_mean(unknown, names)
        raise ConfigurationError(f"there is no rule {', '.join(unknown)}; there are: {', '.join(sorted(names))}{near}")
    wanted = set(namespace.rule or names) - set(namespace.ignore)
    if not wanted:
        raise ConfigurationError("--rule and --ignore leave no rule")
    return tuple(rule for rule in linter.rules if rule.id in wanted)


def _choose_domains(namespace: Namespace, linter: Linter, request: LintRequest) -> tuple[str, ...]:
    if request.against is not None and not request.against.is_dir():
        raise ConfigurationError(f"--against: {request.against} is no directory")
    there = linter.domains(request)
    unknown = [name for name in namespace.domain if name not in there]
    if unknown:
        raise ConfigurationError(
            f"there is no domain {', '.join(unknown)}; there are: {', '.join(there)}{did_you_mean(unknown, there)}"
        )
    return tuple(domain for domain in there if not namespace.domain or domain in namespace.domain)


def _options() -> list[Option]:
    """Return the options of benchmarks that say which tasks there are."""
    return [o for suite in registry.known() for o in suite.options if o.name in suite.gold_options]


def _settings(namespace: Namespace) -> Settings:
    values: dict[str, object] = {}
    problems = collect_errors(*(lambda option=option: values.update(_read(namespace, option)) for option in _options()))
    if problems:
        raise ConfigurationError("; ".join(problems))
    return Settings(benchmark_options=values)


def _read(namespace: Namespace, option: Option) -> Iterator[tuple[str, object]]:
    text = getattr(namespace, option.name)
    if text is None:
        return
    try:
        yield option.name, option.read(text)
    except ValueError as error:
        raise ConfigurationError(f"--{option.cli_stem}: {error}") from error
