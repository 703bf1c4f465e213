"""Run the checks of items together, and turn their results into pytest's outcomes."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.network import USUAL
from pytest_a2a_bench.conformance import subject
from pytest_a2a_bench.conformance.card.fetch import load_jwks
from pytest_a2a_bench.conformance.engine import Judge
from pytest_a2a_bench.conformance.finding import CARD, CheckResult
from pytest_a2a_bench.conformance.grouping import fold
from pytest_a2a_bench.conformance.raw import RawWire
from pytest_a2a_bench.conformance.report import CheckRow, judge
from pytest_a2a_bench.conformance.scenarios import Scenarios, load_scenarios
from pytest_a2a_bench.conformance.waivers import Waiver, read_waivers, waiver_of
from pytest_a2a_bench.conformance.wire.webhook import check_place
from pytest_a2a_bench.errors import ConfigurationError, ConformanceWarning, collect_errors
from pytest_a2a_bench.listener import read_bind_address
from pytest_a2a_bench.plugin import shim, state
from pytest_a2a_bench.plugin.check_items import ItemCheck, acts_of
from pytest_a2a_bench.plugin.explanation import add_explanation, set_properties
from pytest_a2a_bench.plugin.state import CHECK, BenchRun
from pytest_a2a_bench.reports import findings
from pytest_a2a_bench.text import one_line

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.finding import Planned
    from pytest_a2a_bench.conformance.gateway.run import Pair
    from pytest_a2a_bench.conformance.subject import Subject
    from pytest_a2a_bench.conformance.target import Target
    from pytest_a2a_bench.listener import BindAddress

ROW = pytest.StashKey[CheckRow]()
# Where an item ends: an error shows its evidence as its message, a plain skip has none.
_TOLD_IN = dict.fromkeys(("waived", "inconclusive", "explained"), "setup") | dict.fromkeys(("error", "skipped"), "")
_SILENT = ("skip", "skipif", "xfail")
ANSWER_SECONDS = 30.0
"""Most seconds for one answer while the protocol is judged; ``--a2a-timeout`` may make it less."""


def check_files(run: BenchRun) -> None:
    """Read the files that options name, so that their problems are reported at once.

    :raises pytest.UsageError: naming all that is wrong.
    """
    wrong = collect_errors(
        lambda: check_place(_webhook(run)),
        # A key set on the network is fetched with the card, not before.
        lambda: _jwks(run) if "://" not in (run.settings.card_jwks or "://") else None,
        # Before waivers, which may name them.
        lambda: _check_acts(run),
        lambda: _waivers(run),
        lambda: _scenarios(run),
    )
    if wrong:
        state.raise_usage_error(*wrong)


def subject_of(run: BenchRun) -> Subject:
    """Return the agent that is judged; its card is fetched unless that has been done."""
    if run.plan.subject is not None:
        return run.plan.subject
    found = subject.look_at(_config(run), timeout=_seconds(run), jwks=_jwks(run))
    # Kept in the plan, so that workers do not fetch it again.
    run.decide(subject=found)
    return found


def targets_of(run: BenchRun, subject: Subject, config: ClientConfig | None = None) -> tuple[Target, ...]:
    """Return the interfaces of the agent, as the settings want them spoken to."""
    profile = run.settings.conformance_profile
    return subject.targets(
        config or _config(run), _scenarios(run), _seconds(run), webhook=_webhook(run), breadth=profile
    )


def open_raw_wire(run: BenchRun, subject: Subject, config: ClientConfig) -> RawWire:
    """Open raw exchanges with the agent for tests of one's own."""
    return RawWire(targets_of(run, subject, config))


def pair_of(run: BenchRun) -> Pair | None:
    """Return the gateway and the agent behind it; None where the endpoint is the agent's own."""
    if run.settings.direct is None:
        return None
    if run.services.pair is None:
        from pytest_a2a_bench.conformance.gateway.run import meet

        behind = ClientConfig.from_settings(dataclasses.replace(run.settings, endpoint=run.settings.direct), os.environ)
        run.services.pair = meet(
            _config(run),
            behind,
            timeout=_seconds(run),
            jwks=_jwks(run),
            profile=run.settings.conformance_profile,
            scenarios=_scenarios(run),
            webhook=_webhook(run),
        )
    return run.services.pair


def start_judge(session: pytest.Session, run: BenchRun, subject: Subject, config: ClientConfig) -> Judge:
    """Begin all checks of this process's items, together."""
    every = {item.stash[CHECK].planned.name for item in session.items if CHECK in item.stash}
    pair, stands_alone = pair_of(run), _stands_alone(run, session.items)
    gateway = _planned(session.items, "gateway")

    async def attribute(results: Sequence[CheckResult], planned: Sequence[Planned]) -> list[CheckResult]:
        assert pair is not None
        elsewhere = [p for p in gateway if p not in planned]
        return await pair.attribute(results, planned, stands_alone, elsewhere, started.left)

    started = Judge(
        targets_of(run, subject, config) if pair is None else [through for _, through in pair.targets],
        attribute=attribute if pair is not None else None,
        fold=lambda results: fold(results, stands_alone),
        elsewhere=every,
    )
    run.services.judge = started
    started.start(ahead(session.items, run))
    return started


def ahead(items: Sequence[pytest.Item], run: BenchRun) -> list[Planned]:
    """Return the checks of this process's items."""
    return _planned(_mine(items, run), "gateway", "protocol", "acts")


def _mine(items: Sequence[pytest.Item], run: BenchRun) -> Sequence[pytest.Item]:
    # In a worker only its own part: otherwise every worker would ask the agent everything.
    return items if run.worker is None else [items[i] for i in run.services.certain()]


def _planned(items: Iterable[pytest.Item], *suites: str) -> list[Planned]:
    checks = [item.stash[CHECK] for item in items if CHECK in item.stash]
    return [check.planned for check in checks if check.suite in suites]


def receive(item: pytest.Item, result: CheckResult, run: BenchRun) -> CheckRow:
    """Return the verdict on a check that passed, warned or failed; end the item's setup for any other.

    A check that could not be made is an error, one that does not apply a skip, a waived failure an expected one.
    """
    (row,) = judge([result], waivers=_waivers(run), strict=run.settings.strict)
    if row.status == "warned" and not _warn(item, findings.headline(row)):
        row = dataclasses.replace(row, status="failed")
    item.stash[ROW] = row
    set_properties(item, _properties(row))
    if row.status == "skipped":
        # In setup, so that every reporter shows a skip, an error and an expected failure as such.
        pytest.skip(one_line(result.reason))
    if row.status in ("inconclusive", "explained"):
        pytest.skip(f"{row.status}: {one_line(result.reason)}")
    if row.status == "error":
        pytest.fail("\n".join(findings.explain(row)), pytrace=False)
    if row.status == "waived" and row.waiver is not None:
        pytest.xfail(f"waived: {one_line(row.waiver.reason)} ({findings.headline(row)})")
    return row


_PACKAGE = Path(__file__).parents[1]


def _warn(item: pytest.Item, text: str) -> bool:
    """Warn, and return whether it stays a warning: ``-W error`` makes it a failure (which is not an error)."""
    try:
        # -W error makes an exception of it.
        if item.path.is_relative_to(_PACKAGE):
            # pytest shows the line of a warning, which would be one of ours.
            path = item.nodeid.partition("::")[0]
            warnings.warn_explicit(ConformanceWarning(text), None, filename=path, lineno=1)
        else:
            item.warn(ConformanceWarning(text))
    except ConformanceWarning:
        return False
    return True


def _stands_alone(run: BenchRun, items: Iterable[pytest.Item]) -> Callable[[CheckResult], bool]:
    waivers = _waivers(run)
    # As behind a waiver, a defect must not disappear behind an item that says nothing.
    marked = {
        i.stash[CHECK].planned.name for i in items if CHECK in i.stash and any(map(i.get_closest_marker, _SILENT))
    }
    return lambda result: result.name in marked or waiver_of(result, waivers) is not None


def card_results(subject: Subject, run: BenchRun, items: Iterable[pytest.Item]) -> dict[str, CheckResult]:
    """Return requirement id -> result for the card.

    :param items: those of the session: checks that are not among them explain nothing.
    """
    chosen = {item.stash[CHECK].planned.requirement.id for item in items if CHECK in item.stash}
    pair, stands_alone = pair_of(run), _stands_alone(run, items)
    results = [r for r in subject.card_results() if r.requirement.id in chosen]
    if pair is not None:
        gateway = [p for p in _planned(items, "gateway") if p.binding == CARD]
        results = loop.run(pair.attribute(results, gateway, stands_alone))
    return {result.requirement.id: result for result in fold(results, stands_alone)}


def judge_card(check: ItemCheck, results: Mapping[str, CheckResult]) -> CheckResult:
    """Return the result for one requirement of the card."""
    requirement = check.planned.requirement
    reason = f"the card keeps to other versions of the protocol than {requirement.version}"
    return results.get(requirement.id) or CheckResult(requirement, "card", "skipped", reason=reason)


def judge_protocol(check: ItemCheck, subject: Subject, judge: Judge) -> CheckResult:
    """Return the result of one check of the protocol."""
    if subject.problem and check.suite != "gateway":
        return CheckResult(check.planned.requirement, check.planned.binding, "error", reason=subject.problem)
    return judge.result(check.planned)


def show_evidence(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add the evidence to a broken requirement's report: its text, the wire, the command that repeats it.

    The terminal shows that of failures, and of others where it is asked for them; reports in files show all.
    """
    row = item.stash.get(ROW, None)
    if row is None or report.when != _TOLD_IN.get(row.status, "call"):
        return
    # A check that was kept has nothing to show, except where its test asserts more and fails.
    if row.status == "passed" and not report.failed:
        return
    title = f"a2a {row.id} [{row.binding}]"
    # The node id names the check already, and the line of the short summary is cut at the terminal's width.
    headline = findings.headline(row, named=False) if report.failed and not row.passed else None
    add_explanation(report, title, "\n".join(findings.explain(row)), headline)
    # "assert False" of our own line: what matters is in the section above.
    if headline is not None and item.getparent(shim.SuiteModule) is not None:
        shim.hide_traceback(report, headline)


def _properties(row: CheckRow) -> dict[str, str | int | float | bool]:
    members = {f"check_{name}": value for name, value in dataclasses.asdict(row).items() if value}
    return {**members, "check": row.name, "spec": row.spec, "findings": len(row.findings)}


def _config(run: BenchRun) -> ClientConfig:
    return ClientConfig.from_settings(run.plan.target, os.environ)


def _seconds(run: BenchRun) -> float:
    return min(run.settings.timeout, ANSWER_SECONDS)


def _waivers(run: BenchRun) -> tuple[Waiver, ...]:
    if not run.settings.waivers:
        return ()
    if run.services.waivers is None:
        _check_acts(run)
        acts = run.services.acts
        run.services.waivers = read_waivers(run.settings.waivers, acts=acts.ids if acts is not None else ())
    return run.services.waivers


def _check_acts(run: BenchRun) -> None:
    if run.settings.acts is not None:
        acts_of(run)
    elif run.settings.acts_behaviors is not None:
        raise ConfigurationError("acts-behaviors: give --a2a-set acts=PATH with it")


def _jwks(run: BenchRun) -> Any:
    if not run.settings.card_jwks:
        return None
    source = run.settings.card_jwks
    return load_jwks(source, timeout=_seconds(run), network=_config(run).network if "://" in source else USUAL)


def _webhook(run: BenchRun) -> BindAddress | None:
    return read_bind_address(run.settings.webhook_bind, run.settings.webhook_url)


def _scenarios(run: BenchRun) -> Scenarios:
    return load_scenarios(Path(run.settings.scenarios)) if run.settings.scenarios else Scenarios()
