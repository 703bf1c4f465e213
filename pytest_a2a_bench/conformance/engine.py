"""Run the checks: which there are, all at once, each with its evidence, and clear away afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import pkgutil
import time
from collections.abc import AsyncGenerator, Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_a2a_bench.conformance import recurrence
from pytest_a2a_bench.conformance.check import CHECKS, UNCHECKABLE, NoAnswer, SkipCheck, added_of, check_of
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.crossed import cross
from pytest_a2a_bench.conformance.finding import BINDINGS, CheckOutcome, CheckResult, Finding, Requirement
from pytest_a2a_bench.conformance.requirements import load_requirements, whose_pack
from pytest_a2a_bench.conformance.session.health import MORE_TIME, STOPPED, works
from pytest_a2a_bench.conformance.session.presence import CARD_RULES
from pytest_a2a_bench.conformance.session.session import CLEANUP_SECONDS, Session
from pytest_a2a_bench.conformance.session.target import Target, declared
from pytest_a2a_bench.conformance.wire.exchange import Redactor, is_silence

CONCURRENCY = 16
CHECK_SECONDS = 60.0
"""Most seconds that one check may take; each of its requests has the target's own, shorter limit."""

UNDECLARED = "DECLARED"

# These groups send malformed requests, which may break an agent for good.
_ROUGH = frozenset({"validation", "errors", "versioning"})


class Planned(NamedTuple):
    """One check that is to be made."""

    requirement: Requirement
    binding: str

    @property
    def name(self) -> str:
        """As :attr:`CheckResult.name`."""
        return f"{self.requirement.version}/{self.requirement.id}[{self.binding}]"


Select = Callable[[Planned], bool]


def load_checks() -> None:
    """Import every module of checks, so that they are registered."""
    package = importlib.import_module("pytest_a2a_bench.conformance.checks")
    # By listing the folder: a new module of checks cannot be forgotten in a table.
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def plan(
    card: Mapping[str, Any],
    endpoint: str = "",
    *,
    versions: Iterable[str] | None = None,
    bindings: Iterable[str] | None = None,
) -> list[Planned]:
    """Return the checks that there are for a card: requirement by binding, in the order of the catalogue.

    A binding that the card does not declare at all gives one entry, which is skipped when it is run.

    :param versions: only these; by default those that the card declares.
    :param bindings: only these.
    """
    load_checks()
    interfaces = declared(card, endpoint)
    # In the catalogue's order and not in that of the card: reports of two agents can be laid side by side.
    wanted = tuple(bindings) if bindings is not None else BINDINGS
    chosen = tuple(versions) if versions is not None else tuple(dict.fromkeys(v for _, v in interfaces))
    return [p for version in chosen for p in _plan_version(version, interfaces, wanted)]


def _plan_version(version: str, interfaces: Sequence[tuple[str, str]], wanted: Sequence[str]) -> list[Planned]:
    here = [b for b in BINDINGS if b in wanted and (b, version) in interfaces]
    found = [
        Planned(requirement, binding)
        for requirement in load_requirements(version)
        if (requirement.id, version) in CHECKS
        for binding in here
        if binding in requirement.bindings
    ]
    # One entry for each binding that is not there, so that no report silently lacks one.
    return found + [Planned(_undeclared(version), b) for b in BINDINGS if b in wanted and b not in here]


def _undeclared(version: str) -> Requirement:
    text = "The agent card declares this binding"
    return Requirement(UNDECLARED, "binding", f"{version} §4.4.6", "MAY", text, version, profile="safe")


async def run_checks(
    targets: Target | Iterable[Target],
    *,
    select: Select | None = None,
    concurrency: int = CONCURRENCY,
    planned: Iterable[Planned] | None = None,
    left: list[str] | None = None,
    patience: Callable[[], float] = lambda: CLEANUP_SECONDS,
    elsewhere: Container[str] = (),
) -> AsyncGenerator[CheckResult, None]:
    """Run the checks of an agent's interfaces and yield each result as it comes.

    Everything that the checks create is cancelled or deleted before this ends, also where it is left early.

    :param targets: interfaces of one agent.
    :param select: which of the planned checks to run.
    :param concurrency: how many run at once.
    :param planned: runs these instead of all that the card gives.
    :param left: gets what may still be on the agent when this has ended.
    :param elsewhere: names of checks that another process makes for the same report.
    :param patience: asked at the end how many seconds there are for clearing away.
    """
    several = (targets,) if isinstance(targets, Target) else tuple(targets)
    # None and empty are different: pytest may have deselected everything.
    chosen = [p for p in (_planned(several) if planned is None else planned) if select is None or select(p)]
    sessions: dict[tuple[str, str], Session] = {}
    names = {p.name for p in chosen}
    for target in several:
        tells = f"{target.version}/{CARD_RULES[target.version]}[{target.binding}]"
        session = Session(target, sessions)
        session.health.card_check = tells if tells in names or tells in elsewhere else ""
    tasks: list[asyncio.Task[CheckResult]] = []
    ending: list[asyncio.Task[None]] = []
    try:
        # Only interfaces of which something is asked: a probe is a request that the user did not want.
        await asyncio.gather(*(s.health.begin() for s in sessions.values() if _is_asked(s, chosen)))
        slots = asyncio.Semaphore(max(1, concurrency))
        # Both kinds are started at once; the rough ones wait inside for the gentle ones, so that results come as they
        # are ready.
        calm = asyncio.Event()
        gentle = [asyncio.create_task(_run_one(p, sessions, slots)) for p in chosen if not is_rough(p)]
        tasks += gentle
        tasks += [asyncio.create_task(_run_one(p, sessions, slots, calm)) for p in chosen if is_rough(p)]
        # One for all: hundreds that each wait for hundreds cost more than the checks.
        ending.append(asyncio.create_task(_set_when_done(calm, gentle)))
        held, unmade = [], []
        for finished in asyncio.as_completed(tasks):
            result = await finished
            if recurrence.wants_repeating(result):
                held.append(result)
            elif result.reason.startswith(STOPPED):
                unmade.append(result)
            else:
                yield result
        # Now nothing else is in flight.
        async for result in _repeat(held, unmade, sessions):
            yield result
    finally:
        # The caller may leave early (Ctrl-C, -x): what was begun is stopped before the agent is cleared up.
        for task in (*tasks, *ending):
            task.cancel()
        await asyncio.gather(*tasks, *ending, return_exceptions=True)
        await asyncio.gather(*(s.close(patience()) for s in sessions.values()))
        if left is not None:
            left += [s.left for s in sessions.values() if s.left]


async def _repeat(
    held: Sequence[CheckResult], unmade: Sequence[CheckResult], sessions: Mapping[tuple[str, str], Session]
) -> AsyncGenerator[CheckResult, None]:
    """Make checks that failed on time again, one after the other, and yield what they come to.

    :param unmade: those that were not made as the agent had stopped working: where it had only been slow, they are.
    """
    # What the checks share was made while others were in flight: it is made anew, once for all repetitions.
    for session in sessions.values():
        session.shared.forget_exchanges()
        session.pace.forget()
    silent: frozenset[tuple[str, str]] = frozenset()
    for first in recurrence.in_order(held, lambda result: is_rough(Planned(result.requirement, result.binding))):
        session = sessions[first.binding, first.requirement.version]
        if recurrence.is_known(first, silent) or not await session.health.recovers():
            yield first
            continue
        since = time.monotonic()
        second = await run_check(first.requirement, session)
        silent |= recurrence.late_methods(second)
        yield recurrence.conclude(first, second, session.health.asked_since(since))
    for first in unmade:
        session = sessions[first.binding, first.requirement.version]
        yield first if session.health.is_broken else await run_check(first.requirement, session)


def _planned(targets: Sequence[Target]) -> list[Planned]:
    if not targets:
        return []
    pairs = {(t.binding, t.version) for t in targets}
    everything = plan(targets[0].card, targets[0].endpoint)
    return [p for p in everything if p.requirement.id == UNDECLARED or (p.binding, p.requirement.version) in pairs]


def is_rough(planned: Planned) -> bool:
    """Tell whether a check sends what is malformed: that may break an agent, so all others come first."""
    added = added_of(planned.requirement)
    return planned.requirement.group in _ROUGH or (added is not None and added.is_rough)


def _is_asked(session: Session, chosen: Iterable[Planned]) -> bool:
    interface = (session.target.binding, session.target.version)
    return any((p.binding, p.requirement.version) == interface and p.requirement.id not in UNCHECKABLE for p in chosen)


async def _set_when_done(event: asyncio.Event, tasks: Sequence[asyncio.Task[CheckResult]]) -> None:
    if tasks:
        await asyncio.wait(tasks)
    event.set()


async def _run_one(
    planned: Planned,
    sessions: Mapping[tuple[str, str], Session],
    slots: asyncio.Semaphore,
    calm: asyncio.Event | None = None,
) -> CheckResult:
    if calm is not None:
        await calm.wait()
    requirement, binding = planned
    session = sessions.get((binding, requirement.version))
    # A binding that the card does not declare is a skip with its reason and not an absence.
    if session is None:
        reason = f"the card declares no {binding} interface of version {requirement.version}"
        return CheckResult(requirement, binding, "skipped", reason=reason)
    if requirement.id in UNCHECKABLE:
        return CheckResult(requirement, binding, "skipped", reason=UNCHECKABLE[requirement.id])
    await session.health.ready()
    # Checks that mostly wait would fill the slots with sleepers, and the run would take as long as all of them in a
    # row.
    async with contextlib.nullcontext() if mostly_waits(requirement) else slots:
        return await run_check(requirement, session)


def mostly_waits(requirement: Requirement) -> bool:
    """Tell whether a check spends its time waiting for a slow task: such ones need not queue for each other."""
    return "slow" in requirement.needs or "webhook" in requirement.needs or requirement.group == "push"


async def run_check(requirement: Requirement, session: Session) -> CheckResult:
    """Run one check; whatever the agent does, there is a result."""
    if session.health.is_broken:
        return session.health.verdict(requirement, session.target.binding)
    obstacle = session.health.obstacle(requirement, session.target.binding)
    if obstacle is not None:
        return obstacle
    ctx = Context(requirement, session)
    started = time.monotonic()
    if recurrence.is_timed(requirement):
        await session.pace.measure()
    # Before looking at health: an answer that was only slow is no reason to call an agent broken.
    outcome, told = _excuse_silence(ctx, *_with_breakdowns(ctx, *await _outcome(ctx)))
    reason = Redactor(session.target.secrets).text(told)
    # Every suspicious answer is followed by one good request: what one check broke must not be blamed on the next.
    for asked in _suspicious(ctx):
        if not await asked.health.lasts():
            return asked.health.verdict(requirement, session.target.binding, time.monotonic() - started)
    return CheckResult(
        requirement, session.target.binding, outcome, tuple(ctx.findings), reason, time.monotonic() - started
    )


def _with_breakdowns(ctx: Context, outcome: CheckOutcome, reason: str) -> tuple[CheckOutcome, str]:
    """Add the first internal error in answer to a valid request that no finding is about yet."""
    known = [e for f in ctx.findings if outcome == "error" or f.severity == "error" for e in f.exchanges]
    broken = [r for r in ctx.unjudged if not any(r.exchange is e for e in known)]
    if not broken:
        return outcome, reason
    ctx.report_breakdown(broken[0])
    return ("error" if outcome == "error" else "failed"), reason if outcome == "error" else ""


def _excuse_silence(ctx: Context, outcome: CheckOutcome, reason: str) -> tuple[CheckOutcome, str]:
    # Nobody can tell a slow agent from a dead one by waiting as long as was allowed.
    """Turn findings that are nothing but the client's own limit of time into an error: the agent may be just slow."""
    seconds = ctx.target.timeout
    silent = [f for f in ctx.findings if any(is_silence(e, seconds) for e in f.exchanges)]
    if not silent:
        return outcome, reason
    told = [f for f in ctx.findings if f not in silent]
    if outcome in ("failed", "warned") and told:
        ctx.findings[:] = told
        return _severest(told), reason
    ctx.findings[:] = [dataclasses.replace(f, severity="warning") for f in silent]
    return "error", f"{reason or silent[0].found}; {MORE_TIME}"


def _suspicious(ctx: Context) -> list[Session]:
    """Return the interfaces that gave an answer as of an agent that has stopped working."""
    found = {r.exchange.binding for r in ctx.replies if not works(r)}
    # What other checks asked for is in the findings alone.
    found |= {e.binding for f in ctx.findings for e in f.exchanges if e.problem or (e.status or 0) >= 500}
    sessions = (ctx.session.sibling(binding, ctx.version) for binding in sorted(found))
    return [s for s in sessions if s is not None]


def limit_of(requirement: Requirement) -> float:
    """Return how many seconds a check may take; what it waits of its own accord is not the agent's."""
    added = added_of(requirement)
    return CHECK_SECONDS + (added.seconds if added is not None else 0.0)


async def _outcome(ctx: Context) -> tuple[CheckOutcome, str]:
    reason = ""
    try:
        async with asyncio.timeout(limit_of(ctx.requirement)):
            await check_of(ctx.requirement)(ctx)
        if ctx.target.breadth == "full" and not ctx.findings:
            # In a time of their own: what a slow agent could not be asked any more is no finding.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await cross(ctx)
    except SkipCheck as skip:
        # A check that had found something before it could not go on has still found it.
        if not ctx.findings:
            return "skipped", str(skip)
    except NoAnswer as error:
        reason = str(error)
        ctx.replies += [error.reply] if error.reply is not None else []
        if error.reply is not None:
            # The finding carries the exchange: an error without evidence would leave the user with a sentence.
            ctx.warn(reason, expected="an answer that this check can work with", replies=[error.reply])
        return "error", reason
    except TimeoutError:
        ctx.fail(f"{recurrence.TOO_LONG} {limit_of(ctx.requirement):g} s", fix="answer sooner")
    # Deep answers are the agent's doing, and Python's limit is as good a bound as any.
    except RecursionError:
        ctx.fail("the answer is nested too deeply to be judged", fix="answer with less depth")
    except Exception as error:
        # A bug of ours must not cost the user the results of all other checks.
        whose = whose_pack(ctx.requirement) or "pytest-a2a-bench"
        return "error", f"the check itself broke, which is a bug of {whose}: {type(error).__name__}: {error}"
    return _severest(ctx.findings), reason


def _severest(findings: Iterable[Finding]) -> CheckOutcome:
    severities = {f.severity for f in findings}
    # The worst decides, whatever else a check noticed.
    return "failed" if "error" in severities else "warned" if "warning" in severities else "passed"


async def collect(
    targets: Target | Iterable[Target],
    *,
    select: Select | None = None,
    concurrency: int = CONCURRENCY,
) -> tuple[CheckResult, ...]:
    """Run the checks and return all results in the order of the catalogue."""
    several = (targets,) if isinstance(targets, Target) else tuple(targets)
    order = {p.name: n for n, p in enumerate(_planned(several))}
    async with contextlib.aclosing(run_checks(several, select=select, concurrency=concurrency)) as running:
        # Closed explicitly: an abandoned generator would clear away at some later time, when the loop may be gone.
        results = [r async for r in running]
    return tuple(sorted(results, key=lambda r: order[r.name]))
