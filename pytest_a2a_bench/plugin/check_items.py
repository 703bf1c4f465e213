"""Make one item for each requirement, and show the matrix of requirements on the terminal."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.plugin import shim, state
from pytest_a2a_bench.plugin.explanation import say, sections_of
from pytest_a2a_bench.plugin.shim import CONFORMANCE, CONFORMANCE_MODULES
from pytest_a2a_bench.plugin.state import CHECK, CHECK_FIXTURE, BenchRun
from pytest_a2a_bench.text import did_you_mean, one_line

if TYPE_CHECKING:
    from pytest_a2a_bench.conformance.acts.suite import ActsSuite
    from pytest_a2a_bench.conformance.finding import Planned, Requirement
    from pytest_a2a_bench.conformance.report import CheckRow, Compliance

PARTS = tuple(module.domain for module in CONFORMANCE_MODULES)

_FILTERS = ("group", "level", "id", "binding", "version")
_SHOWN = 25


@dataclass(frozen=True, slots=True)
class ItemCheck:
    """The check that an item reports.

    :param suite: ``card``, ``protocol`` or ``acts``.
    """

    suite: str
    planned: Planned

    @property
    def short_id(self) -> str:
        """The text in the brackets of a node id: ``SEND-003-JSONRPC``, ``CARD-004``."""
        return short_id(self.suite, self.planned.requirement, self.planned.binding)


def short_id(suite: str, entry: Requirement, binding: str) -> str:
    """Return the part of a node id that names a check."""
    name = entry.id if binding == "card" else f"{entry.id}-{binding}"
    # Ids of 1.0 are the short ones; 0.3's own begin with V03.
    return name if entry.version == "1.0" or entry.id.startswith("V03-") else f"{name}-{entry.version}"


# --- whether they join ------------------------------------------------------------------------------------------------


def check_requirements() -> None:
    """Load the requirements that others add.

    :raises pytest.UsageError: if some cannot be loaded, or are none.
    """
    from pytest_a2a_bench.conformance.catalogue import load_requirements
    from pytest_a2a_bench.conformance.finding import VERSIONS

    try:
        for version in VERSIONS:
            load_requirements(version)
    except ConfigurationError as error:
        state.raise_usage_error(str(error))


def may_be_chosen(config: pytest.Config, run: BenchRun) -> bool:
    """Return whether ``-k`` and ``-m`` can choose any check, so that an agent's card is not fetched in vain."""
    keyword, marker = config.getoption("keyword") or "", config.getoption("markexpr") or ""
    return any(shim.would_select(keyword, marker, names, {CONFORMANCE: marks}) for names, marks in _conceivable(run))


def _conceivable(run: BenchRun) -> Iterator[tuple[list[str], Mapping[str, str]]]:
    from pytest_a2a_bench.conformance.catalogue import load_gateway_requirements, load_requirements
    from pytest_a2a_bench.conformance.finding import ACTS, GATEWAY, VERSIONS

    theirs: list[Requirement] = []
    if run.settings.acts is not None:
        # Errors in the files are reported where all files are read.
        with contextlib.suppress(ConfigurationError):
            theirs += acts_of(run).requirements
    gateways = load_gateway_requirements() if run.settings.direct is not None else ()
    for entries in (*map(load_requirements, VERSIONS), theirs, gateways):
        for entry in entries:
            for binding in entry.bindings:
                suite = entry.group if entry.group in (ACTS, GATEWAY) else "card" if binding == "card" else "protocol"
                names = [f"a2a/{suite}", f"test_{suite}[{short_id(suite, entry, binding)}]"]
                yield [*names, CONFORMANCE, *_keywords(entry, binding)], _marks(suite, entry, binding)


def acts_of(run: BenchRun) -> ActsSuite:
    """Return the tests of the ACTS files that an option names.

    :raises ConfigurationError: naming all that is wrong with them, or that none are named.
    """
    if run.settings.acts is None:
        raise ConfigurationError("a2a/acts has the tests of ACTS files: name them with --a2a-set acts=PATH")
    if run.services.acts is None:
        from pytest_a2a_bench.conformance.acts.suite import load_acts

        run.services.acts = load_acts(run.settings.acts, run.settings.acts_behaviors)
    return run.services.acts


# --- one item per check -----------------------------------------------------------------------------------------------


def make_items(metafunc: pytest.Metafunc, run: BenchRun) -> None:
    """Turn a test that takes ``conformance_check`` into one item per check."""
    marker = metafunc.definition.get_closest_marker(CONFORMANCE)
    problem = _marker_problem(marker) or _acts_problem(marker, run)
    if marker is None or problem:
        # One item stands for the test, so that it can be selected; only then does its problem stop the run.
        run.collected.test_problems.append((metafunc.definition.nodeid, problem))
        metafunc.parametrize(CHECK_FIXTURE, [pytest.param(None, id="invalid")], indirect=True)
        return
    wanted = {name: _texts(marker.kwargs[name]) for name in _FILTERS if marker.kwargs.get(name) is not None}
    suite = marker.args[0]
    profile = run.settings.conformance_profile
    # Who names a requirement wants it judged; what is not safe stays out all the same.
    profile = "full" if "id" in wanted and profile != "safe" else profile
    chosen = [p for p in _plan(run, suite) if p.requirement.is_in(profile) and _is_wanted(p, wanted)]
    metafunc.parametrize(CHECK_FIXTURE, [_parameter(ItemCheck(suite, p)) for p in chosen], indirect=True)


def _plan(run: BenchRun, suite: str) -> list[Planned]:
    from pytest_a2a_bench.conformance.subject import OFFLINE_CARD, Subject

    # Without a card items are needed all the same, for --collect-only.
    subject = run.plan.subject or Subject("", OFFLINE_CARD)
    if suite == "card":
        return subject.card_plan()
    if suite == "gateway":
        return subject.gateway_plan() if run.settings.direct is not None else []
    if suite == "acts" and not subject.problem:
        return [
            p
            for p in acts_of(run).plan(subject.card, subject.endpoint)
            if _is_spoken(p.requirement.version, p.binding, run)
        ]
    # A card that names no interface gives one item, which says so.
    if not subject.problem and not any(_is_spoken(v, b, run) for v, b in map(str.split, subject.interfaces)):
        options = f"--a2a-protocol={run.settings.protocol} --a2a-transport={run.settings.transport}"
        run.collected.notes.append(f"{options}: the card declares {', '.join(subject.interfaces)} only")
    return [p for p in subject.plan() if subject.problem or _is_spoken(p.requirement.version, p.binding, run)]


def _acts_problem(marker: pytest.Mark | None, run: BenchRun) -> str:
    """Explain why there are no tests of ACTS files where a test wants them."""
    if marker is not None and marker.args == ("acts",):
        try:
            acts_of(run)
        except ConfigurationError as error:
            return str(error)
    return ""


def _is_spoken(version: str, binding: str, run: BenchRun) -> bool:
    """Return whether ``--a2a-protocol`` and ``--a2a-transport`` leave in the checks of an interface."""
    from pytest_a2a_bench.conformance.finding import TRANSPORTS

    wanted = run.settings
    return wanted.protocol in ("auto", version) and wanted.transport in ("auto", TRANSPORTS[binding])


def _parameter(check: ItemCheck) -> Any:
    entry, binding = check.planned
    # As a marker with members, so that -m can choose by them.
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
        near = did_you_mean(unknown, _FILTERS)
        return f"@pytest.mark.conformance does not know {', '.join(unknown)}; valid are: {', '.join(_FILTERS)}{near}"
    # The authors of ACTS files choose the names of their tests.
    filters = _FILTERS if marker.args[0] != "acts" else ("level", "binding", "version")
    wrong = [text for name in filters for text in _value_problems(name, marker.kwargs.get(name))]
    return f"@pytest.mark.conformance: {'; '.join(wrong)}" if wrong else ""


def _value_problems(name: str, given: Any) -> Iterator[str]:
    if given is None:
        return
    values = (given,) if isinstance(given, str) else given
    if not isinstance(values, (tuple, list, set, frozenset)) or not all(isinstance(v, str) for v in values):
        yield f"{name}={given!r} is no text, nor a list of texts"
        return
    known = _known_values(name)
    unknown = [value for value in values if value not in known]
    if unknown or not values:
        near = did_you_mean(unknown, known)
        valid = ", ".join(known[:_SHOWN]) + (" ..." if len(known) > _SHOWN else "")
        yield f"{name} names {', '.join(map(repr, unknown)) or 'nothing'}; there are {valid}{near}"


def misspelt_members(expression: str) -> Iterator[str]:
    """Yield a line for each member of ``conformance(...)`` in ``-m`` that no check has, where a near one exists."""
    for inside in re.findall(rf"\b{CONFORMANCE}\(([^()]*)\)", expression):
        for name, value in re.findall(r"(\w+)\s*=\s*[\"']([^\"']*)", inside):
            if near := did_you_mean(name, ("suite", *_FILTERS)):
                yield f"-m: no check has a {name!r}{near}"
            # ACTS files have ids of their own.
            elif name in ("level", "group", "binding", "version"):
                known = (*_known_values(name), *PARTS)
                if value not in known and (near := did_you_mean(value, known)):
                    yield f"-m: no check has the {name} {value!r}{near}"


def _known_values(name: str) -> list[str]:
    from pytest_a2a_bench.conformance.catalogue import load_requirements
    from pytest_a2a_bench.conformance.finding import BINDINGS, VERSIONS

    if name == "binding":
        return [*BINDINGS, "card"]
    entries = (entry for version in VERSIONS for entry in load_requirements(version))
    return list(dict.fromkeys(str(getattr(entry, name)) for entry in entries))


def adopt(item: pytest.Item, found: object) -> None:
    """Note an item's check, unless its marker was wrong, and give the item its keywords."""
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


# -- the terminal: warnings, and the matrix at the end --
# Registered where checks may be reported; the conformance room is imported only where there is a matrix to write.

SUMMARY = "a2a-bench-conformance"
_PREFIX = "a2a."
_ROW = "check_"


def register_summary(config: pytest.Config, run: BenchRun) -> None:
    """Have the results of checks summarised at the end, once."""
    if not config.pluginmanager.has_plugin(SUMMARY):
        config.pluginmanager.register(Summary(config, run), SUMMARY)


class Summary:
    """Listens to reports on the controller, and writes.

    :ivar explanations: evidence by the name of the check.
    """

    def __init__(self, config: pytest.Config, run: BenchRun) -> None:
        self.config = config
        self.run = run
        self.reported: dict[str, dict[str, Any]] = {}
        self.explanations: dict[str, str] = {}
        self._chosen: list[Planned] = []
        self._is_interrupted = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the checks to come: those that are missing at the end were not made, whatever ended the run."""
        self._chosen = [item.stash[CHECK].planned for item in session.items if CHECK in item.stash]

    def pytest_keyboard_interrupt(self) -> None:
        """Note it: of checks that workers had, the controller knows only those that were reported."""
        self._is_interrupted = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of a check from its report."""
        values = _values(report)
        if "check" not in values:
            return
        self.reported[str(values["check"])] = values
        check = _members(values)
        title = f"a2a {check['id']} [{check['binding']}]"
        text = next((text for where, text in sections_of(report) if where == title), None)
        # An item that ends in its setup with an error has its evidence as its message.
        if text is None and check["status"] == "error" and report.when == "setup":
            text = report.longreprtext
        if text:
            self.explanations[str(values["check"])] = text

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Call an item ``warned`` whose requirement should be kept and is not."""
        if (
            getattr(report, "when", None) == "call"
            # pytest knows passed and failed; a word of its own needs no change to either.
            and report.passed
            and _values(report).get("check_status") == "warned"
        ):
            return "warned", "w", ("WARNED", {"yellow": True})
        return None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the matrix."""
        # As pytest itself: -qq and --no-summary want nothing.
        silent = self.config.get_verbosity() < -1 or self.config.getoption("no_summary")
        if silent or not self.reported:
            return
        terminalreporter.write_sep("=", "a2a conformance summary")
        for line in self._lines():
            say(terminalreporter, line)

    def verdicts(self) -> list[str]:
        """Return the level of compliance for each version, and the counts; empty where no check was made."""
        if not self.reported:
            return []
        from pytest_a2a_bench.reports import findings

        rows = self.rows
        return [*map(findings.level_line, self._levels(rows)), f"checks of the protocol: {findings.count_line(rows)}"]

    @property
    def rows(self) -> list[CheckRow]:
        """The check of each reported item, and how it ended."""
        from pytest_a2a_bench.conformance.finding import Finding
        from pytest_a2a_bench.conformance.report import CheckRow

        every = map(_members, self.reported.values())
        return [CheckRow(**{**one, "findings": tuple(Finding(**f) for f in one.get("findings", ()))}) for one in every]

    def _levels(self, rows: list[CheckRow]) -> list[Compliance]:
        from pytest_a2a_bench.conformance.report import compliance

        subject = self.run.plan.subject
        planned = subject.planned if subject is not None else []
        profile = self.run.settings.conformance_profile
        chosen = self._chosen
        if self._is_interrupted and not chosen:
            chosen = [p for p in planned if p.requirement.is_in(profile)]
        return compliance(rows, planned, profile, chosen)

    def _lines(self) -> Iterator[str]:
        from pytest_a2a_bench.conformance.report import removable
        from pytest_a2a_bench.reports import findings

        rows = self.rows
        yield from self._gateway(rows)
        yield from findings.matrix_lines(rows, self._levels(rows))
        yield from findings.known_lines(rows)
        for waiver in removable(self.run.services.waivers or (), rows):
            yield f"removable waiver: {waiver} (its check passes)"
        skips = findings.skip_lines(rows)
        if skips and (self.config.get_verbosity() >= 0 or all(row.status == "skipped" for row in rows)):
            yield "skipped:"
            yield from skips
        if self.run.services.judge is not None:
            yield from (one_line(text) for text in self.run.services.judge.left)
        yield findings.count_line(rows)

    def _gateway(self, rows: list[CheckRow]) -> Iterator[str]:
        """Yield what the gateway changed, where one was compared with the agent behind it."""
        pair, exchanges = self.run.services.pair, self.run.collected.exchanges
        exchanges += sum(pair.counted) if pair is not None else 0
        if self.run.settings.direct is not None and exchanges:
            from pytest_a2a_bench.conformance.finding import GATEWAY
            from pytest_a2a_bench.conformance.gateway.run import changes_line

            mine = (r.id for r in rows if r.group == GATEWAY and r.status in ("failed", "warned", "waived"))
            yield changes_line(mine, exchanges, self.run.settings.direct)


def _values(report: Any) -> dict[str, Any]:
    pairs = getattr(report, "user_properties", ())
    return {str(name)[len(_PREFIX) :]: value for name, value in pairs if str(name).startswith(_PREFIX)}


def _members(values: dict[str, Any]) -> dict[str, Any]:
    return {name[len(_ROW) :]: value for name, value in values.items() if name.startswith(_ROW)}
