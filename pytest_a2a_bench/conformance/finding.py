"""The results of checks: findings, the wire exchanges behind them, and the outcome of one requirement (pure)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pytest_a2a_bench.config.settings import CHECK_PROFILES

Severity = Literal["error", "warning", "note"]
Level = Literal["MUST", "SHOULD", "MAY"]
CheckOutcome = Literal["passed", "failed", "warned", "skipped", "error", "inconclusive", "explained"]
FOUND: Sequence[CheckOutcome] = ("failed", "error", "warned")
"""Outcomes of checks that found something, the worst first."""

CheckFunction = Callable[[Any], Awaitable[None]]
"""A check: it asks an agent through a :class:`.context.Context`, and records its findings there."""

TRANSPORTS: Mapping[str, str] = {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest", "GRPC": "grpc"}
"""Binding of an interface -> its name in settings, ``transport``."""
BINDINGS = tuple(TRANSPORTS)
BINDING_OF: Mapping[str, str] = {transport: binding for binding, transport in TRANSPORTS.items()}
AS_VALID = "a result, as the request is valid"
"""The expectation in a finding about an internal error that a check met on its way."""
VERSIONS = ("1.0", "0.3")
CARD = "card"
"""The binding of requirements of the card."""
ACTS = "acts"
"""The group of checks that come from ACTS files: other people's, about the same protocol."""
GATEWAY = "gateway"
"""The group of requirements of a gateway, which are judged by comparing with the agent behind it."""
OWN = "wrong without the gateway, too: the agent's own"
"""The reason of a check that was made through a gateway, and whose finding is not the gateway's."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response, as on the wire; bounded, and redacted before it is shown.

    :param request: the body as text; for gRPC its JSON form.
    :param status: HTTP status or gRPC status code number; None where no answer came.
    :param events: data of the events of a stream, in order, as text.
    :param problem: an error below HTTP (connection reset, timeout ...), else empty.
    """

    binding: str
    method: str
    url: str
    http_method: str = ""
    request_headers: Mapping[str, str] = field(default_factory=dict)
    request: str = ""
    status: int | None = None
    response_headers: Mapping[str, str] = field(default_factory=dict)
    response: str = ""
    events: tuple[str, ...] = ()
    problem: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing.

    :param rule: a requirement's id (``SEND-003``) or a card rule's.
    :param pointer: JSON pointer (RFC 6901) into the judged document: the card, or the response.
    :param found: the deviation, in words with the offending value.
    :param expected: the specification's requirement.
    :param spec: version and section, such as ``1.0.1 §8.4.2``.
    :param fix: the remedy.
    """

    rule: str
    severity: Severity
    found: str
    expected: str = ""
    spec: str = ""
    pointer: str = ""
    fix: str = ""
    exchanges: tuple[Exchange, ...] = ()


class Vary(NamedTuple):
    """The variants of a check beside its representative; each axis has the check's own value as ``""``.

    :param operations: asked in place of ``instead``.
    :param near: how unknown ids are like known ones.
    :param always: which of them the profile ``standard`` tries, too: those that find most for the fewest messages.
    """

    states: tuple[str, ...] = ("",)
    operations: tuple[str, ...] = ("",)
    instead: str = ""
    near: tuple[str, ...] = ("",)
    always: tuple[str, ...] = ()


REPRESENTATIVE_ALONE = Vary()


class Ask(NamedTuple):
    """Requests that a check sends one after the other, as data (:mod:`.checks.asking`).

    :param errors: names of the errors with which they may be refused.
    :param tolerated: names of errors that are a warning.
    :param lenient: why it is a warning, and no failure, if they are accepted; empty where it is a failure.
    """

    requests: tuple[Mapping[str, Any], ...] = ()
    errors: tuple[str, ...] = ()
    tolerated: tuple[str, ...] = ()
    lenient: str = ""


ASKS_NOTHING = Ask()


@dataclass(frozen=True, slots=True)
class Requirement:
    """One entry of the catalogue.

    :param needs: what it takes to check it, separated by commas, such as a capability, a scenario or credentials: what
        :meth:`.Context.require` knows is seen to before the check.
    :param bindings: the bindings that it applies to; ``("card",)`` for the card.
    :param profile: the narrowest profile that makes its check: ``safe`` for an agent in production, as it sends nothing
        malformed and leaves no webhook and no working task behind if it is stopped; ``standard``; or ``full``.
    :param check: its check: ``module.function`` of :mod:`.checks`, or several, which are run in turn; or, of ACTS and
        of other packages, the function itself. ``stress`` likewise what the profile ``full`` asks further.
    :param timed: whether the verdict depends on time (order, staleness, promptness, the end of a stream): a reference
        exchange is measured around the check, and it is repeated alone before it may fail.
    :param rough: whether its check may send what is malformed, so that it comes last.
    :param seconds: how long its check may wait of its own accord, which is no time that the agent takes.
    :param uncheckable: why no endpoint can show it.
    :param expected: the expectation in findings of checks that give none; empty for ``text``.
    :param rules: names by which the rules of a card know it in whatever version.
    :param explains: what follows where it is broken: a regular expression -> ids of requirements, whose findings on the
        same interface, or on any where it is of the card, are consequences where each of them matches it.
    :param tags: ``served`` for what the serving of a card shows and a file does not, ``online`` for what shows whether
        a card is true.
    :param source: the distribution or plugin whose it is.
    """

    id: str
    group: str
    spec: str
    level: Level
    text: str
    version: str = "1.0"
    how: str = ""
    needs: str = ""
    bindings: tuple[str, ...] = BINDINGS
    note: str = ""
    profile: str = "standard"
    check: str | CheckFunction = ""
    timed: bool = False
    rough: bool = False
    seconds: float = 0.0
    vary: Vary = REPRESENTATIVE_ALONE
    stress: str = ""
    uncheckable: str = ""
    ask: Ask = field(default=ASKS_NOTHING, hash=False)
    expected: str = ""
    rules: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    explains: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)
    source: str = "pytest-a2a-bench"

    @property
    def checks(self) -> list[str]:
        """The names of its checks; none where its check is a function."""
        return self.check.split() if isinstance(self.check, str) else []

    @property
    def is_widened(self) -> bool:
        """Whether the profile ``full`` tries it with more than its representative."""
        return bool(self.stress) or self.vary != REPRESENTATIVE_ALONE

    def is_in(self, profile: str) -> bool:
        """Return whether a profile makes its check."""
        return CHECK_PROFILES.index(self.profile) <= CHECK_PROFILES.index(profile)


class Planned(NamedTuple):
    """One check that is to be made."""

    requirement: Requirement
    binding: str

    @property
    def name(self) -> str:
        """As :attr:`CheckResult.name`."""
        return f"{self.requirement.version}/{self.requirement.id}[{self.binding}]"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of checking one requirement on one binding.

    :param outcome: ``failed`` for a MUST, ``warned`` for a SHOULD or a softened contradiction, ``skipped`` with
        ``reason``, ``error`` where the agent could not be asked at all, ``inconclusive`` where it was found once and
        not when it was asked again alone, ``explained`` where another result is its cause.
    :param cause: :attr:`name` of the result that explains this one, else empty.
    :param explains: what this one explains: a line for each (see :mod:`.grouping`).
    """

    requirement: Requirement
    binding: str
    outcome: CheckOutcome
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    seconds: float = 0.0
    cause: str = ""
    explains: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Unique within one run: ``1.0/SEND-003[JSONRPC]``."""
        return f"{self.requirement.version}/{self.requirement.id}[{self.binding}]"


def outcome_of(findings: Iterable[Finding]) -> CheckOutcome:
    """Return the outcome of a check with these findings."""
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return "failed"
    return "warned" if "warning" in severities else "passed"
