"""Run the checks: all at once, each with its evidence, and clear away afterwards; from synchronous code, too."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_a2a_bench.a2a import loop
from pytest_a2a_bench.conformance import fixtures, recurrence
from pytest_a2a_bench.conformance.catalogue import (
    check_of,
    function,
    load_requirements,
)
from pytest_a2a_bench.conformance.context import Context
from pytest_a2a_bench.conformance.finding import (
    FOUND,
    GATEWAY,
    CheckOutcome,
    CheckResult,
    Planned,
    Requirement,
    outcome_of,
)
from pytest_a2a_bench.conformance.grouping import explained
from pytest_a2a_bench.conformance.session.health import CARD_RULES, STOPPED, works
from pytest_a2a_bench.conformance.session.session import CLEANUP_SECONDS, HURRIED_SECONDS, Session
from pytest_a2a_bench.conformance.target import Target
from pytest_a2a_bench.conformance.variants import Variant, allowed
from pytest_a2a_bench.conformance.wire.exchange import FEWER, MORE_TIME, Redactor, is_limited, is_silence
from pytest_a2a_bench.conformance.wire.reply import NoAnswer, SkipCheck
from pytest_a2a_bench.errors import HarnessError, Terminated
from pytest_a2a_bench.text import counted, waiting_for

CONCURRENCY = 16
CHECK_SECONDS = 60.0
"""Most seconds that one check may take, or four answers that take the target's limit each, if that is longer."""

# These groups send malformed requests, which may break an agent for good.
_ROUGH = frozenset({"validation", "errors", "versioning"})
# A few findings of one rule in its variants are enough.
_ENOUGH = 3
# Characters from which an id is taken for a random one, next to which there is no other.
_RANDOM = 16
# For closing connections, beyond what the clearing away itself may take.
_CLOSING_SECONDS = 2.0
_CLOSING_HURRIED = 0.3
# What can be neither a cause nor a consequence need not wait for the others.
_UNFOLDED = ("passed", "skipped")

Fold = Callable[[Iterable[CheckResult]], Iterable[CheckResult]]
Attribute = Callable[[Sequence[CheckResult], Sequence[Planned]], Awaitable[list[CheckResult]]]


async def run_checks(
    targets: Iterable[Target],
    planned: Iterable[Planned],
    *,
    concurrency: int = CONCURRENCY,
    left: list[str] | None = None,
    patience: Callable[[], float] = lambda: CLEANUP_SECONDS,
    elsewhere: Container[str] = (),
) -> AsyncGenerator[CheckResult, None]:
    """Run the checks of an agent's interfaces and yield each result as it comes.

    Everything that the checks create is cancelled or deleted before this ends, also where it is left early.

    :param left: gets objects that may still be on the agent at the end.
    :param elsewhere: names of checks that another process makes for the same report.
    :param patience: asked at the end how many seconds there are for clearing away.
    """
    chosen = list(planned)
    sessions: dict[tuple[str, str], Session] = {}
    names = {p.name for p in chosen}
    for target in targets:
        tells = f"{target.version}/{CARD_RULES[target.version]}[{target.binding}]"
        session = Session(target, sessions)
        session.health.card_check = tells if tells in names or tells in elsewhere else ""
    tasks: list[asyncio.Task[CheckResult]] = []
    try:
        # Only interfaces of which something is asked: a probe is a request that the user did not want.
        asked_of = {(p.binding, p.requirement.version) for p in chosen}
        for place in asked_of & sessions.keys():
            sessions[place].health.begin()
        slots = asyncio.Semaphore(max(1, concurrency))
        # Both kinds are started at once; the rough ones wait inside for the gentle ones, so that results come as they
        # are ready.
        tasks += [asyncio.create_task(_run_one(p, sessions, slots)) for p in chosen if not is_rough(p.requirement)]
        # One for all: hundreds that each wait for hundreds cost more than the checks.
        calm = asyncio.gather(*tasks, return_exceptions=True)
        tasks += [asyncio.create_task(_run_one(p, sessions, slots, calm)) for p in chosen if is_rough(p.requirement)]
        late, unmade, doubtful = [], [], []
        for finished in asyncio.as_completed(tasks):
            result = await finished
            asked = sessions.get((result.binding, result.requirement.version))
            if asked is not None and asked.steadiness.may_explain(result):
                doubtful.append(result)
            elif recurrence.wants_repeating(result):
                late.append(result)
            elif result.reason.startswith(STOPPED):
                unmade.append(result)
            else:
                yield result
        # Now nothing else is in flight.
        order = {p.name: number for number, p in enumerate(chosen)}
        places = {(r.binding, r.requirement.version) for r in doubtful}
        causes = {place: await sessions[place].steadiness.causes(sessions[place].ask) for place in places}
        for result in explained(sorted(doubtful, key=lambda r: order[r.name]), causes):
            if recurrence.wants_repeating(result) and result.cause == "" and not result.explains:
                late.append(result)
            else:
                yield result
        async for result in _repeat(late, unmade, sessions):
            yield result
    finally:
        # The caller may leave early (Ctrl-C, -x): what was begun is stopped before the agent is cleared up.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(s.close(patience()) for s in sessions.values()))
        if left is not None:
            left += [s.left for s in sessions.values() if s.left]


async def _repeat(
    late: Sequence[CheckResult], unmade: Sequence[CheckResult], sessions: Mapping[tuple[str, str], Session]
) -> AsyncGenerator[CheckResult, None]:
    """Repeat checks that failed on time, one after the other, and yield their results.

    :param unmade: those that were not made as the agent had stopped working: where it had only been slow, they are.
    """
    # What the checks share was made while others were in flight: it is made anew, once for all repetitions.
    for session in sessions.values():
        session.shared.forget()
        session.pace.forget()
    silent: frozenset[tuple[str, str]] = frozenset()
    # Those that explain most of the others come first; the rough ones, which may break the agent, last again.
    for first in sorted(late, key=lambda r: (is_rough(r.requirement), -len(recurrence.late_methods(r)))):
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


def is_rough(requirement: Requirement) -> bool:
    """Return whether a check sends malformed requests: they may break an agent, so all others come first."""
    return requirement.rough or requirement.group in _ROUGH


async def _run_one(
    planned: Planned,
    sessions: Mapping[tuple[str, str], Session],
    slots: asyncio.Semaphore,
    calm: asyncio.Future[Any] | None = None,
) -> CheckResult:
    if calm is not None:
        # Shielded: one check that is cancelled must not cancel those that all others wait for.
        await asyncio.shield(calm)
    requirement, binding = planned
    session = sessions.get((binding, requirement.version))
    # A binding that the card does not declare is a skip with its reason and not an absence.
    if session is None:
        reason = f"the card declares no {binding} interface of version {requirement.version}"
        return CheckResult(requirement, binding, "skipped", reason=reason)
    await session.health.ready()
    mostly_waits = "slow" in requirement.needs or "webhook" in requirement.needs or requirement.group == "push"
    # Checks that mostly wait would fill the slots with sleepers, and the run would take as long as all of them in a
    # row.
    async with contextlib.nullcontext() if mostly_waits else slots:
        return await run_check(requirement, session)


async def run_check(requirement: Requirement, session: Session) -> CheckResult:
    """Run one check; whatever the agent does, there is a result."""
    obstacle = session.health.obstacle(requirement, session.target.binding)
    if obstacle is not None:
        return obstacle
    ctx = Context(requirement, session)
    started = time.monotonic()
    if requirement.timed:
        await session.pace.measure()
    # Before looking at health: an answer that was only slow is no reason to call an agent broken.
    outcome, why = _excuse_unserved(ctx, *_with_breakdowns(ctx, *await _outcome(ctx)))
    reason = Redactor(session.target.secrets).text(why)
    # Every suspicious answer is followed by one good request: what one check broke must not be blamed on the next.
    for asked in _suspicious(ctx):
        if not await asked.health.lasts():
            obstacle = asked.health.obstacle(requirement, session.target.binding, time.monotonic() - started)
            if obstacle is not None:
                return obstacle
    return CheckResult(
        requirement, session.target.binding, outcome, tuple(ctx.findings), reason, time.monotonic() - started
    )


def _with_breakdowns(ctx: Context, outcome: CheckOutcome, reason: str) -> tuple[CheckOutcome, str]:
    """Add the first internal error in answer to a valid request that no finding is about yet."""
    known = [e for f in ctx.findings if f.severity == "error" for e in f.exchanges]
    broken = [r for r in ctx.unjudged if not any(r.exchange is e for e in known)]
    # An error has its evidence; with that of another operation it would belong to no cause.
    if not broken or outcome == "error":
        return outcome, reason
    ctx.report_breakdown(broken[0])
    return "failed", ""


def _excuse_unserved(ctx: Context, outcome: CheckOutcome, reason: str) -> tuple[CheckOutcome, str]:
    """Turn findings that are nothing but a limit, the client's of time or the agent's of requests, into an error."""
    seconds = ctx.target.timeout
    unserved = [f for f in ctx.findings if any(is_silence(e, seconds) or is_limited(e) for e in f.exchanges)]
    if not unserved:
        return outcome, reason
    others = [f for f in ctx.findings if f not in unserved]
    if outcome in ("failed", "warned") and others:
        ctx.findings[:] = others
        return outcome_of(others), reason
    ctx.findings[:] = [replace(f, severity="warning") for f in unserved]
    advice = FEWER if any(map(is_limited, unserved[0].exchanges)) else MORE_TIME
    return "error", f"{reason or unserved[0].found}; {advice}"


def _suspicious(ctx: Context) -> list[Session]:
    """Return the interfaces that gave an answer as of an agent that has stopped working."""
    found = {r.exchange.binding for r in ctx.replies if not works(r)}
    # What other checks asked for is in the findings alone.
    found |= {e.binding for f in ctx.findings for e in f.exchanges if e.problem or (e.status or 0) >= 500}
    sessions = (ctx.session.sibling(binding, ctx.version) for binding in sorted(found))
    return [s for s in sessions if s is not None]


def limit_of(requirement: Requirement, timeout: float = 0.0) -> float:
    """Return how many seconds a check may take; its own waits do not count against the agent."""
    return max(CHECK_SECONDS, 4 * timeout) + requirement.seconds


async def _outcome(ctx: Context) -> tuple[CheckOutcome, str]:
    reason, limit = "", limit_of(ctx.requirement, ctx.target.timeout)
    try:
        # Those of others say what they need themselves.
        if ctx.requirement.checks:
            ctx.require(ctx.requirement.needs)
        async with asyncio.timeout(limit):
            await check_of(ctx.requirement)(ctx)
        if not ctx.findings:
            # In a time of their own: what a slow agent could not be asked any more is no finding.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await _widen(ctx)
    except SkipCheck as skip:
        # A check that had found something before it could not go on has still found it.
        if not ctx.findings:
            return "skipped", str(skip)
    except NoAnswer as error:
        reason = str(error)
        ctx.replies += [error.reply] if error.reply is not None else []
        if error.reply is not None:
            # The finding carries the exchange: an error without evidence would leave the user with a sentence.
            ctx.warn(reason, error.reply, expected="an answer that this check can work with")
        return "error", reason
    except TimeoutError:
        ctx.fail(f"{recurrence.TOO_LONG} {limit:g} s", fix="answer sooner")
    # Deep answers are the agent's doing, and Python's limit is as good a bound as any.
    except RecursionError:
        ctx.fail("the answer is nested too deeply to be judged", fix="answer with less depth")
    except Exception as error:
        # A bug of ours must not cost the user the results of all other checks.
        whose = ctx.requirement.source
        return "error", f"the check itself broke, which is a bug of {whose}: {type(error).__name__}: {error}"
    return outcome_of(ctx.findings), reason


async def _widen(ctx: Context) -> None:
    """Run the check in each variant that the card allows, and the catalogue's further ``stress`` check."""
    # Some leave a task behind that works, if the run is killed.
    if ctx.target.breadth == "safe":
        return
    for variant in allowed(ctx.requirement, ctx.target):
        # The representative was judged: a variant that cannot be brought about takes nothing away from that.
        with contextlib.suppress(SkipCheck, NoAnswer):
            await _try(ctx, variant)
        if len(ctx.findings) >= _ENOUGH:
            return
    if ctx.requirement.stress and ctx.target.breadth == "full":
        with contextlib.suppress(SkipCheck, NoAnswer):
            await function(ctx.requirement.stress)(ctx)


async def _try(ctx: Context, variant: Variant) -> None:
    if variant.near:
        known = str((await fixtures.completed_task(ctx)).get("id") or "")
        # Beside a short or counted id lies another task's, maybe another user's.
        if len(known) < _RANDOM:
            return
        variant = replace(variant, known=known)
    # Where nothing is streamed at all, STREAM-001 says so, and no rule is broken in streams.
    if variant.operation == "SendStreamingMessage" and not (await ctx.plain().streamed()).events:
        return
    await check_of(ctx.requirement)(replace(ctx, variant=variant))


# -- from synchronous code --


class Judge:
    """Runs checks on the shared loop. After :meth:`close`, ``left`` has the objects that may still be on the agent.

    :param fold: groups findings under their causes; then failures are reported when all checks are over.
    :param elsewhere: names of checks that another process makes for the same report.
    :param attribute: where the agent is behind a gateway, gets the findings of its checks and the planned requirements
        of the gateway, and returns the results of both.
    """

    def __init__(
        self,
        targets: Iterable[Target],
        concurrency: int = CONCURRENCY,
        *,
        fold: Fold | None = None,
        elsewhere: Container[str] = (),
        attribute: Attribute | None = None,
    ) -> None:
        self._fold, self._elsewhere, self._attribute = fold, elsewhere, attribute
        self._targets = tuple(targets)
        self._concurrency = concurrency
        self.left: list[str] = []
        self._is_hurried = False
        self._results: dict[str, concurrent.futures.Future[CheckResult]] = {}
        self._runs: list[tuple[list[str], concurrent.futures.Future[None], threading.Event]] = []

    def start(self, planned: Iterable[Planned]) -> None:
        """Begin checks, together; those that have begun already go on."""
        # Together, because items of pytest ask one after the other, and checks overlap well: in a row they would take
        # minutes.
        # By name, as two items may ask for the same check.
        fresh = list({p.name: p for p in planned if p.name not in self._results}.values())
        if not fresh:
            return
        for p in fresh:
            self._results[p.name] = concurrent.futures.Future()
        # Set when the clearing away is over, which is later than the last result.
        over = threading.Event()
        self._runs.append(([p.name for p in fresh], loop.submit(self._run(fresh, over)), over))

    def result(self, planned: Planned) -> CheckResult:
        """Wait for one check's result; it is begun if it has not been.

        :raises HarnessError: if the run broke.
        """
        self.start([planned])
        future = self._results[planned.name]
        try:
            # exception() and not result(): a cancelled run is recognised before anything is raised.
            problem = future.exception()
        except concurrent.futures.CancelledError as error:
            raise HarnessError(f"{planned.name} was stopped before it ended") from error
        if problem is not None:
            # One exception raised for every check would gather all their tracebacks.
            raise HarnessError(str(problem))
        return future.result()

    def stop(self) -> None:
        """Stop running checks, and let :meth:`close` be over within about a second; safe to call from any thread."""
        self._is_hurried = True
        self._cancel()

    def close(self) -> None:
        """Stop running checks, and wait until the objects made on the agent are removed."""
        self._cancel()
        seconds = self._patience() + (_CLOSING_HURRIED if self._is_hurried else _CLOSING_SECONDS)
        until = time.monotonic() + seconds
        for names, _, over in self._runs:
            over.wait(max(0.0, until - time.monotonic()))
            # A run that was stopped before its first step has set no result.
            for name in names:
                self._results[name].cancel()

    def _patience(self) -> float:
        return HURRIED_SECONDS if self._is_hurried else CLEANUP_SECONDS

    def _cancel(self) -> None:
        for names, future, _ in self._runs:
            # A run whose results are all there is clearing away already, and must not be kept from it.
            # Cancelling it now would leave tasks on the agent.
            if not all(self._results[name].done() for name in names):
                future.cancel()

    async def _run(self, planned: list[Planned], over: threading.Event) -> None:
        gateway = [p for p in planned if p.requirement.group == GATEWAY]
        try:
            running = run_checks(
                self._targets,
                [p for p in planned if p not in gateway],
                concurrency=self._concurrency,
                left=self.left,
                patience=self._patience,
                elsewhere=self._elsewhere,
            )
            foldable: list[CheckResult] = []
            order = {p.name: number for number, p in enumerate(planned)}
            async with contextlib.aclosing(running) as results:
                waiting = len(planned) - len(gateway)
                if not waiting:
                    await self._conclude([], gateway, order)
                async for result in results:
                    waiting -= 1
                    # A check of the card may explain that others were not made, even where it found nothing.
                    is_settled = result.outcome in _UNFOLDED and result.requirement.id not in CARD_RULES.values()
                    if self._fold is not None and not is_settled:
                        foldable.append(result)
                    else:
                        self._results[result.name].set_result(result)
                    # With the last one, and not behind it: then comes the clearing away, which nobody may stop.
                    if not waiting:
                        # In the order of the plan, so that the same check is the cause in every run.
                        foldable.sort(key=lambda result: order[result.name])
                        await self._conclude(foldable, gateway, order)
        # Each waiting item would hang without an answer, so the failure of the run is the failure of all that is
        # missing.
        except Exception as error:
            self._give_up(planned, HarnessError(f"the run of the checks broke: {type(error).__name__}: {error}"))
        finally:
            self._give_up(planned, None)
            over.set()

    async def _conclude(self, foldable: list[CheckResult], gateway: list[Planned], names: Container[str]) -> None:
        """Compare the gateway with the agent, and release the results that have waited for it."""
        if self._attribute is not None:
            foldable = await self._attribute(foldable, gateway)
        if self._fold is not None:
            for folded in self._fold([*foldable, *await self._causes_elsewhere(foldable)]):
                if folded.name in names:
                    self._results[folded.name].set_result(folded)

    async def _causes_elsewhere(self, foldable: Iterable[CheckResult]) -> list[CheckResult]:
        """Make the checks which explain why others were not made, where another process makes them for the report.

        That process may find an unsteady interface in order, and then no report would name the cause. Checks with a
        finding are left out: the other process reports them.
        """
        found = tuple(foldable)
        wanted = {r.cause for r in found if r.outcome == "explained" and not r.findings} - {r.name for r in found}
        planned = [
            Planned(requirement, target.binding)
            for target in self._targets
            for requirement in load_requirements(target.version)
            if requirement.id == CARD_RULES[target.version]
        ]
        missing = [p for p in planned if p.name in wanted]
        if not missing:
            return []
        running = run_checks(self._targets, missing, left=self.left, patience=self._patience)
        async with contextlib.aclosing(running) as results:
            return [result async for result in results if result.outcome not in FOUND]

    def _give_up(self, planned: list[Planned], error: HarnessError | None) -> None:
        for p in planned:
            future = self._results[p.name]
            if not future.done():
                future.set_exception(error) if error is not None else future.cancel()


def check_all(
    targets: Iterable[Target],
    planned: Iterable[Planned],
    concurrency: int = CONCURRENCY,
    left: list[str] | None = None,
) -> Mapping[str, CheckResult]:
    """Run checks and return their results by name, in the order of the plan.

    :param left: gets what may still be on the agent in the end.
    """
    every = list(planned)
    judge = Judge(targets, concurrency)
    try:
        judge.start(every)
        if every:
            with waiting_for(f"the agent's answers, for {len(every)} checks"):
                judge.result(every[0])
        return {p.name: judge.result(p) for p in counted(every, "checks")}
    except Terminated:
        judge.stop()
        raise
    finally:
        judge.close()
        if left is not None:
            left += judge.left
