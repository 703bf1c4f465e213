"""Requirements become items: which there are, what they are called, and what their outcome is to pytest."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench import _pytest_shim, run_state
from pytest_a2a_bench.run_state import BenchRun
from pytest_a2a_bench.suite_registry import CONFORMANCE, CONFORMANCE_MODULES

if TYPE_CHECKING:
    from pytest_a2a_bench.a2a.config import ClientConfig
    from pytest_a2a_bench.conformance.engine import Planned
    from pytest_a2a_bench.conformance.finding import CheckResult, Requirement
    from pytest_a2a_bench.conformance.judging import Judge
    from pytest_a2a_bench.conformance.report import Judgement
    from pytest_a2a_bench.conformance.subject import Subject
    from pytest_a2a_bench.conformance.target import Target
    from pytest_a2a_bench.conformance.webhook import Place

CHECK_FIXTURE = "_a2a_check"
PARTS = tuple(module.domain for module in CONFORMANCE_MODULES)
ANSWER_SECONDS = 30.0
"""Most seconds for one answer while the protocol is judged; ``--a2a-timeout`` may make it less."""

_TRANSPORTS = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest", "GRPC": "grpc"}
_FILTERS = ("group", "level", "id", "binding", "version")


@dataclass(frozen=True, slots=True)
class ItemCheck:
    """The check that an item reports.

    :param suite: ``card`` or ``protocol``.
    """

    suite: str
    planned: Planned

    @property
    def short_id(self) -> str:
        """What stands in the brackets of a node id: ``SEND-003-JSONRPC``, ``CARD-004``."""
        return short_id(self.suite, self.planned.requirement, self.planned.binding)


CHECK = pytest.StashKey[ItemCheck]()
JUDGEMENT = pytest.StashKey["Judgement"]()


def short_id(suite: str, entry: Requirement, binding: str) -> str:
    """Return the part of a node id that names a check."""
    name = entry.id if suite == "card" else f"{entry.id}-{binding}"
    return name if entry.version == "1.0" or entry.id.startswith("V03-") else f"{name}-{entry.version}"


# --- whether they join ------------------------------------------------------------------------------------------------


def is_among(nodeids: Iterable[str]) -> bool:
    """Tell whether node ids name one of the modules that judge the protocol, or all modules."""
    modules = [module.nodeid for module in CONFORMANCE_MODULES]
    return any(_pytest_shim.is_below(i, m) or _pytest_shim.is_below(m, i) for i in nodeids for m in modules)


def may_be_chosen(config: pytest.Config) -> bool:
    """Tell whether ``-k`` and ``-m`` can choose any check, so that an agent's card is not fetched in vain."""
    keyword, marker = config.getoption("keyword") or "", config.getoption("markexpr") or ""
    return any(
        _pytest_shim.would_select(keyword, marker, names, {CONFORMANCE: marks}) for names, marks in _conceivable()
    )


def _conceivable() -> Iterator[tuple[list[str], Mapping[str, str]]]:
    from pytest_a2a_bench.conformance.finding import VERSIONS
    from pytest_a2a_bench.conformance.requirements import load_requirements

    for version in VERSIONS:
        for entry in load_requirements(version):
            for binding in entry.bindings:
                suite = "card" if binding == "card" else "protocol"
                names = [f"a2a/{suite}", f"test_{suite}[{short_id(suite, entry, binding)}]"]
                yield [*names, CONFORMANCE, *_keywords(entry, binding)], _marks(suite, entry, binding)


def check_files(run: BenchRun) -> None:
    """Read the files that options name, so that what is wrong with them is said at once.

    :raises pytest.UsageError: naming all that is wrong.
    """
    from pytest_a2a_bench.errors import ConfigurationError

    settings = run.settings
    if not any((settings.waivers, settings.scenarios, settings.card_jwks, settings.webhook_bind, settings.webhook_url)):
        return
    try:
        _webhook(run)
        if "://" not in (settings.card_jwks or "://"):
            _jwks(run)
        _waivers(run)
        _scenarios(run)
    except ConfigurationError as error:
        run_state.raise_usage_error(str(error))


# --- one item per check -----------------------------------------------------------------------------------------------


def make_items(metafunc: pytest.Metafunc, run: BenchRun) -> None:
    """Turn a test that takes ``conformance_check`` into one item per check."""
    marker = metafunc.definition.get_closest_marker(CONFORMANCE)
    problem = _marker_problem(marker)
    if marker is None or problem:
        # One item stands for the test, so that it can be selected; only then does its problem stop the run.
        run.test_problems.append((metafunc.definition.nodeid, problem))
        metafunc.parametrize(CHECK_FIXTURE, [pytest.param(None, id="invalid")], indirect=True)
        return
    wanted = {name: _texts(marker.kwargs[name]) for name in _FILTERS if marker.kwargs.get(name) is not None}
    suite = marker.args[0]
    chosen = [p for p in _plan(run, suite) if _is_wanted(p, wanted)]
    metafunc.parametrize(CHECK_FIXTURE, [_parameter(ItemCheck(suite, p)) for p in chosen], indirect=True)


def _plan(run: BenchRun, suite: str) -> list[Planned]:
    from pytest_a2a_bench.conformance.engine import Planned
    from pytest_a2a_bench.conformance.subject import OFFLINE_CARD, Subject

    subject = Subject.from_json(run.subject) if run.subject is not None else Subject("", OFFLINE_CARD)
    if suite == "card":
        return [Planned(entry, "card") for entry in subject.card_plan()]
    return [p for p in subject.plan() if subject.problem or _is_spoken(p, run)]


def _is_spoken(planned: Planned, run: BenchRun) -> bool:
    """Tell whether ``--a2a-protocol`` and ``--a2a-transport`` leave a check in."""
    version, transport = run.settings.protocol, run.settings.transport
    return version in ("auto", planned.requirement.version) and transport in ("auto", _TRANSPORTS[planned.binding])


def _parameter(check: ItemCheck) -> Any:
    entry, binding = check.planned
    mark = pytest.mark.conformance(**_marks(check.suite, entry, binding))
    return pytest.param(check, id=check.short_id, marks=[mark])


def _is_wanted(planned: Planned, wanted: Mapping[str, tuple[str, ...]]) -> bool:
    entry = planned.requirement
    values = {"group": entry.group, "level": entry.level, "id": entry.id, "version": entry.version}
    return all({**values, "binding": planned.binding}[name] in allowed for name, allowed in wanted.items())


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value))


def _marker_problem(marker: pytest.Mark | None) -> str:
    if marker is None:
        return (
            "a test that uses conformance_check needs a marker that says which, "
            'such as @pytest.mark.conformance("protocol", group="send")'
        )
    if len(marker.args) != 1 or marker.args[0] not in PARTS:
        return f"@pytest.mark.conformance takes one positional argument, one of {', '.join(PARTS)}; got {marker.args!r}"
    unknown = sorted(set(marker.kwargs) - set(_FILTERS))
    if unknown:
        return f"@pytest.mark.conformance does not know {', '.join(unknown)}; valid are: {', '.join(_FILTERS)}"
    return ""


def adopt(item: pytest.Item) -> None:
    """Note an item's check, and give the item its keywords."""
    callspec = getattr(item, "callspec", None)
    found = callspec.params.get(CHECK_FIXTURE) if callspec is not None else None
    if isinstance(found, ItemCheck):
        item.stash[CHECK] = found
        item.extra_keyword_matches.update(_keywords(found.planned.requirement, found.planned.binding))


def _keywords(entry: Requirement, binding: str) -> tuple[str, ...]:
    return (entry.id, entry.group, entry.level, binding, f"A2A-{entry.version}")


def _marks(suite: str, entry: Requirement, binding: str) -> dict[str, str]:
    return {
        "suite": suite,
        "group": entry.group,
        "level": entry.level,
        "id": entry.id,
        "binding": binding,
        "version": entry.version,
    }


# --- running them -----------------------------------------------------------------------------------------------------


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
        from pytest_a2a_bench import partition

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
    from pytest_a2a_bench.conformance.card.sources import load_jwks

    return load_jwks(run.settings.card_jwks, timeout=_seconds(run))


def _webhook(run: BenchRun) -> Place | None:
    from pytest_a2a_bench.conformance.webhook import read_place

    return read_place(run.settings.webhook_bind, run.settings.webhook_url)


def _scenarios(run: BenchRun) -> Any:
    from pytest_a2a_bench.conformance.scenarios import Scenarios, load_scenarios

    return load_scenarios(Path(run.settings.scenarios)) if run.settings.scenarios else Scenarios()
