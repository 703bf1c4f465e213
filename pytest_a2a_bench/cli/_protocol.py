"""Check an agent's card and protocol."""

from __future__ import annotations

import functools
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.cli._settings import check_numbers, check_output, deliver, read_config, served, write_report
from pytest_a2a_bench.config.load import of_command
from pytest_a2a_bench.conformance.card.fetch import is_url, load_jwks
from pytest_a2a_bench.conformance.catalogue import load_requirements, requirement
from pytest_a2a_bench.conformance.engine import check_all
from pytest_a2a_bench.conformance.finding import ACTS, GATEWAY, VERSIONS, CheckResult, Planned, Requirement
from pytest_a2a_bench.conformance.gateway.run import Pair, meet
from pytest_a2a_bench.conformance.report import CheckRow, Report, to_accept, to_toml, waiver_for
from pytest_a2a_bench.conformance.scenarios import Scenarios, load_scenarios
from pytest_a2a_bench.conformance.subject import Subject, look_at
from pytest_a2a_bench.conformance.waivers import Waiver, read_waivers, waiver_of
from pytest_a2a_bench.conformance.wire.webhook import check_place
from pytest_a2a_bench.errors import ConfigurationError, raise_errors
from pytest_a2a_bench.listener import BindAddress, read_bind_address
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.reports.findings import summary_lines
from pytest_a2a_bench.results.stats import count
from pytest_a2a_bench.text import did_you_mean, one_line

_REASONS = 400


def run(namespace: Namespace) -> int:
    """Judge the agent and print the report."""
    with served(namespace.url) as namespace.url:
        _check_arguments(namespace)
        report = judge_agent(namespace)
    deliver(namespace, report)
    if namespace.output:
        sys.stdout.write(of_command(namespace.options).words("\n".join(summary_lines(report)) + "\n"))
    accepted = _accept(namespace, report) if namespace.accept is not None else ()
    if any(row.status == "failed" and row not in accepted for row in report.rows):
        return 1
    # The user chose these requirements, and none of them could be judged.
    if namespace.id and all(row.status == "skipped" for row in report.rows):
        reasons = dict.fromkeys(row.reason for row in report.rows)
        text = one_line("; ".join(reasons), _REASONS)
        print(f"a2a-bench: nothing was judged: {text}", file=sys.stderr)
        return 2
    return 2 if any(row.status == "error" for row in report.rows) else 0


def _accept(namespace: Namespace, report: Report) -> list[CheckRow]:
    """Write waivers for failed checks, and return the checks that have one now."""
    there = set(map(str, report.waivers))
    new = []
    for row in to_accept(report.rows, strict=namespace.strict):
        waiver = waiver_for(row, namespace.accept)
        if str(waiver) not in there:
            new.append(row)
        else:
            print(f"a2a-bench: the waiver {waiver} is over; change its end in {namespace.waivers}", file=sys.stderr)
    path = Path(namespace.waivers)
    before = path.read_text(encoding="utf-8").rstrip("\n") + "\n\n" if path.exists() else ""
    if new or not path.exists():
        write_report(path, (before if before.strip() else "") + to_toml(new, namespace.accept), "--waivers")
    print(
        f"a2a-bench: {path}: {count(len(new), 'waiver')} added; a run with it fails for anything else", file=sys.stderr
    )
    return new


def judge_agent(namespace: Namespace) -> Report:
    """Look at the card, run the checks, and apply waivers."""
    waivers = _waivers(namespace)
    config = read_config(namespace, namespace.url)
    begin = time.monotonic()
    jwks = load_jwks(namespace.jwks, timeout=namespace.timeout, network=config.network) if namespace.jwks else None
    pair = _meet(namespace, config, jwks) if namespace.direct else None
    subject = pair.gateway if pair is not None else look_at(config, timeout=namespace.timeout, jwks=jwks)
    results = [r for r in subject.card_results() if _is_wanted(namespace, r.requirement, r.binding)]
    results += _protocol(namespace, subject if pair is None else pair.judged, config)
    if pair is not None:
        chosen = [p for p in pair.plan() if _is_wanted(namespace, p.requirement, p.binding)]
        results = loop.run(pair.attribute(results, chosen, lambda result: waiver_of(result, waivers) is not None))
    if not results:
        raise ConfigurationError(_nothing_left(namespace, subject))
    return subject.report(
        redact_url(namespace.url),
        results,
        waivers=waivers,
        strict=namespace.strict,
        seconds=time.monotonic() - begin,
        planned=tuple(subject.planned),
        profile=namespace.profile,
        gateway=pair.summary(results) if pair is not None else "",
    )


def _meet(namespace: Namespace, config: ClientConfig, jwks: Any) -> Pair:
    """Look at the gateway and at the agent behind it."""
    return meet(
        config,
        read_config(namespace, namespace.direct),
        timeout=namespace.timeout,
        jwks=jwks,
        scenarios=_scenarios(namespace),
        webhook=_place(namespace),
        profile=namespace.profile,
    )


def _planned(namespace: Namespace, subject: Subject) -> list[Planned]:
    every = subject.plan()
    if namespace.loaded_acts is not None and not subject.problem:
        every += namespace.loaded_acts.plan(subject.card, subject.endpoint)
    # Who names a requirement wants it judged; what is not safe stays out all the same.
    profile = "full" if namespace.id and namespace.profile != "safe" else namespace.profile
    return [p for p in every if p.requirement.is_in(profile) and _is_wanted(namespace, p.requirement, p.binding)]


def _protocol(namespace: Namespace, subject: Subject, config: ClientConfig) -> list[CheckResult]:
    planned = _planned(namespace, subject)
    if not planned:
        return []
    if subject.problem:
        return [CheckResult(p.requirement, p.binding, "error", reason=subject.problem) for p in planned]
    webhook, breadth = _place(namespace), namespace.profile
    targets = subject.targets(config, _scenarios(namespace), namespace.timeout, webhook=webhook, breadth=breadth)
    left: list[str] = []
    try:
        return list(check_all(targets, planned, namespace.concurrency, left).values())
    # Also after Ctrl-C: tasks that stay behind on the agent are named even without a report.
    finally:
        for text in left:
            print(f"a2a-bench: {one_line(text)}", file=sys.stderr)


def _nothing_left(namespace: Namespace, subject: Subject) -> str:
    spoken = subject.interfaces
    if namespace.version and spoken and not any(i.startswith(tuple(namespace.version)) for i in spoken):
        asked = " or ".join(namespace.version)
        return f"--version {asked}: the card of {redact_url(subject.endpoint)} declares {', '.join(spoken)}"
    return f"no check is left of all that {redact_url(subject.endpoint)} has; give fewer of --group ... --id"


def _is_wanted(namespace: Namespace, entry: Requirement, binding: str) -> bool:
    pairs = (
        (namespace.group, entry.group),
        (namespace.level, entry.level),
        (namespace.id, entry.id),
        (namespace.binding, binding),
        (namespace.version, entry.version),
    )
    return all(not wanted or value in wanted for wanted, value in pairs)


def _check_arguments(namespace: Namespace) -> None:
    keys = namespace.jwks
    namespace.loaded_acts = None
    # First, as ids and groups may be theirs.
    raise_errors(lambda: _load_acts(namespace))
    theirs = namespace.loaded_acts.ids if namespace.loaded_acts is not None else ()
    raise_errors(
        lambda: check_numbers(namespace, "timeout", "concurrency"),
        lambda: _check_groups(namespace.group, bool(theirs)),
        *(functools.partial(requirement, id) for id in namespace.id if id not in theirs),
        lambda: check_place(_place(namespace)),
        lambda: load_jwks(keys, timeout=namespace.timeout) if keys and not is_url(keys) else None,
        lambda: _check_accepting(namespace),
        lambda: _waivers(namespace),
        lambda: _scenarios(namespace),
        lambda: check_output(Path(namespace.output)) if namespace.output else None,
        lambda: read_config(namespace, namespace.url),
    )


def _check_accepting(namespace: Namespace) -> None:
    if namespace.accept is None:
        return
    if not namespace.waivers:
        raise ConfigurationError("--accept: give --waivers FILE with it, the file that what fails is added to")
    if not (namespace.accept.strip() and namespace.accept.isprintable()):
        raise ConfigurationError(
            "--accept: say in a line why these defects are accepted, such as 'a2a-js 1.3, reported'"
        )
    check_output(Path(namespace.waivers), "--waivers")


def _waivers(namespace: Namespace) -> tuple[Waiver, ...]:
    # The first time there is none to read.
    if not namespace.waivers or (namespace.accept is not None and not Path(namespace.waivers).exists()):
        return ()
    acts = namespace.loaded_acts
    return read_waivers(namespace.waivers, acts=acts.ids if acts is not None else ())


def _load_acts(namespace: Namespace) -> None:
    if namespace.acts is None:
        if namespace.acts_behaviors is not None:
            raise ConfigurationError("acts-behaviors: give --set acts=PATH with it")
        return
    from pytest_a2a_bench.conformance.acts.suite import load_acts  # reads YAML, which is an extra

    namespace.loaded_acts = load_acts(namespace.acts, namespace.acts_behaviors)


def _check_groups(names: list[str], with_acts: bool) -> None:
    groups = list(dict.fromkeys(entry.group for version in VERSIONS for entry in load_requirements(version)))
    groups += [GATEWAY, *([ACTS] if with_acts else [])]
    unknown = [name for name in names if name not in groups]
    if unknown:
        raise ConfigurationError(
            f"--group names {', '.join(unknown)}; there are {', '.join(groups)}{did_you_mean(unknown, groups)}"
        )


def _place(namespace: Namespace) -> BindAddress | None:
    return read_bind_address(namespace.webhook_bind, namespace.webhook_url)


def _scenarios(namespace: Namespace) -> Scenarios:
    return load_scenarios(Path(namespace.scenarios)) if namespace.scenarios else Scenarios()
