"""``a2a-bench export FORMAT [DIR] -o FILE``: results in another format.

Formats are the report page (html), those of benchmarks' own tools (tau2) and of leaderboards, the requests of every
trial (metrics), and reports of plugins. ``export schema NAME`` prints the JSON Schema of one of our files. ``export
vectors -o DIR`` writes agent cards and answers, good and bad, with the findings that are expected of each, for other
tools.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_a2a_bench import extensions, schemas
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli import _settings
from pytest_a2a_bench.cli._settings import INCOMPLETE, configured_results, results_directory
from pytest_a2a_bench.config.settings import NOISY, PLAIN
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey
from pytest_a2a_bench.platforms import once
from pytest_a2a_bench.redact import dump_json
from pytest_a2a_bench.reports import protocol_metrics
from pytest_a2a_bench.reports.contents import gather, write_with
from pytest_a2a_bench.reports.html import write
from pytest_a2a_bench.results import history, manifest
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.results.store import write_atomically
from pytest_a2a_bench.schemas import FORMS
from pytest_a2a_bench.text import did_you_mean, refusing

LEADERBOARD = "leaderboard"
"""The format that is no benchmark's: AgentBeats' leaderboards, of which DuckDB reads a directory of files."""

HTML = "html"
SCHEMA = "schema"
VECTORS = "vectors"
METRICS = "metrics"
"""Another one: the requests of every trial, as tau2's A2A integration documents them."""

_STANDARD_OUTPUT = "-"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    suites = [name for name in registry.names() if (suite := registry.find(name)) is not None and suite.exporter]
    formats = [HTML, *suites, LEADERBOARD, METRICS, *extensions.names("reporters"), SCHEMA, VECTORS]
    parser.add_argument("format", choices=formats, help=", ".join(formats))
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", help="results directory (the configured one); schema: the file's NAME"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="file to write (html: report.html); - for metrics on stdout"
    )
    parser.add_argument("--domain", metavar="NAME", help="the domain, of several, for a format with one")
    parser.add_argument("--agent", metavar="NAME", help="the agent, of several, for a format with one")
    parser.add_argument(
        "--allow-incomplete", action="store_true", help="count trials without a reward as failures, instead of refusing"
    )
    page = parser.add_argument_group("html")
    page.add_argument("--baseline", metavar="FILE|DIR", type=results_directory, help="earlier run to compare with")
    page.add_argument("--history", metavar="PATH", type=Path, help="runs of --a2a-history-file, to show over time")
    page.add_argument("--conformance", metavar="FILE", type=Path, help="report of: a2a-bench check URL --format json")
    board = parser.add_argument_group("leaderboard")
    board.add_argument("--id", metavar="ID", help="the leaderboard's id of the agent")
    board.add_argument("--role", default=once.ROLE, help="the agent's role (%(default)s)")
    metrics = parser.add_argument_group("metrics")
    metrics.add_argument("--jsonl", action="store_true", help="a line for each trial, instead of one array")
    _settings.add_arguments(parser)


def _chosen(namespace: Namespace, found: manifest.SelectedResults) -> manifest.SelectedResults:
    """Return the part of a run that is the chosen agent's.

    :raises ConfigurationError: if there is no such agent, or several and none is chosen for a file about one.
    """
    run = found.manifest
    there = sorted({key.agent for key in map(TrialKey.parse, run.keys) if key.agent is not None})
    if namespace.agent is None:
        if len(there) > 1 and namespace.format != METRICS:
            raise ConfigurationError(f"export: the run is of several agents; add --agent {' or '.join(there)}")
        return found
    if namespace.agent not in there:
        raise ConfigurationError(f"export: --agent {namespace.agent}: {_there(there)}")
    keys = tuple(key for key in run.keys if _is_wanted(TrialKey.parse(key), namespace))
    return dataclasses.replace(
        found,
        manifest=dataclasses.replace(run, keys=keys),
        results=tuple(r for r in found.results if _is_wanted(r.key, namespace)),
        absent={key: why for key, why in found.absent.items() if key in keys},
    )


def _there(names: Sequence[str]) -> str:
    return f"the run's agents are {', '.join(names)}" if names else "the run's agent has no name"


def _export(namespace: Namespace, found: manifest.SelectedResults) -> tuple[Any, Sequence[str]]:
    if namespace.format == LEADERBOARD:
        participants = {namespace.role: namespace.id}
        return once.export(found, namespace.domain, namespace.allow_incomplete, participants)
    if namespace.format == METRICS:
        return [protocol_metrics.of_trial(r) for r in found.results if _is_wanted(r.key, namespace)], ()
    exporter = import_module(registry.load(namespace.format).exporter)
    document: tuple[dict[str, Any], Sequence[str]] = exporter.EXPORT(
        found, namespace.domain, namespace.allow_incomplete
    )
    return document


def _is_wanted(key: TrialKey, namespace: Namespace) -> bool:
    return namespace.domain in (None, key.domain) and namespace.agent in (None, key.agent)


def _contradictions(namespace: Namespace) -> Iterator[str]:
    if namespace.output is None:
        yield "name the file to write: -o FILE"
    if namespace.format == LEADERBOARD and namespace.id is None:
        yield "a leaderboard knows an agent by an id: add --id ID"
    if namespace.format != LEADERBOARD and namespace.id is not None:
        yield f"--id is for {LEADERBOARD}; leave it out"
    if namespace.format != METRICS and (namespace.jsonl or namespace.output == _STANDARD_OUTPUT):
        yield f"--jsonl and -o {_STANDARD_OUTPUT} are for {METRICS}"


def run(namespace: Namespace) -> int:
    """Write the file, and print the notes for its users."""
    if namespace.format == SCHEMA:
        return _write_schema(namespace.directory or "", namespace.output or _STANDARD_OUTPUT)
    if namespace.format == VECTORS:
        return _write_vectors(namespace.output)
    given = namespace.directory
    if namespace.format == METRICS and given is not None and (written := _of_tau2(Path(given))):
        return _write_metrics(namespace, written)
    try:
        namespace.directory = results_directory(given) if given is not None else configured_results(namespace)
    except ArgumentTypeError as error:
        raise ConfigurationError(f"export: {error}") from error
    if namespace.format == HTML or namespace.format in extensions.names("reporters"):
        return _write_page(namespace, namespace.directory)
    problems = list(_contradictions(namespace))
    if problems:
        raise ConfigurationError(f"export: {'; '.join(problems)}")
    found = _chosen(namespace, manifest.load_selected(namespace.directory))
    for line in found.unreadable:
        print(line, file=sys.stderr)
    # Other formats refuse, unless --allow-incomplete counts the trial as a failure.
    code = INCOMPLETE if found.unreadable and namespace.format == METRICS else 0
    if namespace.format != METRICS and any(result.key.agent == NOISY for result in found.results):
        raise ConfigurationError(f"export: trials with noise are no results of the benchmark; add --agent {PLAIN}")
    for domain, output in _files(namespace, found):
        namespace.domain = domain
        try:
            data, lines = _export(namespace, found)
        except ConfigurationError as error:
            # The files of the other domains are written all the same.
            problems += map(str, error.args)
            continue
        _write(output, data, jsonl=namespace.jsonl)
        for line in lines:
            print(line)
    if problems:
        raise ConfigurationError(*problems)
    if found.others and namespace.output != _STANDARD_OUTPUT:
        print(*manifest.about_others(found.others), sep="\n")
    return code


def _write(output: str, data: Any, *, jsonl: bool = False) -> None:
    """Write JSON, or a line for each element of a list, to a file or standard output."""
    text = "".join(json.dumps(one) + "\n" for one in data) if jsonl else dump_json(data) + "\n"
    if output == _STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    with refusing(f"{output} cannot be written"):
        write_atomically(Path(output), text)
    print(f"written to {output}")


def _write_vectors(output: str | None) -> int:
    """Write the cards and answers whose findings are known, for other tools to try themselves on."""
    if output is None:
        raise ConfigurationError("export: name the directory to write to: -o DIR")
    from pytest_a2a_bench.conformance import vectors

    with refusing(f"export: {output} cannot be written"):
        number = vectors.write(Path(output))
    print(f"{number} vectors written to {output}; index.json says what is to be found in each")
    return 0


def _files(namespace: Namespace, found: manifest.SelectedResults) -> list[tuple[str | None, str]]:
    """Return the domains with their output files: for a benchmark's own tool one file for each domain."""
    domains = sorted({TrialKey.parse(key).domain for key in found.manifest.keys})
    if namespace.format in (LEADERBOARD, METRICS) or namespace.domain is not None or len(domains) < 2:
        return [(namespace.domain, namespace.output)]
    path = Path(namespace.output)
    return [(domain, str(path.with_name(f"{path.stem}-{domain}{path.suffix}"))) for domain in domains]


def _of_tau2(place: Path) -> list[Path]:
    """Return the files of requests in a directory of tau2's results, or beside one file of results."""
    if place.is_file():
        own = place.with_name(f"{place.stem}{protocol_metrics.TAU2_SUFFIX}")
        return [one for one in (own,) if one.is_file()]
    return sorted(place.glob(f"*{protocol_metrics.TAU2_SUFFIX}"))


def _write_metrics(namespace: Namespace, written: Sequence[Path]) -> int:
    """Write the requests that runs of tau2's own runner left in some files."""
    with refusing(f"export: {written[0].parent}", errors=(OSError, ValueError)):
        records = [record for path in written for record in json.loads(path.read_text(encoding="utf-8"))]
    _write(namespace.output or _STANDARD_OUTPUT, records, jsonl=namespace.jsonl)
    return 0


def _write_page(namespace: Namespace, directory: Path) -> int:
    """Write the file and say where it is.

    The page needs no network: verdict, charts, every trial and its transcript are in one file.
    """
    if given := [f"--{name}" for name in ("domain", "agent", "id", "jsonl") if getattr(namespace, name)]:
        raise ConfigurationError(f"export: a page is of the whole run; leave out {', '.join(given)}")
    if namespace.history is not None and not namespace.history.exists():
        raise ConfigurationError(f"--history {namespace.history}: there is no such file")
    past = history.read(namespace.history) if namespace.history is not None else ()
    contents = gather(directory, namespace.baseline, namespace.conformance, past)
    output = Path(namespace.output or "report.html")
    with refusing(f"-o {output}: cannot be written"):
        page = write(output, contents) if namespace.format == HTML else write_with(namespace.format, output, contents)
    print(f"{page}: {count(len(contents.trials), 'trial')}")
    for note in contents.unfinished:
        print(note)
    if contents.unreadable:
        print(f"{count(len(contents.unreadable), 'trial file')} cannot be read, and the page has no result of it")
        print("\n".join(contents.unreadable), file=sys.stderr)
    return 0


def _write_schema(name: str, output: str) -> int:
    if name not in FORMS:
        valid = sorted(FORMS)
        raise ConfigurationError(f"export schema: {name!r} is not one of {', '.join(valid)}{did_you_mean(name, valid)}")
    _write(output, schemas.load(name))
    return 0
