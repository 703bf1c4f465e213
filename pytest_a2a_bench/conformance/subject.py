"""The agent that is judged: its card as it is served, and the findings about it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_a2a_bench import __version__
from pytest_a2a_bench.a2a.auth import obtain
from pytest_a2a_bench.a2a.bodies import as_objects, as_text
from pytest_a2a_bench.a2a.card import narrow_to_endpoint, parse_card
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.a2a.loop import run
from pytest_a2a_bench.conformance.card import card_versions, check_card
from pytest_a2a_bench.conformance.card.fetch import fetch_card
from pytest_a2a_bench.conformance.catalogue import load_gateway_requirements, load_requirements, plan, requirement
from pytest_a2a_bench.conformance.engine import check_all
from pytest_a2a_bench.conformance.finding import CARD, GATEWAY, CheckResult, Finding, Planned, Requirement, outcome_of
from pytest_a2a_bench.conformance.grouping import fold
from pytest_a2a_bench.conformance.report import Report, judge
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.target import Target, declared, targets_of
from pytest_a2a_bench.conformance.waivers import Waiver, waiver_of
from pytest_a2a_bench.conformance.wire.exchange import Redactor
from pytest_a2a_bench.errors import A2ABenchError, CardError
from pytest_a2a_bench.redact import redact_url
from pytest_a2a_bench.text import waiting_for

# Collection needs items before any agent runs, so these stand for all that could be.
OFFLINE_CARD: Mapping[str, Any] = {
    "supportedInterfaces": [
        {"url": "http://127.0.0.1/", "protocolBinding": binding, "protocolVersion": "1.0"}
        for binding in ("JSONRPC", "HTTP+JSON", "GRPC")
    ]
}
"""Stands for a card that is not known yet: every binding of the newest version."""

_UNREADABLE = Requirement(
    "DECLARED",
    "binding",
    "1.0.1 §4.4.6",
    "MUST",
    "The agent card declares an interface that can be spoken to",
    profile="safe",
)

_OLD_MEMBERS = ("url", "preferredTransport", "protocolVersion", "supportsAuthenticatedExtendedCard")


@dataclass(frozen=True, slots=True)
class Subject:
    """An agent and its card.

    :param card: as JSON; None where there is none that can be read.
    :param is_verified: whether there were keys to verify its signatures with.
    :param card_url: where the card was found, without credentials.
    """

    endpoint: str
    card: Any = None
    findings: tuple[Finding, ...] = ()
    is_verified: bool = False
    card_url: str = ""

    @property
    def agent(self) -> str:
        """Name and version from the card, as it says."""
        if not isinstance(self.card, Mapping):
            return ""
        return " ".join(filter(None, (as_text(self.card.get(name)) for name in ("name", "version"))))

    @property
    def explained(self) -> str:
        """The problem with the first findings about the card, which may be its cause."""
        details = "; ".join(one.found for one in self.findings[:3])
        return f"{self.problem}{f' ({details})' if details else ''}"

    @property
    def problem(self) -> str:
        """Why the protocol cannot be judged; empty where it can."""
        if not isinstance(self.card, Mapping):
            return "there is no agent card that can be read"
        try:
            # A card whose interfaces cannot be parsed is judged as a card all the same.
            known = declared(self.card, self.endpoint)
        except A2ABenchError as error:
            return str(error)
        return "" if known else "the card names no interface of a version and binding that can be judged"

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The interfaces that the card declares: ``1.0 JSONRPC``."""
        return () if self.problem else tuple(f"{v} {b}" for b, v in declared(self.card, self.endpoint))

    def report(
        self,
        endpoint: str,
        results: Sequence[CheckResult],
        *,
        waivers: Sequence[Waiver] = (),
        strict: bool = False,
        **more: Any,
    ) -> Report:
        """Group results by their causes, apply waivers, and return the report.

        :param endpoint: as the report shows it.
        :param more: further fields of the report.
        """
        # What a gateway changed is a cause of its own, whatever else shows it.
        grouped = fold(results, lambda r: r.requirement.group == GATEWAY or waiver_of(r, waivers) is not None)
        return Report(
            endpoint=endpoint,
            rows=tuple(judge(grouped, waivers=waivers, strict=strict)),
            agent=self.agent,
            interfaces=self.interfaces,
            card_url=self.card_url,
            waivers=tuple(waivers),
            strict=strict,
            tool={"name": "pytest-a2a-bench", "version": __version__},
            **more,
        )

    def plan(self) -> list[Planned]:
        """Return the checks of the protocol that there are for this agent."""
        if self.problem:
            return [Planned(_UNREADABLE, CARD)]
        return plan(self.card, self.endpoint)

    def gateway_plan(self) -> list[Planned]:
        """Return the requirements of a gateway that has this card, for the card and for each interface."""
        places = [(CARD, card_versions(self.card)[0]), *(tuple(i.split()[::-1]) for i in self.interfaces)]
        entries = load_gateway_requirements()
        return [Planned(replace(e, version=v), b) for b, v in places for e in entries if b in e.bindings]

    @property
    def planned(self) -> list[Planned]:
        """All checks that there are for this agent, of its card and its protocol."""
        return [*self.card_plan(), *self.plan()]

    def targets(self, config: ClientConfig, scenarios: Scenarios, timeout: float, **more: Any) -> tuple[Target, ...]:
        """Return the interfaces to speak to; ``more`` are further parameters of :func:`.target.targets_of`."""
        if self.problem:
            return ()
        return targets_of(self.card, self.endpoint, config=config, scenarios=scenarios, timeout=timeout, **more)

    def card_plan(self, versions: Sequence[str] = ()) -> list[Planned]:
        """Return the requirements of the card that there are for this agent, and those that it breaks beyond.

        :param versions: those of the protocol to keep to; by default those that the card itself names.
        """
        versions = versions or card_versions(self.card)
        entries = [r for version in versions for r in load_requirements(version) if CARD in r.bindings]
        known = {entry.id for entry in entries}
        # A card may break a rule of the other version, such as a leftover.
        others = dict.fromkeys(f.rule for f in self.findings if f.rule not in known)
        return [Planned(entry, CARD) for entry in (*entries, *map(requirement, others))]

    def card_results(self, versions: Sequence[str] = (), *, served: bool = True) -> Iterator[CheckResult]:
        """Yield one result for each requirement of :meth:`card_plan`.

        :param served: whether a server was asked for the card; else how it is served was not looked at.
        """
        for entry, binding in self.card_plan(versions):
            found = tuple(f for f in self.findings if f.rule == entry.id)
            reason = "" if found else self._unseen(entry, served)
            yield CheckResult(entry, binding, "skipped" if reason else outcome_of(found), found, reason)

    def _unseen(self, entry: Requirement, served: bool) -> str:
        """Return why a requirement of the card was not looked at; empty where it was."""
        if not isinstance(self.card, Mapping):
            return self.problem
        if not served and "served" in entry.tags:
            return "how a card is served cannot be seen in a file"
        if entry.group == "signatures" and not self.card.get("signatures"):
            return "the card has no signatures"
        # Without keys form can be judged, and truth cannot.
        return (
            "no keys to verify the signatures with; set card-jwks"
            if "key" in entry.needs and not self.is_verified
            else ""
        )


def look_at(config: ClientConfig, *, timeout: float = 10.0, jwks: Any = None, **rules: Any) -> Subject:
    """Fetch an agent's card and judge it.

    :param jwks: keys to verify its signatures with.
    :param rules: further arguments of :func:`~pytest_a2a_bench.conformance.card.check_card`.
    :raises EndpointUnreachableError: if nothing answers there.
    :raises CardError: if the only card is another agent's.
    :raises AuthenticationError: if there is no access token for it.
    """
    with waiting_for(f"the agent card of {redact_url(config.endpoint, query=False)}"):
        raw, http, findings = fetch_card(config.endpoint, config=config, timeout=timeout)
    # Twice: fetching finds what is wrong with the answer, and this finds it again with the rest.
    if raw is not None:
        with contextlib.suppress(CardError):  # found again and reported below
            run(obtain(config, parse_card(raw, config.endpoint)))
        findings = Redactor(config.secrets).findings(check_card(raw, http=http, jwks=jwks, **rules))
        # The card is judged as it is, and of its interfaces those that the endpoint means.
        if isinstance(raw, Mapping):
            raw = narrow_to_endpoint(raw, config.endpoint, http.url)
            # Of the other view, too, only what the endpoint means.
            with contextlib.suppress(CardError):
                if http.other is not None:
                    raw = _with_other_view(raw, narrow_to_endpoint(http.other, config.endpoint, http.url))
    return Subject(config.endpoint, raw, tuple(findings), jwks is not None, redact_url(http.url))


def check_online(subject: Subject, config: ClientConfig, timeout: float, left: list[str]) -> list[CheckResult]:
    """Ask every interface that a card declares whether the card is true: the checks with the tag ``online``.

    :param left: gets what may still be on the agent in the end.
    """
    planned = [p for p in subject.plan() if "online" in p.requirement.tags]
    return list(check_all(subject.targets(config, Scenarios(), timeout), planned, left=left).values())


def _with_other_view(raw: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a card that declares the interfaces of its 0.3 view, too, as one for both versions does."""
    if card_versions(other) != ("0.3",) or "0.3" in card_versions(raw):
        return raw
    first = {"url": other.get("url"), "transport": other.get("preferredTransport", "JSONRPC")}
    entries = [first, *as_objects(other.get("additionalInterfaces"))]
    old = [{"url": e.get("url"), "protocolBinding": e.get("transport"), "protocolVersion": "0.3"} for e in entries]
    kept = {name: other[name] for name in _OLD_MEMBERS if name in other}
    return {**raw, **kept, "supportedInterfaces": [*as_objects(raw.get("supportedInterfaces")), *old]}
