"""Checks of items: run together, and turned into what pytest makes of them."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.plugin.conformance.check_items import CHECK, ItemCheck
from pytest_a2a_bench.plugin.run import state
from pytest_a2a_bench.plugin.run.state import BenchRun

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.conformance.engine import Planned
    from pytest_a2a_bench.conformance.finding import CheckResult
    from pytest_a2a_bench.conformance.judging import Judge
    from pytest_a2a_bench.conformance.report import Judgement
    from pytest_a2a_bench.conformance.session.target import Target
    from pytest_a2a_bench.conformance.subject import Subject
    from pytest_a2a_bench.conformance.wire.webhook import Place

JUDGEMENT = pytest.StashKey["Judgement"]()
ANSWER_SECONDS = 30.0
"""Most seconds for one answer while the protocol is judged; ``--a2a-timeout`` may make it less."""


def check_files(run: BenchRun) -> None:
    """Read the files that options name, so that what is wrong with them is said at once.

    :raises pytest.UsageError: naming all that is wrong.
    """
    from pytest_a2a_bench.conformance.wire.webhook import check_place
    from pytest_a2a_bench.errors import collect_errors

    settings = run.settings
    if not any((settings.waivers, settings.scenarios, settings.card_jwks, settings.webhook_bind, settings.webhook_url)):
        return
    wrong = collect_errors(
        lambda: check_place(_webhook(run)),
        lambda: _jwks(run) if "://" not in (settings.card_jwks or "://") else None,
        lambda: _waivers(run),
        lambda: _scenarios(run),
    )
    if wrong:
        state.raise_usage_error("; ".join(wrong))


def subject_of(run: BenchRun) -> Subject:
    """Return the agent that is judged; its card is fetched unless that has been done."""
    from pytest_a2a_bench.conformance import subject

    if run.subject is not None:
        return subject.Subject.from_json(run.subject)
    found = subject.look_at(_config(run), timeout=_seconds(run), jwks=_jwks(run))
    run.subject = found.to_json()
    return found


def targets_of(run: BenchRun, subject: Subject, config: ClientConfig | None = None) -> tuple[Target, ...]:
    """Return the interfaces of the agent, as the settings want them spoken to."""
    return subject.targets(config or _config(run), _scenarios(run), _seconds(run), _webhook(run))


def start_judge(session: pytest.Session, run: BenchRun, subject: Subject, config: ClientConfig) -> Judge:
    """Begin all checks of this process's items, together."""
    from pytest_a2a_bench.conformance.judging import Judge

    run.judge = Judge(targets_of(run, subject, config))
    run.judge.start(_ahead(session, run))
    judge: Judge = run.judge
    return judge


def _ahead(session: pytest.Session, run: BenchRun) -> list[Planned]:
    items = session.items
    if run.worker is not None:
        from pytest_a2a_bench.plugin.run import partition

        items = [items[i] for i in partition.indices_of(run.worker, len(items))]
    checks = [item.stash[CHECK] for item in items if CHECK in item.stash]
    return [check.planned for check in checks if check.suite == "protocol"]


def receive(item: pytest.Item, result: CheckResult, run: BenchRun) -> Judgement:
    """Return the verdict on a check that passed, warned or failed; end the item's setup for any other.

    A check that could not be made is an error, one that does not apply a skip, a waived failure an expected one.
    """
    from pytest_a2a_bench.conformance.report import judge
    from pytest_a2a_bench.redact import one_line
    from pytest_a2a_bench.reports import evidence

    (judgement,) = judge([result], waivers=_waivers(run), strict=run.settings.strict)
    if judgement.status == "warned" and not _warn(item, evidence.headline(judgement)):
        judgement = dataclasses.replace(judgement, status="failed")
    item.stash[JUDGEMENT] = judgement
    _set_properties(item, judgement)
    if judgement.status == "skipped":
        pytest.skip(one_line(result.reason))
    if judgement.status == "error":
        pytest.fail("\n".join(evidence.explain(judgement)), pytrace=False)
    if judgement.status == "waived" and judgement.waiver is not None:
        pytest.xfail(f"waived: {one_line(judgement.waiver.reason)} ({evidence.headline(judgement)})")
    return judgement


def _warn(item: pytest.Item, text: str) -> bool:
    """Warn, and tell whether a warning is all that it is: ``-W error`` wants a failure (which is not an error)."""
    from pytest_a2a_bench.errors import ConformanceWarning

    try:
        item.warn(ConformanceWarning(text))
    except ConformanceWarning:
        return False
    return True


def judge_card(check: ItemCheck, subject: Subject) -> CheckResult:
    """Return the result for one requirement of the card."""
    from pytest_a2a_bench.conformance.finding import CheckResult

    for result in subject.card_results():
        if result.requirement.id == check.planned.requirement.id:
            return result
    reason = f"the card keeps to other versions of the protocol than {check.planned.requirement.version}"
    return CheckResult(check.planned.requirement, "card", "skipped", reason=reason)


def judge_protocol(check: ItemCheck, subject: Subject, judge: Judge) -> CheckResult:
    """Return the result of one check of the protocol."""
    from pytest_a2a_bench.conformance.finding import CheckResult

    if subject.problem:
        return CheckResult(check.planned.requirement, check.planned.binding, "error", reason=subject.problem)
    return judge.result(check.planned)


def extend_report(item: pytest.Item, report: pytest.TestReport) -> None:
    """Give a failure its evidence: the requirement, the wire, the command that repeats it."""
    judgement = item.stash.get(JUDGEMENT, None)
    if judgement is None or report.when != "call" or not report.failed:
        return
    from pytest_a2a_bench.reports import evidence

    longrepr: Any = report.longrepr
    text = "\n".join(evidence.explain(judgement))
    title = f"a2a {judgement.result.requirement.id} [{judgement.result.binding}]"
    if not hasattr(longrepr, "addsection"):
        report.sections.append((title, text))
        return
    longrepr.addsection(title, text)
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None and not judgement.passed:
        # The first line is what the short summary and junit's message attribute show.
        crash.message = f"{evidence.headline(judgement)}\n{crash.message}"


def _set_properties(item: pytest.Item, judgement: Judgement) -> None:
    row = judgement.row
    values = {f"check_{name}": value for name, value in dataclasses.asdict(row).items() if value}
    values["check"] = judgement.result.name
    values["spec"] = judgement.result.requirement.spec
    values["findings"] = len(judgement.result.findings)
    kept = [(name, value) for name, value in item.user_properties if not name.startswith("a2a.")]
    item.user_properties[:] = [*kept, *((f"a2a.{name}", value) for name, value in values.items())]


def _config(run: BenchRun) -> ClientConfig:
    from pytest_a2a_bench.a2a.config import ClientConfig

    return ClientConfig.from_settings(run.target, os.environ)


def _seconds(run: BenchRun) -> float:
    return min(run.settings.timeout, ANSWER_SECONDS)


def _waivers(run: BenchRun) -> tuple[Any, ...]:
    if not run.settings.waivers:
        return ()
    if run.waivers is None:
        from pytest_a2a_bench.conformance.waivers import read_waivers

        run.waivers = read_waivers(run.settings.waivers)
    return run.waivers


def _jwks(run: BenchRun) -> Any:
    if not run.settings.card_jwks:
        return None
    from pytest_a2a_bench.conformance.card.fetch import load_jwks

    return load_jwks(run.settings.card_jwks, timeout=_seconds(run))


def _webhook(run: BenchRun) -> Place | None:
    from pytest_a2a_bench.conformance.wire.webhook import read_place

    return read_place(run.settings.webhook_bind, run.settings.webhook_url)


def _scenarios(run: BenchRun) -> Any:
    from pytest_a2a_bench.conformance.scenarios import Scenarios, load_scenarios

    return load_scenarios(Path(run.settings.scenarios)) if run.settings.scenarios else Scenarios()
