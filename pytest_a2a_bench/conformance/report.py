"""The report on one agent: every check with its waiver applied, and the compliance that results (pure)."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

from pytest_a2a_bench.conformance import data
from pytest_a2a_bench.conformance.finding import (
    ACTS,
    CARD,
    GATEWAY,
    OWN,
    CheckResult,
    Finding,
    Level,
    Planned,
    outcome_of,
)
from pytest_a2a_bench.conformance.waivers import Waiver, waiver_of
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model.messages import Count, Seconds
from pytest_a2a_bench.results.store import StoredForm
from pytest_a2a_bench.text import one_line

# In the order of tables: what needs attention first.
Status = Literal["failed", "error", "warned", "inconclusive", "waived", "passed", "explained", "skipped"]
STATUSES: tuple[Status, ...] = get_args(Status)
SCHEMA = "a2a-bench/conformance"
SCHEMA_VERSION = 1
NOT_OBSERVED = "not observed"
"""How the reason of a skipped check begins that a client had no occasion for."""


@dataclass(frozen=True, slots=True)
class WaiverUse:
    """The waiver for a check, whether it was needed or not.

    :param expired: whether its last day ``expires`` is over, so that it does not count.
    """

    reason: str
    expired: bool
    expires: str = ""


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check with its waiver, if any, as tables, reports and files have it.

    :param binding: the binding that it was checked on; ``card`` for the card.
    :param spec: version and section of the specification.
    :param requirement: its text.
    :param cause: the check that explains this one, such as ``1.0/CARD-007[GRPC]``; empty where it stands for itself.
    :param explains: a line for each check that this one explains.
    """

    id: str
    group: str
    level: Level
    version: str
    binding: str
    status: Status
    reason: str = ""
    spec: str = ""
    requirement: str = ""
    cause: str = ""
    explains: tuple[str, ...] = ()
    waiver: WaiverUse | None = None
    seconds: Seconds = 0.0
    findings: tuple[Finding, ...] = ()

    @property
    def name(self) -> str:
        """Unique within one run: ``1.0/SEND-003[JSONRPC]``."""
        return f"{self.version}/{self.id}[{self.binding}]"

    @property
    def passed(self) -> bool:
        """Whether it does not fail a run: kept, or a recommendation that is not kept."""
        return self.status in ("passed", "warned")

    @property
    def is_finding(self) -> bool:
        """Whether it is reported as a finding."""
        return self.status in ("failed", "error", "warned", "inconclusive")


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one agent.

    :param endpoint: its URL, without credentials.
    :param agent: name and version from its card, as it says.
    :param planned: all checks that there are for the agent, chosen or not.
    :param card_url: where its card was found; empty where that is not known.
    :param lines: JSON pointer -> line of the card's file, for SARIF; empty for an agent.
    :param gateway: the gateway's changes, in a line; empty if none is judged.
    """

    endpoint: str
    rows: tuple[CheckRow, ...]
    agent: str = ""
    interfaces: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    strict: bool = False
    seconds: float = 0.0
    planned: tuple[Planned, ...] = ()
    profile: str = "full"
    card_url: str = ""
    tool: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    gateway: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found that fails a run."""
        return not any(row.status in ("failed", "error") for row in self.rows)

    @property
    def could_run(self) -> bool:
        """Whether the agent could be asked at all."""
        return any(row.status in ("passed", "failed", "warned", "waived", "inconclusive") for row in self.rows)

    @property
    def levels(self) -> list[Compliance]:
        """How much of each version of the protocol is kept."""
        return compliance(self.rows, self.planned, self.profile)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "endpoint": self.endpoint,
            "agent": self.agent,
            "interfaces": list(self.interfaces),
            "tool": dict(self.tool),
            "strict": self.strict,
            "seconds": round(self.seconds, 3),
            "counts": counts(self.rows),
            "levels": {level.version: level.text for level in self.levels},
            **({"gateway": self.gateway} if self.gateway else {}),
            "removable_waivers": [str(w) for w in removable(self.waivers, self.rows)],
            "results": [{**dataclasses.asdict(row), "explains": list(row.explains)} for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The report on one agent, as its file has it."""

    endpoint: str
    agent: str
    results: tuple[CheckRow, ...]
    interfaces: tuple[str, ...] = ()
    tool: Mapping[str, Any] | None = None
    strict: bool = False
    seconds: Seconds = 0.0
    counts: Mapping[Status, Count] | None = None
    levels: Mapping[str, str] | None = None
    removable_waivers: tuple[str, ...] = ()
    gateway: str = ""


REPORT = StoredForm(
    StoredReport,
    " is not a conformance report",
    "make one with: a2a-bench check URL --format json -o FILE",
    ConfigurationError,
    version=SCHEMA_VERSION,
    schema=SCHEMA,
)


def judge(
    results: Iterable[CheckResult],
    *,
    waivers: Iterable[Waiver] = (),
    strict: bool = False,
    today: datetime.date | None = None,
) -> Iterator[CheckRow]:
    """Apply waivers and strictness to the results of checks.

    :param strict: whether a SHOULD that is not kept fails the run.
    :param today: the day that decides whether a waiver is over.
    """
    day = today or datetime.datetime.now(tz=datetime.UTC).date()
    every = tuple(waivers)
    for result in results:
        waiver = waiver_of(result, every)
        expired = waiver is not None and waiver.is_expired(day)
        status: Status = result.outcome
        if status in ("failed", "warned"):
            if waiver is not None and not expired:
                status = "waived"
            # An expired waiver fails even what would only be a warning, so that it is looked at.
            elif strict or expired:
                status = "failed"
        entry = result.requirement
        yield CheckRow(
            entry.id,
            entry.group,
            entry.level,
            entry.version,
            result.binding,
            status,
            result.reason,
            entry.spec,
            entry.text,
            result.cause,
            result.explains,
            WaiverUse(waiver.reason, expired, str(waiver.expires or "")) if waiver is not None else None,
            round(result.seconds, 4),
            result.findings,
        )


# --- sums -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compliance:
    """How much of one version of the protocol is kept.

    :param verdict: ``not conformant``, ``conformant``, ``fully conformant``, ``not judged completely`` (there are
        errors) or ``not judged`` (no MUST was).
    :param kept: (kept, checked) by level.
    :param scope: the part that a good verdict is limited to; empty for everything.
    :param explained: how many checks found nothing but consequences of another's finding.
    :param omitted: how many checks were not chosen, though the profile has them.
    :param unmade: how many checks were chosen and not made, because the run ended early.
    :param judged: how many requirements were judged, where some need a wider profile.
    :param wider: how many requirements need the profile ``full`` to be judged, or to be tried everywhere they hold.
    """

    version: str
    verdict: str
    kept: Mapping[str, tuple[int, int]]
    skipped: int = 0
    waived: int = 0
    explained: int = 0
    scope: str = ""
    omitted: int = 0
    unmade: int = 0
    judged: int = 0
    wider: int = 0

    @property
    def text(self) -> str:
        """One line."""
        levels = ", ".join(f"{level} {kept}/{checked}" for level, (kept, checked) in self.kept.items() if checked)
        counted = (
            (self.judged, "requirement judged" if self.judged == 1 else "requirements judged"),
            (self.wider, f"need{'s' if self.wider == 1 else ''} --a2a-conformance-profile full to be judged wholly"),
            (self.explained, "explained"),
            (self.waived, "waived"),
            (self.skipped, "skipped"),
            (self.omitted, "not chosen"),
            (self.unmade, "not made, because the run ended early"),
        )
        notes = [f"{n} {word}" for n, word in counted if n]
        scope = f" in {self.scope}" if self.scope and self.verdict in _GOOD else ""
        return f"{self.verdict}{scope}: {'; '.join([levels or 'nothing was checked', *notes])}"


_GOOD = ("conformant", "fully conformant")


def compliance(
    rows: Iterable[CheckRow],
    planned: Iterable[Planned] = (),
    profile: str = "full",
    chosen: Iterable[Planned] = (),
) -> list[Compliance]:
    """Return the compliance level of each version: every MUST kept is conformant, every SHOULD too is fully so.

    :param planned: all checks that there are; the verdict does not cover those that were not chosen.
    :param chosen: the checks that were to be made: while one of them is missing, no verdict is good.
    """
    by_version: dict[str, list[CheckRow]] = {}
    broken = set[str]()
    for row in rows:
        if row.group == GATEWAY:
            # No rule of the protocol, but what breaks it explains what the protocol's checks found.
            broken |= {row.version} if row.status == "failed" else set()
            continue
        # A verdict of its own: what others' tests say must neither hide nor worsen what ours do.
        version = f"{row.version} by ACTS" if row.group == ACTS else row.version
        by_version.setdefault(version, []).append(row)
    every, wanted = list(planned), list(chosen)
    levels = [
        _compliance(
            version,
            by_version[version],
            [p for p in every if p.requirement.version == version],
            profile,
            {p.name for p in wanted if p.requirement.version == version},
        )
        for version in sorted(by_version, reverse=True)
    ]
    return [replace(one, verdict="not conformant") if one.version in broken else one for one in levels]


def _compliance(
    version: str, rows: list[CheckRow], planned: list[Planned], profile: str, chosen: set[str]
) -> Compliance:
    # What was skipped says nothing about the agent, and a consequence is counted with its cause.
    checked = [row for row in rows if row.status not in ("skipped", "explained")]
    # What breaks a MUST counts as one, whatever requirement it is found by.
    fails = [row for row in rows if outcome_of(row.findings) == "failed"]
    broken_by = {row.cause for row in fails if row.level == "MUST"} | {row.name for row in fails}
    levels = ["MUST" if row.status == "failed" and row.name in broken_by else row.level for row in checked]
    kept = {
        level: (
            sum(own == level and row.status == "passed" for own, row in zip(levels, checked, strict=True)),
            levels.count(level),
        )
        for level in ("MUST", "SHOULD", "MAY")
    }
    broken = [row for own, row in zip(levels, checked, strict=True) if own == "MUST" and row.status != "passed"]
    made = {row.name for row in rows}
    unmade = chosen - made
    # A waived MUST is not kept; the waiver only keeps the run from failing. A SHOULD fails where the run is strict, and
    # decides where nothing else was judged.
    is_kept = bool(kept["MUST"][1]) or all(row.status != "failed" for row in checked)
    if any(row.status in ("waived", "failed") for row in broken) or not is_kept:
        verdict = "not conformant"
    elif not kept["MUST"][1] or all(row.status == "error" for row in checked):
        verdict = "not judged"
    elif unmade or any(row.status in ("error", "inconclusive") for row in checked):
        verdict = "not judged completely"
    else:
        verdict = "fully conformant" if all(row.status == "passed" for row in checked) else "conformant"
    omitted = [p.requirement for p in planned if p.name not in made]
    judged = {row.id for row in checked}
    wider = {r.id for r in omitted if not r.is_in(profile)} - judged
    # Where not every rule is tried everywhere it holds.
    if profile != "full":
        wider |= judged & {p.requirement.id for p in planned if p.requirement.is_widened}
    is_card = all(row.binding == CARD for row in rows)
    unchosen = sum(p.requirement.is_in(profile) for p in planned if p.name not in made | unmade)
    part = "what was chosen" if unchosen else "what was judged" if wider else ""
    # A client shows only what it has an occasion for.
    is_client = any(row.reason.startswith(NOT_OBSERVED) for row in rows)
    part = "what was observed" if is_client else "its card alone" if is_card else part
    part = "what the agent does right without the gateway" if any(row.reason == OWN for row in rows) else part
    return Compliance(
        version,
        verdict,
        kept,
        skipped=sum(row.status == "skipped" for row in rows),
        explained=sum(row.status == "explained" for row in rows),
        waived=sum(row.status == "waived" for row in checked),
        # A verdict about a part must not read as one about the whole.
        scope=part,
        omitted=unchosen,
        unmade=len(unmade),
        judged=0 if is_card or not wider else len(judged),
        wider=0 if is_card else len(wider),
    )


def counts(rows: Iterable[CheckRow]) -> dict[str, int]:
    """Return how many checks there are of each status, without those of which there are none."""
    found = Counter(row.status for row in rows)
    return {status: found[status] for status in STATUSES if found[status]}


def removable(waivers: Iterable[Waiver], rows: Iterable[CheckRow]) -> list[Waiver]:
    """Return the waivers that are no longer needed: their checks were made and found nothing."""
    every = list(rows)
    found = []
    for waiver in waivers:
        # Not where a check could not be made: the defect may still be there.
        statuses = {r.status for r in every if waiver.covers(r.id, r.version, r.binding)} - {"skipped"}
        if statuses == {"passed"}:
            found.append(waiver)
    return found


# --- what fails today, as waivers, so that a gate fails for what is new only ------------------------------------------

# Characters of a text in a comment.
_FOUND = 110


def to_accept(rows: Iterable[CheckRow], *, strict: bool = False) -> list[CheckRow]:
    """Return the checks that need a waiver for a run of the same agent to pass.

    What is explained by another check is among it: waived checks explain nothing, so that it would stand for itself as
    soon as its cause is waived. Checks of ACTS files cannot be waived.

    :param strict: whether a SHOULD that is not kept fails a run.
    """
    failing = ("failed", "warned") if strict else ("failed",)
    return [
        row
        for row in rows
        if row.group != ACTS
        and (row.status == "failed" or (row.status == "explained" and outcome_of(row.findings) in failing))
    ]


def waiver_for(row: CheckRow, reason: str) -> Waiver:
    """Return the waiver of one check, in its version and on its binding only."""
    return Waiver(row.id, reason, binding=row.binding, version=row.version)


def to_toml(rows: Iterable[CheckRow], reason: str) -> str:
    """Return the tables of a file of waivers, each with its finding.

    :param reason: printable text.
    """
    return "".join(f"{line}\n" for row in rows for line in _table(row, reason))


def _table(row: CheckRow, reason: str) -> Iterator[str]:
    waiver = waiver_for(row, reason)
    found = row.findings[0].found if row.findings else row.reason
    yield "[[waiver]]"
    yield f"# {one_line(row.requirement, _FOUND)}: {one_line(found, _FOUND)}"
    for key in ("id", "binding", "version", "reason"):
        # What JSON makes of printable text is TOML, too.
        yield f"{key} = {json.dumps(getattr(waiver, key), ensure_ascii=False)}"
    yield ""


# --- what a public SDK itself makes: nothing is waived because of it --------------------------------------------------

_LEAST = 3
"""Fewest checks by which an SDK is recognised."""
_BROKEN = ("failed", "warned", "waived")


class KnownSdk(NamedTuple):
    """The known deviations of an SDK: requirement id -> its behaviour, and the URL of upstream's issue, or nothing.

    :param findings: ``ID[BINDING]`` where it is one of that binding only.
    :param options: those that an option of the SDK ends, or that not every card shows.
    """

    name: str
    findings: Mapping[str, Sequence[str]]
    options: tuple[str, ...] = ()

    def deviation(self, row: CheckRow) -> Sequence[str]:
        """Return what is known of a check; nothing if it is the agent's own."""
        return self.findings.get(row.id) or self.findings.get(f"{row.id}[{row.binding}]") or ()


@cache
def _known() -> tuple[KnownSdk, ...]:
    return tuple(
        KnownSdk(one["sdk"], one["findings"], tuple(one.get("options", ()))) for one in data.load("known.json")
    )


def sdk_of(rows: Iterable[CheckRow]) -> KnownSdk | None:
    """Return the SDK that the agent behaves like: each check that always breaks there, and was judged, is broken.

    The one with the most such checks, if these are three or more and at least half of all findings: an agent that
    breaks most rules breaks those of every SDK. None for an agent that behaves like none.
    """
    of_1_0 = [row for row in rows if row.version == "1.0" and row.status not in ("skipped", "error", "inconclusive")]
    kept = {row.id for row in of_1_0 if row.status == "passed"}
    broken = [row for row in of_1_0 if row.status in _BROKEN]
    found = [
        (len({row.id for row in broken if sdk.deviation(row)}), sdk)
        for sdk in _known()
        if not kept & set(sdk.findings) - set(sdk.options)
    ]
    most, sdk = max(found, key=lambda pair: pair[0], default=(0, None))
    return sdk if most >= max(_LEAST, len({row.id for row in broken}) / 2) else None
