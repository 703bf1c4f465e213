"""Judge a gateway: each exchange without it and through it, repeated where they differ, as results of requirements."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.a2a.card import is_at
from pytest_a2a_bench.a2a.config import ClientConfig
from pytest_a2a_bench.config.values import is_gateway_itself
from pytest_a2a_bench.conformance.card.fetch import fetch_card
from pytest_a2a_bench.conformance.card.judge import CardHttp
from pytest_a2a_bench.conformance.catalogue import load_gateway_requirements
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.engine import run_checks
from pytest_a2a_bench.conformance.finding import (
    CARD,
    FOUND,
    GATEWAY,
    OWN,
    TRANSPORTS,
    CheckResult,
    Finding,
    Planned,
    Requirement,
    outcome_of,
)
from pytest_a2a_bench.conformance.gateway.cards import SECURITY, compare_cards, interfaces, moved
from pytest_a2a_bench.conformance.gateway.compare import Difference, Seen, Sides, compare_step, kind_of, origin_text
from pytest_a2a_bench.conformance.gateway.probes import HELD, ROUGH, STEPS, Asking, hold
from pytest_a2a_bench.conformance.grouping import Alone, explain
from pytest_a2a_bench.conformance.raw import probe
from pytest_a2a_bench.conformance.scenarios import Scenarios
from pytest_a2a_bench.conformance.session.health import NO_MESSAGE, OPERATION, absence
from pytest_a2a_bench.conformance.session.session import Session
from pytest_a2a_bench.conformance.subject import Subject, look_at
from pytest_a2a_bench.conformance.target import Target, targets_of
from pytest_a2a_bench.conformance.wire.exchange import Redactor
from pytest_a2a_bench.conformance.wire.reply import NoAnswer, SkipCheck
from pytest_a2a_bench.errors import CardError, ConfigurationError
from pytest_a2a_bench.redact import redact_url

# How often a step is made again where something differs, and where that is what an agent says: one that varies says
# the same by chance now and then, but not time and again.
_MORE, _MOST = 2, 8
_SAID = frozenset({"GW-008", "GW-009", "GW-019"})
_NOT_ASKED = "the agent itself cannot be asked without the gateway"
# What a gateway may do now and then, on which no agent has an influence.
_UNSTEADY = frozenset({"GW-005", "GW-014", "GW-016", "GW-017", "GW-020"})
# Where a status says which limit of nginx it is.
_NGINX_LINES: Mapping[int | None, str] = {
    413: "client_max_body_size 20m;",
    414: "large_client_header_buffers 4 32k;",
    426: "proxy_http_version 1.1;",
    431: "large_client_header_buffers 4 32k;",
    504: "proxy_read_timeout 1h;",
}


@dataclass(frozen=True)
class Pair:
    """An agent and the gateway before it.

    :param cards: the agent's card, fetched twice, and the gateway's.
    :param targets: each interface without the gateway and through it.
    :param missing: (binding, version) -> why an interface cannot be reached through the gateway.
    :param answers: address through the gateway -> its problem; empty for none.
    :ivar counted: how many exchanges were compared.
    """

    direct: Subject
    gateway: Subject
    cards: tuple[tuple[Any, CardHttp], ...]
    targets: tuple[tuple[Target, Target], ...]
    missing: Mapping[tuple[str, str], str]
    answers: Mapping[str, str]
    profile: str
    counted: list[int] = field(default_factory=list)

    @property
    def sides(self) -> Sides:
        """The two addresses."""
        return Sides(self.direct.endpoint, self.gateway.endpoint, any(through.auth for _, through in self.targets))

    @property
    def judged(self) -> Subject:
        """The agent at the gateway's address with its own card: the gateway's may name it wrongly."""
        card = _only(self.direct.card, [through for _, through in self.targets]) if self.targets else None
        return replace(self.gateway, card=card)

    def plan(self) -> list[Planned]:
        """Return the requirements of the gateway, for the card and for each interface of the agent."""
        return [p for p in self.direct.gateway_plan() if p.requirement.is_in(self.profile)]

    def compare(self, planned: Iterable[Planned]) -> list[CheckResult]:
        """Make the exchanges that some requirements of the gateway take, and return their results."""
        return loop.run(self._compare(planned))

    async def _compare(self, planned: Iterable[Planned]) -> list[CheckResult]:
        chosen: dict[tuple[str, str], list[Requirement]] = {}
        for requirement, binding in planned:
            chosen.setdefault((binding, requirement.version), []).append(requirement)
        return [r for place, entries in chosen.items() for r in await self._results(*place, entries)]

    async def _results(self, binding: str, version: str, entries: Sequence[Requirement]) -> list[CheckResult]:
        found: list[Difference] = []
        steps = (step for entry in entries for step in entry.checks)
        nowhere = "" if binding == CARD else "the agent's own card has no such interface"
        skipped: dict[str, str] = dict.fromkeys(steps, self.missing.get((binding, version), nowhere))
        shown = Redactor()
        if binding == CARD:
            found += compare_cards(self.cards[:2], self.cards[2], self.sides, self.answers)
            self.counted.append(1)
        for direct, through in self.targets:
            if (direct.binding, direct.version) == (binding, version):
                compared = Compared(direct, through, self.sides, self.profile != "safe")
                await compared.run(skipped)
                found, skipped, shown = compared.found, compared.skipped, Redactor((*direct.secrets, *through.secrets))
                self.counted.append(compared.exchanges)
        return [_result(e, binding, found, skipped.get(e.checks[0], ""), self.sides, shown) for e in entries]

    def summary(self, results: Iterable[CheckResult]) -> str:
        """Describe the gateway's changes in a line."""
        mine = (r.requirement.id for r in results if r.requirement.group == GATEWAY and r.outcome in FOUND)
        return changes_line(mine, sum(self.counted), self.direct.endpoint)

    async def attribute(
        self,
        results: Sequence[CheckResult],
        planned: Iterable[Planned],
        stands_alone: Alone = lambda result: False,
        elsewhere: Iterable[Planned] = (),
        left: list[str] | None = None,
    ) -> list[CheckResult]:
        """Compare, and return all results: findings about the agent itself are skipped, the rest is the gateway's.

        It is listed beneath the first requirement that the gateway breaks on the same interface, and so is what the
        gateway refuses with the very answers of that one: a route that is missing is missing for all that needs it.

        :param stands_alone: returns whether a result may neither be a cause nor be explained, such as a waived one.
        :param elsewhere: requirements of the gateway that another process judges for the same report; they are judged
            here, too, where they may be a cause.
        :param left: gets what may still be on the agent in the end.
        """
        every = await self._without_own(results, left)
        places = {_place(r) for r in every if r.outcome in FOUND}
        compared = await self._compare([*planned, *(p for p in elsewhere if _place(p) in places)])
        first = len(compared)
        every = [*compared, *every]
        for cause in range(first):
            result = every[cause]
            if result.outcome == "failed" and not stands_alone(result):
                theirs = [n for n, r in enumerate(every) if r.outcome in FOUND and _place(r) == _place(result)]
                follows = [n for n in theirs if n >= first or _refusals(every[n]) <= _refusals(result) - {None}]
                explain(every, cause, [n for n in follows if not stands_alone(every[n])])
        return every

    async def _without_own(self, results: Sequence[CheckResult], left: list[str] | None) -> list[CheckResult]:
        """Check the agent itself for findings made through its gateway, and skip those that it has, too."""
        own = {r.name for r in self.direct.card_results() if r.outcome in FOUND}
        planned = [Planned(r.requirement, r.binding) for r in results if r.outcome in FOUND and r.binding != CARD]
        targets = [direct for direct, _ in self.targets]
        if planned and targets:
            async with contextlib.aclosing(run_checks(targets, planned, left=left)) as running:
                own |= {r.name async for r in running if r.outcome in FOUND}
        return [
            replace(r, outcome="skipped", reason=OWN) if r.outcome in FOUND and r.name in own else r for r in results
        ]


def changes_line(broken: Iterable[str], exchanges: int, direct: str) -> str:
    """Describe the changes of a gateway in a line."""
    names = ", ".join(dict.fromkeys(broken))
    changed = f"breaks {names}" if names else "changed nothing"
    return f"the gateway {changed} in {exchanges} exchanges; without it: {redact_url(direct)}"


def _refusals(result: CheckResult) -> set[tuple[int | None, str] | None]:
    """Return the refusals that findings show, as status and body of HTTP; None stands for anything else."""
    answers = [finding.exchanges[-1] if finding.exchanges else None for finding in result.findings]
    return {(e.status, e.response) if e and e.http_method and (e.status or 0) >= 400 else None for e in answers}


def _place(one: CheckResult | Planned) -> tuple[str, str]:
    return one.binding, one.requirement.version


def _result(
    entry: Requirement, binding: str, found: Sequence[Difference], reason: str, sides: Sides, shown: Redactor
) -> CheckResult:
    mine = [
        Finding(
            entry.id,
            "warning" if entry.level == "SHOULD" else one.severity,
            one.found,
            one.expected,
            entry.spec,
            one.pointer,
            _fix(entry, one, sides),
            one.exchanges,
        )
        for one in found
        if one.rule == entry.id
    ]
    outcome = outcome_of(mine) if mine or not reason else "error" if reason.startswith(_NOT_ASKED) else "skipped"
    return CheckResult(entry, binding, outcome, tuple(shown.findings(mine)), "" if mine else reason)


def _fix(entry: Requirement, difference: Difference, sides: Sides) -> str:
    """Describe the remedy for a difference, with the line of nginx's configuration where that is certain."""
    servers = [e.response_headers.get("server", "") for e in difference.exchanges[-1:]]
    line = _NGINX_LINES.get(difference.status, entry.note)
    agent, gateway = map(urllib.parse.urlsplit, sides[:2])
    if difference.status == 404 and entry.id in ("GW-002", "GW-005") and gateway.path.strip("/"):
        # The agent says that it has no such path: nginx hands the prefix on.
        prefix = gateway.path.rstrip("/")
        line = f"location {prefix}/ {{ proxy_pass {agent.scheme}://{agent.netloc}/; }}"
    elif difference.rule == "GW-001":
        line = "proxy_set_header Host $http_host; and proxy_set_header X-Forwarded-Proto $scheme;"
    is_nginx = any(server.lower().startswith("nginx") for server in servers)
    return f"{entry.how}; in nginx: {line}" if line and is_nginx else entry.how


@dataclass
class Compared:
    """The exchanges of one interface.

    :param is_rough: whether to send malformed and large requests, too.
    :ivar found: the gateway's changes, each time that it was asked.
    :ivar skipped: step -> why it could not be made.
    :ivar exchanges: how many were compared.
    """

    direct: Target
    through: Target
    sides: Sides
    is_rough: bool
    found: list[Difference] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    exchanges: int = 0

    async def run(self, steps: Collection[str]) -> None:
        """Make some steps, and remove the objects that they made on the agent."""
        sessions = [Session(self.direct), Session(self.through)]
        entry = load_gateway_requirements()[0]
        direct, through = (Context(entry, session) for session in sessions)
        try:
            for step in (name for name in STEPS if name in steps):
                if step in ROUGH and not self.is_rough:
                    self.skipped[step] = "not in the profile safe"
                else:
                    await self._step(step, direct, through)
            if HELD in steps and not any(one.rule == "GW-017" for one in self.found):
                self.exchanges += 1
                held = await hold(direct, through)
                self.found += [held] if isinstance(held, Difference) else []
                self.skipped |= {HELD: held} if isinstance(held, str) and held else {}
        finally:
            await asyncio.gather(*(session.close() for session in sessions))

    async def _step(self, step: str, direct: Context, through: Context) -> None:
        async def run(ctx: Context) -> dict[str, Seen]:
            asking = Asking(ctx, direct)
            try:
                await STEPS[step](asking)
            except (SkipCheck, NoAnswer) as stop:
                self.skipped |= {step: str(stop)} if not asking.seen else {}
            return asking.seen

        without = [await run(direct), await run(direct)]
        with_it = [await run(through)]
        self.exchanges += len(with_it[0].keys() & without[0].keys())
        replies = [seen.reply for seen in without[0].values()]
        kinds = set(map(kind_of, replies))
        if step == "credentials" and kinds and "refusal" not in kinds:
            self.skipped[step] = "the agent refuses nobody, so that lost credentials do not show"
        elif step != "credentials" and kinds and not {"result", "stream", "error"} & kinds:
            self.skipped[step] = f"{_NOT_ASKED}: {replies[0].describe()}"
        while True:
            every = [{(d.rule, d.exchange): d for d in compare_step(without, t, self.sides)} for t in with_it]
            steady = {key: one for key, one in every[0].items() if all(key in found for found in every)}
            most = _MOST if any(one.rule in _SAID for one in steady.values()) else _MORE
            if not any(every) or len(every) > most:
                break
            without.append(await run(direct))
            with_it.append(await run(through))
        self.found += steady.values()
        others = {key: one for found in every for key, one in found.items() if key not in steady}
        for key, one in others.items():
            if one.rule in _UNSTEADY:
                words = f"{one.found} (in {sum(key in found for found in every)} of {len(every)} exchanges)"
                self.found.append(one._replace(found=words, severity="warning"))


# -- where the interfaces are --


def meet(
    config: ClientConfig,
    direct_config: ClientConfig,
    *,
    timeout: float,
    jwks: Any = None,
    profile: str = "standard",
    **more: Any,
) -> Pair:
    """Look at an agent without its gateway and through it.

    :param config: how the gateway is reached; ``direct_config`` how the agent is.
    :param more: ``scenarios`` and ``webhook`` of :func:`.target.targets_of`.
    :raises EndpointUnreachableError: if nothing answers at one of them.
    :raises ConfigurationError: if the agent itself has no card to go by.
    """
    if is_gateway_itself(direct_config.endpoint, config.endpoint):
        raise ConfigurationError(
            f"--direct {redact_url(config.endpoint)} is the gateway itself; give its agent's address"
        )
    direct = look_at(direct_config, timeout=timeout)
    if direct.problem:
        raise ConfigurationError(f"--direct {redact_url(direct.endpoint)}: {direct.problem}; check that agent first")
    try:
        gateway = look_at(config, timeout=timeout, jwks=jwks)
    # The card at the root of the gateway is another agent's.
    except CardError:
        gateway = Subject(config.endpoint)
    cards = tuple(
        fetch_card(each.endpoint, config=each, timeout=timeout)[:2] for each in (direct_config, direct_config, config)
    )
    given = {key[:2]: interface.url for key, interface in interfaces(gateway.card, config.endpoint).items()}
    security = {k: v for k, v in gateway.card.items() if k in SECURITY} if isinstance(gateway.card, Mapping) else {}
    more = {"timeout": timeout, "breadth": "full" if profile == "full" else "standard", **more}

    def first(
        urls: Iterable[str], like: Target, config: ClientConfig, card: Mapping[str, Any]
    ) -> tuple[Target, dict[str, str]]:
        """Return the first interface that answers as an agent does, and the problems of those before it.

        Where none does, the first is as good as any: it is not for its address.
        """
        made, reasons = [], {}
        for url in dict.fromkeys(urls):
            card = _only(card, [replace(like, url=url)])
            made.append(targets_of(card, config.endpoint, config=config, **more)[0])
            reasons[url] = _problem(made[-1])
            if not reasons[url]:
                return made[-1], reasons
        return made[0], {}

    pairs, missing, answers = [], {}, dict[str, str]()
    for target in direct.targets(direct_config, more.get("scenarios") or Scenarios(), timeout):
        url = target.url
        shown = given.get((TRANSPORTS[target.binding], target.version), url)
        if target.binding == "GRPC":
            own, urls = [url], [shown] if shown != url else []
        else:
            own = _places(url, direct_config.endpoint, config.endpoint)
            urls = [shown] if is_at(shown, config.endpoint) else []
            urls += [*_places(url, config.endpoint, direct_config.endpoint), config.endpoint]
        if not urls:
            missing[target.binding, target.version] = "the gateway's card names the agent's own gRPC address"
            continue
        mine, _ = first(own, target, direct_config, direct.card)
        through, reasons = first(urls, target, config, {**direct.card, **security})
        answers |= reasons
        pairs.append((mine, through))
    return Pair(direct, gateway, cards, tuple(pairs), missing, answers, profile)


def _places(url: str, endpoint: str, other: str) -> list[str]:
    """Return where an interface may be at one of two endpoints, by the address that the agent's card gives it."""
    if is_at(url, endpoint):
        return [url]
    whole = moved(url, origin_text(url), endpoint)
    return [moved(url, other, endpoint), whole] if is_at(url, other) else [whole]


def _only(card: Mapping[str, Any], targets: Sequence[Target]) -> dict[str, Any]:
    """Return a card that declares some interfaces alone."""
    entries = [
        {"url": t.url, "protocolBinding": t.binding, "protocolVersion": t.version, "tenant": t.tenant} for t in targets
    ]
    kept = {k: v for k, v in card.items() if k not in ("url", "additionalInterfaces", "preferredTransport")}
    return {**kept, "supportedInterfaces": [{k: v for k, v in entry.items() if v} for entry in entries]}


def _problem(target: Target) -> str:
    """Explain why an interface does not answer as an agent does; empty where it does."""
    reply = probe([target], OPERATION, {"id": str(uuid.uuid4())})
    if not isinstance(reply, str) and absence(reply):
        reply = probe([target], "SendMessage", NO_MESSAGE)
    if isinstance(reply, str):
        return reply
    return reply.describe() if absence(reply) or kind_of(reply) in ("page", "silence") else ""
